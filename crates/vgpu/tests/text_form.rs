//! The text form over generated modules, and what broken text does.

#[path = "support/clock.rs"]
mod clock;
mod support;

use proptest::prelude::*;
use vgpu::ir::{parse, print, verify};

use clock::processor_time;
use support::generate;
use support::random::Random;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_module_printed_and_read_is_the_same_module(seed in any::<u64>()) {
        let module = generate::module(seed);
        verify(&module).map_err(|errors| TestCaseError::fail(errors[0].to_string()))?;
        let text = print(&module);
        let again = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&module, &again, "{}", text);
        prop_assert_eq!(text, print(&again));
    }

    #[test]
    fn broken_text_is_read_or_refused_without_a_panic(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let mut text = print(&generate::module(seed)).into_bytes();
        for _ in 0..1 + random.below(6) {
            mutate(&mut random, &mut text);
        }
        let text = String::from_utf8_lossy(&text);
        if let Ok(module) = parse(&text) {
            // What is read prints; what the verifier accepts reads back as the same.
            let printed = print(&module);
            if verify(&module).is_ok() {
                let again = parse(&printed);
                prop_assert_eq!(again, Ok(module), "{}", printed);
            }
        }
    }

    #[test]
    fn noise_is_refused_without_a_panic(noise in "\\PC{0,200}") {
        let _ = parse(&noise);
        let _ = parse(&format!(".vir 1\n.kernel @k () {{\n.reg b32 %a\n{noise}\n}}"));
    }
}

/// Deletes, doubles, swaps or changes a piece, often a word or a line.
fn mutate(random: &mut Random, text: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let at = random.below(text.len() as u64) as usize;
    let end = (at + 1 + random.below(12) as usize).min(text.len());
    match random.below(6) {
        0 => {
            text.drain(at..end);
        }
        1 => {
            let piece = text[at..end].to_vec();
            text.splice(at..at, piece);
        }
        2 => text[at] = random.next() as u8,
        3 => {
            let other = random.below(text.len() as u64) as usize;
            text.swap(at, other);
        }
        4 => {
            let pieces: [&[u8]; 8] = [
                b"{",
                b"}",
                b"\n",
                b"-",
                b"0x",
                b" 99999999999999999999",
                b".f64",
                b"%",
            ];
            let piece = random.pick(&pieces);
            text.splice(at..at, piece.iter().copied());
        }
        _ => text.truncate(at),
    }
}

#[test]
fn long_texts_are_read_in_time_linear_in_their_length() {
    let text_of = |lines: usize| {
        let mut text = String::from(".vir 1\n.kernel @k () {\n.reg b32");
        for index in 0..lines {
            text.push_str(&format!(" %r{index}"));
        }
        text.push('\n');
        for index in 0..lines {
            text.push_str(&format!("add.s32 %r{index}, %r{}, 1\n", lines - 1 - index));
        }
        text.push_str("}\n");
        text
    };
    let time_of = |lines: usize| {
        let text = text_of(lines);
        processor_time(|| {
            let module = parse(&text).expect("a legal text");
            verify(&module).expect("a legal module");
        })
    };
    time_of(2_000);
    let (short, long) = (time_of(20_000), time_of(160_000));
    // Eight times the length; quadratic work would take sixty-four times as long.
    assert!(
        long < short * 30 + std::time::Duration::from_millis(200),
        "{short:?} {long:?}"
    );
}
