"""A pytest plugin: tests of TIRx programs on a virtual GPU, without a judge, and what came of each.

`pytest -p mkb_tirx.testing FILES` puts CUDA's side of torch and of TVM on a virtual GPU before the
tests are collected, so that tests that skip where there is no GPU run. An operation that is not
modelled makes a test `incomplete`, which is no failure; a table by file ends the report.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

import mkb_shim
from mkb_shim import local

#: `ran`: passed, and launched kernels; `host only`: passed, and launched none; `incomplete`: ended
#: at what is not modelled; `refused`: the program does what no program here may.
Outcome: TypeAlias = Literal["ran", "host only", "incomplete", "refused", "failed", "skipped"]
OUTCOMES: tuple[Outcome, ...] = ("ran", "host only", "incomplete", "refused", "failed", "skipped")

_REACHED = re.compile(r"reached `([^`,]+)")
_LACKS = re.compile(r"does not model (.+?)(?: \(in kernel |$)")
#: How the translator begins where a module brings CUDA C++ of its own.
_INLINE_SOURCE = "inline source:"


@dataclass(frozen=True)
class Record:
    """What came of one test."""

    test: str
    #: The file, as pytest names it.
    file: str
    outcome: Outcome
    #: The operation that is not modelled, or what a test failed or was skipped for.
    reason: str
    #: Kernels that the test launched and that ended without an error.
    launches: int
    seconds: float


def operation(message: str) -> str:
    """What an `Incomplete` names, without kernel and place; the whole message if it names none."""
    for pattern in (_REACHED, _LACKS):
        if found := pattern.search(message):
            return found[1]
    return message


class Outcomes:
    """Counts launches while tests run, and keeps a record of each test."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._launches = 0

    def counting(self, launch: Callable[..., str]) -> Callable[..., str]:
        """`launch`, counted."""

        def counted(*args: Any) -> str:
            printed = launch(*args)
            self._launches += 1
            return printed

        return counted

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """A test begins."""
        self._launches = 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Makes an `Incomplete` a skip of its own kind; records what ends a test."""
        report = yield
        error = call.excinfo.value if call.excinfo is not None else None
        path, line, _ = item.location
        if report.failed and isinstance(error, mkb_shim.Incomplete):
            report.outcome = "skipped"
            report.longrepr = (path, (line or 0) + 1, f"incomplete: {error}")
            report.keywords["mkb_incomplete"] = 1
        if report.when == "call" or not report.passed:
            outcome, reason = self._outcome(report, error)
            seconds = round(report.duration, 3)
            record = Record(item.nodeid, path, outcome, reason, self._launches, seconds)
            self.records.append(record)
        return report

    def _outcome(
        self, report: pytest.TestReport, error: BaseException | None
    ) -> tuple[Outcome, str]:
        if report.passed:
            return ("ran" if self._launches else "host only"), ""
        if isinstance(error, mkb_shim.Incomplete):
            return "incomplete", operation(str(error))
        text = " ".join(str(error).split())
        if report.skipped:
            expected = getattr(report, "wasxfail", None)
            return "skipped", text if expected is None else f"expected to fail: {text}"
        if isinstance(error, mkb_shim.BadRequest) and text.startswith(_INLINE_SOURCE):
            return "refused", "CUDA source of its own"
        if isinstance(error, NotImplementedError) and "virtual GPU" in text:
            return "refused", text
        return "failed", f"{type(error).__name__}: {text}"

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """How an incomplete test stands in pytest's own report."""
        if "mkb_incomplete" in report.keywords and report.skipped:
            return "incomplete", "I", "INCOMPLETE"
        return None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table by file."""
        terminalreporter.section("virtual GPU")
        for line in table(self.records):
            terminalreporter.write_line(line)


def table(records: Iterable[Record]) -> list[str]:
    """Outcomes counted by file, then what was not modelled and how often, as lines."""
    files: dict[str, Counter[str]] = {}
    missing: Counter[str] = Counter()
    for record in records:
        files.setdefault(record.file, Counter())[record.outcome] += 1
        if record.outcome == "incomplete":
            missing[record.reason] += 1
    files["all"] = sum(files.values(), Counter())
    width = max(map(len, files))
    lines = ["  ".join([" " * width, *OUTCOMES])]
    for file, counts in files.items():
        cells = [f"{counts[outcome] or '':>{len(outcome)}}" for outcome in OUTCOMES]
        lines.append("  ".join([f"{file:{width}}", *cells]).rstrip())
    lines += [f"not modelled: {what} ({count})" for what, count in missing.most_common()]
    return lines


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's options."""
    group = parser.getgroup("virtual GPU")
    group.addoption("--outcomes", type=Path, help="write each test's outcome to this file, as JSON")
    group.addoption("--device-threads", type=int, default=1, help="host threads of a launch")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """The device is there before any file of tests asks for it."""
    server = local.program()
    if server is None:
        raise pytest.UsageError("no mkb is built: run `cargo build --release`, or set MKB_PROGRAM")
    local.start(server, threads=early_config.known_args_namespace.device_threads)
    import mkb_tirx

    mkb_tirx.install()
    outcomes = Outcomes()
    mkb_shim.launch = outcomes.counting(mkb_shim.launch)
    early_config.pluginmanager.register(outcomes, "mkb_outcomes")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Writes the outcomes where that was asked for."""
    file = config.getoption("outcomes")
    outcomes = config.pluginmanager.get_plugin("mkb_outcomes")
    if file is not None and outcomes is not None:
        lines = (json.dumps(asdict(record)) + "\n" for record in outcomes.records)
        file.write_text("".join(lines), encoding="utf-8")
