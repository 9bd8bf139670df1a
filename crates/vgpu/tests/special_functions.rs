//! The executor's approximations stay within the errors that the ISA states, over dense sweeps.

mod support;

use support::random::Random;
use vgpu::ir::{FloatBinary, FloatMods, FloatUnary, Type};
use vgpu::numeric::{special, special_division};
use vgpu::{GlobalMemory, Gpu, LaunchConfig, Options, Program};

/// Runs an operation of one or two operands over all values.
fn run(operation: &str, ty: Type, a: &[u64], b: &[u64]) -> Vec<u64> {
    let size = u64::from(ty.memory_bytes().expect("a type in memory"));
    let bytes = |values: &[u64]| {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes()[..size as usize].to_vec());
        bytes.collect::<Vec<u8>>()
    };
    let name = ty.name();
    let text = format!(
        ".vir 1\n.kernel @k (%a: 8, %b: 8, %d: 8, %n: 4) {{\n.reg pred %p\n.reg b32 %i %c %t %n %x %y %r\n\
         .reg b64 %at\nmov.special %i, tid.x\nmov.special %c, ctaid.x\nmov.special %t, ntid.x\n\
         mad.lo.u32 %i, %c, %t, %i\nld.param.u32 %n, [24]\nsetp.ge.u32 %p, %i, %n\nreturn %p\n\
         ld.param.b64 %at, [0]\nmad.wide.u32 %at, %i, {size}, %at\nld.global.{name} %x, [%at]\n\
         ld.param.b64 %at, [8]\nmad.wide.u32 %at, %i, {size}, %at\nld.global.{name} %y, [%at]\n{operation}\n\
         ld.param.b64 %at, [16]\nmad.wide.u32 %at, %i, {size}, %at\nst.global.{name} [%at], %r\n}}\n"
    );
    let module = vgpu::ir::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let program = Program::compile(&module).unwrap_or_else(|error| panic!("{error}"));
    let total = a.len() as u64 * size;
    let mut memory = GlobalMemory::new(4 * total + (1 << 16)).expect("host memory");
    let mut params = Vec::new();
    let mut addresses = Vec::new();
    for values in [a, b, a] {
        let address = memory.allocate(total).expect("device memory");
        memory.write(address, &bytes(values));
        params.extend(address.to_le_bytes());
        addresses.push(address);
    }
    params.extend((a.len() as u32).to_le_bytes());
    let config = LaunchConfig::linear(a.len().div_ceil(256) as u32, 256);
    Gpu::default()
        .launch(
            &program,
            "k",
            config,
            &params,
            &mut memory,
            &Options::default(),
        )
        .unwrap_or_else(|error| panic!("{error}"));
    let bytes = memory.read(addresses[2], total);
    let words = bytes.chunks_exact(size as usize).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.collect()
}

/// Every value of 16 bits, or a sweep over the bits of f32: each exponent densely, and random ones.
fn sweep(ty: Type) -> Vec<u64> {
    if ty.bits() == 16 {
        return (0..=0xffff).collect();
    }
    let mut random = Random::new(11);
    let mut values = vec![
        0,
        0x8000_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x7f7f_ffff,
        1,
    ];
    for exponent in 0..=0xffu64 {
        for _ in 0..256 {
            let fraction = random.next() & 0x7f_ffff;
            values.push((random.next() & 1) << 31 | exponent << 23 | fraction);
        }
    }
    // Small multiples of simple numbers, where sine, cosine, ex2 and lg2 are used.
    for step in -40_000..40_000i32 {
        values.push(u64::from((step as f32 / 512.0).to_bits()));
    }
    values
}

#[test]
fn approximations_of_one_operand_stay_within_their_errors() {
    let mut failures = Vec::new();
    for (op, name, types) in [
        (FloatUnary::RcpApprox, "rcp", &[Type::F32][..]),
        (FloatUnary::SqrtApprox, "sqrt", &[Type::F32]),
        (FloatUnary::RsqrtApprox, "rsqrt", &[Type::F32]),
        (
            FloatUnary::Ex2Approx,
            "ex2",
            &[Type::F32, Type::F16, Type::BF16],
        ),
        (FloatUnary::Lg2Approx, "lg2", &[Type::F32]),
        (FloatUnary::SinApprox, "sin", &[Type::F32]),
        (FloatUnary::CosApprox, "cos", &[Type::F32]),
        (
            FloatUnary::TanhApprox,
            "tanh",
            &[Type::F32, Type::F16, Type::BF16],
        ),
    ] {
        for &ty in types {
            let values = sweep(ty);
            let flushes: &[bool] = match (op, ty) {
                (FloatUnary::TanhApprox, _) | (_, Type::F16) => &[false],
                _ => &[false, true],
            };
            for &ftz in flushes {
                let modifier = if ftz { ".ftz" } else { "" };
                let operation = format!("{name}.approx{modifier}.{} %r, %x", ty.name());
                let results = run(&operation, ty, &values, &values);
                let wrong = values.iter().zip(&results).find(|&(&value, &got)| {
                    let expected = special(op, ty, ftz, value).expect("an approximation");
                    !expected.accepts(ty, ftz, got)
                });
                if let Some((&value, got)) = wrong {
                    let expected = special(op, ty, ftz, value);
                    failures.push(format!(
                        "{operation} of 0x{value:x} is 0x{got:x}, expected {expected:?}"
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn approximate_divisions_stay_within_their_errors() {
    let mut random = Random::new(12);
    let a = sweep(Type::F32);
    let b: Vec<u64> = a.iter().map(|_| random.pick(&a)).collect();
    for (op, name) in [
        (FloatBinary::DivFull, "div.full"),
        (FloatBinary::DivApprox, "div.approx"),
    ] {
        for ftz in [false, true] {
            let modifier = if ftz { ".ftz" } else { "" };
            let operation = format!("{name}{modifier}.f32 %r, %x, %y");
            let results = run(&operation, Type::F32, &a, &b);
            for ((&x, &y), &got) in a.iter().zip(&b).zip(&results) {
                let expected = special_division(op, ftz, x, y).expect("a division");
                assert!(
                    expected.accepts(Type::F32, ftz, got),
                    "{operation} of 0x{x:x} by 0x{y:x} is 0x{got:x}, expected {expected:?}"
                );
            }
        }
    }
}

#[test]
fn every_16_bit_value_converts_as_the_reference_says() {
    use vgpu::numeric::cvt;
    let values = sweep(Type::F16);
    for from in [Type::F16, Type::BF16] {
        for (to, modifiers, satfinite) in [
            (from, "", false),
            (Type::S16, "", false),
            (Type::U16, "", false),
            (Type::E4M3, "", true),
            (Type::E4M3, "", false),
            (Type::E5M2, "", true),
            (Type::E5M2, "", false),
            (Type::E2M1, "", true),
            (Type::E2M3, "", true),
            (Type::E3M2, "", true),
            (Type::UE8M0, ".rz", true),
            (Type::UE8M0, ".rp", false),
        ] {
            let satfinite_text = if satfinite { ".satfinite" } else { "" };
            let operation = format!(
                "cvt{modifiers}{satfinite_text}.{}.{} %r, %x",
                to.name(),
                from.name()
            );
            let mods = FloatMods {
                rounding: match modifiers {
                    ".rz" => vgpu::ir::Rounding::Zero,
                    ".rp" => vgpu::ir::Rounding::Up,
                    _ => vgpu::ir::Rounding::NearestEven,
                },
                ..FloatMods::default()
            };
            let results = run(&operation, from, &values, &values);
            for (&value, &got) in values.iter().zip(&results) {
                let expected =
                    cvt(to, from, mods, satfinite, value).expect("a conversion") & 0xffff;
                assert_eq!(got, expected, "{operation} of 0x{value:x}");
            }
        }
    }
}
