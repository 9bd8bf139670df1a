//! JSON text as Python's `json` module writes it, so that stores of both implementations are the
//! same bytes.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The text of `json.dumps(value, indent=2)`.
pub fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, Some(0));
    out
}

/// The text of `json.dumps(value)`: one line, a space after each `:` and `,`.
pub fn line(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, None);
    out
}

/// `indent` is the depth where the text is spread over lines, or `None` for one line.
fn write_value(out: &mut String, value: &Value, indent: Option<usize>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            write_items(out, ['[', ']'], items.iter(), indent, |out, item, i| {
                write_value(out, item, i);
            })
        }
        Value::Object(map) => write_items(out, ['{', '}'], map.iter(), indent, |out, (k, v), i| {
            write_string(out, k);
            out.push_str(": ");
            write_value(out, v, i);
        }),
    }
}

fn write_items<T>(
    out: &mut String,
    brackets: [char; 2],
    items: impl ExactSizeIterator<Item = T>,
    indent: Option<usize>,
    mut write_item: impl FnMut(&mut String, T, Option<usize>),
) {
    out.push(brackets[0]);
    let inner = indent.map(|depth| depth + 1);
    let is_empty = items.len() == 0;
    for (index, item) in items.enumerate() {
        match (index, inner) {
            (0, None) => {}
            (_, None) => out.push_str(", "),
            (0, Some(depth)) => new_line(out, depth),
            (_, Some(depth)) => {
                out.push(',');
                new_line(out, depth);
            }
        }
        write_item(out, item, inner);
    }
    if let (false, Some(depth)) = (is_empty, indent) {
        new_line(out, depth);
    }
    out.push(brackets[1]);
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

fn write_number(out: &mut String, number: &Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => out.push_str(&float_repr(float)),
        _ => {
            let _ = write!(out, "{number}");
        }
    }
}

/// `repr` of a finite float: the shortest digits that read back, with an exponent below 1e-4 and
/// from 1e16 on.
pub fn float_repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)))
        .unwrap_or((&scientific, 0));
    if (-4..16).contains(&exponent) {
        let fixed = format!("{value}");
        if fixed.contains('.') {
            fixed
        } else {
            fixed + ".0"
        }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn floats_print_as_pythons_repr_on_recorded_cases() {
        let cases: Vec<(u64, String)> =
            serde_json::from_str(include_str!("../tests/data/floats.json")).expect("fixture");
        assert!(cases.len() > 1000);
        for (bits, expected) in cases {
            assert_eq!(float_repr(f64::from_bits(bits)), expected, "{bits:#x}");
        }
    }

    #[test]
    fn documents_print_as_python_prints_them() {
        let compact = include_str!("../tests/data/document.line.json");
        let value: Value = serde_json::from_str(compact).expect("fixture");
        assert_eq!(line(&value), compact);
        assert_eq!(pretty(&value), include_str!("../tests/data/document.json"));
    }

    proptest! {
        #[test]
        fn every_float_reads_back_bit_for_bit(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let read: f64 = float_repr(value).parse().expect("a float");
            prop_assert_eq!(read.to_bits(), bits);
        }

        #[test]
        fn every_text_reads_back(text in any::<String>()) {
            let value = Value::from(text);
            let read: Value = serde_json::from_str(&line(&value)).expect("json");
            prop_assert_eq!(read, value);
        }
    }
}
