"""Reads what only a module's source tells: parameters as they were written, and comments on names.

Text is taken from the file, not from Python's own rendering, so that every version of Python gives
the same pages.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """A file, with what is defined in it."""

    lines: list[bytes]
    #: Functions by the line of their first decorator or of `def`, as code objects know it.
    functions: dict[int, Function] = field(default_factory=dict)
    #: Classes by qualified name.
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    #: Names that the module itself defines.
    defined: set[str] = field(default_factory=set)
    #: Line of the assignment to a name, by qualified name.
    names: dict[str, int] = field(default_factory=dict)

    def text(self, node: ast.AST) -> str:
        """A node's source on one line."""
        first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
        begin, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        if first == last:
            parts = [self.lines[first][begin:end]]
        else:
            parts = [self.lines[first][begin:], *self.lines[first + 1 : last]]
            parts.append(self.lines[last][:end])
        return " ".join(b" ".join(parts).decode().split())

    def comment(self, name: str) -> str:
        """The lines that begin with `#:` above the assignment to a name."""
        line = self.names.get(name, 0) - 2
        found: list[str] = []
        while line >= 0 and (text := self.lines[line].decode().strip()).startswith("#:"):
            found.insert(0, text[2:].strip())
            line -= 1
        return " ".join(found)


@functools.cache
def read(path: str) -> Source | None:
    """The file's source; `None` where it is no Python file."""
    file = Path(path)
    if file.suffix != ".py" or not file.is_file():
        return None
    text = file.read_bytes()
    source = Source(text.splitlines())
    _collect(source, ast.parse(text), "")
    top = [name for name in (*source.classes, *source.names) if "." not in name]
    functions = [node.name for node in source.functions.values() if node.col_offset == 0]
    source.defined.update(top, functions)
    return source


def _collect(source: Source, parent: ast.AST, prefix: str) -> None:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Function):
            lines = [d.lineno for d in node.decorator_list]
            source.functions[min([node.lineno, *lines])] = node
            _collect(source, node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            source.classes[prefix + node.name] = node
            _collect(source, node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    source.names[prefix + target.id] = node.lineno
        else:
            _collect(source, node, prefix)


def of_function(function: types.FunctionType) -> tuple[Source, Function] | None:
    """Where a function was written."""
    source = read(function.__code__.co_filename)
    node = source and source.functions.get(function.__code__.co_firstlineno)
    return (source, node) if source and node else None


def of_class(cls: type) -> tuple[Source, ast.ClassDef] | None:
    """Where a class was written."""
    try:
        source = read(inspect.getfile(cls))
    except (TypeError, OSError):
        return None
    node = source and source.classes.get(cls.__qualname__)
    return (source, node) if source and node else None


def parameters(source: Source, node: Function, bound: bool = False) -> str:
    """`(a, b: int = 1, *, c) -> T` as it was written; without the first one where it is `bound`."""
    written = node.args
    plain = [*written.posonlyargs, *written.args]
    gap = len(plain) - len(written.defaults)
    parts = [
        _parameter(source, argument, written.defaults[i - gap] if i >= gap else None)
        for i, argument in enumerate(plain)
    ]
    if written.posonlyargs:
        parts.insert(len(written.posonlyargs), "/")
    if bound and parts:
        parts = parts[1:]
        if parts[:1] == ["/"]:
            parts = parts[1:]
    if written.vararg:
        parts.append("*" + _parameter(source, written.vararg, None))
    elif written.kwonlyargs:
        parts.append("*")
    for argument, default in zip(written.kwonlyargs, written.kw_defaults, strict=True):
        parts.append(_parameter(source, argument, default))
    if written.kwarg:
        parts.append("**" + _parameter(source, written.kwarg, None))
    returns = f" -> {_annotation(source, node.returns)}" if node.returns else ""
    return f"({', '.join(parts)}){returns}"


def fields(source: Source, node: ast.ClassDef) -> list[tuple[str, str]]:
    """The annotated names of a class body, each as `name: type = default`."""
    found = []
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            default = f" = {source.text(item.value)}" if item.value else ""
            shown = f"{item.target.id}: {_annotation(source, item.annotation)}{default}"
            found.append((item.target.id, shown))
    return found


def _parameter(source: Source, argument: ast.arg, default: ast.expr | None) -> str:
    shown = argument.arg
    equals = "="
    if argument.annotation:
        shown += f": {_annotation(source, argument.annotation)}"
        equals = " = "
    return shown if default is None else f"{shown}{equals}{source.text(default)}"


def _annotation(source: Source, node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return source.text(node)
