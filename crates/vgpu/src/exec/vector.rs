//! What compilers do not find by themselves: masks from vectors, and permutations.

use super::PLAIN;
#[cfg(target_arch = "x86_64")]
use super::{AVX2, AVX512};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The lanes whose word has its top bit set.
#[inline(always)]
pub(crate) fn top_bits<const I: u8>(words: &[u32; 32]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if I == AVX512 {
        // SAFETY: handlers for AVX-512 run only where `Isa::detect` saw it.
        return unsafe { top_bits_512(words) };
    }
    #[cfg(target_arch = "x86_64")]
    if I == AVX2 {
        // SAFETY: handlers for AVX2 run only where `Isa::detect` saw it.
        return unsafe { top_bits_256(words) };
    }
    const { assert!(PLAIN == 0) }
    let mut mask = 0;
    for lane in 0..32 {
        mask |= (words[lane] >> 31) << lane;
    }
    mask
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
unsafe fn top_bits_512(words: &[u32; 32]) -> u32 {
    // SAFETY: both halves lie in the array.
    let (low, high) = unsafe {
        (
            _mm512_loadu_si512(words.as_ptr().cast()),
            _mm512_loadu_si512(words.as_ptr().add(16).cast()),
        )
    };
    u32::from(_mm512_movepi32_mask(low)) | u32::from(_mm512_movepi32_mask(high)) << 16
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn top_bits_256(words: &[u32; 32]) -> u32 {
    let mut mask = 0;
    for part in 0..4 {
        // SAFETY: each quarter lies in the array.
        let quarter = unsafe { _mm256_loadu_si256(words.as_ptr().add(8 * part).cast()) };
        mask |= (_mm256_movemask_ps(_mm256_castsi256_ps(quarter)) as u32) << (8 * part);
    }
    mask
}

/// A mask from a test of each lane.
#[inline(always)]
pub(crate) fn mask_of<const I: u8>(test: impl Fn(usize) -> bool) -> u32 {
    let mut words = [0u32; 32];
    for lane in 0..32 {
        words[lane] = if test(lane) { u32::MAX } else { 0 };
    }
    top_bits::<I>(&words)
}

/// For each lane the word of the lane that `from` names (by its low five bits).
#[inline(always)]
pub(crate) fn permute<const I: u8>(words: &[u32; 32], from: &[u32; 32]) -> [u32; 32] {
    #[cfg(target_arch = "x86_64")]
    if I == AVX512 {
        // SAFETY: handlers for AVX-512 run only where `Isa::detect` saw it.
        return unsafe { permute_512(words, from) };
    }
    std::array::from_fn(|lane| words[(from[lane] & 31) as usize])
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn permute_512(words: &[u32; 32], from: &[u32; 32]) -> [u32; 32] {
    let mut result = [0u32; 32];
    // SAFETY: all halves lie in the arrays.
    unsafe {
        let low = _mm512_loadu_si512(words.as_ptr().cast());
        let high = _mm512_loadu_si512(words.as_ptr().add(16).cast());
        for half in [0, 16] {
            let index = _mm512_loadu_si512(from.as_ptr().add(half).cast());
            let picked = _mm512_permutex2var_epi32(low, index, high);
            _mm512_storeu_si512(result.as_mut_ptr().add(half).cast(), picked);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Isa;

    #[test]
    fn masks_and_permutations_are_those_of_plain_code() {
        let words: [u32; 32] = std::array::from_fn(|i| (i as u32).wrapping_mul(0x9e37_79b9));
        let from: [u32; 32] = std::array::from_fn(|i| (i as u32 * 7 + 3) ^ 0x20);
        let mask = top_bits::<PLAIN>(&words);
        let expected: [u32; 32] = std::array::from_fn(|i| words[(i * 7 + 3) % 32]);
        assert_eq!(permute::<PLAIN>(&words, &from), expected);
        #[cfg(target_arch = "x86_64")]
        if Isa::detect() == Isa::Avx512 {
            assert_eq!(top_bits::<AVX512>(&words), mask);
            assert_eq!(permute::<AVX512>(&words, &from), expected);
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            assert_eq!(top_bits::<AVX2>(&words), mask);
        }
        assert_eq!(mask_of::<PLAIN>(|lane| lane % 3 == 0), 0x4924_9249);
    }
}
