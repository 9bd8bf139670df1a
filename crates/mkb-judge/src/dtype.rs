//! Element types of tensors: their names, sizes, precision, and how their bytes read as numbers.

use half::f16;

/// A torch element type that a problem's outputs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are torch's.
pub enum Dtype {
    Bool,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Int8,
    Int16,
    Int32,
    Int64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Float8E4M3Fn,
    Float8E5M2,
    Float8E8M0Fnu,
    Float4E2M1FnX2,
    Complex64,
    Complex128,
}

const NAMES: [(Dtype, &str); 19] = [
    (Dtype::Bool, "bool"),
    (Dtype::UInt8, "uint8"),
    (Dtype::UInt16, "uint16"),
    (Dtype::UInt32, "uint32"),
    (Dtype::UInt64, "uint64"),
    (Dtype::Int8, "int8"),
    (Dtype::Int16, "int16"),
    (Dtype::Int32, "int32"),
    (Dtype::Int64, "int64"),
    (Dtype::Float16, "float16"),
    (Dtype::BFloat16, "bfloat16"),
    (Dtype::Float32, "float32"),
    (Dtype::Float64, "float64"),
    (Dtype::Float8E4M3Fn, "float8_e4m3fn"),
    (Dtype::Float8E5M2, "float8_e5m2"),
    (Dtype::Float8E8M0Fnu, "float8_e8m0fnu"),
    (Dtype::Float4E2M1FnX2, "float4_e2m1fn_x2"),
    (Dtype::Complex64, "complex64"),
    (Dtype::Complex128, "complex128"),
];

impl Dtype {
    /// From torch's name without the `torch.`; `None` for a type that no output may have.
    pub fn from_name(name: &str) -> Option<Dtype> {
        NAMES.iter().find(|(_, n)| *n == name).map(|(d, _)| *d)
    }

    /// torch's name without the `torch.`.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(d, _)| *d == self)
            .map_or("unknown", |(_, n)| n)
    }

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Dtype::Bool
            | Dtype::UInt8
            | Dtype::Int8
            | Dtype::Float8E4M3Fn
            | Dtype::Float8E5M2
            | Dtype::Float8E8M0Fnu
            | Dtype::Float4E2M1FnX2 => 1,
            Dtype::UInt16 | Dtype::Int16 | Dtype::Float16 | Dtype::BFloat16 => 2,
            Dtype::UInt32 | Dtype::Int32 | Dtype::Float32 => 4,
            Dtype::UInt64 | Dtype::Int64 | Dtype::Float64 | Dtype::Complex64 => 8,
            Dtype::Complex128 => 16,
        }
    }

    /// Distance from 1 to the next number, for the types that the tolerance rule covers; `None` for
    /// those that must be equal.
    pub const fn epsilon(self) -> Option<f64> {
        match self {
            Dtype::Float16 => Some(1.0 / 1024.0),
            Dtype::BFloat16 => Some(1.0 / 128.0),
            Dtype::Float32 => Some(f32::EPSILON as f64),
            Dtype::Float64 => Some(f64::EPSILON),
            Dtype::Float8E4M3Fn => Some(0.125),
            Dtype::Float8E5M2 => Some(0.25),
            _ => None,
        }
    }

    /// Reads `out.len()` consecutive elements as f64. Integers of 64 bits round; complex and packed
    /// types have no such reading and panic, since equality covers them.
    pub fn read(self, bytes: &[u8], out: &mut [f64]) {
        fn each<const N: usize>(bytes: &[u8], out: &mut [f64], f: impl Fn([u8; N]) -> f64) {
            let (chunks, _) = bytes.as_chunks::<N>();
            for (slot, chunk) in out.iter_mut().zip(chunks) {
                *slot = f(*chunk);
            }
        }
        match self {
            Dtype::Bool => each(bytes, out, |[b]| f64::from(u8::from(b != 0))),
            Dtype::UInt8 => each(bytes, out, |[b]| f64::from(b)),
            Dtype::Int8 => each(bytes, out, |b| f64::from(i8::from_le_bytes(b))),
            Dtype::UInt16 => each(bytes, out, |b| f64::from(u16::from_le_bytes(b))),
            Dtype::Int16 => each(bytes, out, |b| f64::from(i16::from_le_bytes(b))),
            Dtype::UInt32 => each(bytes, out, |b| f64::from(u32::from_le_bytes(b))),
            Dtype::Int32 => each(bytes, out, |b| f64::from(i32::from_le_bytes(b))),
            Dtype::UInt64 => each(bytes, out, |b| u64::from_le_bytes(b) as f64),
            Dtype::Int64 => each(bytes, out, |b| i64::from_le_bytes(b) as f64),
            Dtype::Float16 => each(bytes, out, |b| f16::from_le_bytes(b).to_f64()),
            Dtype::BFloat16 => each(bytes, out, |b| {
                f64::from(f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
            }),
            Dtype::Float32 => each(bytes, out, |b| f64::from(f32::from_le_bytes(b))),
            Dtype::Float64 => each(bytes, out, f64::from_le_bytes),
            Dtype::Float8E4M3Fn => each(bytes, out, |[b]| e4m3(b)),
            Dtype::Float8E5M2 => each(bytes, out, |[b]| f16::from_bits(u16::from(b) << 8).to_f64()),
            Dtype::Float8E8M0Fnu => each(bytes, out, |[b]| {
                if b == 0xff {
                    f64::NAN
                } else {
                    2f64.powi(i32::from(b) - 127)
                }
            }),
            Dtype::Float4E2M1FnX2 | Dtype::Complex64 | Dtype::Complex128 => {
                panic!("{} is compared by equality", self.name())
            }
        }
    }
}

/// A float8_e4m3fn code's value: 4 exponent bits of bias 7, 3 mantissa bits, no infinity, NaN at all ones.
fn e4m3(code: u8) -> f64 {
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(code >> 3 & 0xf);
    let mantissa = f64::from(code & 7);
    match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => sign * mantissa * 2f64.powi(-9),
        _ => sign * (8.0 + mantissa) * 2f64.powi(exponent - 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
        let mut out = vec![0.0; bytes.len() / dtype.size()];
        dtype.read(bytes, &mut out);
        out
    }

    #[test]
    fn fp8_codes_read_as_the_ocp_format_says() {
        // OCP 8-bit floating point specification 1.0, table 1: e4m3 max 448, min normal 2^-6,
        // min subnormal 2^-9, NaN S.1111.111; e5m2 max 57344, infinity S.11111.00.
        assert_eq!(
            read(Dtype::Float8E4M3Fn, &[0x7e, 0x08, 0x01, 0xfe, 0x80]),
            [448.0, 2f64.powi(-6), 2f64.powi(-9), -448.0, -0.0]
        );
        assert!(read(Dtype::Float8E4M3Fn, &[0x7f])[0].is_nan());
        assert_eq!(
            read(Dtype::Float8E5M2, &[0x7b, 0x7c, 0x01]),
            [57344.0, f64::INFINITY, 2f64.powi(-16)]
        );
    }

    #[test]
    fn halves_and_integers_read_exactly() {
        assert_eq!(
            read(Dtype::BFloat16, &[0x80, 0x3f, 0x49, 0xc0]),
            [1.0, -3.140625]
        );
        assert_eq!(
            read(Dtype::Float16, &[0x00, 0x3c, 0x01, 0x00]),
            [1.0, 2f64.powi(-24)]
        );
        assert_eq!(read(Dtype::Int8, &[0xff, 0x7f]), [-1.0, 127.0]);
    }

    #[test]
    fn names_round_trip() {
        for (dtype, name) in NAMES {
            assert_eq!(Dtype::from_name(name), Some(dtype));
            assert_eq!(dtype.name(), name);
        }
        assert_eq!(Dtype::from_name("quint8"), None);
    }
}
