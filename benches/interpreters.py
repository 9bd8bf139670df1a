"""Times kernels on the virtual GPU beside the Triton interpreter and torch's own CPU kernels."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT / "python", ROOT / "python/cute", ROOT / "benches"):
    sys.path.insert(0, str(folder))

import torch  # noqa: E402

#: How often ours and torch's are timed; the interpreter's calls last seconds and are timed once.
REPEATS = 7


@dataclass
class Work:
    """A piece of work: what it is called, its inputs, and torch's own way to do it."""

    title: str
    name: str
    inputs: list[torch.Tensor]
    torch_cpu: Callable[..., torch.Tensor]
    #: Whether the Triton interpreter does it too.
    interpreted: bool = True


@dataclass
class Row:
    """What was measured of a work, in seconds."""

    title: str
    ours: float = 0.0
    one_thread: float = 0.0
    torch_cpu: float = 0.0
    triton: float | None = None
    #: Largest distance from torch's float64 result, ours and the interpreter's.
    errors: dict[str, float] = field(default_factory=dict)


def works() -> list[Work]:
    generator = torch.Generator().manual_seed(0)

    def singles(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (x.shape[1],), w, b)

    def norm_of(rows: int) -> list[torch.Tensor]:
        return [singles(rows, 1024), singles(1024), singles(1024)]

    def softmax(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)

    return [
        Work("vector add, 16 M", "add", [singles(1 << 24), singles(1 << 24)], torch.add),
        Work("row softmax, 4096 x 4096", "softmax", [singles(4096, 4096)], softmax),
        Work("LayerNorm, 8192 x 1024", "layer_norm", norm_of(8192), layer_norm),
        Work("LayerNorm, 128 x 1024", "layer_norm", norm_of(128), layer_norm, interpreted=False),
    ]


def median_seconds(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def ours(work: Work) -> tuple[float, torch.Tensor]:
    """Median seconds of a call with its launch, and what it gives."""
    import cutlass.cute as cute
    import kernels
    from cutlass.cute.runtime import from_dlpack

    inputs = [t.to("cuda") for t in work.inputs]
    output = torch.empty_like(inputs[0])
    arguments = [from_dlpack(t, assumed_align=16) for t in (*inputs, output)]
    compiled: Any = cute.compile(getattr(kernels, work.name), *arguments)

    def call() -> None:
        compiled(*arguments)
        torch.cuda.synchronize()

    return median_seconds(call), output.cpu()


def interpreter(work: Work, packages: str | None) -> tuple[float, torch.Tensor, str]:
    """Seconds of one call under the Triton interpreter, what it gives, and Triton's version."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    environment.pop("PYTHONPATH", None)
    if packages is not None:
        environment["PYTHONPATH"] = packages
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "inputs.pt"), Path(folder, "output.pt")
        torch.save(work.inputs, source)
        program = ROOT / "benches/triton_kernels.py"
        command = [sys.executable, str(program), str(source), str(target), work.name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"the Triton interpreter failed on {work.title}:\n{done.stderr}")
        said = json.loads(done.stdout.splitlines()[-1])
        return said["seconds"], torch.load(target), said["triton"]


def measure_ours(threads: int) -> None:
    """Prints what this process measures with a device of so many threads; saves the outputs."""
    from mkb_shim import local

    folder = Path(os.environ["MKB_BENCH_FOLDER"])
    program = local.program()
    if program is None:
        raise SystemExit("no mkb is built: run `cargo build --release` first")
    local.start(program, threads=threads)
    for number, work in enumerate(works()):
        seconds, output = ours(work)
        torch.save(output, folder / f"{number}.pt")
        print(json.dumps({"seconds": seconds}), flush=True)


def ours_in_a_process(threads: int) -> tuple[list[float], list[torch.Tensor]]:
    """Seconds and outputs of all works; a process has one device, so each count has a process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MKB_BENCH_FOLDER": folder}
        command = [sys.executable, __file__, "--device-threads", str(threads)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit("the virtual GPU failed; see above")
        seconds = [json.loads(line)["seconds"] for line in done.stdout.splitlines()]
        outputs = [torch.load(Path(folder, f"{n}.pt")) for n in range(len(seconds))]
        return seconds, outputs


def measure(triton_packages: str | None, with_triton: bool) -> tuple[list[Row], str | None]:
    all_works = works()
    rows = [Row(work.title) for work in all_works]
    version = None
    told("virtual GPU, 2 threads")
    two, outputs = ours_in_a_process(2)
    told("virtual GPU, 1 thread")
    one, _ = ours_in_a_process(1)
    torch.set_num_threads(2)
    for n, (work, row) in enumerate(zip(all_works, rows, strict=True)):
        row.ours, row.one_thread = two[n], one[n]
        told(f"torch on the CPU: {work.title}")
        row.torch_cpu = median_seconds(lambda work=work: work.torch_cpu(*work.inputs))
        exact = work.torch_cpu(*[t.double() for t in work.inputs])
        row.errors["ours"] = float((outputs[n].double() - exact).abs().max())
        if with_triton and work.interpreted:
            told(f"Triton interpreter: {work.title}")
            row.triton, output, version = interpreter(work, triton_packages)
            row.errors["triton"] = float((output.double() - exact).abs().max())
    return rows, version


def told(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr)


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:,.{1 if seconds >= 1e-3 else 3}f} ms"


def table(rows: list[Row]) -> str:
    names = ["work", "virtual GPU", "Triton interpreter", "faster", "torch CPU", "slower"]
    head = " | ".join([*names, "2 threads over 1"])
    lines = [f"| {head} |", "|---|---:|---:|---:|---:|---:|---:|"]
    for row in rows:
        faster = "-" if row.triton is None else f"{row.triton / row.ours:,.0f}x"
        cells = [
            row.title,
            milliseconds(row.ours),
            milliseconds(row.triton),
            faster,
            milliseconds(row.torch_cpu),
            f"{row.ours / row.torch_cpu:.1f}x",
            f"{row.one_thread / row.ours:.2f}x",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    ratios = [row.triton / row.ours for row in rows if row.triton is not None]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        lines += ["", f"Against the interpreter: {mean:,.0f}x in the geometric mean."]
    return "\n".join(lines)


def machine(triton: str | None) -> dict[str, Any]:
    names = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return {
        "processor": names[0].split(":", 1)[1].strip() if names else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton,
        "commit": commit.stdout.strip() or None,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="Example: .mkb/env-*/bin/python benches/interpreters.py --triton /tmp/triton, after "
        "pip install --no-deps --target /tmp/triton -r benches/requirements.txt",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--triton", metavar="DIR", help="folder that Triton was installed into")
    parser.add_argument("--without-triton", action="store_true", help="leave the interpreter out")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there too")
    parser.add_argument("--device-threads", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.device_threads is not None:
        measure_ours(options.device_threads)
        return 0
    rows, version = measure(options.triton, not options.without_triton)
    about = machine(version)
    print(table(rows))
    print("\n" + ", ".join(f"{name} {value}" for name, value in about.items() if value is not None))
    if options.json:
        figures = {"machine": about, "rows": [vars(row) for row in rows]}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    wrong = [row.title for row in rows if any(e > 1e-4 for e in row.errors.values())]
    for title in wrong:
        print(f"WRONG: {title}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
