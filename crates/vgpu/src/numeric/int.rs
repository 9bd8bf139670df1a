//! Integer and bit operations (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions").

use super::{as_integer, elementwise, float_binary, mask, to_register};
use crate::ir::{
    AtomicOp, Compare, FloatBinary, FloatMods, IntBinary, IntUnary, MadWidth, PermuteMode, Space,
    Type,
};

/// Two-operand operations; the second operand of a shift is 32 bits.
pub fn int_binary(op: IntBinary, ty: Type, a: u64, b: u64) -> u64 {
    if ty.is_packed() {
        return elementwise(ty, [a, b], |ty, [a, b]| int_binary(op, ty, a, b) & mask(ty));
    }
    let bits = ty.bits();
    let (x, y) = (as_integer(a, ty), as_integer(b, ty));
    let (low_a, low_b) = (a & mask(ty), b & mask(ty));
    let amount = (b & 0xffff_ffff).min(u64::from(bits)) as u32;
    let value = match op {
        IntBinary::Add => x.wrapping_add(y),
        IntBinary::Sub => x.wrapping_sub(y),
        IntBinary::AddSat => (x + y).clamp(i128::from(i32::MIN), i128::from(i32::MAX)),
        IntBinary::SubSat => (x - y).clamp(i128::from(i32::MIN), i128::from(i32::MAX)),
        IntBinary::MulLo => x.wrapping_mul(y),
        // 64-bit unsigned factors can overflow i128; the wrapped bits are still the product's.
        IntBinary::MulHi if ty.is_signed() => x.wrapping_mul(y) >> bits,
        IntBinary::MulHi => ((x as u128).wrapping_mul(y as u128) >> bits) as i128,
        IntBinary::MulWide => {
            let wide = ty.doubled().unwrap_or(ty);
            return to_register(x.wrapping_mul(y) as u64, wide);
        }
        IntBinary::Mul24Lo => product24(ty, a, b),
        IntBinary::Mul24Hi => product24(ty, a, b) >> 16,
        IntBinary::Div if y == 0 => -1,
        IntBinary::Div => x / y,
        IntBinary::Rem if y == 0 => x,
        IntBinary::Rem => x % y,
        IntBinary::Min => x.min(y),
        IntBinary::Max => x.max(y),
        IntBinary::And => (low_a & low_b) as i128,
        IntBinary::Or => (low_a | low_b) as i128,
        IntBinary::Xor => (low_a ^ low_b) as i128,
        IntBinary::Shl => (low_a as i128) << amount,
        IntBinary::Shr => x >> amount,
    };
    to_register(value as u64, ty)
}

/// The 48-bit product of the low 24 bits of each operand.
fn product24(ty: Type, a: u64, b: u64) -> i128 {
    let low = |bits: u64| {
        let value = (bits & 0xff_ffff) as i128;
        if ty.is_signed() && value >= 1 << 23 {
            value - (1 << 24)
        } else {
            value
        }
    };
    low(a) * low(b)
}

/// One-operand operations.
pub fn int_unary(op: IntUnary, ty: Type, a: u64) -> u64 {
    let bits = ty.bits();
    let value = a & mask(ty);
    let leading = value.leading_zeros() - (64 - bits);
    match op {
        IntUnary::Neg => to_register(value.wrapping_neg(), ty),
        IntUnary::Abs => to_register(as_integer(a, ty).unsigned_abs() as u64, ty),
        IntUnary::Not => to_register(!value, ty),
        IntUnary::Cnot => u64::from(value == 0),
        IntUnary::Popc => u64::from(value.count_ones()),
        IntUnary::Clz => u64::from(leading),
        IntUnary::Brev => value.reverse_bits() >> (64 - bits),
        IntUnary::Bfind | IntUnary::BfindShiftAmt => {
            let negative = as_integer(a, ty) < 0;
            let value = if negative { !value & mask(ty) } else { value };
            if value == 0 {
                return 0xffff_ffff;
            }
            let position = 63 - value.leading_zeros();
            u64::from(if op == IntUnary::Bfind {
                position
            } else {
                bits - 1 - position
            })
        }
    }
}

/// `mad`: the product's half or whole, plus c, which has the result's width.
pub fn mad(width: MadWidth, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    let (op, result) = match width {
        MadWidth::Lo => (IntBinary::MulLo, ty),
        MadWidth::Hi => (IntBinary::MulHi, ty),
        MadWidth::Wide => (IntBinary::MulWide, ty.doubled().unwrap_or(ty)),
        MadWidth::Lo24 => (IntBinary::Mul24Lo, ty),
        MadWidth::Hi24 => (IntBinary::Mul24Hi, ty),
    };
    int_binary(IntBinary::Add, result, int_binary(op, ty, a, b), c)
}

/// `addc`, `subc`: the result and the carry (the borrow, for a subtraction) out.
pub fn add_with_carry(subtract: bool, ty: Type, a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (x, y) = (i128::from(a & mask(ty)), i128::from(b & mask(ty)));
    let carry = i128::from(carry);
    let value = if subtract {
        x - y - carry
    } else {
        x + y + carry
    };
    (
        value as u64 & mask(ty),
        value < 0 || value > i128::from(mask(ty)),
    )
}

/// `sad`: c + |a - b|.
pub fn sad(ty: Type, a: u64, b: u64, c: u64) -> u64 {
    let difference = (as_integer(a, ty) - as_integer(b, ty)).unsigned_abs() as u64;
    to_register(difference.wrapping_add(c), ty)
}

/// `bfe`: position and length from the low 8 bits; beyond the top, sign or zero.
pub fn bfe(ty: Type, a: u64, pos: u64, len: u64) -> u64 {
    let (pos, len) = ((pos & 0xff) as u32, (len & 0xff) as u32);
    let top = ty.bits() - 1;
    let bit = |index: u32| a >> index & 1;
    let sign = if ty.is_signed() && len != 0 {
        bit((pos + len - 1).min(top))
    } else {
        0
    };
    (0..=top).fold(0, |value, index| {
        let inside = index < len && pos + index <= top;
        value | (if inside { bit(pos + index) } else { sign }) << index
    })
}

/// `bfi`: the low `len` bits of a over b at `pos`.
pub fn bfi(ty: Type, a: u64, b: u64, pos: u64, len: u64) -> u64 {
    let (pos, len) = ((pos & 0xff) as u32, (len & 0xff) as u32);
    let top = ty.bits() - 1;
    let mut value = b & mask(ty);
    for index in 0..len {
        if pos + index > top {
            break;
        }
        value = value & !(1 << (pos + index)) | (a >> index & 1) << (pos + index);
    }
    value
}

/// `lop3`: bit i of the table answers for the inputs a = i >> 2, b = i >> 1 & 1, c = i & 1.
pub fn lop3(a: u64, b: u64, c: u64, table: u8) -> u64 {
    (0..32).fold(0, |value, bit| {
        let row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1;
        value | u64::from(table >> row & 1) << bit
    })
}

/// `shf`: of `hi:lo` shifted left the upper, right the lower 32 bits.
pub fn funnel_shift(left: bool, clamp: bool, lo: u64, hi: u64, amount: u64) -> u64 {
    let amount = amount & 0xffff_ffff;
    let amount = if clamp { amount.min(32) } else { amount & 31 };
    let both = u128::from(hi & 0xffff_ffff) << 32 | u128::from(lo & 0xffff_ffff);
    let value = if left {
        both << amount >> 32
    } else {
        both >> amount
    };
    value as u64 & 0xffff_ffff
}

/// `prmt`: bytes of `b:a` by the selector.
pub fn prmt(mode: PermuteMode, a: u64, b: u64, selector: u64) -> u64 {
    let bytes = ((b & 0xffff_ffff) << 32 | a & 0xffff_ffff).to_le_bytes();
    let s = (selector & 3) as usize;
    let half = (s & 1) * 2;
    let picks: [usize; 4] = match mode {
        PermuteMode::Index => {
            let mut value = [0; 4];
            for (index, byte) in value.iter_mut().enumerate() {
                let nibble = selector >> (4 * index) & 15;
                let picked = bytes[(nibble & 7) as usize];
                let sign = if picked & 0x80 != 0 { 0xff } else { 0 };
                *byte = if nibble & 8 != 0 { sign } else { picked };
            }
            return u64::from(u32::from_le_bytes(value));
        }
        PermuteMode::F4e => [s, s + 1, s + 2, s + 3],
        PermuteMode::B4e => [s, (s + 7) % 8, (s + 6) % 8, (s + 5) % 8],
        PermuteMode::Rc8 => [s; 4],
        PermuteMode::Ecl => [s, s.max(1), s.max(2), 3],
        PermuteMode::Ecr => [0, s.min(1), s.min(2), s],
        PermuteMode::Rc16 => [half, half + 1, half, half + 1],
    };
    u64::from(u32::from_le_bytes(picks.map(|index| bytes[index])))
}

/// `dp4a`: four products of bytes, plus c.
pub fn dp4a(a_signed: bool, b_signed: bool, a: u64, b: u64, c: u64) -> u64 {
    let byte = |word: u64, index: u32, signed: bool| {
        let value = (word >> (8 * index)) as u8;
        if signed {
            i64::from(value as i8)
        } else {
            i64::from(value)
        }
    };
    let sum = (0..4).fold(c as u32, |sum, index| {
        sum.wrapping_add((byte(a, index, a_signed) * byte(b, index, b_signed)) as u32)
    });
    u64::from(sum)
}

/// `dp2a`: the two 16-bit values of a by the low or high two bytes of b, plus c.
pub fn dp2a(hi: bool, a_signed: bool, b_signed: bool, a: u64, b: u64, c: u64) -> u64 {
    let sum = (0..2).fold(c as u32, |sum, index| {
        let x = (a >> (16 * index)) as u16;
        let y = (b >> (8 * index + if hi { 16 } else { 0 })) as u8;
        let x = if a_signed {
            i64::from(x as i16)
        } else {
            i64::from(x)
        };
        let y = if b_signed {
            i64::from(y as i8)
        } else {
            i64::from(y)
        };
        sum.wrapping_add((x * y) as u32)
    });
    u64::from(sum)
}

/// `setp` on integers; `None` for the comparisons of NaN.
pub fn int_compare(cmp: Compare, ty: Type, a: u64, b: u64) -> Option<bool> {
    let (x, y) = (as_integer(a, ty), as_integer(b, ty));
    Some(match cmp {
        Compare::Eq => x == y,
        Compare::Ne => x != y,
        Compare::Lt => x < y,
        Compare::Le => x <= y,
        Compare::Gt => x > y,
        Compare::Ge => x >= y,
        _ => return None,
    })
}

/// What an atomic operation leaves in memory; `c` is the new value of a `cas`. `None` where the
/// operation does not exist for the type.
///
/// An addition of f32 in global memory flushes subnormal inputs and results, in shared memory it
/// does not (PTX ISA, "atom").
pub fn atomic(op: AtomicOp, ty: Type, space: Space, old: u64, b: u64, c: u64) -> Option<u64> {
    let (old, b, c) = (old & mask(ty), b & mask(ty), c & mask(ty));
    if !ty.is_integer() {
        let mods = FloatMods {
            ftz: ty == Type::F32 && space == Space::Global,
            ..FloatMods::default()
        };
        return match op {
            AtomicOp::Add => float_binary(FloatBinary::Add, ty, mods, old, b),
            _ => None,
        };
    }
    Some(match op {
        AtomicOp::Add => old.wrapping_add(b) & mask(ty),
        AtomicOp::Min => int_binary(IntBinary::Min, ty, old, b) & mask(ty),
        AtomicOp::Max => int_binary(IntBinary::Max, ty, old, b) & mask(ty),
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::Exch => b,
        AtomicOp::Cas => {
            if old == b {
                c
            } else {
                old
            }
        }
        AtomicOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    })
}
