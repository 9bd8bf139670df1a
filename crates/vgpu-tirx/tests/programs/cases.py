# ruff: noqa: F841 (declaring a thread axis is what gives a launch its extent)
"""TIRx programs with inputs and the results that NumPy gives for them.

Each case is a function without arguments that returns `Case`; `generate.py` lowers its program with
TVM and writes what the Rust test runs on the virtual GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from tvm.script import tirx as T

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
E8M0, E2M1 = ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn


@dataclass
class Case:
    """A program, the arrays and scalars that it is called with, and what must come out."""

    program: Any
    #: By parameter name, in the program's order: arrays and scalars.
    arguments: dict[str, Any]
    #: By parameter name: what the array must hold afterwards.
    expected: dict[str, np.ndarray]
    #: Largest relative error; 0 asks for the same bits.
    tolerance: float = 0.0
    printed: str = ""
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (32,)
    dynamic_shared: int = 0
    #: By name: sizes that the program leaves open, as the host would pass them.
    sizes: dict[str, int] = field(default_factory=dict)


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def integers(seed: int, dtype: str, count: int) -> np.ndarray:
    """Values over the whole range, the ends and small ones among them."""
    info = np.iinfo(dtype)
    values = rng(seed).integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    special = [info.min, info.max, 0, 1, 2, 3, 7, info.max // 2]
    if info.min < 0:
        special += [-1, -2, -3, -7]
    values[: len(special)] = special
    return values


def c_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Division that truncates, as C's; in Python's integers, so nothing overflows."""
    out = [
        int(abs(int(x)) // abs(int(y))) * (1 if (x < 0) == (y < 0) else -1)
        for x, y in zip(a, b, strict=True)
    ]
    return np.array(out, dtype=object)


@case
def signed_arithmetic_wraps_and_truncates() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((11, 64), "int32")
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([64])
        C[0, i] = A[i] + B[i]
        C[1, i] = A[i] - B[i]
        C[2, i] = A[i] * B[i]
        C[3, i] = T.truncdiv(A[i], B[i])
        C[4, i] = T.truncmod(A[i], B[i])
        C[5, i] = T.floordiv(A[i], B[i])
        C[6, i] = T.floormod(A[i], B[i])
        C[7, i] = T.min(A[i], B[i])
        C[8, i] = T.max(A[i], B[i])
        C[9, i] = T.shift_right(A[i], 3) ^ (A[i] << 2) | (B[i] & 255)
        C[10, i] = T.truncdiv(A[i], 7) * 1000 + T.truncmod(A[i], 64) + T.floordiv(A[i], 16)

    a, b = integers(1, "int32", 64), integers(2, "int32", 64)
    b[b == 0] = 5
    a[(a == -(2**31)) & (b == -1)] = 9
    wide_a, wide_b = a.astype(object), b.astype(object)
    quotient = c_divide(a, b)
    rows = [
        wide_a + wide_b,
        wide_a - wide_b,
        wide_a * wide_b,
        quotient,
        wide_a - quotient * wide_b,
        wide_a // wide_b,
        wide_a % wide_b,
        np.minimum(a, b),
        np.maximum(a, b),
        (a >> 3) ^ (a.astype("int64") << 2).astype("int32") | (b & 255),
        c_divide(a, np.full(64, 7)) * 1000
        + (wide_a - c_divide(a, np.full(64, 64)) * 64)
        + wide_a // 16,
    ]
    wrapped = [np.array([int(x) & 0xFFFFFFFF for x in row], "uint32").view("int32") for row in rows]
    return Case(
        program,
        {"A": a, "B": b, "C": np.zeros((11, 64), "int32")},
        {"C": np.stack(wrapped)},
        block=(64,),
    )


@case
def unsigned_and_wide_arithmetic_have_their_own_rules() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((32,), "uint32"),
        B: T.Buffer((32,), "uint32"),
        X: T.Buffer((32,), "int64"),
        Y: T.Buffer((32,), "int64"),
        C: T.Buffer((6, 32), "uint32"),
        Z: T.Buffer((6, 32), "int64"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        C[0, i] = A[i] + B[i]
        C[1, i] = T.truncdiv(A[i], B[i])
        C[2, i] = T.truncmod(A[i], B[i])
        C[3, i] = T.max(A[i], B[i])
        C[4, i] = T.shift_right(A[i], T.uint32(5))
        C[5, i] = T.if_then_else(A[i] < B[i], T.uint32(1), T.uint32(2))
        Z[0, i] = X[i] * Y[i]
        Z[1, i] = T.truncdiv(X[i], Y[i])
        Z[2, i] = X[i] >> T.int64(40)
        Z[3, i] = T.cast(A[i], "int64") - T.cast(B[i], "int64")
        Z[4, i] = T.cast(T.cast(X[i], "int32"), "int64")
        Z[5, i] = T.cast(T.cast(X[i], "int16"), "int64") + T.cast(T.cast(Y[i], "uint8"), "int64")

    a, b = integers(3, "uint32", 32), integers(4, "uint32", 32)
    b[b == 0] = 3
    x, y = integers(5, "int64", 32), integers(6, "int64", 32)
    y[y == 0] = 3
    x[(x == -(2**63)) & (y == -1)] = 1
    c = np.stack(
        [a + b, a // b, a % b, np.maximum(a, b), a >> 5, np.where(a < b, 1, 2).astype("uint32")]
    )
    with np.errstate(over="ignore"):
        z = np.stack(
            [
                x * y,
                np.array([int(v) for v in c_divide(x, y)], "int64"),
                x >> 40,
                a.astype("int64") - b.astype("int64"),
                x.astype("int32").astype("int64"),
                x.astype("int16").astype("int64") + y.astype("uint8").astype("int64"),
            ]
        )
    arguments = {"A": a, "B": b, "X": x, "Y": y}
    arguments |= {"C": np.zeros((6, 32), "uint32"), "Z": np.zeros((6, 32), "int64")}
    return Case(program, arguments, {"C": c, "Z": z})


@case
def narrow_integers_are_computed_as_int_and_cut_when_stored() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((32,), "int8"),
        B: T.Buffer((32,), "int8"),
        C: T.Buffer((4, 32), "int8"),
        D: T.Buffer((32,), "int32"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        C[0, i] = A[i] + B[i]
        C[1, i] = A[i] * B[i]
        # The sum is an int in C: it does not wrap before the division.
        C[2, i] = T.truncdiv(A[i] + B[i], T.int8(2))
        C[3, i] = T.max(A[i], B[i])
        D[i] = T.cast(A[i], "int32") * 1000 + T.cast(B[i], "int32")

    a, b = integers(7, "int8", 32), integers(8, "int8", 32)
    wide_a, wide_b = a.astype("int32"), b.astype("int32")
    half = np.trunc((wide_a + wide_b) / 2).astype("int32")
    c = np.stack([wide_a + wide_b, wide_a * wide_b, half, np.maximum(wide_a, wide_b)]).astype(
        "int8"
    )
    return Case(
        program,
        {"A": a, "B": b, "C": np.zeros((4, 32), "int8"), "D": np.zeros(32, "int32")},
        {"C": c, "D": wide_a * 1000 + wide_b},
    )


def floats(seed: int, count: int) -> np.ndarray:
    """Normal numbers of many sizes, halfway points of bfloat16 and half among them."""
    generator = rng(seed)
    values = generator.normal(size=count) * np.exp2(generator.integers(-12, 12, count))
    values[:8] = [0.0, -0.0, 1.0, -1.0, 1.00390625, 1.01171875, 2049.0, 65504.0]
    return values.astype("float32")


@case
def conversions_between_floats_round_to_nearest_even() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((64,), "float32"),
        H: T.Buffer((64,), "float16"),
        B: T.Buffer((64,), "bfloat16"),
        WH: T.Buffer((64,), "float32"),
        WB: T.Buffer((64,), "float32"),
        D: T.Buffer((64,), "float64"),
        N: T.Buffer((64,), "int32"),
        S: T.Buffer((64,), "bfloat16"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([64])
        H[i] = T.cast(A[i], "float16")
        B[i] = T.cast(A[i], "bfloat16")
        WH[i] = T.cast(T.cast(A[i], "float16"), "float32")
        WB[i] = T.cast(T.cast(A[i], "bfloat16"), "float32")
        D[i] = T.cast(A[i], "float64") * T.float64(3)
        N[i] = T.cast(A[i], "int32")
        S[i] = T.cast(A[i], "bfloat16") + T.cast(A[63 - i], "bfloat16")

    a = floats(9, 64)
    with np.errstate(over="ignore"):
        h = a.astype("float16")
    b = a.astype(BF16)
    total = (b.astype("float32") + b[::-1].astype("float32")).astype(BF16)
    arguments = {"A": a, "H": np.zeros(64, "float16"), "B": np.zeros(64, BF16)}
    arguments |= {"WH": np.zeros(64, "float32"), "WB": np.zeros(64, "float32")}
    arguments |= {"D": np.zeros(64), "N": np.zeros(64, "int32"), "S": np.zeros(64, BF16)}
    expected = {"H": h, "B": b, "WH": h.astype("float32"), "WB": b.astype("float32")}
    expected |= {"D": a.astype("float64") * 3, "N": a.astype("int32"), "S": total}
    return Case(program, arguments, expected, block=(64,))


@case
def every_fp8_code_widens_exactly() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((256,), "float8_e4m3fn"),
        B: T.Buffer((256,), "float8_e5m2"),
        C: T.Buffer((256,), "float8_e8m0fnu"),
        X: T.Buffer((256,), "float32"),
        Y: T.Buffer((256,), "float32"),
        Z: T.Buffer((256,), "float32"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([64])
        for j in T.vectorized(4):
            X[i * 4 + j] = T.cast(A[i * 4 + j], "float32")
        for j in range(4):
            Y[j * 64 + i] = T.cast(B[j * 64 + i], "float32")
            Z[j * 64 + i] = T.cast(C[j * 64 + i], "float32")

    codes = np.arange(256, dtype="uint8")
    a, b, c = codes.view(E4M3), codes.view(E5M2), codes.view(E8M0)
    arguments = {"A": a, "B": b, "C": c} | {name: np.zeros(256, "float32") for name in "XYZ"}
    expected = {"X": a, "Y": b, "Z": c}
    return Case(
        program, arguments, {k: v.astype("float32") for k, v in expected.items()}, block=(64,)
    )


@case
def narrowing_to_fp8_rounds_and_saturates() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((256,), "float32"),
        X: T.Buffer((256,), "float8_e4m3fn"),
        Y: T.Buffer((256,), "float8_e5m2"),
        V: T.Buffer((256,), "float8_e4m3fn"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([64])
        for j in range(4):
            X[j * 64 + i] = T.cast(A[j * 64 + i], "float8_e4m3fn")
            Y[j * 64 + i] = T.cast(A[j * 64 + i], "float8_e5m2")
        for j in T.vectorized(4):
            V[i * 4 + j] = T.cast(A[i * 4 + j], "float8_e4m3fn")

    generator = rng(10)
    a = (generator.normal(size=256) * np.exp2(generator.integers(-9, 9, 256))).astype("float32")
    a[:8] = [448, 449, 464, 480, 1e6, -1e6, 0.0, 2.0**-10]
    e4m3 = np.clip(a, -448, 448).astype(E4M3)
    arguments = {
        "A": a,
        "X": np.zeros(256, E4M3),
        "Y": np.zeros(256, E5M2),
        "V": np.zeros(256, E4M3),
    }
    e5m2 = np.clip(a, -57344, 57344).astype(E5M2)
    return Case(program, arguments, {"X": e4m3, "Y": e5m2, "V": e4m3}, block=(64,))


@case
def loops_break_continue_and_nest() -> Case:
    @T.prim_func
    def program(A: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        total = T.alloc_local((1,), "int32")
        total[0] = 0
        for j in range(100):
            if j > A[i]:
                break
            if j % 3 == 1:
                continue
            k = T.alloc_local((1,), "int32")
            k[0] = j
            while k[0] > 0:
                total[0] += k[0] % 2
                k[0] = k[0] // 2
                if total[0] % 7 == 6:
                    break
        C[i] = total[0]

    a = rng(11).integers(-5, 120, 32, dtype="int32")
    out = []
    for limit in a:
        total = 0
        for j in range(100):
            if j > limit:
                break
            if j % 3 == 1:
                continue
            k = j
            while k > 0:
                total += k % 2
                k //= 2
                if total % 7 == 6:
                    break
        out.append(total)
    return Case(program, {"A": a, "C": np.zeros(32, "int32")}, {"C": np.array(out, "int32")})


@case
def a_local_array_with_a_variable_index_lives_in_memory() -> Case:
    @T.prim_func
    def program(A: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        table = T.alloc_local((8,), "int32")
        for j in range(8):
            table[j] = j * j + i
        # Sorted by a rule that no unrolling resolves.
        table[A[i] % 8] = 100
        C[i] = table[A[i] % 8] + table[(A[i] + 3) % 8]

    a = rng(12).integers(0, 1000, 32, dtype="int32")
    i = np.arange(32)
    c = 100 + ((a + 3) % 8) ** 2 + i
    return Case(program, {"A": a, "C": np.zeros(32, "int32")}, {"C": c.astype("int32")})


@case
def registers_may_be_seen_as_another_type() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "uint32"), H: T.Buffer((64,), "uint16")
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        x = T.alloc_local((2,), "float32")
        x[0] = A[i * 2]
        x[1] = A[i * 2 + 1]
        words = T.decl_buffer((2,), "uint32", data=x.data, scope="local")
        halves = T.decl_buffer((4,), "uint16", data=x.data, scope="local")
        C[i * 2] = words[0]
        C[i * 2 + 1] = T.reinterpret("uint32", x[1]) ^ T.uint32(0x80000000)
        H[i * 2] = halves[1]
        halves[2] = T.uint16(0xFFFF)
        H[i * 2 + 1] = T.cast(words[1] & T.uint32(0xFFFF), "uint16")

    a = floats(13, 64)
    bits = a.view("uint32").reshape(32, 2)
    c = np.stack([bits[:, 0], bits[:, 1] ^ 0x80000000], axis=1).reshape(64).astype("uint32")
    h = np.stack([bits[:, 0] >> 16, np.full(32, 0xFFFF)], axis=1).reshape(64).astype("uint16")
    arguments = {"A": a, "C": np.zeros(64, "uint32"), "H": np.zeros(64, "uint16")}
    return Case(program, arguments, {"C": c, "H": h})


@case
def dynamic_shared_memory_transposes_a_tile() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((32, 32), "float16"),
        B: T.Buffer((32, 32), "float16"),
        C: T.Buffer((32, 32), "float16"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([128])
        arena = T.alloc_buffer((2112,), "float16", scope="shared.dyn")
        tile = T.decl_buffer((32, 33), "float16", data=arena.data, scope="shared.dyn")
        other = T.decl_buffer(
            (32, 33), "float16", data=arena.data, elem_offset=1056, scope="shared.dyn"
        )
        for j in range(8):
            tile[j * 4 + i // 32, i % 32] = A[j * 4 + i // 32, i % 32]
            other[j * 4 + i // 32, i % 32] = B[j * 4 + i // 32, i % 32]
        T.cuda.cta_sync()
        for j in range(8):
            C[j * 4 + i // 32, i % 32] = (
                tile[i % 32, j * 4 + i // 32] + other[j * 4 + i // 32, i % 32]
            )

    a, b = rng(14).normal(size=(2, 32, 32)).astype("float16")
    return Case(
        program,
        {"A": a, "B": b, "C": np.zeros((32, 32), "float16")},
        {"C": a.T + b},
        block=(128,),
        dynamic_shared=4224,
    )


@case
def warps_exchange_vote_and_reduce() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((32,), "int32"),
        F: T.Buffer((32,), "float64"),
        C: T.Buffer((9, 32), "int32"),
        G: T.Buffer((2, 32), "float64"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        C[0, i] = T.tvm_warp_shuffle(0xFFFFFFFF, A[i], 5, 32, 32)
        C[1, i] = T.tvm_warp_shuffle_up(0xFFFFFFFF, A[i], 3, 16, 32)
        C[2, i] = T.tvm_warp_shuffle_down(0xFFFFFFFF, A[i], 2, 8, 32)
        C[3, i] = T.tvm_warp_shuffle_xor(0xFFFFFFFF, A[i], 9, 32, 32)
        C[4, i] = T.cast(T.cuda.ballot_sync(T.uint32(0xFFFFFFFF), A[i] > 0), "int32")
        C[5, i] = T.cast(
            T.cuda.reduce_add_sync_u32(T.uint32(0xFFFFFFFF), T.cast(A[i], "uint32")), "int32"
        )
        C[6, i] = T.ptx.any_sync(T.uint32(0xFFFFFFFF), T.cast(A[i] == 12345, "int32"))
        C[7, i] = T.cuda.warp_max(A[i])
        C[8, i] = T.cuda.ffs_u32(T.cast(A[i], "uint32"))
        G[0, i] = T.tvm_warp_shuffle_xor(0xFFFFFFFF, F[i], 1, 32, 32)
        G[1, i] = T.cuda.warp_sum(F[i])

    a = rng(15).integers(-1000, 1000, 32, dtype="int32")
    f = rng(16).integers(-1000, 1000, 32).astype("float64")
    i = np.arange(32)
    ballot = np.uint32(sum(1 << int(lane) for lane in i[a > 0]))
    up = np.where(i % 16 >= 3, a[np.maximum(i - 3, 0)], a)
    down = np.where(i % 8 + 2 < 8, a[np.minimum(i + 2, 31)], a)
    lowest = [((int(x) & -int(x)).bit_length() if x else 0) for x in a]
    rows = [
        np.full(32, a[5]),
        up,
        down,
        a[i ^ 9],
        np.full(32, ballot.astype("int32")),
        np.full(32, a.sum()),
        np.zeros(32),
        np.full(32, a.max()),
        np.array(lowest),
    ]
    arguments = {"A": a, "F": f, "C": np.zeros((9, 32), "int32"), "G": np.zeros((2, 32))}
    expected = {"C": np.stack([row.astype("int32") for row in rows])}
    expected["G"] = np.stack([f[i ^ 1], np.full(32, f.sum())])
    return Case(program, arguments, expected)


@case
def atomics_count_and_publish() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((256,), "int32"),
        H: T.Buffer((8,), "int32"),
        F: T.Buffer((1,), "float32"),
        M: T.Buffer((2,), "int32"),
    ):
        T.device_entry()
        cta = T.cta_id([2])
        i = T.thread_id([128])
        value: T.let = A[cta * 128 + i]
        T.evaluate(T.cuda.atomic_add(H.access_ptr("rw", offset=value % 8), 1))
        T.evaluate(T.cuda.atomic_add(F.access_ptr("rw"), T.float32(0.5)))
        T.ptx.red_scalar(T.address_of(M[0]), value, op="max", ptx_type="s32")
        T.ptx.red_scalar(T.address_of(M[1]), value, op="min", ptx_type="s32")

    a = rng(17).integers(0, 1000, 256, dtype="int32")
    expected = {"H": np.bincount(a % 8, minlength=8).astype("int32")}
    expected["F"] = np.array([128.0], "float32")
    expected["M"] = np.array([a.max(), a.min()], "int32")
    arguments = {"A": a, "H": np.zeros(8, "int32"), "F": np.zeros(1, "float32")}
    arguments["M"] = np.array([-1, 5000], "int32")
    return Case(program, arguments, expected, grid=(2,), block=(128,))


@case
def asynchronous_copies_fill_with_zeros_and_arrive() -> Case:
    @T.prim_func
    def program(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        tile = T.alloc_shared((128,), "float32", align=16)
        T.ptx.cp_async(
            tile.ptr_to([i * 4]),
            A.ptr_to([i * 4]),
            16,
            predicate=T.cast(i < 20, "int32"),
            fill_mode="zero",
        )
        T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(0)
        T.cuda.cta_sync()
        for j in range(4):
            C[j * 32 + i] = tile[127 - (j * 32 + i)]

    a = floats(18, 128)
    tile = np.where(np.arange(128) < 80, a, 0).astype("float32")
    return Case(program, {"A": a, "C": np.zeros(128, "float32")}, {"C": tile[::-1].copy()})


@case
def barriers_in_memory_pass_a_phase_on() -> Case:
    @T.prim_func
    def program(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([64])
        bar = T.alloc_shared((1,), "uint64", align=8)
        data = T.alloc_shared((64,), "int32")
        if i == 0:
            T.ptx.mbarrier.init(bar.data, 32)
        T.cuda.cta_sync()
        if i < 32:
            data[i] = A[i] * 2
            data[i + 32] = A[i + 32] * 3
            T.ptx.mbarrier.arrive(bar.data)
        else:
            T.ptx.mbarrier.try_wait(bar.data, 0)
            C[i - 32] = data[63 - i]
            C[i] = data[i]

    a = rng(19).integers(0, 1000, 64, dtype="int32")
    data = np.concatenate([a[:32] * 2, a[32:] * 3])
    c = np.concatenate([data[31::-1], data[32:]])
    return Case(program, {"A": a, "C": np.zeros(64, "int32")}, {"C": c}, block=(64,))


@case
def functions_come_within_the_hardware_s_error() -> Case:
    @T.prim_func
    def program(A: T.Buffer((64,), "float32"), C: T.Buffer((12, 64), "float32")):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([64])
        C[0, i] = T.exp(A[i])
        C[1, i] = T.exp2(A[i])
        C[2, i] = T.log(T.fabs(A[i]) + T.float32(2))
        C[3, i] = T.sqrt(T.fabs(A[i]))
        C[4, i] = T.rsqrt(T.fabs(A[i]) + T.float32(0.5))
        C[5, i] = T.tanh(A[i])
        C[6, i] = T.sigmoid(A[i])
        C[7, i] = T.erf(A[i])
        C[8, i] = A[i] / (T.fabs(A[i]) + T.float32(1))
        C[9, i] = T.pow(T.fabs(A[i]) + T.float32(0.5), T.float32(1.5))
        C[10, i] = T.floor(A[i]) + T.ceil(A[i]) * T.float32(0.5) + T.trunc(A[i])
        C[11, i] = T.nearbyint(A[i]) + T.float32(8)

    a = (rng(20).normal(size=64) * 2).astype("float32")
    a[:4] = [0.5, -1.5, 0.25, -3.0]
    x = a.astype("float64")
    size = np.abs(x)
    erf = np.array([__import__("math").erf(v) for v in x])
    rows = [
        np.exp(x),
        np.exp2(x),
        np.log(size + 2),
        np.sqrt(size),
        1 / np.sqrt(size + 0.5),
        np.tanh(x),
        1 / (1 + np.exp(-x)),
        erf,
        x / (size + 1),
        (size + 0.5) ** 1.5,
        np.floor(x) + np.ceil(x) * 0.5 + np.trunc(x),
        np.rint(x) + 8,
    ]
    c = np.stack(rows).astype("float32")
    return Case(
        program, {"A": a, "C": np.zeros((12, 64), "float32")}, {"C": c}, tolerance=3e-6, block=(64,)
    )


@case
def what_a_condition_excludes_is_not_read() -> Case:
    @T.prim_func
    def program(A: T.Buffer((20,), "float32"), C: T.Buffer((3, 32), "float32")):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        C[0, i] = T.if_then_else(i < 20, A[i], T.float32(-1))
        C[1, i] = T.Select(i < 20, A[T.min(i, 19)] * T.float32(2), T.float32(-2))
        if i < 20 and A[i] > T.float32(0):
            C[2, i] = T.float32(1)
        else:
            C[2, i] = T.float32(0)

    a = floats(21, 20)
    padded = np.concatenate([a, np.zeros(12, "float32")])
    inside = np.arange(32) < 20
    c = np.stack(
        [
            np.where(inside, padded, -1),
            np.where(inside, padded * 2, -2),
            np.where(inside & (padded > 0), 1, 0),
        ]
    )
    return Case(program, {"A": a, "C": np.zeros((3, 32), "float32")}, {"C": c.astype("float32")})


@case
def two_dimensions_of_blocks_and_threads_and_symbolic_sizes() -> Case:
    @T.prim_func
    def program(A_ptr: T.handle, C_ptr: T.handle, factor: T.float32):
        m = T.int32()
        n = T.int32()
        A = T.match_buffer(A_ptr, (m, n), "float32")
        C = T.match_buffer(C_ptr, (n, m), "float32")
        T.device_entry()
        by, bx = T.cta_id([(m + 7) // 8, (n + 15) // 16])
        ty, tx = T.thread_id([8, 16])
        row: T.let = by * 8 + ty
        column: T.let = bx * 16 + tx
        if row < m and column < n:
            C[column, row] = A[row, column] * factor

    a = floats(22, 13 * 37).reshape(13, 37)
    return Case(
        program,
        {"A": a, "C": np.zeros((37, 13), "float32"), "factor": np.float32(1.5)},
        {"C": a.T * np.float32(1.5)},
        # The first extent is the x axis, whose index changes fastest.
        grid=(2, 3),
        block=(8, 16),
        sizes={"m": 13, "n": 37},
    )


@case
def printf_prints_in_order() -> Case:
    @T.prim_func
    def program(A: T.Buffer((4,), "float32")):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([4])
        T.cuda.printf("%d: %.2f\n", i, A[i])

    a = np.array([0.5, -1.25, 3.0, 100.125], "float32")
    lines = "".join(f"{i}: {x:.2f}\n" for i, x in enumerate(a))
    return Case(program, {"A": a}, {}, printed=lines, block=(4,))


@case
def matrices_are_loaded_by_rows_and_by_columns() -> Case:
    @T.prim_func
    def program(A: T.Buffer((16, 16), "float16"), C: T.Buffer((3, 32, 8), "float16")):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        tile = T.alloc_shared((256,), "float16", align=16)
        four = T.alloc_local((8,), "float16")
        two = T.alloc_local((8,), "float16")
        turned = T.alloc_local((8,), "float16")
        for j in range(8):
            tile[j * 32 + i] = A[j * 2 + i // 16, i % 16]
            two[j] = T.float16(0)
        T.cuda.cta_sync()
        # A lane's address is a row of one matrix: of the tile's left, then of its right half.
        T.ptx.ldmatrix_legacy(
            False,
            4,
            ".b16",
            four.data,
            0,
            tile.data,
            16 * (i % 16) + 8 * (i // 16),
            dtype="float16",
        )
        T.ptx.ldmatrix_legacy(
            False, 2, ".b16", two.data, 4, tile.data, 16 * (i % 16), dtype="float16"
        )
        T.ptx.ldmatrix_legacy(
            True,
            4,
            ".b16",
            turned.data,
            0,
            tile.data,
            16 * (i % 16) + 8 * (i // 16),
            dtype="float16",
        )
        for j in range(8):
            C[0, i, j] = four[j]
            C[1, i, j] = two[j]
            C[2, i, j] = turned[j]

    a = rng(23).standard_normal((16, 16)).astype("float16")
    # Upper left, lower left, upper right, lower right; a lane has two neighbours of a row of each.
    parts = [a[:8, :8], a[8:, :8], a[:8, 8:], a[8:, 8:]]
    four = np.stack([part.reshape(32, 2) for part in parts], 1).reshape(32, 8)
    turned = np.stack([part.T.reshape(32, 2) for part in parts], 1).reshape(32, 8)
    two = np.concatenate([np.zeros((32, 4), "float16"), four[:, :4]], 1)
    c = np.stack([four, two, turned])
    return Case(program, {"A": a, "C": np.zeros((3, 32, 8), "float16")}, {"C": c})


@case
def vectors_of_three_and_six_are_aligned_as_their_parts_are() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((32,), "float32x3"),
        B: T.Buffer((32,), "float16x6"),
        C: T.Buffer((32,), "float32x3"),
        D: T.Buffer((32,), "float16x6"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([32])
        C[i] = A[31 - i] + T.broadcast(T.float32(1), 3)
        D[i] = B[31 - i]

    a, b = floats(24, 96), rng(25).standard_normal(192).astype("float16")
    return Case(
        program,
        {"A": a, "B": b, "C": np.zeros_like(a), "D": np.zeros_like(b)},
        {
            "C": (a.reshape(32, 3)[::-1] + np.float32(1)).reshape(-1),
            "D": b.reshape(32, 6)[::-1].reshape(-1),
        },
    )


@case
def four_bytes_multiply_and_add() -> Case:
    @T.prim_func
    def program(
        A: T.Buffer((64,), "int8x4"),
        B: T.Buffer((64,), "int8x4"),
        X: T.Buffer((64,), "uint32"),
        Y: T.Buffer((64,), "uint32"),
        C: T.Buffer((64,), "int32"),
        D: T.Buffer((64,), "uint32"),
    ):
        T.device_entry()
        cta = T.cta_id([1])
        i = T.thread_id([64])
        C[i] = T.call_pure_extern("int32", "__dp4a", A[i], B[i], C[i])
        D[i] = T.call_pure_extern("uint32", "__dp4a", X[i], Y[i], D[i])

    a, b = integers(26, "int8", 256), integers(27, "int8", 256)[::-1].copy()
    x, y = a.view("uint32"), b.view("uint32")
    c, d = integers(28, "int32", 64), integers(29, "uint32", 64)
    signed = (a.astype("int64") * b).reshape(64, 4).sum(axis=1)
    plain = (a.view("uint8").astype("int64") * b.view("uint8")).reshape(64, 4).sum(axis=1)
    return Case(
        program,
        {"A": a, "B": b, "X": x, "Y": y, "C": c, "D": d},
        {
            "C": (signed + c).astype("uint32").view("int32"),
            "D": (plain + d).astype("uint32"),
        },
        block=(64,),
    )
