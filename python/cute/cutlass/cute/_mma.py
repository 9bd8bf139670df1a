"""Owns matrix multiplication by threads: the universal MMA atom, tiled MMAs, and `cute.gemm`."""

from __future__ import annotations

from typing import Any

from .._errors import DSLTypeError, not_supported
from .._numeric import Float32, Numeric, _convert, emit
from ._copy import Op
from ._int_tuple import as_tuple, to_str
from ._modes import rank, shape, size
from ._tensor import Tensor, make_rmem_tensor, nonneg


class MmaOp(Op):
    """A machine operation that multiplies matrices."""


class MmaUniversalOp(MmaOp):
    """One fused multiply-add by each thread."""

    def __init__(self, abacc_dtype: Any) -> None:
        self.abacc_dtype = abacc_dtype

    def __str__(self) -> str:
        return f"cute.nvgpu.MmaUniversalOp({self.abacc_dtype})"


class MmaAtom:
    """An MMA operation with its shape and thread-value layouts."""

    def __init__(self, op: MmaOp) -> None:
        if not isinstance(op, MmaUniversalOp):
            raise not_supported(f"an MMA atom of {op}", "tensor cores are not modelled yet")
        self.op = op

    @property
    def _layouts(self) -> Any:
        from ._atom_layout import universal_mma_layouts

        return universal_mma_layouts()

    @property
    def shape_mnk(self) -> Any:
        """M, N and K of one instruction."""
        return self._layouts.shape_mnk

    @property
    def thr_id(self) -> Any:
        """The threads of one instruction."""
        return self._layouts.thr_id

    @property
    def tv_layout_A(self) -> Any:
        """(thread, value) to a position of A."""
        return self._layouts.a_tv

    @property
    def tv_layout_B(self) -> Any:
        """(thread, value) to a position of B."""
        return self._layouts.b_tv

    @property
    def tv_layout_C(self) -> Any:
        """(thread, value) to a position of C."""
        return self._layouts.c_tv

    def make_fragment_A(self, input: Any, **_: Any) -> Any:
        """Registers for a part of A."""
        return _fragment(input, self.op.abacc_dtype)

    def make_fragment_B(self, input: Any, **_: Any) -> Any:
        """Registers for a part of B."""
        return _fragment(input, self.op.abacc_dtype)

    def make_fragment_C(self, input: Any, **_: Any) -> Any:
        """Registers for a part of C."""
        return _fragment(input, self.op.abacc_dtype)


def _fragment(input: Any, dtype: Any) -> Tensor:
    from ._tensor import make_fragment_like

    if isinstance(input, Tensor):
        return make_fragment_like(input)
    return make_rmem_tensor(shape(as_tuple(input)), dtype)


class TiledMma(MmaAtom):
    """An MMA atom repeated over threads."""

    def __init__(self, atom: MmaAtom, tiled: Any) -> None:
        super().__init__(atom.op)
        self._tiled = tiled

    @property
    def size(self) -> int:
        """The number of threads."""
        return int(self._tiled.size)

    @property
    def thr_layout_vmnk(self) -> Any:
        """(thread in the atom, m, n, k) to the thread."""
        return self._tiled.thr_layout_vmnk

    @property
    def permutation_mnk(self) -> Any:
        """The permutation of the tile."""
        return self._tiled.permutation_mnk

    @property
    def tv_layout_A_tiled(self) -> Any:
        """(thread, value) to the position in A's tile."""
        return self._tiled.tv_layout("A")

    @property
    def tv_layout_B_tiled(self) -> Any:
        """(thread, value) to the position in B's tile."""
        return self._tiled.tv_layout("B")

    @property
    def tv_layout_C_tiled(self) -> Any:
        """(thread, value) to the position in C's tile."""
        return self._tiled.tv_layout("C")

    def get_tile_size(self, mode_idx: int) -> Any:
        """The size of the tile in a mode."""
        return self._tiled.tile_size(mode_idx)

    def get_slice(self, thr_idx: Any) -> ThrMma:
        """The part of one thread."""
        return ThrMma(self, thr_idx)

    def partition_shape_A(self, shape_mk: Any, **_: Any) -> Any:
        """The shape of each thread's part of A."""
        return self._tiled.partition_shape("A", shape_mk)

    def partition_shape_B(self, shape_nk: Any, **_: Any) -> Any:
        """The shape of each thread's part of B."""
        return self._tiled.partition_shape("B", shape_nk)

    def partition_shape_C(self, shape_mn: Any, **_: Any) -> Any:
        """The shape of each thread's part of C."""
        return self._tiled.partition_shape("C", shape_mn)


class ThrMma(TiledMma):
    """One thread's part of a tiled MMA."""

    def __init__(self, tiled_mma: TiledMma, thr_idx: Any) -> None:
        super().__init__(tiled_mma, tiled_mma._tiled)
        self._thr_idx = thr_idx

    @property
    def thr_idx(self) -> Any:
        """The thread."""
        return self._thr_idx

    def partition_A(self, input_mk: Any, **_: Any) -> Any:
        """This thread's part of A."""
        return self._tiled.partition("A", input_mk, nonneg(self._thr_idx))

    def partition_B(self, input_nk: Any, **_: Any) -> Any:
        """This thread's part of B."""
        return self._tiled.partition("B", input_nk, nonneg(self._thr_idx))

    def partition_C(self, input_mn: Any, **_: Any) -> Any:
        """This thread's part of C."""
        return self._tiled.partition("C", input_mn, nonneg(self._thr_idx))

    def __mkb_split__(self) -> Any:
        tiled, thread = TiledMma(self, self._tiled), self._thr_idx
        if isinstance(thread, Numeric):
            return None, [thread], lambda parts: ThrMma(tiled, parts[0])
        return thread, [], lambda _: ThrMma(tiled, thread)


def make_mma_atom(op: MmaOp, **_: Any) -> MmaAtom:
    """An MMA atom."""
    return MmaAtom(op)


def make_tiled_mma(
    op_or_atom: Any, atom_layout_mnk: Any = (1, 1, 1), permutation_mnk: Any = None, **_: Any
) -> TiledMma:
    """An MMA atom tiled over threads."""
    from ._atom_layout import tiled_mma_layouts

    atom = op_or_atom if isinstance(op_or_atom, MmaAtom) else MmaAtom(op_or_atom)
    return TiledMma(atom, tiled_mma_layouts(atom._layouts, atom_layout_mnk, permutation_mnk))


def mma_atom_call(atom: MmaAtom, d: Tensor, a: Any, b: Any, c: Tensor, **_: Any) -> None:
    """One multiplication of single fragments."""
    gemm(atom, d, a, b, c)


def gemm(atom: MmaAtom, d: Tensor, a: Any, b: Any, c: Tensor, **_: Any) -> None:
    """`d = a * b + c` on partitioned fragments: (V, M, K) x (V, N, K) to (V, M, N), and shorter "
    "forms."""
    a = a[0] if isinstance(a, list | tuple) else a
    b = b[0] if isinstance(b, list | tuple) else b
    for t in (d, a, b, c):
        if not isinstance(t, Tensor):
            raise DSLTypeError(f"cute.gemm takes tensors, got {type(t).__name__}")
    ra, rb, rc = rank(a), rank(b), rank(c)
    forms = {(1, 1, 1): "v", (1, 1, 2): "mn", (2, 2, 2): "mkn", (2, 2, 3): "vmn", (3, 3, 3): "vmnk"}
    form = forms.get((ra, rb, rc))
    if form is None:
        raise ValueError(
            f"cute.gemm: no form takes {to_str(as_tuple(a.shape))}, {to_str(as_tuple(b.shape))} "
            f"and {to_str(as_tuple(c.shape))}"
        )
    modes = {
        "v": ((0,), (0,)),
        "mn": ((), ()),
        "mkn": ((), ()),
        "vmn": ((0,), (0,)),
        "vmnk": ((0,), (0,)),
    }[form]
    values = int(size(a, mode=[0])) if modes[0] else 1
    if values != 1 and form != "v":
        raise not_supported(
            "cute.gemm of an atom with several values", "only the universal MMA is modelled yet"
        )
    m = {"v": 1, "mn": size(a, mode=[0]), "mkn": size(a, mode=[0])}.get(form) or size(a, mode=[1])
    n = {"v": 1, "mn": size(b, mode=[0]), "mkn": size(b, mode=[0])}.get(form) or size(b, mode=[1])
    k = {"v": 1, "mn": 1, "mkn": None, "vmn": 1, "vmnk": None}[form]
    if k is None:
        k = size(a, mode=[1 if form == "mkn" else 2])
        if k != size(b, mode=[1 if form == "mkn" else 2]):
            raise ValueError("cute.gemm: the K modes of A and B differ")
    for what, got, expected in (
        ("M", size(c, mode=[rc - 2]) if rc > 1 else 1, m),
        ("N", size(c, mode=[rc - 1]) if rc > 1 else 1, n),
    ):
        if got != expected:
            raise ValueError(f"cute.gemm: {what} is {expected} in the operands and {got} in C")

    def at_a(i: int, kk: int) -> Any:
        return {"v": (0,), "mn": (i,), "mkn": (i, kk), "vmn": (0, i), "vmnk": (0, i, kk)}[form]

    def at_c(i: int, j: int) -> Any:
        return {"v": (0,), "mn": (i, j), "mkn": (i, j), "vmn": (0, i, j), "vmnk": (0, i, j)}[form]

    def pick(crd: tuple[int, ...]) -> Any:
        return crd if len(crd) > 1 else crd[0]

    kind = d.element_type
    for kk in range(int(k)):
        left = [a[pick(at_a(i, kk))] for i in range(int(m))]
        right = [b[pick(at_a(j, kk))] for j in range(int(n))]
        for j in range(int(n)):
            for i in range(int(m)):
                source = c if kk == 0 else d
                d[pick(at_c(i, j))] = _multiply_add(
                    left[i], right[j], source[pick(at_c(i, j))], kind
                )


def _multiply_add(x: Any, y: Any, z: Any, kind: Any) -> Any:
    if kind.is_float:
        ty = kind if kind.mem in ("f16", "bf16", "f32", "f64") else Float32
        return ty._wrap(emit("fma", ty.mem, *(_convert(v, ty) for v in (x, y, z)), mods=".rn"))
    return kind(x) * kind(y) + z
