"""Source lines for the nodes of a TIRx program.

TVM's parser leaves nodes without spans; its passes carry the ones that are there. So while a
statement of a program is parsed, the calls and loads that are built get its line.
"""

from __future__ import annotations

from functools import cache
from pathlib import PurePath
from typing import Any

import tvm
from tvm.ir import SourceName, Span
from tvm.script.parser.core import doc
from tvm.script.parser.core.parser import Parser

#: Span of the statement that is being parsed.
_current: Span | None = None


@cache
def _span(file: str, line: int) -> Span:
    # The name alone: a folder of this machine means nothing elsewhere.
    return Span(SourceName(PurePath(file).name), line, line, 0, 0)


def patch_parser() -> None:
    """Makes parsed calls and loads carry the file and line of their statement."""
    visit = Parser.visit

    def visit_with_line(self: Parser, node: doc.AST) -> None:
        global _current
        line = getattr(node, "lineno", None)
        if not isinstance(node, doc.stmt) or line is None:
            return visit(self, node)
        before, source = _current, self.diag.source
        _current = _span(str(source.source_name), source.start_line + line - 1)
        try:
            return visit(self, node)
        finally:
            _current = before

    Parser.visit = visit_with_line
    for kind, place in ((tvm.tirx.Call, 4), (tvm.tirx.BufferLoad, 3)):
        _give_span(kind, place)


def _give_span(kind: type, place: int) -> None:
    """Makes the constructor use the current span where it is given none as argument `place`."""
    original = kind.__init__

    def init(self: Any, *args: Any, **named: Any) -> None:
        if _current is not None and len(args) <= place and named.get("span") is None:
            named["span"] = _current
        original(self, *args, **named)

    kind.__init__ = init
