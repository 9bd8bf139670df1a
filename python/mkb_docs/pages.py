"""Symbols as Markdown, made for grep: a heading a name, its call below it, its text indented."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from .symbols import Symbol

#: Stands where nobody has written what a name is.
UNDOCUMENTED = "(no docstring)"


@dataclass(frozen=True)
class Page:
    """A module's page."""

    #: The file, below `/docs`.
    path: str
    #: The module, or the namespace.
    title: str
    #: One line: what it holds.
    about: str
    #: What stands before the entries.
    preface: str
    symbols: tuple[Symbol, ...]

    def to_markdown(self) -> str:
        """The page."""
        parts = [f"# {self.title}\n\n{self.about}\n"]
        if self.preface:
            parts.append(self.preface.strip() + "\n")
        parts += [entry(symbol, "##") for symbol in self.symbols]
        return "\n".join(parts)


def entry(symbol: Symbol, level: str) -> str:
    """A name: heading, call, where from, text, members."""
    if symbol.same_as:
        return f"{level} {symbol.name}\nThe same as `{symbol.same_as}`.\n"
    about = ", ".join(part for part in (symbol.kind, symbol.home) if part)
    call = f"`{symbol.name}{symbol.signature}`"
    lines = [f"{level} {symbol.name}\n{call} ({about})\n"]
    lines += [note + "\n" for note in symbol.notes]
    if not silent(symbol):
        lines.append(textwrap.indent(symbol.text or UNDOCUMENTED, "    ") + "\n")
    lines += [entry(member, "###") for member in symbol.members]
    return "\n".join(lines)


def silent(symbol: Symbol) -> bool:
    """Whether a name speaks for itself: a plain value of a class, without a text."""
    return symbol.kind in ("value", "constant", "field", "property") and not symbol.text


def counts(symbols: tuple[Symbol, ...]) -> tuple[int, int]:
    """How many names there are, members among them, and how many of them nobody documented."""
    every = list(_every(symbols))
    return len(every), sum(not symbol.documented for symbol in every)


def _every(symbols: tuple[Symbol, ...]) -> Iterator[Symbol]:
    for symbol in symbols:
        if not silent(symbol):
            yield symbol
        yield from _every(symbol.members)
