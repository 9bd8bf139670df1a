"""What a documented name is: its kind, signature, text, members, found by looking at the object."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import types
import typing
from dataclasses import dataclass, replace
from typing import Any

from . import source

#: Special methods that are documented as members.
CALLED = ("__getitem__", "__setitem__", "__call__", "__contains__", "__iter__", "__len__")
#: Special methods that are shown as operators.
OPERATORS = {
    "__add__": "+",
    "__sub__": "-",
    "__mul__": "*",
    "__matmul__": "@",
    "__truediv__": "/",
    "__floordiv__": "//",
    "__mod__": "%",
    "__pow__": "**",
    "__neg__": "-x",
    "__lshift__": "<<",
    "__rshift__": ">>",
    "__and__": "&",
    "__or__": "|",
    "__xor__": "^",
    "__invert__": "~",
    "__eq__": "==",
    "__ne__": "!=",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
}


@dataclass(frozen=True)
class Symbol:
    """A documented name."""

    #: As an author writes it, such as `cute.copy`.
    name: str
    #: What it is, in a word or two.
    kind: str
    #: The call, or empty.
    signature: str = ""
    #: The module where it is defined.
    home: str = ""
    #: Its docstring, or empty.
    text: str = ""
    #: Public members of a class.
    members: tuple[Symbol, ...] = ()
    #: What is to be said beside its own documentation.
    notes: tuple[str, ...] = ()
    #: The name under which the same thing is documented, or empty.
    same_as: str = ""

    @property
    def documented(self) -> bool:
        """Whether somebody wrote what it is."""
        return bool(self.text or self.same_as)


@dataclass(frozen=True)
class Package:
    """What belongs to what is documented: classes of other packages' modules are left alone."""

    prefix: str
    #: Attributes of classes that only the implementation needs.
    hidden: frozenset[str] = frozenset()

    def owns(self, cls: type) -> bool:
        """Whether a class is defined here."""
        return cls.__module__ == self.prefix or cls.__module__.startswith(self.prefix + ".")


def describe(name: str, value: Any, package: Package, comment: str = "") -> Symbol:
    """The symbol of a value that an author reaches as `name`."""
    if isinstance(value, functools.partial):
        return _partial(name, value, package)
    value = unwrapped(value)
    if isinstance(value, types.FunctionType):
        return function(name, value)
    # `Any` is a class in some versions of Python.
    if value is Any or typing.get_origin(value) is not None:
        return Symbol(name, "annotation", text=comment)
    if isinstance(value, type):
        return cls(name, value, package)
    if isinstance(value, types.ModuleType):
        return Symbol(name, "module", home=value.__name__, text=clean(value.__doc__))
    if isinstance(value, bool | int | float | str | tuple):
        return Symbol(name, "constant", signature=f" = {value!r}", text=comment)
    return instance(name, value, package, comment)


def function(name: str, value: types.FunctionType, bound: bool = False) -> Symbol:
    """A Python function."""
    found = source.of_function(value)
    shown = source.parameters(*found, bound=bound) if found else "(...)"
    return Symbol(name, "function", shown, value.__module__, clean(value.__doc__))


def instance(name: str, value: Any, package: Package, comment: str = "") -> Symbol:
    """An object that is reached by its name: documented by its class."""
    described = cls(name, type(value), package)
    call = inspect.getattr_static(type(value), "__call__", None)
    signature = ""
    if isinstance(call, types.FunctionType):
        signature = function(name, call, bound=True).signature
    text = comment or described.text
    return replace(described, kind="object", signature=signature, text=text)


def cls(name: str, value: type, package: Package) -> Symbol:
    """A class with its members; what it inherits is named, not repeated."""
    found = source.of_class(value)
    own = vars(value)
    text = (ast.get_docstring(found[1]) or "") if found else clean(own.get("__doc__"))
    kind = "enumeration" if issubclass(value, enum.Enum) else "class"
    signature = "" if kind == "enumeration" else _constructor(value, package, found)
    notes = []
    operators = [sign for method, sign in OPERATORS.items() if _defines(value, method, package)]
    if operators and kind == "class":
        notes.append("Operators: " + " ".join(f"`{sign}`" for sign in operators))
    inherited = _inherited(value, package)
    if inherited:
        notes.append("Inherits " + ", ".join(f"`{n}` of `{base}`" for n, base in inherited) + ".")
    members = tuple(_members(name, value, package, found))
    return Symbol(name, kind, signature, value.__module__, text, members, tuple(notes))


def _inherited(value: type, package: Package) -> list[tuple[str, str]]:
    """The public members of base classes, each with the first class that defines it."""
    seen = {*vars(value), *package.hidden}
    found = []
    for base in value.__mro__[1:]:
        if package.owns(base):
            names = [n for n in vars(base) if not n.startswith("_") and n not in seen]
            found += [(name, base.__name__) for name in names]
            seen.update(names)
    return sorted(found, key=lambda pair: _order(pair[0]))


def _defines(value: type, method: str, package: Package) -> bool:
    owners = [base for base in value.__mro__ if method in vars(base)]
    return bool(owners) and package.owns(owners[0]) and vars(owners[0])[method] is not None


def _constructor(
    value: type, package: Package, found: tuple[source.Source, ast.ClassDef] | None
) -> str:
    for base in value.__mro__:
        init = vars(base).get("__init__")
        if isinstance(init, types.FunctionType) and package.owns(base):
            if source.of_function(init):
                return function("", init, bound=True).signature
            break
    if found and "__dataclass_fields__" in vars(value):
        return f"({', '.join(shown for _, shown in source.fields(*found))})"
    return ""


def _members(
    name: str, value: type, package: Package, found: tuple[source.Source, ast.ClassDef] | None
) -> list[Symbol]:
    annotated = dict(source.fields(*found)) if found else {}
    members = []
    for key, item in vars(value).items():
        if key in package.hidden or (key.startswith("_") and key not in CALLED):
            continue
        comment = found[0].comment(f"{value.__qualname__}.{key}") if found else ""
        member = _member(f"{name}.{key}", key, item, annotated.get(key, ""), comment, package)
        if member and not (key in CALLED and not member.documented):
            members.append(member)
    for key, shown in annotated.items():
        if key not in vars(value) and not key.startswith("_"):
            comment = found[0].comment(f"{value.__qualname__}.{key}") if found else ""
            members.append(Symbol(f"{name}.{key}", "field", shown[len(key) :], text=comment))
    return sorted(members, key=lambda member: _order(member.name))


def _member(
    name: str, key: str, item: Any, annotated: str, comment: str, package: Package
) -> Symbol | None:
    if isinstance(item, enum.Enum):
        return Symbol(name, "value", f" = {item.value!r}", text=comment)
    if isinstance(item, property) and isinstance(item.fget, types.FunctionType):
        getter = source.of_function(item.fget)
        returns = source.parameters(*getter)[len("(self)") :] if getter else ""
        return Symbol(name, "property", returns, text=clean(item.__doc__))
    if isinstance(item, staticmethod | classmethod):
        inner = unwrapped(item.__func__)
        if isinstance(inner, types.FunctionType):
            shown = function(name, inner, bound=isinstance(item, classmethod))
            return replace(shown, kind=type(item).__name__.replace("method", " method"), home="")
        return None
    item = unwrapped(item)
    if isinstance(item, types.FunctionType):
        return replace(function(name, item, bound=True), kind="method", home="")
    if isinstance(item, type):
        return replace(cls(name, item, package), home="")
    if type(item).__name__ in ("FFIProperty", "member_descriptor", "getset_descriptor"):
        return Symbol(name, "field", annotated[len(key) :], text=comment)
    if annotated:
        return Symbol(name, "field", annotated[len(key) :], text=comment)
    if isinstance(item, bool | int | float | str):
        return Symbol(name, "constant", f" = {item!r}", text=comment)
    return Symbol(name, "field", text=comment)


def _partial(name: str, value: functools.partial, package: Package) -> Symbol:
    whole = describe(name, value.func, package)
    given = [repr(item) for item in value.args]
    given += [f"{key}={item!r}" for key, item in value.keywords.items()]
    target = getattr(unwrapped(value.func), "__name__", "the function")
    note = f"Is `{target}` with `{', '.join(given)}` given; the parameters are described there."
    first = whole.text.partition("\n\n")[0]
    return replace(whole, text=first, notes=(*whole.notes, note))


def unwrapped(value: Any) -> Any:
    """What decorators that keep their function have been put around."""
    if isinstance(value, type):
        return value
    inner = getattr(value, "__dict__", {}).get("__wrapped__")
    return unwrapped(inner) if inner is not None else value


def clean(text: Any) -> str:
    """A docstring without its indentation."""
    return inspect.cleandoc(text).strip() if isinstance(text, str) else ""


def _order(name: str) -> tuple[str, str]:
    return name.lower(), name
