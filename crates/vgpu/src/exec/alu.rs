//! Handlers that apply a function lane by lane; the functions are in `int`, `float` and `convert`.

use super::{Exec, Handle, Lane, mask_of};
use crate::lower::Op;
use std::marker::PhantomData;

/// A function of one lane.
pub(crate) trait Fn1 {
    type A: Lane;
    type R: Lane;
    fn f(a: Self::A) -> Self::R;
}

/// A function of two lanes.
pub(crate) trait Fn2 {
    type A: Lane;
    type B: Lane;
    type R: Lane;
    fn f(a: Self::A, b: Self::B) -> Self::R;
}

/// A function of three lanes.
pub(crate) trait Fn3 {
    type A: Lane;
    type B: Lane;
    type C: Lane;
    type R: Lane;
    fn f(a: Self::A, b: Self::B, c: Self::C) -> Self::R;
}

/// A comparison of two lanes.
pub(crate) trait Test2 {
    type A: Lane;
    fn f(a: Self::A, b: Self::A) -> bool;
}

/// Defines functions of lanes: `Name(a: u32, b: u32) -> u32 = expression;`.
macro_rules! lane_functions {
    () => {};
    ($name:ident($a:ident: $at:ty) -> $r:ty = $body:expr; $($rest:tt)*) => {
        pub(crate) struct $name;
        impl crate::exec::Fn1 for $name {
            type A = $at;
            type R = $r;
            #[inline(always)]
            fn f($a: $at) -> $r { $body }
        }
        lane_functions! { $($rest)* }
    };
    ($name:ident($a:ident: $at:ty, $b:ident: $bt:ty) -> bool = $body:expr; $($rest:tt)*) => {
        pub(crate) struct $name;
        impl crate::exec::Test2 for $name {
            type A = $at;
            #[inline(always)]
            fn f($a: $at, $b: $bt) -> bool { $body }
        }
        lane_functions! { $($rest)* }
    };
    ($name:ident($a:ident: $at:ty, $b:ident: $bt:ty) -> $r:ty = $body:expr; $($rest:tt)*) => {
        pub(crate) struct $name;
        impl crate::exec::Fn2 for $name {
            type A = $at;
            type B = $bt;
            type R = $r;
            #[inline(always)]
            fn f($a: $at, $b: $bt) -> $r { $body }
        }
        lane_functions! { $($rest)* }
    };
    ($name:ident($a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty) -> $r:ty = $body:expr; $($rest:tt)*) => {
        pub(crate) struct $name;
        impl crate::exec::Fn3 for $name {
            type A = $at;
            type B = $bt;
            type C = $ct;
            type R = $r;
            #[inline(always)]
            fn f($a: $at, $b: $bt, $c: $ct) -> $r { $body }
        }
        lane_functions! { $($rest)* }
    };
}
pub(crate) use lane_functions;

/// `dst = f(a)`.
pub(crate) struct Map1<F>(PhantomData<F>);

impl<F: Fn1> Handle for Map1<F> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let a = x.read::<F::A>(op.a);
            let mut r = [F::R::ZERO; 32];
            for lane in 0..32 {
                r[lane] = F::f(a[lane]);
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// `dst = f(a, b)`.
pub(crate) struct Map2<F>(PhantomData<F>);

impl<F: Fn2> Handle for Map2<F> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let a = x.read::<F::A>(op.a);
            let b = x.read::<F::B>(op.b);
            let mut r = [F::R::ZERO; 32];
            for lane in 0..32 {
                r[lane] = F::f(a[lane], b[lane]);
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// `dst = f(a, b, c)`.
pub(crate) struct Map3<F>(PhantomData<F>);

impl<F: Fn3> Handle for Map3<F> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let a = x.read::<F::A>(op.a);
            let b = x.read::<F::B>(op.b);
            let c = x.read::<F::C>(op.c);
            let mut r = [F::R::ZERO; 32];
            for lane in 0..32 {
                r[lane] = F::f(a[lane], b[lane], c[lane]);
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// `dst = combine(test(a, b), c)`: `x` is 0 for none, else 1 and, 2 or, 3 xor, plus 4 to negate `c`.
pub(crate) struct Compare2<F>(PhantomData<F>);

impl<F: Test2> Handle for Compare2<F> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let a = x.read::<F::A>(op.a);
            let b = x.read::<F::A>(op.b);
            let mut value = mask_of::<I>(|lane| F::f(a[lane], b[lane]));
            if op.x != 0 {
                let other = x.pred(op.c) ^ if op.x & 4 != 0 { u32::MAX } else { 0 };
                value = match op.x & 3 {
                    1 => value & other,
                    2 => value | other,
                    _ => value ^ other,
                };
            }
            x.set_pred(op.dst, mask, value);
        }
        pc + 1
    }
}

/// `dst = c ? a : b`, `c` a predicate.
pub(crate) struct Select<T>(PhantomData<T>);

impl<T: Lane> Handle for Select<T> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of this width.
        unsafe {
            let a = x.read::<T>(op.a);
            let b = x.read::<T>(op.b);
            let which = x.pred(op.c);
            let mut r = [T::ZERO; 32];
            for lane in 0..32 {
                r[lane] = if which >> lane & 1 != 0 {
                    a[lane]
                } else {
                    b[lane]
                };
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// Boolean function of predicates `a`, `b`, `c` by the truth table `x` (bit `a*4 + b*2 + c`).
pub(crate) struct PredicateTable;

impl Handle for PredicateTable {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose predicates.
        unsafe {
            let (a, b, c) = (x.pred(op.a), x.pred(op.b), x.pred(op.c));
            let mut value = 0;
            for row in 0..8 {
                if op.x >> row & 1 != 0 {
                    let a = if row & 4 != 0 { a } else { !a };
                    let b = if row & 2 != 0 { b } else { !b };
                    let c = if row & 1 != 0 { c } else { !c };
                    value |= a & b & c;
                }
            }
            x.set_pred(op.dst, mask, value);
        }
        pc + 1
    }
}

/// `mov` of a register.
pub(crate) struct Copy1<T>(PhantomData<T>);

impl<T: Lane> Fn1 for Copy1<T> {
    type A = T;
    type R = T;
    #[inline(always)]
    fn f(a: T) -> T {
        a
    }
}

/// `mov.b64 {dst, b}, a` and `mov.b32`: `x` is 0 for 64 bits, 1 for 32.
pub(crate) struct Unpack2;

impl Handle for Unpack2 {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let (lo, hi) = if op.x == 0 {
                let a = x.read::<u64>(op.a);
                (a.map(|v| v as u32), a.map(|v| (v >> 32) as u32))
            } else {
                let a = x.read::<u32>(op.a);
                (a.map(|v| v & 0xffff), a.map(|v| v >> 16))
            };
            x.write(op.dst, mask, lo);
            x.write(op.b, mask, hi);
        }
        pc + 1
    }
}
