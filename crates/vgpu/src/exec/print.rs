//! Device `printf`: C's conversions over the arguments of each lane.

use super::float::{Brain, Format16, Half};
use super::registers::lanes;
use super::{Exec, Handle};
use crate::ir::{CONST_WINDOW, Type};
use crate::lower::{Extra, Op};
use std::fmt::Write;

/// Bytes of text that a CTA may print.
const PRINT_LIMIT: usize = 1 << 20;

/// `printf` of extra `x`.
pub(crate) struct Printf;

impl Handle for Printf {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        let code = x.code;
        let Extra::Print(format, args) = &code.extras[op.x as usize] else {
            unreachable!("lowering made a printf's extra")
        };
        for lane in lanes(mask) {
            if x.cta.printed.len() > PRINT_LIMIT {
                break;
            }
            let values: Vec<(Type, u64)> = args
                .iter()
                // SAFETY: lowering chose registers of these widths.
                .map(|&(ty, register)| unsafe {
                    let wide = ty.bits() == 64;
                    (ty, x.read_any(register, wide)[lane])
                })
                .collect();
            format_c(&mut x.cta.printed, format, &values, &code.constant_bank);
        }
        pc + 1
    }
}

/// Appends `format` with C's conversions of `args`; a conversion without an argument stays as it is.
pub(crate) fn format_c(out: &mut String, format: &str, args: &[(Type, u64)], bank: &[u8]) {
    let mut args = args.iter();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (spec, length) = Conversion::parse(rest);
        let Some(spec) = spec else {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        };
        if spec.kind == '%' {
            out.push('%');
        } else if let Some(&(ty, bits)) = args.next() {
            spec.convert(out, ty, bits, bank);
        } else {
            out.push_str(&rest[..length]);
        }
        rest = &rest[length..];
    }
    out.push_str(rest);
}

#[derive(Debug, Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    kind: char,
}

impl Conversion {
    /// The conversion at the front of a text that begins with `%`, and its length.
    fn parse(text: &str) -> (Option<Self>, usize) {
        let bytes = text.as_bytes();
        let mut spec = Self::default();
        let mut at = 1;
        while let Some(flag) = bytes.get(at) {
            match flag {
                b'-' => spec.left = true,
                b'+' => spec.plus = true,
                b' ' => spec.space = true,
                b'#' => spec.alternate = true,
                b'0' => spec.zero = true,
                _ => break,
            }
            at += 1;
        }
        let number = |at: &mut usize| {
            let mut value = 0usize;
            while let Some(digit) = bytes.get(*at).filter(|byte| byte.is_ascii_digit()) {
                value = (value * 10 + usize::from(digit - b'0')).min(512);
                *at += 1;
            }
            value
        };
        spec.width = number(&mut at);
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            spec.precision = Some(number(&mut at));
        }
        while bytes
            .get(at)
            .is_some_and(|byte| matches!(byte, b'h' | b'l' | b'z' | b'j' | b't' | b'L'))
        {
            at += 1;
        }
        match bytes.get(at) {
            Some(&kind) if kind.is_ascii() => {
                spec.kind = char::from(kind);
                (Some(spec), at + 1)
            }
            _ => (None, at),
        }
    }

    fn convert(&self, out: &mut String, ty: Type, bits: u64, bank: &[u8]) {
        let (sign, body, number) = match self.kind {
            'd' | 'i' => self.integer(signed(ty, bits)),
            'u' => ("", unsigned(ty, bits).to_string(), true),
            'x' => self.radix("0x", format!("{:x}", unsigned(ty, bits))),
            'X' => self.radix("0X", format!("{:X}", unsigned(ty, bits))),
            'o' => self.radix("0", format!("{:o}", unsigned(ty, bits))),
            'p' => ("0x", format!("{bits:x}"), true),
            'c' => ("", char::from(bits as u8).to_string(), false),
            's' => ("", text(bits, bank), false),
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'a' | 'A' => self.float(float(ty, bits)),
            other => ("", format!("%{other}"), false),
        };
        let length = sign.len() + body.chars().count();
        let fill = self.width.saturating_sub(length);
        if self.left {
            let _ = write!(out, "{sign}{body}{:fill$}", "");
        } else if self.zero && number {
            let _ = write!(out, "{sign}{}{body}", "0".repeat(fill));
        } else {
            let _ = write!(out, "{:fill$}{sign}{body}", "");
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, value: i64) -> (&'static str, String, bool) {
        let mut digits = value.unsigned_abs().to_string();
        let least = self.precision.unwrap_or(1);
        if digits.len() < least {
            digits = format!("{}{digits}", "0".repeat(least - digits.len()));
        }
        (self.sign(value < 0), digits, self.precision.is_none())
    }

    fn radix(&self, prefix: &'static str, digits: String) -> (&'static str, String, bool) {
        let prefix = if self.alternate && digits != "0" {
            prefix
        } else {
            ""
        };
        (prefix, digits, true)
    }

    fn float(&self, value: f64) -> (&'static str, String, bool) {
        let sign = self.sign(value.is_sign_negative() && !value.is_nan());
        let magnitude = value.abs();
        let upper = self.kind.is_ascii_uppercase();
        let precision = self.precision.unwrap_or(6);
        let body = if value.is_nan() {
            "nan".to_string()
        } else if value.is_infinite() {
            "inf".to_string()
        } else {
            match self.kind.to_ascii_lowercase() {
                'f' => format!("{magnitude:.precision$}"),
                'e' => exponent_form(magnitude, precision),
                'g' => self.general(magnitude, precision.max(1)),
                _ => hexadecimal(magnitude),
            }
        };
        let body = if upper { body.to_uppercase() } else { body };
        (sign, body, value.is_finite())
    }

    fn general(&self, magnitude: f64, precision: usize) -> String {
        let scientific = exponent_form(magnitude, precision - 1);
        let exponent: i32 = scientific
            .split_once('e')
            .and_then(|(_, exponent)| exponent.parse().ok())
            .unwrap_or(0);
        let strip = |text: String| {
            if self.alternate || !text.contains('.') {
                text
            } else {
                text.trim_end_matches('0').trim_end_matches('.').to_string()
            }
        };
        if exponent < -4 || exponent >= precision as i32 {
            match scientific.split_once('e') {
                Some((digits, exponent)) => format!("{}e{exponent}", strip(digits.to_string())),
                None => scientific,
            }
        } else {
            let decimals = (precision as i32 - 1 - exponent) as usize;
            strip(format!("{magnitude:.decimals$}"))
        }
    }
}

/// C's `%e`: an exponent of at least two digits, with its sign.
fn exponent_form(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        None => text,
    }
}

/// C's `%a` without a precision.
fn hexadecimal(magnitude: f64) -> String {
    let bits = magnitude.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let (lead, exponent) = match (exponent, fraction) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        (exponent, _) => (1, exponent - 1023),
    };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{digits}p{exponent:+}")
}

fn unsigned(ty: Type, bits: u64) -> u64 {
    match ty.bits() {
        64 => bits,
        // C promotes narrow signed values to int, which %x then shows whole.
        width if ty.is_signed() && width < 32 => u64::from(signed(ty, bits) as u32),
        width => bits & ((1 << width) - 1),
    }
}

fn signed(ty: Type, bits: u64) -> i64 {
    if matches!(ty, Type::F32 | Type::F64 | Type::F16 | Type::BF16) {
        return float(ty, bits) as i64;
    }
    match (ty.bits(), ty.is_signed()) {
        (64, _) => bits as i64,
        (32, _) => i64::from(bits as i32),
        (width, true) => (bits << (64 - width)) as i64 >> (64 - width),
        (width, false) => (bits & ((1 << width) - 1)) as i64,
    }
}

fn float(ty: Type, bits: u64) -> f64 {
    let single = |bits: u32| f64::from(f32::from_bits(bits));
    match ty {
        Type::F64 => f64::from_bits(bits),
        Type::F32 | Type::TF32 => single(bits as u32),
        Type::F16 => single(Half::widen(bits as u32 & 0xffff)),
        Type::BF16 => single(Brain::widen(bits as u32 & 0xffff)),
        _ if ty.is_signed() => signed(ty, bits) as f64,
        _ => unsigned(ty, bits) as f64,
    }
}

/// The text at a constant-bank address, up to its NUL.
fn text(address: u64, bank: &[u8]) -> String {
    let rest = address
        .checked_sub(CONST_WINDOW)
        .and_then(|offset| bank.get(usize::try_from(offset).ok()?..));
    match rest {
        Some(rest) => {
            let end = rest
                .iter()
                .position(|&byte| byte == 0)
                .unwrap_or(rest.len());
            String::from_utf8_lossy(&rest[..end]).into_owned()
        }
        None => "(text outside the constant bank)".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts are those of C's printf (glibc).
    #[test]
    fn conversions_are_those_of_c() {
        let cases: [(&str, (Type, u64), &str); 18] = [
            ("%d", (Type::S32, 0xffff_fffb), "-5"),
            ("%5d|", (Type::S32, 42), "   42|"),
            ("%-5d|", (Type::S32, 42), "42   |"),
            ("%05d", (Type::S32, 0xffff_ffd6), "-0042"),
            ("%+d", (Type::S32, 7), "+7"),
            ("%u", (Type::U32, 0xffff_ffff), "4294967295"),
            ("%lld", (Type::S64, u64::MAX), "-1"),
            ("%#x", (Type::U32, 255), "0xff"),
            ("%08X", (Type::U32, 0xbeef), "0000BEEF"),
            ("%f", (Type::F32, 0x3fc0_0000), "1.500000"),
            ("%.2f", (Type::F64, 2.0f64.to_bits()), "2.00"),
            ("%e", (Type::F64, 12345.678f64.to_bits()), "1.234568e+04"),
            ("%g", (Type::F64, 0.0001f64.to_bits()), "0.0001"),
            ("%g", (Type::F64, 1e-5f64.to_bits()), "1e-05"),
            ("%g", (Type::F64, 1234567.0f64.to_bits()), "1.23457e+06"),
            ("%a", (Type::F64, 1.5f64.to_bits()), "0x1.8p+0"),
            ("%c%%", (Type::U32, 65), "A%"),
            ("%f", (Type::F32, 0xff80_0000), "-inf"),
        ];
        for (format, arg, expected) in cases {
            let mut out = String::new();
            format_c(&mut out, format, &[arg], &[]);
            assert_eq!(out, expected, "{format}");
        }
    }
}
