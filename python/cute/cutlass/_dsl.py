"""Owns `@cute.jit`, `@cute.kernel` and `cute.compile`: tracing, caching, calls and launches."""

from __future__ import annotations

import functools
import inspect
import re
import types
import warnings
from collections.abc import Callable
from typing import Any

from . import _ast
from ._emit import module_text
from ._errors import DSLRuntimeError, DSLTypeError, not_supported
from ._host import HostRun, LaunchSpec
from ._ir import (
    CLASS_OF,
    Block,
    Builder,
    Const,
    builder,
    current,
    tracing,
    user_location,
)
from ._numeric import Address, Boolean, Float, Int32, Integer, Numeric, as_numeric, rebits
from ._opt import optimize
from ._passes import check_scopes, walk_blocks
from ._tree import Spec, flatten, rewrap, unflatten


class Constexpr:
    """Annotation of an argument that is known when a program is compiled: `Constexpr` or "
    "`Constexpr[T]`."""

    def __class_getitem__(cls, item: Any) -> Any:
        return _ConstexprOf(item)


class _ConstexprOf:
    def __init__(self, item: Any) -> None:
        self.item = item

    def __or__(self, other: Any) -> Any:
        return self


def _is_constexpr(annotation: Any) -> bool:
    if annotation is Constexpr or isinstance(annotation, _ConstexprOf):
        return True
    if isinstance(annotation, str):
        return re.search(r"\bConstexpr\b", annotation) is not None
    return False


@functools.cache
def _annotations(function: types.FunctionType) -> dict[str, Any]:
    try:
        return inspect.get_annotations(function, eval_str=True)
    except Exception:
        return dict(function.__annotations__)


@functools.cache
def _signature(function: types.FunctionType) -> inspect.Signature:
    return inspect.signature(function)


#: Adapters of `register_jit_arg_adapter`, by type.
_ADAPTERS: dict[type, Callable[[Any], Any]] = {}


def register_jit_arg_adapter(kind: type) -> Callable[[Any], Any]:
    """Decorator: how arguments of a framework's type become arguments of the DSL."""

    def decorate(adapter: Any) -> Any:
        _ADAPTERS[kind] = adapter
        return adapter

    return decorate


def _adapt(x: Any) -> Any:
    """Framework tensors, streams and registered types as what a program can take."""
    from .cute import runtime

    if isinstance(x, Numeric | int | float | str) or x is None:
        return x
    for kind, adapter in _ADAPTERS.items():
        if isinstance(x, kind):
            return adapter(x)
    if runtime.is_framework_tensor(x):
        return runtime.from_framework(x)
    if type(x) is tuple or type(x) is list:
        return type(x)(_adapt(i) for i in x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(_adapt(i) for i in x))
    if type(x) is dict:
        return {k: _adapt(v) for k, v in x.items()}
    if type(x).__module__.startswith("torch") and hasattr(x, "cuda_stream"):
        return runtime.make_fake_stream()
    return x


class _Bound:
    """Arguments of one call: static ones as they are, dynamic ones by frame and leaves."""

    def __init__(
        self, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        bound = _signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        self.arguments = bound.arguments
        self.static: dict[str, Any] = {}
        self.dynamic: dict[str, Any] = {}
        annotations = _annotations(function)
        kinds = _signature(function).parameters
        for position, (name, value) in enumerate(self.arguments.items()):
            annotation = annotations.get(name)
            if _is_constexpr(annotation):
                if isinstance(value, Numeric):
                    raise DSLTypeError(
                        f"{function.__qualname__}: argument {name!r} is Constexpr, got a dynamic "
                        f"{type(value).__name__}"
                    )
                self.static[name] = value
                continue
            self.dynamic[name] = _typed(
                function, position, name, value, annotation, kinds[name].kind
            )


def _typed(
    function: types.FunctionType, position: int, name: str, value: Any, annotation: Any, kind: Any
) -> Any:
    """A dynamic argument converted to its annotation, where that names a type of the DSL."""
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(_typed(function, position, name, v, annotation, None) for v in value)
    if kind is inspect.Parameter.VAR_KEYWORD:
        return {k: _typed(function, position, name, v, annotation, None) for k, v in value.items()}
    wanted = annotation
    if isinstance(wanted, type) and issubclass(wanted, Numeric):
        if wanted in (Numeric, Integer, Float):
            return as_numeric(value) if isinstance(value, int | float) else value
        if isinstance(value, Numeric | int | float):
            return value if type(value) is wanted else wanted(value)
        if value is not None:
            raise _mismatch(function, position, name, wanted, value)
        return value
    if isinstance(value, int | float):
        from .cute._tensor import Tensor

        if isinstance(wanted, type) and issubclass(wanted, Tensor):
            raise _mismatch(function, position, name, wanted, value)
        return as_numeric(value)
    return value


def _mismatch(function: Any, position: int, name: str, wanted: Any, value: Any) -> DSLTypeError:
    return DSLTypeError(
        f"{function.__qualname__}: expects argument #{position + 1} ({name}) to be {wanted}, but "
        f"got {type(value)}"
    )


def _call(function: types.FunctionType, arguments: dict[str, Any], preprocess: bool) -> Any:
    """Run the (rewritten) function on bound arguments."""
    code = _ast.rewrite(function) if preprocess else function
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in _signature(function).parameters.items():
        value = arguments[name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args.extend(value)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            kwargs.update(value)
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            kwargs[name] = value
        else:
            args.append(value)
    return code(*args, **kwargs)


# -- host functions -------------------------------------------------------------------------


class JitFunction:
    """A function decorated with `@cute.jit`."""

    def __init__(self, function: Any, preprocess: bool = True) -> None:
        self._function = _ast.decorated(function)
        self._preprocess = preprocess
        self._prefix = ""
        self._cache: dict[Any, Executor] = {}
        functools.update_wrapper(self, self._function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def set_name_prefix(self, prefix: str) -> None:
        """A prefix of the compiled function's name."""
        self._prefix = prefix

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        no_cache = bool(kwargs.pop("no_cache", False))
        for internal in ("loc", "ip"):
            if internal not in _signature(self._function).parameters:
                kwargs.pop(internal, None)
        if current() is not None:
            return self._inline(args, kwargs)
        call = _HostCall(self, args, kwargs)
        executor = None if no_cache else self._lookup(call)
        if executor is None:
            executor = call.compile()
            if not no_cache:
                self._cache[call.key] = executor
        return executor.run(call)

    def _lookup(self, call: _HostCall) -> Executor | None:
        found = self._cache.get(call.key)
        return found if found is not None and found.is_current() else None

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = _signature(self._function).bind(*args, **kwargs)
        bound.apply_defaults()
        annotations = _annotations(self._function)
        for name, value in bound.arguments.items():
            wanted = annotations.get(name)
            number = isinstance(value, Numeric | int | float)
            if isinstance(wanted, type) and issubclass(wanted, Numeric) and number:
                if wanted not in (Numeric, Integer, Float) and type(value) is not wanted:
                    bound.arguments[name] = wanted(value)
            elif _is_constexpr(wanted) and isinstance(value, Numeric):
                raise DSLTypeError(
                    f"{self._function.__qualname__}: argument {name!r} is Constexpr, got a dynamic "
                    f"{type(value).__name__}"
                )
        _remember(self._function)
        return _call(self._function, bound.arguments, self._preprocess)


class _Method:
    """A decorated method bound to its object."""

    def __init__(self, function: Any, instance: Any) -> None:
        self._function = function
        self._instance = instance
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._instance, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


_LIVE: list[set[types.FunctionType]] = []


def _remember(function: types.FunctionType) -> None:
    """Note that the program being traced depends on `function`."""
    for functions in _LIVE:
        functions.add(function)


def _constants(function: types.FunctionType) -> tuple[Any, ...]:
    """What a function reads beside its arguments: globals, closure values, and what these hold."""
    return _read_by(function, set())


def _read_by(function: types.FunctionType, seen: set[int]) -> tuple[Any, ...]:
    if id(function) in seen:
        return ()
    seen.add(id(function))
    out: list[Any] = [function.__code__]
    codes = [function.__code__]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
    for name in sorted(names & function.__globals__.keys()):
        out.append((name, _state(function.__globals__[name], names, seen)))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            value = None
        out.append((name, _state(value, names, seen)))
    return tuple(out)


#: Longer containers are told by their length and by which object they are.
_LONGEST_STATE = 4096


def _state(value: Any, names: set[str], seen: set[int]) -> Any:
    """A value as far as a trace may read it; equal only where the trace would be the same.

    :param names: the names that the reading function mentions: attributes are among them.
    """
    if isinstance(value, int | float | str | bool | type(None)):
        # 2, 2.0 and True are equal and not alike; a float's text tells it apart bit for bit.
        return type(value), repr(value)
    if isinstance(value, JitFunction):
        return _read_by(value._function, seen)
    if isinstance(value, types.FunctionType):
        return _read_by(value, seen)
    if isinstance(value, tuple | list | dict | set | frozenset):
        if id(value) in seen or len(value) > _LONGEST_STATE:
            return id(value), len(value)
        seen.add(id(value))
        items = value.items() if isinstance(value, dict) else value
        state = type(value), tuple(_state(item, names, seen) for item in items)
        seen.discard(id(value))
        return state
    if isinstance(value, Numeric) or (getattr(value, "__module__", None) or "").startswith(
        ("cutlass", "torch", "builtins")
    ):
        return id(value)
    # Of a module, a class or an object: the plain attributes that are mentioned.
    if id(value) in seen:
        return id(value)
    seen.add(id(value))
    held = getattr(value, "__dict__", {})
    classes = type(value).__mro__ if not isinstance(value, type) else value.__mro__
    attributes = []
    for name in sorted(names):
        if name in held:
            found = held[name]
        else:
            found = next((vars(c)[name] for c in classes if name in vars(c)), None)
        if isinstance(found, int | float | str | bool | tuple | list | dict):
            attributes.append((name, _state(found, names, seen)))
    seen.discard(id(value))
    return id(value), tuple(attributes)


class _HostCall:
    """One call of a host function from Python: its arguments, split."""

    def __init__(self, jit: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        from .cute.runtime import CALLS

        self.jit = jit
        function = jit._function
        self.bound = _Bound(
            function, tuple(_adapt(a) for a in args), {k: _adapt(v) for k, v in kwargs.items()}
        )
        self.leaves: list[Numeric] = []
        self.specs: dict[str, Spec] = {}
        outer, CALLS.tensors = CALLS.tensors, []
        try:
            for name, value in self.bound.dynamic.items():
                self.specs[name] = flatten(value, self.leaves)
            self.tensors = CALLS.tensors
        finally:
            CALLS.tensors = outer

    @functools.cached_property
    def key(self) -> Any:
        return (
            tuple((n, s.key()) for n, s in self.specs.items()),
            tuple((n, flatten(v, []).key()) for n, v in self.bound.static.items()),
        )

    def inputs(self) -> list[int]:
        out = []
        for leaf in self.leaves:
            if not isinstance(leaf._v, Const):
                raise DSLRuntimeError("a value of another trace is passed to a compiled function")
            out.append(leaf._v.bits)
        return out

    def compile(self) -> Executor:
        function = self.jit._function
        b = Builder("host", function.__name__)
        used: set[types.FunctionType] = {function}
        _LIVE.append(used)
        try:
            with tracing(b):
                operands = []
                for i, leaf in enumerate(self.leaves):
                    cls = CLASS_OF[leaf.alu]
                    operands.append(rewrap(leaf, b.emit("ldparam", leaf.alu, attr=i, dst=(cls,))))
                rest = iter(operands)
                arguments = dict(self.bound.arguments)
                for name, spec in self.specs.items():
                    arguments[name] = unflatten(spec, rest)
                result = _call(function, arguments, self.jit._preprocess)
                leaves: list[Numeric] = []
                returned = flatten(result, leaves) if _returnable(result) else None
                if leaves:
                    b.emit("result", "", *(x._v for x in leaves), dst=())
        finally:
            _LIVE.pop()
        check_scopes(b.root)
        return Executor(self, optimize(b.root), returned, leaves, used)


def _returnable(x: Any) -> bool:
    if isinstance(x, Numeric | int | float | str | bool | type(None)):
        return True
    return isinstance(x, tuple | list | dict)


class Executor:
    """A compiled host function: call it with the arguments that are not `Constexpr`."""

    def __init__(
        self,
        call: _HostCall,
        root: Block,
        returned: Spec | None,
        leaves: list[Numeric],
        used: set[types.FunctionType],
    ) -> None:
        self._jit = call.jit
        self._template = call
        self._root = root
        self._returned = returned
        self._kinds = [type(x) for x in leaves]
        self._results: list[Any] = []
        for inst in root.insts:
            if inst.op == "result":
                self._results = list(inst.args)
        root.insts = [i for i in root.insts if i.op != "result"]
        self._used = [(f, _constants(f)) for f in used]
        self.__name__ = call.jit.__name__

    def export_to_c(self, *_: Any, **__: Any) -> None:
        """Writes the program as C: there is no machine code of a virtual GPU to write."""
        raise not_supported("export_to_c", "its programs have no machine code")

    def is_current(self) -> bool:
        """Whether the globals that the program was compiled with are unchanged."""
        return all(_constants(f) == values for f, values in self._used)

    def kernels(self) -> list[str]:
        """The device IR text of each kernel that the program launches."""
        return [i.attr.text for b in walk_blocks(self._root) for i in b.insts if i.op == "launch"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._arrange(args, kwargs)
        return self.run(call)

    def _arrange(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _HostCall:
        """The call's arguments in the places of those that the program was compiled with."""
        from .cute import runtime

        template = self._template
        function = self._jit._function
        parameters = list(_signature(function).parameters)
        hidden = set(template.bound.static)
        instance = parameters[:1] if self._is_method() else []
        visible = [p for p in parameters if p not in hidden and p not in instance]
        full = [p for p in parameters if p not in instance]
        names = full if len(args) == len(full) and len(args) > len(visible) else visible
        if len(args) > len(names):
            raise TypeError(f"{self.__name__} takes {len(visible)} arguments, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in full:
                raise TypeError(f"{self.__name__} has no argument {name!r}")
            given[name] = value
        merged = dict(template.bound.arguments)
        missing = [n for n in visible if n not in given and not _has_default(function, n)]
        if missing:
            raise TypeError(f"{self.__name__} misses the argument {missing[0]!r}")
        for name, value in given.items():
            if name in hidden:
                continue
            value = _adapt(value)
            old = template.bound.dynamic.get(name)
            alike = any(
                isinstance(value, kind) and isinstance(old, kind)
                for kind in (runtime._Tensor, runtime._Pointer)
            )
            if alike:
                try:
                    value = value.conform(old)
                except DSLRuntimeError as error:
                    raise DSLRuntimeError(f"{self.__name__}: argument {name!r}: {error}") from None
            merged[name] = value
        args_list, kwargs_dict = _unbind(function, merged)
        call = _HostCall(self._jit, tuple(args_list), kwargs_dict)
        for name, spec in template.specs.items():
            if not call.specs[name].matches(spec):
                raise DSLTypeError(
                    f"{self.__name__}: argument {name!r} is not of the type that the function was "
                    f"compiled for ({spec.describe()}), got {call.specs[name].describe()}"
                )
        return call

    def _is_method(self) -> bool:
        parameters = list(_signature(self._jit._function).parameters)
        return bool(parameters) and parameters[0] == "self"

    def run(self, call: _HostCall) -> Any:
        """Run on split arguments."""
        run = HostRun(call.inputs(), functools.partial(_launch, call))
        run.block(self._root)
        if self._returned is None:
            return None
        values = []
        for kind, operand in zip(self._kinds, self._results, strict=True):
            values.append(kind._wrap(Const(run.get(operand), CLASS_OF[kind.alu]))._python())
        rest = iter(values)
        return unflatten(self._returned, rest)  # type: ignore[arg-type]


def _has_default(function: types.FunctionType, name: str) -> bool:
    return _signature(function).parameters[name].default is not inspect.Parameter.empty


def _unbind(
    function: types.FunctionType, arguments: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in _signature(function).parameters.items():
        if name not in arguments:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args.extend(arguments[name])
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            kwargs.update(arguments[name])
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            kwargs[name] = arguments[name]
        else:
            args.append(arguments[name])
    return args, kwargs


# -- kernels --------------------------------------------------------------------------------


class KernelFunction:
    """A function decorated with `@cute.kernel`."""

    def __init__(self, function: Any, preprocess: bool = True) -> None:
        self._function = _ast.decorated(function)
        self._preprocess = preprocess
        self._prefix = ""
        functools.update_wrapper(self, self._function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def set_name_prefix(self, prefix: str) -> None:
        """A prefix of the kernel's name."""
        self._prefix = prefix

    def __call__(self, *args: Any, **kwargs: Any) -> KernelLaunch:
        b = current()
        if b is None:
            raise DSLRuntimeError(
                f"the kernel {self._function.__qualname__} is called from Python: call it in a "
                "function decorated with @cute.jit, and launch it there"
            )
        if b.target != "host":
            raise DSLRuntimeError(
                f"the kernel {self._function.__qualname__} is called from a kernel: make it a "
                "@cute.jit function to use it inside one"
            )
        kwargs.pop("loc", None)
        kwargs.pop("ip", None)
        return KernelLaunch(self, args, kwargs)


class KernelLaunch:
    """A kernel with its arguments, to be launched."""

    def __init__(
        self, kernel: KernelFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._kernel = kernel
        self._args = args
        self._kwargs = kwargs

    def launch(
        self,
        *,
        grid: Any = (1, 1, 1),
        block: Any = (1, 1, 1),
        cluster: Any = None,
        smem: Any = None,
        stream: Any = None,
        max_number_threads: Any = None,
        min_blocks_per_mp: Any = 0,
        **options: Any,
    ) -> None:
        """Record the launch; dimensions are static or dynamic integers."""
        from ._errors import not_supported

        host = builder("launch")
        known = {
            *("fallback_cluster", "use_pdl", "cooperative", "smem_merge_branch_allocs"),
            *("preferred_smem_carveout", "hint_smem_base_uniform", "async_deps", "loc", "ip", "ec"),
        }
        for name in options:
            if name not in known:
                raise TypeError(f"launch has no option {name!r}")
        if options.get("cooperative"):
            raise not_supported(
                "a cooperative launch", "synchronization over the grid is not modelled yet"
            )
        dims = [
            _dimensions(grid, "grid"),
            _dimensions(block, "block"),
            _dimensions(cluster or (), "cluster"),
        ]
        if any(not (isinstance(c, int) and c == 1) for c in dims[2]):
            raise not_supported(
                "a launch with clusters of more than one block", "clusters are not modelled yet"
            )
        threads = 1
        for d in dims[1]:
            threads = threads * d if isinstance(d, int) and threads else 0
        if threads > 1024:
            raise DSLRuntimeError(f"a block has {threads} threads; 1,024 is the most")
        traced, leaves = self._trace(threads)
        spec, needed = traced
        if smem is None:
            smem = needed
        elif isinstance(smem, int) and smem < needed:
            warnings.warn(
                f"{self._kernel.__name__}: the launch gives {smem} bytes of shared memory, the "
                f"kernel allocates {needed}",
                stacklevel=2,
            )
        numbers = [*dims[0], *dims[1], *dims[2], smem]
        operands = [Int32(n)._v if isinstance(n, int) else n.to(Int32)._v for n in numbers]
        host.emit("launch", "", *operands, *leaves, attr=spec, dst=())

    __call__ = launch

    def _trace(self, threads: int) -> tuple[tuple[LaunchSpec, int], list[Any]]:
        kernel = self._kernel
        function = kernel._function
        _remember(function)
        bound = _Bound(function, self._args, self._kwargs)
        leaves: list[Numeric] = []
        specs = {name: flatten(value, leaves) for name, value in bound.dynamic.items()}
        name = _kernel_name(kernel)
        b = Builder("device", name)
        b.max_threads = threads
        kinds: list[tuple[int, bool]] = []
        with tracing(b):
            operands = []
            offset = 0
            for i, leaf in enumerate(leaves):
                size = 8 if CLASS_OF[leaf.alu] == "b64" else 4
                offset = -(-offset // size) * size
                b.params.append((f"a{i}", size))
                kinds.append((size, type(leaf) is Address))
                raw = b.emit("ldparam", "b64" if size == 8 else "b32", attr=offset)
                value = rebits(raw, "u8", "pred") if type(leaf) is Boolean else raw
                like = rewrap(leaf, value)
                if isinstance(leaf, Integer):
                    like = like.assume(leaf._div, leaf._nonneg)
                operands.append(like)
                offset += size
            rest = iter(operands)
            arguments = dict(bound.arguments)
            arguments.update(bound.dynamic)
            for arg, spec in specs.items():
                arguments[arg] = unflatten(spec, rest)
            result = _call(function, arguments, kernel._preprocess)
            if result is not None:
                raise DSLRuntimeError(
                    f"the kernel {function.__qualname__} returns a value; kernels return none"
                )
        text = compile_kernel(b)
        spec_out = LaunchSpec(text, name, tuple(kinds), user_location())
        host_leaves = []
        for leaf in leaves:
            host_leaves.append(rebits(leaf._v, "pred", "u8") if type(leaf) is Boolean else leaf._v)
        return (spec_out, b.dynamic_shared), host_leaves


def compile_kernel(b: Builder) -> str:
    """Device IR text of a traced kernel."""
    check_scopes(b.root)
    return module_text([(b, optimize(b.root))])


def _kernel_name(kernel: KernelFunction) -> str:
    base = re.sub(r"[^A-Za-z0-9_]", "_", kernel._function.__qualname__.replace("<locals>.", ""))
    return f"{kernel._prefix}_{base}" if kernel._prefix else f"kernel_{base}"


def _dimensions(dims: Any, what: str) -> list[Any]:
    if isinstance(dims, int | Integer):
        dims = (dims,)
    dims = list(dims)
    if len(dims) > 3:
        raise DSLRuntimeError(f"launch: {what} has {len(dims)} dimensions; at most 3")
    for d in dims:
        if not isinstance(d, int | Integer):
            raise DSLTypeError(f"launch: {what} must hold integers, got {type(d).__name__}")
    return [*dims, *[1] * (3 - len(dims))]


# -- launching ------------------------------------------------------------------------------

_MODULES: dict[str, Any] = {}


def _launch(call: _HostCall, spec: LaunchSpec, values: list[int]) -> str:
    """Send a launch to the device; gives what the kernel printed."""
    import mkb_shim

    module = _MODULES.get(spec.text)
    if module is None:
        module = _MODULES[spec.text] = mkb_shim.load_module(0, spec.text.encode())
    grid, block, cluster, smem = values[0:3], values[3:6], values[6:9], values[9]
    if any(g == 0 for g in grid):
        raise DSLRuntimeError(f"{_at(spec)}launch of {spec.name} with an empty grid {tuple(grid)}")
    args: list[Any] = []
    for (size, is_address), bits in zip(spec.leaf_kinds, values[10:], strict=True):
        if is_address and bits:
            args.append(_tensor_argument(call, bits))
        else:
            args.append(("bytes", bits.to_bytes(size, "little")))
    printed = mkb_shim.launch(module, spec.name, grid, block, cluster, smem, args, "cutedsl")
    return printed or ""


def _at(spec: LaunchSpec) -> str:
    return f"{spec.location[0]}:{spec.location[1]}: " if spec.location else ""


def _tensor_argument(call: _HostCall, address: int) -> Any:
    """An address as the tensor of the call that holds it, and an offset."""
    nearest = None
    for t in call.tensors:
        source = t._source
        if source is None or getattr(getattr(source, "device", None), "type", "cpu") != "cuda":
            continue
        base = source.data_ptr()
        storage = source.untyped_storage()
        if storage.data_ptr() <= address < storage.data_ptr() + max(1, storage.nbytes()):
            return ("ptr", source, address - base)
        nearest = nearest or ("ptr", source, address - base)
    if nearest is not None:
        return nearest
    import torch

    anchor = torch.empty(1, dtype=torch.uint8, device="cuda")
    return ("ptr", anchor, address - anchor.data_ptr())


# -- compile --------------------------------------------------------------------------------


class CompileOption:
    """An option of `cute.compile[...]`, with a value."""

    name = ""

    def __init__(self, value: Any = True) -> None:
        self.value = value


def _option(name: str) -> type[CompileOption]:
    return type(name, (CompileOption,), {"name": name, "__doc__": f"The compile option {name}."})


OptLevel = _option("OptLevel")
EnableAssertions = _option("EnableAssertions")
GenerateLineInfo = _option("GenerateLineInfo")
KeepCUBIN = _option("KeepCUBIN")
KeepPTX = _option("KeepPTX")
KeepSASS = _option("KeepSASS")
NvdisasmOptions = _option("NvdisasmOptions")
PtxasOptions = _option("PtxasOptions")
GPUArch = _option("GPUArch")
EnableTVMFFI = _option("EnableTVMFFI")
LinkLibraries = _option("LinkLibraries")

_OPTIONS = (
    *("--opt-level", "--enable-assertions", "--keep-cubin", "--keep-ptx", "--keep-sass"),
    *(
        "--nvdisasm-options",
        "--ptxas-options",
        "--generate-line-info",
        "--gpu-arch",
        "--host-target",
    ),
    *("--enable-tvm-ffi", "--dump-dir", "--link-libraries"),
)


class Compiler:
    """`cute.compile(function, *args)`: compiles a host function for the types of the arguments.

    What it gives is called with the arguments that are not constants, and checks their types,
    static shapes and alignments against those that it was compiled for. Keeping it saves the look
    at the types at each call.
    """

    def __init__(self, options: tuple[Any, ...] = ()) -> None:
        self._options = options

    def __getitem__(self, options: Any) -> Compiler:
        items = options if isinstance(options, tuple) else (options,)
        flat: list[Any] = []
        for o in items:
            flat.extend(o if isinstance(o, tuple) else (o,))
        for o in flat:
            kind = o if isinstance(o, type) else type(o)
            if not issubclass(kind, CompileOption):
                raise DSLTypeError(f"cute.compile[...] takes compile options, got {o!r}")
        return Compiler((*self._options, *flat))

    def __call__(
        self, function: Any, *args: Any, options: str | None = None, **kwargs: Any
    ) -> Executor:
        if current() is not None:
            raise DSLRuntimeError("cute.compile is called while a program is traced")
        for word in (options or "").split():
            if word.startswith("--") and word.split("=")[0] not in _OPTIONS:
                raise DSLRuntimeError(f"cute.compile: unknown option {word!r}")
        if isinstance(function, _Method):
            args = (function._instance, *args)
            function = function._function
        elif isinstance(function, functools.partial):
            args = (*function.args, *args)
            kwargs = {**function.keywords, **kwargs}
            function = function.func
        elif not isinstance(function, JitFunction):
            inner = inspect.getattr_static(type(function), "__call__", None)
            if isinstance(function, types.FunctionType):
                function = JitFunction(function)
            elif isinstance(inner, JitFunction):
                args = (function, *args)
                function = inner
            elif isinstance(inner, types.FunctionType):
                args = (function, *args)
                function = JitFunction(inner)
        if isinstance(function, KernelFunction):
            raise DSLRuntimeError(
                "cute.compile takes a @cute.jit function that launches the kernel"
            )
        if not isinstance(function, JitFunction):
            raise DSLTypeError(
                f"cute.compile takes a @cute.jit function, got {type(function).__name__}"
            )
        return _HostCall(function, args, kwargs).compile()


def jit(
    function: Any = None, *, preprocessor: bool = True, preprocess: bool = True, **_: Any
) -> Any:
    """Decorator: a host function that launches kernels, or a function to be used inside kernels.

    Called from Python, a host function is compiled for the types and constants of its arguments
    at the first call and kept. Called from a kernel, the function becomes a part of it.
    """
    if function is None:
        return lambda f: jit(f, preprocessor=preprocessor, preprocess=preprocess)
    if isinstance(function, JitFunction):
        return function
    return JitFunction(function, preprocessor and preprocess)


def kernel(
    function: Any = None, *, preprocessor: bool = True, preprocess: bool = True, **_: Any
) -> Any:
    """Decorator: a function that runs on the device, once for each thread of its launch.

    A call binds arguments; `.launch(grid=[x, y, z], block=[x, y, z], smem=bytes, stream=s)` on what
    it gives starts it, from within a function under :func:`jit`. `smem` is by default what the
    kernel allocated. A block has at most 1,024 threads. The function returns nothing.
    """
    if function is None:
        return lambda f: kernel(f, preprocessor=preprocessor, preprocess=preprocess)
    return KernelFunction(function, preprocessor and preprocess)
