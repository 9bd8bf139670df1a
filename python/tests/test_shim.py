"""torch on the virtual GPU in one process: memory, device, random numbers, launches, the tape."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading

import pytest

import mkb_shim

mkb_shim.install()

import torch  # noqa: E402 (the shim comes first)

from mkb_shim import native, values  # noqa: E402

ARENA_BASE = 0x2000_0000_0000


def test_the_device_says_what_it_is() -> None:
    properties = torch.cuda.get_device_properties(0)
    assert torch.cuda.device_count() == 1 and torch.cuda.is_available()
    assert torch.cuda.get_device_capability() == (10, 0)
    assert properties.name == "NVIDIA B200" and properties.multi_processor_count == 148
    assert properties.shared_memory_per_block_optin == 227 * 1024
    assert properties.shared_memory_per_multiprocessor == 228 * 1024
    assert (properties.warp_size, properties.max_threads_per_multi_processor) == (32, 2048)


def test_allocations_are_aligned_apart_and_poisoned() -> None:
    tensors = [torch.empty(n, dtype=torch.uint8, device="cuda") for n in (1, 511, 512, 513, 5000)]
    spans = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors)
    assert all(start >= ARENA_BASE and start % 512 == 0 for start, _ in spans)
    assert all(nxt[0] - this[1] >= 512 for this, nxt in itertools.pairwise(spans))
    assert all((t == 255).all() for t in tensors)
    x = torch.zeros(1000, device="cuda")
    address = x.data_ptr()
    del x
    again = torch.empty(1000, device="cuda")
    assert again.data_ptr() == address and again.isnan().all()


def test_results_of_operations_live_in_the_arena_too() -> None:
    x = torch.ones(100, device="cuda")
    for y in (x + 1, x.sort().values, x.cumsum(0), x.to(torch.bfloat16), torch.cat([x, x])):
        serial, offset, size, _ = native.locate(y.data_ptr(), announce=False)
        assert serial > 0 and offset == 0 and size >= y.nbytes


def test_memory_that_is_let_go_can_be_had_again() -> None:
    addresses = set()
    for _ in range(3):
        # Above the size that goes back to the system when it is freed.
        big = torch.empty(65 << 20, dtype=torch.uint8, device="cuda")
        assert (big[::4096] == 255).all()
        big.zero_()
        addresses.add(big.data_ptr())
        del big
    assert len(addresses) == 1
    with pytest.raises(RuntimeError, match="out of memory"):
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")


def test_an_operation_without_a_kernel_is_named() -> None:
    x = torch.ones(4, 4, device="cuda", dtype=torch.bfloat16)
    with pytest.raises(NotImplementedError, match="_mixed_dtypes_linear"):
        torch.ops.aten._mixed_dtypes_linear(x, x.to(torch.int8), x[0])


def test_random_numbers_follow_the_generators_state() -> None:
    torch.manual_seed(5)
    state = torch.cuda.get_rng_state()
    a, b = torch.randn(100, device="cuda"), torch.randn(100, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(a, torch.randn(100, device="cuda")) and not torch.equal(a, b)
    torch.manual_seed(6)
    assert not torch.equal(a, torch.randn(100, device="cuda"))
    wide = torch.randn(200_000, device="cuda")
    assert abs(wide.mean().item()) < 0.02 and abs(wide.std().item() - 1) < 0.02


def test_the_cpu_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(4)
    torch.manual_seed(5)
    x = torch.ones(50, device="cuda")
    torch.nn.functional.dropout(x, 0.5)
    torch.randn(3, device="cuda")
    assert torch.equal(wanted, torch.rand(4))


def test_tensors_cross_dlpack_as_cuda() -> None:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    assert x.__dlpack_device__() == (2, 0)
    y = torch.from_dlpack(x)
    assert y.is_cuda and y.data_ptr() == x.data_ptr()
    y[0, 0] = 9
    assert x[0, 0].item() == 9


def test_every_type_has_the_number_that_the_tape_says() -> None:
    tape = os.memfd_create("tape")
    assert native.library().mkb_tape_open(tape) == 0
    start = native.library().mkb_tape_flush()
    for code, dtype in values.DTYPES.items():
        x = torch.zeros(2, dtype=torch.uint8, device="cuda").new_empty(3, dtype=dtype)
        x.copy_(x.clone())
        end = native.library().mkb_tape_flush()
        data = os.pread(tape, end - start, start)
        start = end
        name = b"aten::copy_"
        at = data.index(name) + len(name)
        # random flag, number of arguments, tensor tag, flags, type
        assert data[at] == 0 and data[at + 2] == values.TAG_TENSOR
        assert data[at + 4] == code, dtype


class FakeDevice(threading.Thread):
    """The other end of a device socket: keeps the frames, gives the answers that it was told."""

    def __init__(self, answers: list[tuple[int, bytes]]) -> None:
        super().__init__(daemon=True)
        self.ours, theirs = socket.socketpair()
        native.library().mkb_device_connect(theirs.detach())
        self.answers, self.frames = answers, []
        self.start()

    def run(self) -> None:
        with self.ours.makefile("rwb") as stream:
            for kind, body in self.answers:
                (length,) = struct.unpack("<I", stream.read(4))
                self.frames.append(stream.read(length))
                stream.write(struct.pack("<IB", len(body) + 1, kind) + body)
                stream.flush()
        self.ours.close()


def text(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


MODULE_REPLY = struct.pack("<QI", 7, 1) + text(b"axpy") + struct.pack("<IBB", 2, 8, 4)


def test_a_launch_goes_to_the_device_as_the_protocol_says() -> None:
    device = FakeDevice([(129, MODULE_REPLY), (130, text(b"hello\n")), (130, text(b""))])
    module = mkb_shim.load_module(0, b"ir text")
    assert module.kernel("axpy").parameter_sizes == (8, 4)
    with pytest.raises(mkb_shim.BadRequest, match="axpy"):
        module.kernel("other")
    x = torch.zeros(100, device="cuda")
    args = [("ptr", x, 16), ("bytes", struct.pack("<f", 2.0))]
    assert mkb_shim.launch(module, "axpy", (3,), (32, 2), None, 64, args, "tirx") == "hello\n"
    mkb_shim.launch(module, "axpy", (3,), (32, 2), (1, 1, 1), 64, args, "tirx")
    device.join(5)
    first, second, third = device.frames
    assert first == b"\x01\x00" + text(b"ir text")
    assert second[0] == 2
    (count,) = struct.unpack_from("<I", second, 1)
    at = 5
    events = [struct.unpack_from("<BQQ", second, at + 17 * i) for i in range(count)]
    assert (0, x.data_ptr(), x.nbytes) in events
    rest = struct.pack("<Q", 7) + text(b"axpy")
    rest += struct.pack("<9I", 3, 1, 1, 32, 2, 1, 1, 1, 1) + struct.pack("<II", 64, 2)
    rest += struct.pack("<BQ", 8, x.data_ptr() + 16) + struct.pack("<Bf", 4, 2.0)
    assert second[at + 17 * count :] == rest
    # Nothing was allocated or freed in between.
    assert third == b"\x02" + struct.pack("<I", 0) + rest


def test_frees_reach_the_device_before_the_next_launch() -> None:
    device = FakeDevice([(129, MODULE_REPLY), (130, text(b"")), (130, text(b""))])
    module = mkb_shim.load_module(0, b"")
    x = torch.zeros(64, device="cuda")
    address, size = x.data_ptr(), x.nbytes
    mkb_shim.launch(module, "axpy", (1,), (1,), None, 0, [], "tirx")
    del x
    y = torch.zeros(64, device="cuda")
    assert y.data_ptr() == address
    mkb_shim.launch(module, "axpy", (1,), (1,), None, 0, [], "tirx")
    device.join(5)
    (count,) = struct.unpack_from("<I", device.frames[2], 1)
    events = [struct.unpack_from("<BQQ", device.frames[2], 5 + 17 * i) for i in range(count)]
    assert events == [(1, address, size), (0, address, size)]


def test_failures_of_the_device_are_told_by_class() -> None:
    failures = [(255, bytes([kind]) + text(b"why %d" % kind)) for kind in (1, 2, 3)]
    FakeDevice([(129, MODULE_REPLY), *failures])
    module = mkb_shim.load_module(0, b"")
    kinds = (mkb_shim.DeviceFault, mkb_shim.Incomplete, mkb_shim.BadRequest, mkb_shim.DeviceLost)
    for number, kind in enumerate(kinds, 1):
        with pytest.raises(kind, match=f"why {number}" if number < 4 else "gone"):
            mkb_shim.launch(module, "axpy", (1,), (1,), None, 0, [], "tirx")


def test_a_pointer_must_be_a_device_tensor() -> None:
    FakeDevice([(129, MODULE_REPLY)])
    module = mkb_shim.load_module(0, b"")
    for wrong in (torch.zeros(3), 5):
        with pytest.raises(mkb_shim.BadRequest, match="cuda"):
            mkb_shim.launch(module, "axpy", (1,), (1,), None, 0, [("ptr", wrong, 0)], "tirx")


def test_values_are_read_as_they_were_written() -> None:
    x = torch.zeros(4, 5, device="cuda")[1:, ::2]
    tree = [1, -1, 2**63 - 1, -(2**63), 0.5, True, None, "å", 1 + 2j, (x, {"k": [x]}), object()]
    out = bytearray()
    values.encode(out, tree, born=False)
    decoder = values.Decoder(bytes(out))
    back = decoder.value()
    assert decoder.at == len(out) and back[:9] == tree[:9]
    at, pairs = back[9]
    assert (at.sizes, at.strides, at.offset) == ((3, 3), (5, 2), 20)
    assert pairs.items == [("k", [at])] and back[10].type == "builtins.object"


def test_values_cut_anywhere_are_refused() -> None:
    out = bytearray()
    values.encode(out, [1, (torch.zeros(2, device="cuda"), {"a": 0.5})], born=False)
    for end in range(len(out)):
        with pytest.raises(mkb_shim.TapeError):
            values.Decoder(bytes(out[:end])).value()
