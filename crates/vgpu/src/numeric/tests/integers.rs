//! Integer and bit operations against the machine's, and corner cases by hand.

use super::*;

#[test]
fn integer_arithmetic_is_the_machines() {
    let mut random = Random(10);
    for _ in 0..20_000 {
        let a = random.next() >> (random.next() & 63);
        let b = random.next() >> (random.next() & 63);
        let (x, y) = (a as i32, b as i32);
        let (u, v) = (a as u32, b as u32);
        let s32 = |op| int_binary(op, Type::S32, a & 0xffff_ffff, b & 0xffff_ffff) as u32 as i32;
        let u32 = |op| int_binary(op, Type::U32, a & 0xffff_ffff, b & 0xffff_ffff) as u32;
        assert_eq!(s32(IntBinary::Add), x.wrapping_add(y));
        assert_eq!(s32(IntBinary::AddSat), x.saturating_add(y));
        assert_eq!(s32(IntBinary::SubSat), x.saturating_sub(y));
        assert_eq!(s32(IntBinary::MulLo), x.wrapping_mul(y));
        assert_eq!(
            s32(IntBinary::MulHi),
            ((i64::from(x) * i64::from(y)) >> 32) as i32
        );
        assert_eq!(
            u32(IntBinary::MulHi),
            ((u64::from(u) * u64::from(v)) >> 32) as u32
        );
        assert_eq!(
            int_binary(IntBinary::MulHi, Type::U64, a, b),
            ((u128::from(a) * u128::from(b)) >> 64) as u64
        );
        assert_eq!(
            int_binary(IntBinary::MulHi, Type::S64, a, b),
            ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
        );
        assert_eq!(
            int_binary(IntBinary::MulWide, Type::S32, a, b),
            (i64::from(x) * i64::from(y)) as u64
        );
        assert_eq!(
            int_binary(IntBinary::Div, Type::U64, a, b),
            a.checked_div(b).unwrap_or(u64::MAX)
        );
        assert_eq!(
            int_binary(IntBinary::Rem, Type::U64, a, b),
            a.checked_rem(b).unwrap_or(a)
        );
        assert_eq!(
            s32(IntBinary::Div),
            if y == 0 { -1 } else { x.wrapping_div(y) }
        );
        assert_eq!(
            s32(IntBinary::Rem),
            if y == 0 { x } else { x.wrapping_rem(y) }
        );
        assert_eq!(s32(IntBinary::Min), x.min(y));
        assert_eq!(u32(IntBinary::Max), u.max(v));
        assert_eq!(u32(IntBinary::Shl), u.checked_shl(v).unwrap_or(0));
        assert_eq!(u32(IntBinary::Shr), u.checked_shr(v).unwrap_or(0));
        assert_eq!(s32(IntBinary::Shr), x >> v.min(31));
        let (sum, carry) = add_with_carry(false, Type::U32, a, b, true);
        assert_eq!((sum, carry), {
            let exact = u64::from(u) + u64::from(v) + 1;
            (exact & 0xffff_ffff, exact >> 32 == 1)
        });
        let (difference, borrow) = add_with_carry(true, Type::U64, a, b, false);
        assert_eq!((difference, borrow), a.overflowing_sub(b));
        assert_eq!(
            sad(Type::S32, a, b, 7) as u32,
            x.abs_diff(y).wrapping_add(7)
        );
        assert_eq!(
            int_unary(IntUnary::Clz, Type::B32, a),
            u64::from(u.leading_zeros())
        );
        assert_eq!(
            int_unary(IntUnary::Popc, Type::B64, a),
            u64::from(a.count_ones())
        );
        assert_eq!(
            int_unary(IntUnary::Brev, Type::B32, a),
            u64::from(u.reverse_bits())
        );
        assert_eq!(
            int_unary(IntUnary::Abs, Type::S32, a) as u32 as i32,
            x.wrapping_abs()
        );
    }
}

#[test]
fn corner_cases_of_integers() {
    assert_eq!(
        int_binary(IntBinary::Div, Type::S32, 0x8000_0000, 0xffff_ffff),
        0x8000_0000
    );
    assert_eq!(
        int_binary(IntBinary::Rem, Type::S32, 0x8000_0000, 0xffff_ffff),
        0
    );
    assert_eq!(
        int_binary(IntBinary::Add, Type::S16, 0x7fff, 1),
        0xffff_8000
    );
    assert_eq!(int_binary(IntBinary::Add, Type::U16, 0xffff, 1), 0);
    assert_eq!(
        int_binary(IntBinary::Add, Type::U16x2, 0xffff_0001, 0x0001_ffff),
        0
    );
    assert_eq!(
        int_binary(IntBinary::Max, Type::S16x2, 0x8000_0001, 0x7fff_ffff),
        0x7fff_0001
    );
    assert_eq!(int_binary(IntBinary::MulWide, Type::S16, 0xffff, 0xffff), 1);
    assert_eq!(
        int_binary(IntBinary::Mul24Lo, Type::S32, 0x00ff_ffff, 2),
        0xffff_fffe
    );
    assert_eq!(
        int_binary(IntBinary::Mul24Hi, Type::U32, 0x00ff_ffff, 0x00ff_ffff),
        0xffff_fe00
    );
    assert_eq!(int_unary(IntUnary::Bfind, Type::U32, 0), 0xffff_ffff);
    assert_eq!(
        int_unary(IntUnary::Bfind, Type::S32, 0xffff_ffff),
        0xffff_ffff
    );
    assert_eq!(int_unary(IntUnary::Bfind, Type::S32, 0xffff_ff00), 7);
    assert_eq!(int_unary(IntUnary::BfindShiftAmt, Type::U64, 1), 63);
    assert_eq!(int_unary(IntUnary::Cnot, Type::B32, 5), 0);
    assert_eq!(int_unary(IntUnary::Not, Type::S16, 0), 0xffff_ffff);
    assert_eq!(mad(MadWidth::Wide, Type::S32, 0xffff_ffff, 3, 10), 7);
    assert_eq!(mad(MadWidth::Hi, Type::U32, 0x8000_0000, 4, 1), 3);
}

#[test]
fn bit_fields_and_permutations_follow_the_isa() {
    assert_eq!(bfe(Type::U32, 0xabcd_1234, 4, 8), 0x23);
    assert_eq!(bfe(Type::S32, 0x0000_00f0, 4, 4), 0xffff_ffff);
    assert_eq!(bfe(Type::S32, 0x8000_0000, 28, 8), 0xffff_fff8);
    assert_eq!(bfe(Type::S32, 0xffff_ffff, 0, 0), 0);
    assert_eq!(bfe(Type::S64, 1 << 63, 200, 4), u64::MAX);
    assert_eq!(bfi(Type::B32, 0xff, 0, 28, 8), 0xf000_0000);
    assert_eq!(bfi(Type::B32, 0x5, 0xffff_ffff, 4, 3), 0xffff_ffdf);
    assert_eq!(bfi(Type::B64, 1, 0, 40, 1), 1 << 40);
    // The ISA's own examples of the table: and, or, xor of the three.
    let (a, b, c) = (0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa);
    assert_eq!(lop3(a, b, c, 0x80), a & b & c);
    assert_eq!(lop3(a, b, c, 0xfe), a | b | c);
    assert_eq!(lop3(a, b, c, 0x96), a ^ b ^ c);
    assert_eq!(lop3(a, b, c, 0x1a), (a & b | c) ^ a);
    assert_eq!(
        funnel_shift(true, true, 0x1234_5678, 0x9abc_def0, 8),
        0xbcde_f012
    );
    assert_eq!(
        funnel_shift(false, true, 0x1234_5678, 0x9abc_def0, 40),
        0x9abc_def0
    );
    assert_eq!(
        funnel_shift(false, false, 0x1234_5678, 0x9abc_def0, 40),
        0xf012_3456
    );
    assert_eq!(
        dp4a(true, true, 0xff01_02fe, 0x0102_0304, 10),
        10 - 1 + 2 + 6 - 8
    );
    assert_eq!(
        dp4a(false, false, 0xff00_0000, 0xff00_0000, 1),
        255 * 255 + 1
    );
    assert_eq!(
        dp2a(false, true, false, 0xffff_0002, 0x0403_02ff, 0),
        2 * 255 - 2
    );
    assert_eq!(
        dp2a(true, false, true, 0xffff_0002, 0x04ff_0201, 0) as u32,
        (65535 * 4 - 2) as u32
    );
}

#[test]
fn prmt_follows_the_isas_table() {
    let (a, b) = (0x3322_1180, 0x7766_5544);
    assert_eq!(prmt(PermuteMode::Index, a, b, 0x7531), 0x7755_3311);
    assert_eq!(prmt(PermuteMode::Index, a, b, 0x0008), 0x8080_80ff);
    assert_eq!(prmt(PermuteMode::Index, a, b, 0x000f), 0x8080_8000);
    for (mode, rows) in [
        (PermuteMode::F4e, ["3210", "4321", "5432", "6543"]),
        (PermuteMode::B4e, ["5670", "6701", "7012", "0123"]),
        (PermuteMode::Rc8, ["0000", "1111", "2222", "3333"]),
        (PermuteMode::Ecl, ["3210", "3211", "3222", "3333"]),
        (PermuteMode::Ecr, ["0000", "1110", "2210", "3210"]),
        (PermuteMode::Rc16, ["1010", "3232", "1010", "3232"]),
    ] {
        for (selector, row) in rows.into_iter().enumerate() {
            let bytes = (b << 32 | a).to_le_bytes();
            let expected = row.bytes().fold(0u64, |word, digit| {
                word << 8 | u64::from(bytes[usize::from(digit - b'0')])
            });
            assert_eq!(
                prmt(mode, a, b, selector as u64),
                expected,
                "{mode:?} {selector}"
            );
        }
    }
}

#[test]
fn atomics_leave_what_the_isa_says() {
    let on = |op, ty, old, b, c| atomic(op, ty, Space::Shared, old, b, c).expect("exists");
    assert_eq!(on(AtomicOp::Inc, Type::U32, 5, 5, 0), 0);
    assert_eq!(on(AtomicOp::Inc, Type::U32, 4, 5, 0), 5);
    assert_eq!(on(AtomicOp::Dec, Type::U32, 0, 5, 0), 5);
    assert_eq!(on(AtomicOp::Dec, Type::U32, 7, 5, 0), 5);
    assert_eq!(on(AtomicOp::Dec, Type::U32, 3, 5, 0), 2);
    assert_eq!(on(AtomicOp::Cas, Type::B32, 3, 3, 9), 9);
    assert_eq!(on(AtomicOp::Cas, Type::B32, 4, 3, 9), 4);
    assert_eq!(on(AtomicOp::Min, Type::S32, 0xffff_ffff, 1, 0), 0xffff_ffff);
    assert_eq!(on(AtomicOp::Max, Type::U32, 0xffff_ffff, 1, 0), 0xffff_ffff);
    assert_eq!(on(AtomicOp::Add, Type::F32, 1, 1, 0), 2);
    assert_eq!(
        atomic(AtomicOp::Add, Type::F32, Space::Global, 1, 1, 0),
        Some(0)
    );
    assert_eq!(
        on(AtomicOp::Add, Type::F16x2, 0x3c00_0001, 0x3c00_0001, 0),
        0x4000_0002
    );
    assert_eq!(
        atomic(AtomicOp::Min, Type::F32, Space::Shared, 1, 1, 0),
        None
    );
}
