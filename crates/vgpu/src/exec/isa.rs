//! Handlers, each compiled for plain code, AVX2 and AVX-512, one of which is chosen at run time.

use super::Exec;
use crate::lower::Op;

/// Runs one operation for the lanes of `mask`, and says where to go on ([`STOP`] to leave the loop).
pub(crate) type Handler = unsafe fn(&mut Exec<'_>, &Op, u32, usize) -> usize;

/// Leaves the interpreter's loop; why stands in [`Exec::stop`].
pub(crate) const STOP: usize = usize::MAX;

/// Code for any machine, as handlers know it at compile time.
pub(crate) const PLAIN: u8 = 0;
/// Code for AVX2.
#[cfg(target_arch = "x86_64")]
pub(crate) const AVX2: u8 = 1;
/// Code for AVX-512.
#[cfg(target_arch = "x86_64")]
pub(crate) const AVX512: u8 = 2;

/// What a handler does; `I` is the instruction set that the code is for.
pub(crate) trait Handle {
    /// # Safety
    /// `op` must come from the code that `x` runs; `x`'s register file, predicates and masks must
    /// be those of a warp of that code.
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize;
}

/// The instruction sets that handlers are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isa {
    Plain,
    #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The best that this machine has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx512 {
                return Isa::Avx512;
            }
            // Left out of debug builds, which would take half as long again to compile.
            #[cfg(not(debug_assertions))]
            if avx2 {
                return Isa::Avx2;
            }
        }
        Isa::Plain
    }

    /// The handler `H` for this instruction set.
    pub fn pick<H: Handle>(self) -> Handler {
        match self {
            Isa::Plain => plain::<H>,
            #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
            Isa::Avx2 => avx2::<H>,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::<H>,
        }
    }
}

/// The handler `H` where vector instructions gain nothing.
pub(crate) fn slow<H: Handle>() -> Handler {
    plain::<H>
}

unsafe fn plain<H: Handle>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
    // SAFETY: the caller's contract is `Handle::run`'s.
    unsafe { H::run::<PLAIN>(x, op, mask, pc) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<H: Handle>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
    // SAFETY: the caller's contract is `Handle::run`'s; `Isa::detect` saw the features.
    unsafe { H::run::<AVX2>(x, op, mask, pc) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"
)]
unsafe fn avx512<H: Handle>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
    // SAFETY: the caller's contract is `Handle::run`'s; `Isa::detect` saw the features.
    unsafe { H::run::<AVX512>(x, op, mask, pc) }
}
