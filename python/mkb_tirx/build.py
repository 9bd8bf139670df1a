"""`tvm.compile` for CUDA targets: the module is handed over, its host half runs here.

The host half (argument checks, symbolic shapes, launch dimensions) is TVM's own, compiled by its
LLVM code generator; where it would call the device function, it calls `Launcher` instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.ir.module import IRModule
from tvm.target import Target
from tvm.tirx import PrimFunc, StringImm

from . import lowering
from .spans import patch_parser
from .targets import patch_target
from .tensors import as_torch, patch_tensors

#: Extents in the order of the launch's three axes.
_GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
_BLOCK = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_CLUSTER = ("clusterCtaIdx.x", "clusterCtaIdx.y", "clusterCtaIdx.z")
_DYNAMIC_SHARED = "tirx.use_dyn_shared_memory"
#: Launch attributes that change nothing on the virtual GPU: one grid runs at a time.
_WITHOUT_EFFECT = ("tirx.use_programtic_dependent_launch", "tirx.use_cooperative_launch")

_names = itertools.count()
_installed = False


def install() -> None:
    """Routes CUDA builds to the virtual GPU. Calls after the first do nothing."""
    global _installed
    if _installed:
        return
    _installed = True
    patch_target()
    patch_parser()
    patch_tensors()
    original = tvm.tirx.build

    def build(
        mod: PrimFunc | IRModule,
        target: str | Target | None = None,
        pipeline: str | None = "default",
    ) -> Any:
        resolved = _target_of(mod, target)
        if resolved is None or resolved.kind.name != "cuda":
            return original(mod, target, pipeline)
        if isinstance(mod, PrimFunc):
            mod = tvm.IRModule.from_expr(mod)
        return build_module(mod, resolved, pipeline)

    tvm.tirx.build = build
    tvm_ffi.register_global_func("tirx.build", build, override=True)


def _target_of(mod: PrimFunc | IRModule, target: str | Target | None) -> Target | None:
    """The target that `tvm.tirx.build` would choose."""
    if target is None:
        target = Target.current()
    if target is None:
        functions = [mod] if isinstance(mod, PrimFunc) else mod.functions.values()
        found = (f.attrs.get("target", None) for f in functions if f.attrs is not None)
        target = next((value for value in found if value is not None), None)
    return None if target is None else Target(target)


@dataclass(frozen=True)
class KernelSignature:
    """What the host passes when it launches a kernel."""

    #: Per parameter: TVM's data type name.
    parameters: tuple[str, ...]
    #: What follows them: thread axes, dynamic shared bytes.
    launch: tuple[str, ...]


def build_module(mod: IRModule, target: Target, pipeline: str | None) -> VirtualModule:
    """Lowers for the host, hands the module over, and gives what calls it."""
    import mkb_shim

    lowering.check_arch(target)
    lowered = lowering.lower_module(mod, target, pipeline)
    envelope = lowering.make_envelope(mod, target, pipeline)
    lowering.remember(envelope, lowering.device_json(lowered.device))
    signatures = {
        str(var.name_hint): signature_of(func) for var, func in lowered.device.functions.items()
    }
    handle = mkb_shim.load_module(2, envelope) if signatures else None
    launcher = Launcher(handle, signatures)
    host = launcher.attach(lowered.host)
    compiled = tvm.get_global_func("target.build.llvm")(host, Target("llvm"))
    return VirtualModule(compiled, launcher, lowered.device, target)


def signature_of(func: PrimFunc) -> KernelSignature:
    """What the host must pass to a lowered device function."""
    launch = func.attrs.get("tirx.kernel_launch_params", ())
    return KernelSignature(
        parameters=tuple(str(param.dtype) for param in func.params),
        launch=tuple(str(name) for name in launch),
    )


class Launcher:
    """Stands for the device's functions in the host's code."""

    def __init__(self, handle: Any, signatures: dict[str, KernelSignature]) -> None:
        self.handle = handle
        self.signatures = signatures
        #: Tensors of the call in progress, to find the one that a pointer belongs to.
        self.tensors: list[Any] = []
        #: What a launch raised: TVM's own errors carry text alone.
        self.raised: BaseException | None = None

    def attach(self, host: IRModule) -> IRModule:
        """The host module with its calls of device functions led here."""
        prefix = f"mkb_tirx.{next(_names)}."
        names = {name: prefix + name for name in self.signatures}
        names["__tvm_set_device"] = prefix + "set_device"
        for name, own in names.items():
            tvm_ffi.register_global_func(own, self._callback(name), override=True)

        def rename(node: Any) -> Any:
            if isinstance(node, StringImm) and node.value in names:
                return StringImm(names[node.value])
            return None

        def attach_one(func: PrimFunc) -> PrimFunc:
            body = tvm.tirx.stmt_functor.ir_transform(func.body, None, rename, ["tirx.StringImm"])
            return func.with_body(body)

        functions = {var: attach_one(func) for var, func in host.functions.items()}
        return tvm.IRModule(functions, attrs=host.attrs)

    def _callback(self, name: str) -> Callable[..., None]:
        if name == "__tvm_set_device":
            return lambda *_args: None

        def launch(*args: Any) -> None:
            try:
                self.launch(name, args)
            except BaseException as error:
                self.raised = error
                raise

        return launch

    def launch(self, name: str, args: Sequence[Any]) -> None:
        """One launch, with the arguments as the host packs them."""
        import mkb_shim

        signature = self.signatures[name]
        count = len(signature.parameters)
        encoded = [
            self._argument(dtype, value)
            for dtype, value in zip(signature.parameters, args[:count], strict=True)
        ]
        extents: dict[str, int] = {}
        rest = iter(args[count:])
        for key in signature.launch:
            if key in _WITHOUT_EFFECT:
                continue
            extents[key] = int(next(rest))
        known = (*_GRID, *_BLOCK, *_CLUSTER, _DYNAMIC_SHARED)
        for key in extents:
            if key not in known:
                raise mkb_shim.Incomplete(f"kernel {name}: launch attribute {key!r}")
        grid, block, cluster = (
            [extents.get(axis, 1) for axis in axes] for axes in (_GRID, _BLOCK, _CLUSTER)
        )
        if 0 in grid:
            return
        shared = extents.get(_DYNAMIC_SHARED, 0)
        text = mkb_shim.launch(self.handle, name, grid, block, cluster, shared, encoded, "tirx")
        if text:
            print(text, end="", flush=True)

    def _argument(self, dtype: str, value: Any) -> tuple[Any, ...]:
        if dtype == "handle":
            return self._pointer(value)
        kind = tvm_ffi.dtype(dtype)
        if dtype.startswith("float"):
            import torch

            number = torch.tensor(value, dtype=getattr(torch, dtype)).reshape(1)
            return ("bytes", bytes(number.view(torch.uint8).tolist()))
        size = max(kind.bits // 8, 1)
        return ("bytes", (int(value) % (1 << (8 * size))).to_bytes(size, "little"))

    def _pointer(self, value: Any) -> tuple[Any, ...]:
        import mkb_shim

        address = getattr(value, "value", value) or 0
        if address == 0:
            return ("bytes", bytes(8))
        for tensor in self.tensors:
            storage = tensor.untyped_storage()
            if storage.data_ptr() <= address < storage.data_ptr() + max(storage.nbytes(), 1):
                return ("ptr", tensor, address - tensor.data_ptr())
        raise mkb_shim.BadRequest(f"a kernel gets address {address:#x}, which no argument holds")


class VirtualFunction:
    """A function of the host module, called with torch or TVM tensors."""

    def __init__(self, function: Any, launcher: Launcher) -> None:
        self._function = function
        self._launcher = launcher

    def __call__(self, *args: Any) -> Any:
        launcher = self._launcher
        launcher.tensors = [tensor for tensor in map(as_torch, args) if tensor is not None]
        launcher.raised = None
        try:
            return self._function(*args)
        except BaseException:
            if launcher.raised is not None:
                raise launcher.raised from None
            raise
        finally:
            launcher.tensors = []


class DeviceModule:
    """The device half, as `mod.imports[0]` shows it."""

    kind = "cuda"

    def __init__(self, device: IRModule, target: Target) -> None:
        self._device, self._target = device, target

    def inspect_source(self, fmt: str = "") -> str:
        """The CUDA C++ that TVM prints for the module."""
        with self._target:
            built = tvm.get_global_func("target.build.cuda")(self._device, self._target)
        return built.inspect_source(fmt)


class VirtualModule:
    """What `tvm.compile` gives for a CUDA target, beneath its `Executable`."""

    kind = "llvm"
    is_runnable = True

    def __init__(self, compiled: Any, launcher: Launcher, device: IRModule, target: Target) -> None:
        self._compiled = compiled
        self._launcher = launcher
        self.imports = [DeviceModule(device, target)]
        self._known: dict[str, VirtualFunction] = {}

    def get_function(self, name: str, query_imports: bool = False) -> VirtualFunction:
        """The host function of that name; `AttributeError` if there is none."""
        if name not in self._known:
            function = self._compiled.get_function(name, query_imports)
            self._known[name] = VirtualFunction(function, self._launcher)
        return self._known[name]

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether the module has a function of that name."""
        return self._compiled.implements_function(name, query_imports)

    def __getitem__(self, name: str) -> VirtualFunction:
        return self.get_function(name)

    def __getattr__(self, name: str) -> VirtualFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.get_function(name)
        except AttributeError:
            raise AttributeError(f"the module has no function {name!r}") from None

    def __call__(self, *args: Any) -> Any:
        return self.get_function("main")(*args)

    def inspect_source(self, fmt: str = "") -> str:
        """The host half's code."""
        return self._compiled.inspect_source(fmt)

    def export_library(self, *_args: Any, **_options: Any) -> None:
        """Not on the virtual GPU: there is no device code to export."""
        raise NotImplementedError("a module for the virtual GPU cannot be exported")

    def time_evaluator(self, *_args: Any, **_options: Any) -> None:
        """Not on the virtual GPU: its clock is outside this process."""
        raise NotImplementedError("a kernel on the virtual GPU is timed by its judge, not here")

    def _collect_from_import_tree(self, _filter: Callable[[Any], bool]) -> list[Any]:
        return []
