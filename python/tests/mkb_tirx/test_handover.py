"""What `tvm.compile` hands over and what a call launches, with the device's end written down."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

mkb_shim = pytest.importorskip("mkb_shim")
mkb_shim.install()
import torch  # noqa: E402
import tvm  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

import mkb_tirx  # noqa: E402

mkb_tirx.install()


class Device:
    """Stands where the virtual GPU would be."""

    def __init__(self) -> None:
        self.modules: list[bytes] = []
        self.launches: list[tuple[Any, ...]] = []
        self.error: BaseException | None = None

    def load_module(self, format: int, source: bytes) -> str:
        assert format == 2
        self.modules.append(source)
        return f"module {len(self.modules)}"

    def launch(self, *launch: Any) -> str:
        self.launches.append(launch)
        if self.error is not None:
            raise self.error
        return "printed\n"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setattr(mkb_shim, "load_module", device.load_module)
    monkeypatch.setattr(mkb_shim, "launch", device.launch)
    return device


@T.prim_func
def scale(x_ptr: T.handle, y_ptr: T.handle, factor: T.float32, shift: T.int64) -> None:
    n = T.int32()
    x = T.match_buffer(x_ptr, (n, 8), "float32")
    y = T.match_buffer(y_ptr, (n, 8), "float32")
    T.device_entry()
    block, part = T.cta_id([n, 2])
    thread = T.thread_id([4])
    arena = T.alloc_buffer((100,), "float32", scope="shared.dyn")
    arena[thread] = x[block, part * 4 + thread] * factor + T.cast(shift, "float32")
    y[block, part * 4 + thread] = arena[thread]


def compiled(target: Any = "cuda") -> Any:
    mod = tvm.IRModule({"main": scale})
    return tvm.compile(mod, target=tvm.target.Target(target), tir_pipeline="tirx")


def tensors(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(n, 8, device="cuda"), torch.empty(n, 8, device="cuda")


def test_a_bare_cuda_target_is_the_device() -> None:
    for target in ("cuda", {"kind": "cuda"}, '{"kind": "cuda"}'):
        assert tvm.target.Target(target).attrs["arch"] == "sm_100a"
    assert tvm.target.Target({"kind": "cuda", "arch": "sm_90"}).attrs["arch"] == "sm_90"
    assert tvm.cuda(0).exist and tvm.cuda(0).compute_version == "10.0"


def test_a_call_launches_with_what_the_sizes_say(device: Device) -> None:
    x, y = tensors(7)
    run = compiled()
    for call in (run, run.mod, run["main"], run.mod["main"], run.mod.main):
        call(x, y, 1.5, -3)
    assert len(device.launches) == 5
    module, kernel, grid, block, cluster, shared, arguments, dsl = device.launches[0]
    assert (module, kernel, dsl) == ("module 1", "scale_kernel", "tirx")
    assert (grid, block, cluster, shared) == ([7, 2, 1], [4, 1, 1], [1, 1, 1], 400)
    pointers = [argument[1:] for argument in arguments if argument[0] == "ptr"]
    assert {(tensor.data_ptr(), offset) for tensor, offset in pointers} == {
        (x.data_ptr(), 0),
        (y.data_ptr(), 0),
    }
    scalars = [argument[1] for argument in arguments if argument[0] == "bytes"]
    assert np.float32(1.5).tobytes() in scalars
    assert np.int64(-3).tobytes() in scalars
    assert np.int32(7).tobytes() in scalars


def test_views_go_by_their_tensor_and_offset(device: Device) -> None:
    x = torch.ones(10, 8, device="cuda")
    _, y = tensors(4)
    compiled()(x[6:], y, 1.0, 0)
    offsets = [a[1].data_ptr() + a[2] for a in device.launches[0][6] if a[0] == "ptr"]
    assert x.data_ptr() + 6 * 8 * 4 in offsets


def test_no_rows_launch_nothing(device: Device) -> None:
    x, y = tensors(0)
    compiled()(x, y, 1.0, 0)
    assert device.launches == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x, y: (x, y), "Expected 4 arguments"),
        (lambda x, y: (x.cpu(), y, 1.0, 0), "x.device_type"),
        (lambda x, y: (x.half(), y, 1.0, 0), "x.dtype"),
        (lambda x, y: (x[:, :4], y, 1.0, 0), "x.shape"),
        (lambda x, y: (x, y[:3], 1.0, 0), "y.shape"),
        (lambda x, y: (x.t().contiguous().t(), y, 1.0, 0), "x.strides"),
    ],
)
def test_arguments_are_checked_by_tvm(device: Device, arguments: Any, message: str) -> None:
    x, y = tensors(7)
    run = compiled()
    with pytest.raises((TypeError, ValueError), match=message):
        run(*arguments(x, y))
    assert device.launches == []


def test_what_a_launch_raises_reaches_the_caller(device: Device) -> None:
    x, y = tensors(2)
    run = compiled()
    device.error = mkb_shim.DeviceFault("out of bounds")
    with pytest.raises(mkb_shim.DeviceFault, match="out of bounds"):
        run(x, y, 1.0, 0)
    device.error = None
    run(x, y, 1.0, 0)


def test_what_a_kernel_prints_is_printed(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled()(*tensors(1), 1.0, 0)
    assert capsys.readouterr().out == "printed\n"


def test_the_envelope_lowers_to_the_same_module_again(device: Device) -> None:
    from mkb_tirx import lowering

    compiled()
    (envelope,) = device.modules
    first = mkb_tirx.lower(envelope)
    lowering._recent.clear()
    again = mkb_tirx.lower(envelope)
    assert first == again
    assert json.loads(first)["mkb_tirx"] == 1


def test_an_envelope_of_another_kind_is_refused() -> None:
    for bad in (b"{}", b"[]", b'{"mkb_tirx_source": 2}'):
        with pytest.raises(ValueError, match="not a TIRx module envelope"):
            mkb_tirx.lower(bad)


def test_code_for_another_device_is_refused() -> None:
    for arch in ("sm_90a", "sm_120"):
        with pytest.raises(ValueError, match="does not run on"):
            compiled({"kind": "cuda", "arch": arch})


def test_the_cuda_source_can_be_read(device: Device) -> None:
    assert "scale_kernel" in compiled().mod.imports[0].inspect_source()


def test_tvm_tensors_live_on_the_device(device: Device) -> None:
    values = np.arange(24, dtype="float32").reshape(3, 8)
    x = tvm.runtime.tensor(values, device=tvm.cuda(0))
    y = tvm.runtime.empty((3, 8), "float32", tvm.cuda(0))
    compiled()(x, y, 1.0, 0)
    assert len(device.launches) == 1
    np.testing.assert_array_equal(x.numpy(), values)
    x.copyto(y)
    np.testing.assert_array_equal(y.numpy(), values)
