//! Modules at the limits: deep, long, with many registers; read, verified, compiled and run in reasonable time.

use std::fmt::Write;
use std::time::Duration;

#[path = "support/clock.rs"]
mod clock;

use clock::processor_time;
use vgpu::{GlobalMemory, Gpu, LaunchConfig, Options, Program};

/// Runs a kernel with one buffer of `words` words and gives the buffer back.
fn run(text: &str, threads: u32, words: usize) -> Vec<u32> {
    let module = vgpu::ir::parse(text).expect("a legal text");
    let program = Program::compile(&module).expect("a legal module");
    let mut memory = GlobalMemory::new(1 << 16).expect("host memory");
    let address = memory.allocate(words as u64 * 4).expect("device memory");
    memory.write(address, &vec![0; words * 4]);
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let config = LaunchConfig::linear(1, threads);
    Gpu::default()
        .launch(
            &program,
            &module.kernels[0].name,
            config,
            &address.to_le_bytes(),
            &mut memory,
            &options,
        )
        .unwrap_or_else(|error| panic!("{error}"));
    let bytes = memory.read(address, words as u64 * 4);
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
        .collect()
}

const HEAD: &str = ".vir 1\n.kernel @k (%out: 8) {\n.reg pred %p\n.reg b32 %i %a\n.reg b64 %o\n\
                    mov.special %i, tid.x\nld.param.b64 %o, [0]\nmad.wide.u32 %o, %i, 4, %o\nmov.b32 %a, 0\n";

#[test]
fn structures_nest_to_the_limit_and_run() {
    // At depth d only lanes above d go on; half of the structures are loops that lanes leave one by one.
    let mut text = String::from(HEAD);
    let depth = vgpu::ir::MAX_NESTING;
    for level in 0..depth {
        writeln!(text, "setp.gt.u32 %p, %i, {}", level / 8).expect("a string");
        if level % 2 == 0 {
            text.push_str("if %p {\n");
        } else {
            text.push_str("loop {\nbreak !%p\n");
        }
        text.push_str("add.u32 %a, %a, 1\n");
    }
    for level in (0..depth).rev() {
        if level % 2 == 1 {
            text.push_str("break\n");
        }
        text.push_str("}\n");
    }
    text.push_str("st.global.u32 [%o], %a\n}\n");
    let expected: Vec<u32> = (0..32).map(|lane| (lane * 8).min(depth as u32)).collect();
    assert_eq!(run(&text, 32, 32), expected);
}

/// `count` additions, each of other registers.
fn long(count: usize) -> String {
    let mut text = String::from(HEAD);
    text.push_str(".reg b32");
    for index in 0..count {
        write!(text, " %r{index}").expect("a string");
    }
    text.push_str("\nmov.b32 %r0, %i\n");
    for index in 1..count {
        writeln!(text, "add.u32 %r{index}, %r{}, {}", index - 1, index % 3).expect("a string");
    }
    writeln!(text, "st.global.u32 [%o], %r{}\n}}", count - 1).expect("a string");
    text
}

#[test]
fn long_kernels_with_many_registers_compile_in_time_linear_in_their_length() {
    let time_of = |count: usize| {
        let text = long(count);
        processor_time(|| {
            let values = run(&text, 32, 32);
            let sum: usize = (1..count).map(|index| index % 3).sum();
            assert_eq!(values[5], 5 + sum as u32);
        })
    };
    time_of(2_000);
    let (short, long) = (time_of(8_000), time_of(64_000));
    // Eight times the length; quadratic work would take sixty-four times as long.
    assert!(
        long < short * 30 + Duration::from_millis(500),
        "{short:?} {long:?}"
    );
}
