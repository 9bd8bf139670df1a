//! CUDA's mathematical functions by name.
//!
//! TVM compiles its kernels with `--use_fast_math`: single-precision division, square roots and the
//! functions that the CUDA C++ Programming Guide lists ("Functions Affected by -use_fast_math") are
//! the hardware's approximations, and subnormals are flushed. The same holds here.

use vgpu::ir::*;

use crate::dtype::{Elem, S32, U32, U64};
use crate::error::TranslateError;
use crate::expr::{FAST, mods_of};
use crate::graph::Id;
use crate::kernel::{Kernel, Result};
use crate::value::{Scalar, Value};

fn single(value: f32) -> Operand {
    Operand::Imm(u64::from(value.to_bits()))
}

impl Kernel<'_> {
    /// A call of a function that CUDA's headers declare.
    pub(crate) fn extern_call(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        let mut values = Vec::with_capacity(args.len());
        let mut lanes = 1;
        for &arg in args {
            let value = match self.value(arg)? {
                Value::Scalar(scalar) => vec![scalar],
                Value::Vector(vector) => vector,
                Value::Pointer(pointer) => vec![self.address_bits(pointer)],
                _ => {
                    let what = format!("the function {name:?} with such operands");
                    return Err(self.incomplete(what, id));
                }
            };
            lanes = lanes.max(value.len());
            values.push(value);
        }
        if name == "__dp4a"
            && let [a, b, c] = values.as_slice()
            && let Some(sum) = self.dot_of_bytes(a, b, c, id)?
        {
            return Ok(Value::Scalar(sum));
        }
        let mut results = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            let operands: Vec<Scalar> = values
                .iter()
                .filter_map(|vector| vector.get(lane).or(vector.first()).copied())
                .collect();
            match self.extern_scalar(name, &operands, id)? {
                Some(result) => results.push(result),
                None => return self.unmodelled(&format!("function {name}"), id),
            }
        }
        Ok(Value::lanes(results))
    }

    /// `__dp4a`, whose operands are four bytes each, as a vector or in a word, and a sum so far.
    fn dot_of_bytes(
        &mut self,
        a: &[Scalar],
        b: &[Scalar],
        c: &[Scalar],
        id: Id,
    ) -> Result<Option<Scalar>> {
        let mut words = [Operand::Imm(0); 2];
        let mut signed = [false; 2];
        for (place, lanes) in [a, b].into_iter().enumerate() {
            let ty = lanes[0].ty;
            words[place] = match (lanes.len(), ty) {
                (4, Elem::Int { bits: 8, .. }) => self.join_bytes(lanes),
                (1, Elem::Int { bits: 32, .. }) => lanes[0].op,
                _ => return Ok(None),
            };
            signed[place] = ty.is_signed();
        }
        let [c] = c else { return Ok(None) };
        if signed[0] != signed[1] {
            return Ok(None);
        }
        let ty = if signed[0] { S32 } else { U32 };
        let c = self.convert(*c, ty, id)?;
        let [a_signed, b_signed] = signed;
        let dst = self.b.pure(
            RegClass::B32,
            [words[0], words[1], c.op],
            |dst, [a, b, c]| Inst::Dp4a {
                a_signed,
                b_signed,
                dst,
                a,
                b,
                c,
            },
        );
        Ok(Some(Scalar::new(Operand::Reg(dst), ty)))
    }

    fn extern_scalar(&mut self, name: &str, args: &[Scalar], id: Id) -> Result<Option<Scalar>> {
        // Half-precision functions (`hexp`, `h2..`): through single precision, rounded once.
        if let Some(function) = half_function(name)
            && let [a] = args
            && matches!(a.ty, Elem::F16 | Elem::BF16)
        {
            let wide = self.convert(*a, Elem::F32, id)?;
            let result = self.extern_scalar(function, &[wide], id)?;
            return match result {
                Some(result) => Ok(Some(self.convert(result, a.ty, id)?)),
                None => Ok(None),
            };
        }
        match args {
            [a] if a.ty.is_float() => self.float_function(name, *a),
            [a] if a.ty.is_int() => self.int_function(name, *a, id),
            [a, b] if a.ty == b.ty && a.ty.is_float() => self.float_function2(name, *a, *b, id),
            _ => Ok(None),
        }
    }

    fn float_function(&mut self, name: &str, a: Scalar) -> Result<Option<Scalar>> {
        let ty = a.ty;
        let ir = ty.ir();
        let mods = mods_of(ty);
        let rounded = |rounding| FloatMods { rounding, ..mods };
        let result = match (name, ty) {
            ("fabsf" | "fabs" | "__habs" | "habs", _) => {
                self.b.float_unary(FloatUnary::Abs, ir, mods, a.op)
            }
            ("floorf" | "floor" | "hfloor", _) => self.b.cvt(ir, ir, rounded(Rounding::Down), a.op),
            ("ceilf" | "ceil" | "hceil", _) => self.b.cvt(ir, ir, rounded(Rounding::Up), a.op),
            ("truncf" | "trunc" | "htrunc", _) => self.b.cvt(ir, ir, rounded(Rounding::Zero), a.op),
            ("nearbyintf" | "nearbyint" | "rintf" | "rint" | "hrint", _) => {
                self.b.cvt(ir, ir, rounded(Rounding::NearestEven), a.op)
            }
            ("sqrt", Elem::F64) => self.b.float_unary(FloatUnary::Sqrt, ir, mods, a.op),
            (_, Elem::F32) => match self.single_function(name, a.op) {
                Some(result) => result,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(Scalar::new(result, ty)))
    }

    fn single_function(&mut self, name: &str, a: Operand) -> Option<Operand> {
        use std::f32::consts::{LN_2, LN_10, LOG2_E, LOG10_2};
        let times = |kernel: &mut Self, a: Operand, factor: f32| {
            kernel
                .b
                .float(FloatBinary::Mul, Type::F32, FAST, a, single(factor))
        };
        Some(match name {
            "expf" | "__expf" => {
                let scaled = times(self, a, LOG2_E);
                self.fast_unary(FloatUnary::Ex2Approx, scaled)
            }
            "exp2f" | "__exp2f" => self.fast_unary(FloatUnary::Ex2Approx, a),
            "exp10f" | "__exp10f" => {
                let scaled = times(self, a, LN_10 * LOG2_E);
                self.fast_unary(FloatUnary::Ex2Approx, scaled)
            }
            "logf" | "__logf" => {
                let log = self.fast_unary(FloatUnary::Lg2Approx, a);
                times(self, log, LN_2)
            }
            "log2f" | "__log2f" => self.fast_unary(FloatUnary::Lg2Approx, a),
            "log10f" | "__log10f" => {
                let log = self.fast_unary(FloatUnary::Lg2Approx, a);
                times(self, log, LOG10_2)
            }
            "sinf" | "__sinf" => self.fast_unary(FloatUnary::SinApprox, a),
            "cosf" | "__cosf" => self.fast_unary(FloatUnary::CosApprox, a),
            "tanf" | "__tanf" => {
                let sin = self.fast_unary(FloatUnary::SinApprox, a);
                let cos = self.fast_unary(FloatUnary::CosApprox, a);
                self.b
                    .float(FloatBinary::DivApprox, Type::F32, FAST, sin, cos)
            }
            "sqrtf" | "__fsqrt_rn" => self.fast_unary(FloatUnary::SqrtApprox, a),
            "rsqrtf" | "__frsqrt_rn" => self.fast_unary(FloatUnary::RsqrtApprox, a),
            "__frcp_rn" => self
                .b
                .float_unary(FloatUnary::Rcp, Type::F32, FloatMods::default(), a),
            "hrcp" => self.reciprocal(a),
            "tanhf" => self.tanh(a),
            "__tanhf" => self.fast_unary(FloatUnary::TanhApprox, a),
            "erff" => self.erf(a),
            "coshf" | "sinhf" => {
                let scaled = times(self, a, LOG2_E);
                let up = self.fast_unary(FloatUnary::Ex2Approx, scaled);
                let down = self.reciprocal(up);
                let half_up = times(self, up, 0.5);
                let half = if name == "coshf" { 0.5 } else { -0.5 };
                self.b.fma(Type::F32, FAST, down, single(half), half_up)
            }
            _ => return None,
        })
    }

    /// tanh(x) = x + x^3 p(x^2) for small x; elsewhere 1 - 2 / (1 + e^2x), with the sign of x.
    fn tanh(&mut self, x: Operand) -> Operand {
        let f32x = Type::F32;
        let magnitude = self.b.float_unary(FloatUnary::Abs, f32x, FAST, x);
        let scaled = self.b.float(
            FloatBinary::Mul,
            f32x,
            FAST,
            magnitude,
            single(2.0 * std::f32::consts::LOG2_E),
        );
        let power = self.fast_unary(FloatUnary::Ex2Approx, scaled);
        let below = self
            .b
            .float(FloatBinary::Add, f32x, FAST, power, single(1.0));
        let quotient = self.reciprocal(below);
        let large = self.b.fma(f32x, FAST, quotient, single(-2.0), single(1.0));
        let large =
            Operand::Reg(
                self.b
                    .pure(RegClass::B32, [x, large], |dst, [a, b]| Inst::FloatBinary {
                        op: FloatBinary::Copysign,
                        ty: Type::F32,
                        mods: FloatMods::default(),
                        dst,
                        a,
                        b,
                    }),
            );
        // The series' coefficients: -1/3, 2/15, -17/315, 62/2835, -1382/155925.
        let square = self.b.float(FloatBinary::Mul, f32x, FAST, x, x);
        let mut sum = single(-1382.0 / 155_925.0);
        for coefficient in [62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0] {
            sum = self.b.fma(f32x, FAST, sum, square, single(coefficient));
        }
        let cube = self.b.float(FloatBinary::Mul, f32x, FAST, square, sum);
        let small = self.b.fma(f32x, FAST, cube, x, x);
        let is_small = self
            .b
            .setp(Compare::Lt, f32x, true, magnitude, single(0.35));
        self.b.select(RegClass::B32, is_small, small, large)
    }

    /// erf(x): its Taylor series up to 1; elsewhere 1 - t p(t) e^(-x^2) with t = 1 / (1 + x / 2),
    /// p being the fit of Numerical Recipes ("Special Functions", erfc), good to 1.2e-7.
    fn erf(&mut self, x: Operand) -> Operand {
        let f32x = Type::F32;
        let magnitude = self.b.float_unary(FloatUnary::Abs, f32x, FAST, x);
        let below = self.b.fma(f32x, FAST, magnitude, single(0.5), single(1.0));
        let t = self.reciprocal(below);
        let mut sum = single(0.170_872_77);
        for coefficient in [
            -0.822_152_23,
            1.488_515_9,
            -1.135_204,
            0.278_868_07,
            -0.186_288_06,
            0.096_784_18,
            0.374_091_96,
            1.000_023_7,
            -1.265_512_2,
        ] {
            sum = self.b.fma(f32x, FAST, sum, t, single(coefficient));
        }
        let negated = self.b.float_unary(FloatUnary::Neg, f32x, FAST, magnitude);
        let exponent = self.b.fma(f32x, FAST, negated, magnitude, sum);
        let scaled = self.b.float(
            FloatBinary::Mul,
            f32x,
            FAST,
            exponent,
            single(std::f32::consts::LOG2_E),
        );
        let power = self.fast_unary(FloatUnary::Ex2Approx, scaled);
        let minus_t = self.b.float_unary(FloatUnary::Neg, f32x, FAST, t);
        let large = self.b.fma(f32x, FAST, minus_t, power, single(1.0));
        let large =
            Operand::Reg(
                self.b
                    .pure(RegClass::B32, [x, large], |dst, [a, b]| Inst::FloatBinary {
                        op: FloatBinary::Copysign,
                        ty: Type::F32,
                        mods: FloatMods::default(),
                        dst,
                        a,
                        b,
                    }),
            );
        // 2/sqrt(pi) sum (-1)^n x^(2n+1) / (n! (2n+1)), n to 9: within 1e-8 up to |x| = 1.
        let square = self.b.float(FloatBinary::Mul, f32x, FAST, x, x);
        let mut factorial = 1.0f64;
        let mut coefficients = Vec::new();
        for n in 0..10i32 {
            if n > 0 {
                factorial *= f64::from(n);
            }
            let sign = if n % 2 == 0 { 1.0 } else { -1.0 };
            let value =
                sign * std::f64::consts::FRAC_2_SQRT_PI / (factorial * f64::from(2 * n + 1));
            coefficients.push(value as f32);
        }
        let mut series = single(coefficients[9]);
        for &coefficient in coefficients[..9].iter().rev() {
            series = self.b.fma(f32x, FAST, series, square, single(coefficient));
        }
        let small = self.b.float(FloatBinary::Mul, f32x, FAST, series, x);
        let is_small = self.b.setp(Compare::Lt, f32x, true, magnitude, single(1.0));
        self.b.select(RegClass::B32, is_small, small, large)
    }

    fn float_function2(
        &mut self,
        name: &str,
        a: Scalar,
        b: Scalar,
        at: Id,
    ) -> Result<Option<Scalar>> {
        let ty = a.ty;
        let ir = ty.ir();
        let mods = mods_of(ty);
        let result = match (name, ty) {
            ("fmaxf" | "fmax" | "max" | "__hmax", _) => {
                self.b.float(FloatBinary::Max, ir, mods, a.op, b.op)
            }
            ("fminf" | "fmin" | "min" | "__hmin", _) => {
                self.b.float(FloatBinary::Min, ir, mods, a.op, b.op)
            }
            ("powf" | "__powf", Elem::F32) => {
                let log = self.fast_unary(FloatUnary::Lg2Approx, a.op);
                let product = self.b.float(FloatBinary::Mul, ir, mods, b.op, log);
                self.fast_unary(FloatUnary::Ex2Approx, product)
            }
            ("fmodf", Elem::F32) => return Ok(Some(self.fmod(a, b, at)?)),
            ("__fdividef", Elem::F32) => self.b.float(FloatBinary::DivApprox, ir, mods, a.op, b.op),
            ("copysignf" | "copysign", Elem::F32 | Elem::F64) => {
                // The ISA gives the magnitude of its second operand the sign of its first.
                Operand::Reg(self.b.pure(ty.class(), [b.op, a.op], |dst, [a, b]| {
                    Inst::FloatBinary {
                        op: FloatBinary::Copysign,
                        ty: ir,
                        mods: FloatMods::default(),
                        dst,
                        a,
                        b,
                    }
                }))
            }
            _ => return Ok(None),
        };
        Ok(Some(Scalar::new(result, ty)))
    }

    /// fmod in double precision: exact where the quotient stays below 2^53, as it does for all
    /// quotients of normal singles below 2^29 in the first step; larger ones are not modelled.
    pub(crate) fn fmod(&mut self, a: Scalar, b: Scalar, at: Id) -> Result<Scalar> {
        let none = FloatMods::default();
        let x = self.convert(a, Elem::F64, at)?.op;
        let y = self.convert(b, Elem::F64, at)?.op;
        let quotient = self.b.float(FloatBinary::Div, Type::F64, none, x, y);
        let mods = FloatMods {
            rounding: Rounding::Zero,
            ..none
        };
        let whole = self.b.cvt(Type::F64, Type::F64, mods, quotient);
        let minus = self.b.float_unary(FloatUnary::Neg, Type::F64, none, whole);
        let rest = self.b.fma(Type::F64, none, minus, y, x);
        // The quotient may have been rounded up to a whole number: then the rest has the wrong sign.
        let zero = Operand::Imm(0);
        let product = self.b.float(FloatBinary::Mul, Type::F64, none, rest, x);
        let wrong = self.b.setp(Compare::Lt, Type::F64, false, product, zero);
        let size = self.b.float_unary(FloatUnary::Abs, Type::F64, none, y);
        let step =
            Operand::Reg(
                self.b
                    .pure(RegClass::B64, [x, size], |dst, [a, b]| Inst::FloatBinary {
                        op: FloatBinary::Copysign,
                        ty: Type::F64,
                        mods: none,
                        dst,
                        a,
                        b,
                    }),
            );
        let corrected = self.b.float(FloatBinary::Add, Type::F64, none, rest, step);
        let rest = self.b.select(RegClass::B64, wrong, corrected, rest);
        let magnitude = self.b.float_unary(FloatUnary::Abs, Type::F64, none, whole);
        let limit = Operand::Imm(((1u64 << 53) as f64).to_bits());
        let too_large = self.b.setp(Compare::Ge, Type::F64, false, magnitude, limit);
        let infinite = Operand::Imm(f64::INFINITY.to_bits());
        let finite = self
            .b
            .setp(Compare::Lt, Type::F64, false, magnitude, infinite);
        let outside = self.b.logic(BoolOp::And, too_large, finite);
        if let Operand::Reg(pred) = outside {
            let name = format!(
                "fmodf of operands whose quotient exceeds 2^53{}",
                self.place(at)
            );
            self.b.guarded(
                Guard {
                    pred,
                    negated: false,
                },
                Inst::Unmodelled { name },
            );
        }
        self.convert(Scalar::new(rest, Elem::F64), Elem::F32, at)
    }

    fn int_function(&mut self, name: &str, a: Scalar, at: Id) -> Result<Option<Scalar>> {
        let unary = match name {
            "__popc" | "__popcll" => IntUnary::Popc,
            "__clz" | "__clzll" => IntUnary::Clz,
            "__brev" | "__brevll" => IntUnary::Brev,
            "__ffs" => {
                let bits = self.convert(a, U32, at)?;
                return Ok(Some(self.find_first_set(bits)));
            }
            "abs" | "__abs" | "llabs" => IntUnary::Abs,
            _ => return Ok(None),
        };
        let wide = match (unary, name.ends_with("ll")) {
            (IntUnary::Abs, _) => self.promoted(a.ty),
            (_, true) => U64,
            (_, false) => U32,
        };
        let a = self.convert(a, wide, at)?;
        let counts = matches!(unary, IntUnary::Popc | IntUnary::Clz);
        let ty = match (unary, wide.bits()) {
            (IntUnary::Abs, _) => wide.ir(),
            (_, 64) => Type::B64,
            _ => Type::B32,
        };
        let class = if counts { RegClass::B32 } else { wide.class() };
        let dst = self.b.pure(class, [a.op], |dst, [a]| Inst::IntUnary {
            op: unary,
            ty,
            dst,
            a,
        });
        Ok(Some(Scalar::new(
            Operand::Reg(dst),
            if counts { S32 } else { wide },
        )))
    }

    /// One more than the lowest set bit's position; 0 for 0.
    pub(crate) fn find_first_set(&mut self, bits: Scalar) -> Scalar {
        let reversed = self
            .b
            .pure(RegClass::B32, [bits.op], |dst, [a]| Inst::IntUnary {
                op: IntUnary::Brev,
                ty: Type::B32,
                dst,
                a,
            });
        // The highest set bit of the reversed word; all ones (-1) where there is none.
        let zeros = self
            .b
            .pure(RegClass::B32, [Operand::Reg(reversed)], |dst, [a]| {
                Inst::IntUnary {
                    op: IntUnary::Clz,
                    ty: Type::B32,
                    dst,
                    a,
                }
            });
        let position = self.b.int(
            IntBinary::Add,
            Type::S32,
            Operand::Reg(zeros),
            Operand::Imm(1),
        );
        let none = self
            .b
            .setp(Compare::Eq, Type::U32, false, bits.op, Operand::Imm(0));
        let found = self
            .b
            .select(RegClass::B32, none, Operand::Imm(0), position);
        Scalar::new(found, S32)
    }

    /// A failed operand check in an operator.
    pub(crate) fn bad_operand(&self, operator: &str, what: &str) -> TranslateError {
        TranslateError::malformed(format!("operator {operator}: {what}"))
    }
}

fn half_function(name: &str) -> Option<&'static str> {
    Some(match name {
        "hexp" => "expf",
        "hexp2" => "exp2f",
        "hexp10" => "exp10f",
        "hlog" => "logf",
        "hlog2" => "log2f",
        "hlog10" => "log10f",
        "hsin" => "sinf",
        "hcos" => "cosf",
        "hsqrt" => "sqrtf",
        "hrsqrt" => "rsqrtf",
        "hrcp" => "hrcp",
        "htanh" => "tanhf",
        "herf" => "erff",
        _ => return None,
    })
}
