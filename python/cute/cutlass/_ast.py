"""Owns the rewriting of a decorated function: its control flow becomes calls that a trace can
record.

`if`, `for`, `while` become closures over the variables that they assign, handed to :mod:`._flow`;
`and`, `or`, `not`, chained comparisons and conditional expressions become calls as well. What
Python
itself runs at trace time (`const_expr`, `range_constexpr`) stays as it is. Line numbers are kept.
"""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
import types
from collections.abc import Callable
from typing import Any

from . import _flow
from ._errors import DSLRuntimeError

#: Name by which rewritten code reaches :mod:`._flow`; a free variable, so user globals stay
#: untouched.
_RUNTIME = "__mkb_flow__"

_trees: dict[str, ast.Module] = {}
_rewritten: dict[types.CodeType, types.CodeType] = {}


def rewrite(function: types.FunctionType) -> types.FunctionType:
    """`function` with its control flow rewritten; globals, closure and defaults are shared.

    :raises DSLRuntimeError: if the source is not available or uses what the DSL forbids.
    """
    code = _rewritten.get(function.__code__)
    if code is None:
        code = _rewrite_code(function)
        _rewritten[function.__code__] = code
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_RUNTIME] = types.CellType(_flow)
    closure = tuple(cells.get(name) or types.CellType() for name in code.co_freevars)
    out = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    out.__kwdefaults__ = function.__kwdefaults__
    out.__qualname__ = function.__qualname__
    return out


def _rewrite_code(function: types.FunctionType) -> types.CodeType:
    code = function.__code__
    node = _find(function)
    filename = code.co_filename
    owner = function.__qualname__.rsplit(".", 2)[-2] if "." in function.__qualname__ else ""
    node = copy.deepcopy(node)
    node.decorator_list = []
    node.returns = None
    for arg in (
        *node.args.posonlyargs,
        *node.args.args,
        *node.args.kwonlyargs,
        node.args.vararg,
        node.args.kwarg,
    ):
        if arg is not None:
            arg.annotation = None
    node.args.defaults = [ast.copy_location(ast.Constant(None), d) for d in node.args.defaults]
    node.args.kw_defaults = [
        d and ast.copy_location(ast.Constant(None), d) for d in node.args.kw_defaults
    ]
    private = "" if owner in ("", "<locals>") else owner
    node = _Rewriter(filename, private).function(node)
    # A factory whose parameters are the free variables makes them free variables here too.
    free = [*code.co_freevars, _RUNTIME]
    factory = ast.FunctionDef(
        name="__mkb_factory__",
        args=_arguments(free),
        body=[node, ast.Return(ast.Name(node.name, ast.Load()))],
        decorator_list=[],
        type_params=[],
    )
    module = ast.Module([factory], [])
    ast.fix_missing_locations(module)
    compiled = compile(module, filename, "exec", dont_inherit=True, flags=_future_flags(code))
    (outer,) = (c for c in compiled.co_consts if isinstance(c, types.CodeType))
    (inner,) = (
        c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == node.name
    )
    return inner


def _future_flags(code: types.CodeType) -> int:
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= code.co_flags & getattr(__future__, name).compiler_flag
    return flags


def _find(function: types.FunctionType) -> ast.FunctionDef:
    filename = function.__code__.co_filename
    tree = _trees.get(filename)
    first = function.__code__.co_firstlineno
    found = _search(tree, function.__name__, first) if tree is not None else None
    if found is None:
        try:
            lines, _ = inspect.findsource(function)
        except (OSError, TypeError) as error:
            raise DSLRuntimeError(
                f"the source of {function.__qualname__} ({filename}:{first}) is not available: "
                "@cute.jit and @cute.kernel read it to translate control flow; put the function "
                "into a file"
            ) from error
        linecache.checkcache(filename)
        tree = ast.parse("".join(lines), filename)
        _trees[filename] = tree
        found = _search(tree, function.__name__, first)
    if found is None:
        raise DSLRuntimeError(
            f"{filename}:{first}: cannot find the source of {function.__qualname__}"
        )
    return found


def _search(tree: ast.AST, name: str, first: int) -> ast.FunctionDef | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            lines = [node.lineno, *(d.lineno for d in node.decorator_list)]
            if first in lines:
                return node
    return None


def _arguments(names: list[str]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


class _Names(ast.NodeVisitor):
    """Names that statements assign, in order of appearance; inner functions keep theirs."""

    def __init__(self) -> None:
        self.stored: dict[str, None] = {}

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            self.stored.setdefault(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.stored.setdefault(node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.stored.setdefault(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        return

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.stored.setdefault((alias.asname or alias.name).split(".")[0])

    visit_ImportFrom = visit_Import

    def _comprehension(self, node: Any) -> None:
        # Its targets are its own; only walrus assignments inside reach this scope.
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self.stored.setdefault(inner.target.id)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def _stored(statements: list[ast.stmt]) -> list[str]:
    names = _Names()
    for s in statements:
        names.visit(s)
    return [n for n in names.stored if n != "_"]


def _loaded(node: ast.AST) -> set[str]:
    out = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            out.add(inner.id)
        elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
            out.add(inner.target.id)
    return out


def _exposed(statements: list[ast.stmt], names: set[str]) -> set[str]:
    """Of `names`, those that may be read before these statements have surely assigned them."""
    assigned: set[str] = set()
    out: set[str] = set()
    for s in statements:
        if isinstance(s, ast.Assign | ast.AnnAssign):
            if s.value is not None:
                out |= _loaded(s.value) - assigned
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            for t in targets:
                out |= _loaded(t) - assigned
            for t in targets:
                assigned |= {
                    n.id
                    for n in ast.walk(t)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
        elif isinstance(s, ast.If):
            out |= _loaded(s.test) - assigned
            both = []
            for branch in (s.body, s.orelse):
                out |= _exposed(branch, names) - assigned
                both.append(_surely(branch))
            assigned |= both[0] & both[1]
        elif isinstance(s, ast.With):
            for item in s.items:
                out |= _loaded(item) - assigned
            out |= _exposed(s.body, names) - assigned
            assigned |= _surely(s.body)
        elif isinstance(s, ast.For):
            out |= _loaded(s.iter) - assigned
            targets = {n.id for n in ast.walk(s.target) if isinstance(n, ast.Name)}
            out |= _exposed(s.body, names) - assigned - targets
            out |= _exposed(s.orelse, names) - assigned
        elif isinstance(s, ast.FunctionDef):
            out |= _loaded(s) - assigned
            assigned.add(s.name)
        else:
            out |= _loaded(s) - assigned
    return out & names


def _surely(statements: list[ast.stmt]) -> set[str]:
    out: set[str] = set()
    for s in statements:
        if isinstance(s, ast.Assign):
            for t in s.targets:
                out |= {
                    n.id
                    for n in ast.walk(t)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
        elif (
            isinstance(s, ast.AnnAssign) and s.value is not None and isinstance(s.target, ast.Name)
        ):
            out.add(s.target.id)
        elif isinstance(s, ast.If):
            out |= _surely(s.body) & _surely(s.orelse)
        elif isinstance(s, ast.With):
            out |= _surely(s.body)
    return out


class _Leaves(ast.NodeVisitor):
    """Whether statements leave early: `return` or `raise` anywhere, `break`, `continue` of this "
    "loop."""

    def __init__(self) -> None:
        self.found = ""
        self.loops = 0

    def visit_Return(self, node: ast.Return) -> None:
        self.found = self.found or "return"

    def visit_Raise(self, node: ast.Raise) -> None:
        self.found = self.found or "raise"

    def visit_Break(self, node: ast.Break) -> None:
        if not self.loops:
            self.found = self.found or "break"

    def visit_Continue(self, node: ast.Continue) -> None:
        if not self.loops:
            self.found = self.found or "continue"

    def visit_Yield(self, node: ast.Yield) -> None:
        self.found = self.found or "yield"

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        return

    def visit_Lambda(self, node: ast.Lambda) -> None:
        return

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        return

    def visit_For(self, node: ast.For | ast.While) -> None:
        self.loops += 1
        self.generic_visit(node)
        self.loops -= 1

    visit_While = visit_For


def _leaves(statements: list[ast.stmt]) -> str:
    v = _Leaves()
    for s in statements:
        v.visit(s)
    return v.found


def _called_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id
        if isinstance(node.func, ast.Attribute):
            return node.func.attr
    return ""


class _Rewriter(ast.NodeTransformer):
    def __init__(self, filename: str, private: str) -> None:
        self.filename = filename
        self.private = private
        self.count = 0

    # -- helpers ----------------------------------------------------------------------------

    def error(self, node: ast.AST, message: str) -> DSLRuntimeError:
        return DSLRuntimeError(f"{self.filename}:{getattr(node, 'lineno', 0)}: {message}")

    def call(self, name: str, args: list[ast.expr], at: ast.AST) -> ast.Call:
        function = ast.Attribute(ast.Name(_RUNTIME, ast.Load()), name, ast.Load())
        return self.place(ast.Call(function, args, []), at)

    def place(self, node: Any, at: ast.AST) -> Any:
        for inner in ast.walk(node):
            if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
                ast.copy_location(inner, at)
        return node

    def thunk(self, body: ast.expr, at: ast.AST) -> ast.Lambda:
        return self.place(ast.Lambda(_arguments([]), body), at)

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            got = self.visit(s)
            if isinstance(got, list):
                out.extend(got)
            elif got is not None:
                out.append(got)
        return out

    def closure(
        self, name: str, params: list[str], body: list[ast.stmt], names: list[str], at: ast.AST
    ) -> ast.FunctionDef:
        """`def name(*params): body; return (names)`."""
        loads: list[ast.expr] = [ast.Name(n, ast.Load()) for n in names]
        fn = ast.FunctionDef(
            name=name,
            args=_arguments(params),
            body=[*body, ast.Return(ast.Tuple(loads, ast.Load()))],
            decorator_list=[],
            type_params=[],
        )
        return self.place(fn, at)

    def fresh(self, what: str) -> str:
        self.count += 1
        return f"__mkb_{what}_{self.count}"

    def names_tuple(self, names: list[str]) -> ast.expr:
        return ast.Tuple([ast.Constant(n) for n in names], ast.Load())

    def grab(self, names: list[str], at: ast.AST) -> ast.expr:
        scope = ast.Call(ast.Name("locals", ast.Load()), [], [])
        return self.call("grab", [scope, self.names_tuple(names)], at)

    def assign(self, names: list[str], value: ast.expr, at: ast.AST) -> ast.stmt:
        if not names:
            return self.place(ast.Expr(value), at)
        target = ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())
        return self.place(ast.Assign([target], value), at)

    # -- the function -----------------------------------------------------------------------

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = self.statements(node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        if not node.decorator_list:
            node.body = self.statements(node.body)
        return node

    def visit_Global(self, node: ast.Global) -> Any:
        raise self.error(
            node, "`global` is not supported by the DSL: pass the value as an argument"
        )

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        raise self.error(node, "`nonlocal` is not supported by the DSL: return the value instead")

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if self.private and node.attr.startswith("__") and not node.attr.endswith("__"):
            node.attr = f"_{self.private.lstrip('_')}{node.attr}"
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id == "_" and isinstance(node.ctx, ast.Load):
            raise self.error(
                node, "`_` stands for a value that is ignored; the DSL does not allow to read it"
            )
        return node

    # -- statements -------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> Any:
        constant = _called_name(node.test) == "const_expr"
        left = _leaves(node.body) or _leaves(node.orelse)
        if constant or left:
            test = self.visit(node.test)
            if left and not constant:
                test = self.call("static_test", [test, ast.Constant(left)], node.test)
            node.test = test
            node.body = self.statements(node.body)
            node.orelse = self.statements(node.orelse)
            return node
        names = _stored([*node.body, *node.orelse])
        then, otherwise = self.fresh("then"), self.fresh("else")
        make_then = self.closure(then, names, self.statements(node.body), names, node)
        make_else = self.closure(otherwise, names, self.statements(node.orelse), names, node)
        value = self.call(
            "if_",
            [
                self.visit(node.test),
                ast.Name(then, ast.Load()),
                ast.Name(otherwise, ast.Load()),
                self.names_tuple(names),
                self.grab(names, node),
            ],
            node,
        )
        return [make_then, make_else, self.assign(names, value, node)]

    def visit_For(self, node: ast.For) -> Any:
        called = _called_name(node.iter)
        left = _leaves(node.body) or ("else" if node.orelse else "")
        iterable = self.iterable(node.iter, called)
        exposed = _exposed(node.body, set(_stored(node.body)))
        unsure = set(_stored(node.body)) - _surely(node.body)
        targets = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
        if left or called == "range_constexpr":
            if left:
                iterable = self.call("static_iter", [iterable, ast.Constant(left)], node.iter)
            node.iter = iterable
            node.body = self.statements(node.body)
            node.orelse = self.statements(node.orelse)
            return node
        names = _stored(
            [self.place(ast.Assign([node.target], ast.Constant(None)), node), *node.body]
        )
        body, item = self.fresh("for"), self.fresh("item")
        bind = self.place(ast.Assign([node.target], ast.Name(item, ast.Load())), node.target)
        inner = self.closure(body, [item, *names], [bind, *self.statements(node.body)], names, node)
        value = self.call(
            "for_",
            [
                iterable,
                ast.Name(body, ast.Load()),
                self.names_tuple(names),
                self.frozen(exposed - set(targets)),
                self.grab(names, node),
                self.frozen(unsure - set(targets)),
            ],
            node,
        )
        return [inner, self.assign(names, value, node)]

    def frozen(self, names: set[str]) -> ast.expr:
        return ast.Call(
            ast.Attribute(ast.Name(_RUNTIME, ast.Load()), "frozenset", ast.Load()),
            [self.names_tuple(sorted(names))],
            [],
        )

    def iterable(self, node: ast.expr, called: str) -> ast.expr:
        if called in ("range", "range_dynamic") and isinstance(node, ast.Call):
            args = [self.visit(a) for a in node.args]
            out = self.call("loop_range", [self.visit(node.func), *args], node)
            out.keywords = [self.visit(k) for k in node.keywords]
            return out
        return self.visit(node)  # type: ignore[no-any-return]

    def visit_While(self, node: ast.While) -> Any:
        constant = _called_name(node.test) == "const_expr"
        left = _leaves(node.body) or ("else" if node.orelse else "")
        if constant or left:
            test = self.visit(node.test)
            if left and not constant:
                test = self.call("static_test", [test, ast.Constant(left)], node.test)
            node.test = test
            node.body = self.statements(node.body)
            node.orelse = self.statements(node.orelse)
            return node
        names = _stored(node.body)
        exposed = _exposed(node.body, set(names)) | (_loaded(node.test) & set(names))
        unsure = set(names) - _surely(node.body)
        test, body = self.fresh("test"), self.fresh("while")
        make_test = ast.FunctionDef(
            name=test,
            args=_arguments(names),
            body=[ast.Return(self.visit(node.test))],
            decorator_list=[],
            type_params=[],
        )
        self.place(make_test, node)
        make_body = self.closure(body, names, self.statements(node.body), names, node)
        value = self.call(
            "while_",
            [
                ast.Name(test, ast.Load()),
                ast.Name(body, ast.Load()),
                self.names_tuple(names),
                self.frozen(exposed),
                self.grab(names, node),
                self.frozen(unsure),
            ],
            node,
        )
        return [make_test, make_body, self.assign(names, value, node)]

    def visit_Assign(self, node: ast.Assign) -> Any:
        return self.checked(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        return self.checked(node, [node.target])

    def checked(self, node: ast.stmt, targets: list[ast.expr]) -> Any:
        """An assignment, after a check of the objects that it assigns into."""
        self.generic_visit(node)
        into = [
            (t.value, isinstance(t, ast.Attribute))
            for target in targets
            for t in ast.walk(target)
            if isinstance(t, ast.Subscript | ast.Attribute) and isinstance(t.ctx, ast.Store)
        ]
        checks = [
            self.place(
                ast.Expr(self.call("store_into", [copy.deepcopy(x), ast.Constant(a)], node)), node
            )
            for x, a in into
            if isinstance(x, ast.Name)
        ]
        return [*checks, node] if checks else node

    # -- expressions ------------------------------------------------------------------------

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        values = [self.visit(v) for v in node.values]
        later = [self.thunk(v, node) for v in values[1:]]
        return self.call(
            "and_" if isinstance(node.op, ast.And) else "or_", [values[0], *later], node
        )

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return self.call("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        if _called_name(node.test) == "const_expr":
            return node
        sides = [self.thunk(node.body, node), self.thunk(node.orelse, node)]
        return self.call("if_expression", [node.test, *sides], node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        links: list[ast.expr] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            body = ast.Compare(ast.Name("a", ast.Load()), [op], [ast.Name("b", ast.Load())])
            compare = self.place(ast.Lambda(_arguments(["a", "b"]), body), node)
            links.append(ast.Tuple([compare, self.thunk(right, node)], ast.Load()))
        return self.call("chain", [node.left, *links], node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("max", "min", "any", "all"):
            name = ast.Constant(node.func.id)
            out = self.call("call_builtin", [name, node.func, *node.args], node)
            out.keywords = node.keywords
            return out
        return node


def decorated(function: Callable[..., Any]) -> types.FunctionType:
    """The plain function that a decorator was given.

    :raises DSLRuntimeError: for anything but a Python function.
    """
    if not isinstance(function, types.FunctionType):
        raise DSLRuntimeError(
            f"@cute.jit and @cute.kernel decorate functions, got {type(function).__name__}"
        )
    return function
