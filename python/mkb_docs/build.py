"""Puts a DSL's pages together: index, guide, one page a module; and one page a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import cutedsl, device, tirx
from .pages import UNDOCUMENTED, Page, counts


@dataclass(frozen=True)
class Dsl:
    """A DSL that has documentation."""

    title: str
    #: A name to show how to search.
    example: str
    pages: Callable[[], list[Page]]


DSLS = {
    "cutedsl": Dsl("CuTe DSL (`cutlass`)", "cute.copy", cutedsl.pages),
    "tirx": Dsl("TIRx (`tvm`)", "T.alloc_shared", tirx.pages),
}


@dataclass(frozen=True)
class Documentation:
    """All that is generated."""

    #: By DSL: pages by their path below `/docs`.
    dsls: dict[str, dict[str, str]]
    #: By device: the text of `device.md`.
    devices: dict[str, str]


def documentation(root: Path) -> Documentation:
    """The documentation of every DSL and device of the repository at `root`."""
    docs = root / "docs"
    dsls = {
        name: dsl_pages(dsl, (docs / f"{name}-guide.md").read_text()) for name, dsl in DSLS.items()
    }
    descriptions = sorted((root / "devices").glob("*.toml"))
    return Documentation(dsls, {file.stem: device.page(file, docs) for file in descriptions})


def dsl_pages(dsl: Dsl, guide: str) -> dict[str, str]:
    """A DSL's pages, all but that of the device."""
    pages = dsl.pages()
    files = {page.path: page.to_markdown() for page in pages}
    files["guide.md"] = guide
    files["index.md"] = index(dsl, pages)
    return dict(sorted(files.items()))


def index(dsl: Dsl, pages: list[Page]) -> str:
    """What there is, a line a page, and how to search it."""
    lines = [
        f"# Documentation of {dsl.title}",
        "",
        "- `guide.md`: how to write kernels, with complete programs; errors; how to be fast.",
        "- `device.md`: what the device is, its figures, how a time comes about, torch on it.",
        "- `api/`: one page a module, one entry a name, from the installed modules:",
        "",
    ]
    for page in pages:
        names, bare = counts(page.symbols)
        without = f", {bare} without a docstring" if bare else ""
        lines.append(f"  - `{page.path}`: {page.about} ({names} names{without}).")
    short = dsl.example.rpartition(".")[2]
    lines += [
        "",
        "To search, in `/docs`:",
        "",
        "```",
        "# Where is it?",
        f"grep -rn '^## .*{short}' api",
        "# Its call and what it does:",
        f"grep -rn -A20 '^## {dsl.example}$' api",
        "# All names with a word in them:",
        "grep -rhi '^##.*atomic' api",
        "```",
        "",
        "An entry is a heading with the name as programs write it, its call with the kind and the "
        "module where it is defined, and its docstring, indented; members of a class follow under "
        f"`###`. A name that nobody documented says `{UNDOCUMENTED}`.",
        "",
    ]
    return "\n".join(lines)
