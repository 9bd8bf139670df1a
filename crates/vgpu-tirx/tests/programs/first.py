"""Two programs whose translation is compared with IR that one would write by hand."""

from tvm.script import tirx as T


@T.prim_func
def add(
    A: T.Buffer((1000,), "float32"),
    B: T.Buffer((1000,), "float32"),
    C: T.Buffer((1000,), "float32"),
) -> None:
    T.device_entry()
    block = T.cta_id([8])
    thread = T.thread_id([128])
    index = T.meta_var(block * 128 + thread)
    if index < 1000:
        C[index] = A[index] + B[index]


@T.prim_func
def block_sum(A_ptr: T.handle, out_ptr: T.handle) -> None:
    n = T.int32()
    A = T.match_buffer(A_ptr, (n, 256), "float32")
    out = T.match_buffer(out_ptr, (n,), "float32")
    T.device_entry()
    row = T.cta_id([n])
    thread = T.thread_id([256])
    partial = T.alloc_shared((256,), "float32")
    partial[thread] = A[row, thread]
    T.cuda.cta_sync()
    width = T.alloc_local((1,), "int32")
    width[0] = 128
    while width[0] >= 1:
        if thread < width[0]:
            partial[thread] += partial[thread + width[0]]
        T.cuda.cta_sync()
        width[0] = width[0] // 2
    if thread == 0:
        out[row] = partial[0]
