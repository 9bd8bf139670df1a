//! CUDA helper functions that TVM's own lowering inserts, known by name and the digest of their text.
//!
//! TVM 0.25.0 (Apache-2.0) defines them in `tvm/backend/cuda/operator/tile_primitive`. A function of
//! the same name with another text is somebody's own source.

use vgpu::ir::Inst;

use crate::dtype::Elem;
use crate::graph::Id;
use crate::kernel::{Kernel, Result};
use crate::memory::Manner;
use crate::value::Value;

/// What a helper does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helper {
    /// `T* (T* pointer, int offset)`: the pointer, `offset` elements on.
    PointerOffset,
    /// `void (void* to, void* from)`: two elements, converted.
    CastPair(Elem, Elem),
    /// Known, and of use for tensor cores alone.
    Descriptor(&'static str),
}

/// The helper with that name and that text, by SHA-256.
pub(crate) fn lookup(name: &str, digest: &str) -> Option<Helper> {
    TABLE
        .iter()
        .find(|(known, text, _)| *known == name && *text == digest)
        .map(|(_, _, helper)| *helper)
}

const TABLE: [(&str, &str, Helper); 8] = [
    (
        "tvm_builtin_pointer_offset",
        "464df3848a41bf47797a4df6c2c1da4d00d5af997399d4e1e8e0a34a8e16453c",
        Helper::PointerOffset,
    ),
    (
        "tvm_builtin_cast_float32x2_float16x2",
        "c42b54a30335ba90b40339ae657874072ee0f6ca1292d10d14ce90fb641300a1",
        Helper::CastPair(Elem::F32, Elem::F16),
    ),
    (
        "tvm_builtin_cast_float16x2_float32x2",
        "e10753d2c9460196e7a7703765bbfdd8ce90c33e08027034511c5a314f33d3da",
        Helper::CastPair(Elem::F16, Elem::F32),
    ),
    (
        "tvm_builtin_cast_bfloat16x2_float32x2",
        "fe012b5fe73a1249853775ab40cb6edd7ef9cade010d5a3e722516d30b722b4e",
        Helper::CastPair(Elem::BF16, Elem::F32),
    ),
    (
        "tvm_builtin_cast_float32x2_bfloat16x2",
        "41011cdcf2c338442f13d2ac4052bfaa7c952241ed39db307a53ef289e7802e6",
        Helper::CastPair(Elem::F32, Elem::BF16),
    ),
    (
        "tvm_builtin_smem_desc_add_16B_offset",
        "2b75c723bdd672a45d7a5e1970dfd4bb237d9d353b3c5dae23abee3b235c3c60",
        Helper::Descriptor("tvm_builtin_smem_desc_add_16B_offset"),
    ),
    (
        "smem_desc_make_lo_uniform",
        "a68c089ce85be1780494e1305e488d5825ad2b9796f18ea65002f666b66b6f91",
        Helper::Descriptor("smem_desc_make_lo_uniform"),
    ),
    (
        "smem_desc_make_lo_uniform_",
        "059d1f4d2035cf71bfd1ab506a61503731cf753b3eebe4747be1b1703cc00864",
        Helper::Descriptor("smem_desc_make_lo_uniform_"),
    ),
];

impl Kernel<'_> {
    pub(crate) fn helper(&mut self, helper: Helper, args: &[Id], id: Id) -> Result<Value> {
        match helper {
            Helper::PointerOffset => {
                let base = self.arg(args, 0, id)?;
                let size = self.pointee_bytes(base)?;
                let pointer = self.pointer(base)?;
                let offset = self.scalar(self.arg(args, 1, id)?)?;
                Ok(Value::Pointer(self.offset_pointer(pointer, offset, size)?))
            }
            Helper::CastPair(from, to) => {
                let target = self.pointer(self.arg(args, 0, id)?)?;
                let source = self.pointer(self.arg(args, 1, id)?)?;
                let lanes = self.load(source, from, 2, Manner::default(), id)?;
                let lanes = self.convert_lanes(&lanes, to, id)?;
                self.store(target, to, &lanes, Manner::default(), id)?;
                Ok(Value::Void)
            }
            Helper::Descriptor(name) => {
                let name = format!("{name}{}", self.place(id));
                self.b.inst(Inst::Unmodelled { name });
                self.unmodelled("tensor core descriptors", id)
            }
        }
    }
}
