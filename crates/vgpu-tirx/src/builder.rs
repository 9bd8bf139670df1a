//! Emits IR: registers, open blocks, constant folding, and value numbering of pure operations.

use std::collections::{HashMap, HashSet};

use vgpu::ir::*;

/// A pure operation with its operands in canonical form: a mutable register stands with its version.
type Key = (Inst, Vec<(Reg, u32)>);

/// Most nodes that a kernel may have.
pub(crate) const MAX_INSTRUCTIONS: usize = 1 << 20;

/// Stands for the destination in keys.
const ANY: Reg = Reg(u32::MAX);

/// An open kernel body.
pub(crate) struct Builder {
    pub(crate) regs: Vec<RegDecl>,
    /// Version of each mutable register; 0 for those that are written once.
    versions: Vec<u32>,
    /// Blocks that are open, outermost first.
    open: Vec<Block>,
    table: HashMap<Key, Vec<Reg>>,
    /// Keys that each open scope added.
    scopes: Vec<Vec<Key>>,
    /// `reg = source + constant` for 32- and 64-bit signed integers, both registers written once.
    sums: HashMap<Reg, (Operand, i64)>,
    /// `reg = a * b` for integers and floats, with the versions of mutable operands.
    products: HashMap<Reg, Product>,
    /// Registers that hold no negative number, read as signed. C's signed overflow is undefined, so
    /// sums and products of such numbers are none either.
    natural: HashSet<Reg>,
    pub(crate) location: Location,
    emitted: usize,
    /// Rises where memory may have changed in a way that is not tracked by root.
    pub(crate) epoch: u32,
}

#[derive(Clone)]
struct Product {
    ty: Type,
    a: Operand,
    b: Operand,
    versions: Vec<(Reg, u32)>,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            regs: Vec::new(),
            versions: Vec::new(),
            open: vec![Vec::new()],
            table: HashMap::new(),
            scopes: vec![Vec::new()],
            sums: HashMap::new(),
            products: HashMap::new(),
            natural: HashSet::new(),
            location: Location::default(),
            emitted: 0,
            epoch: 0,
        }
    }

    /// Whether the kernel has outgrown the limit.
    pub(crate) fn too_large(&self) -> bool {
        self.emitted > MAX_INSTRUCTIONS
    }

    /// A fresh register that will be written once.
    pub(crate) fn fresh(&mut self, class: RegClass) -> Reg {
        let letter = match class {
            RegClass::Pred => 'p',
            RegClass::B32 => 'r',
            RegClass::B64 => 'd',
        };
        let reg = Reg(self.regs.len() as u32);
        let name = format!("{letter}{}", reg.0);
        self.regs.push(RegDecl { name, class });
        self.versions.push(0);
        reg
    }

    /// A fresh register that may be written many times.
    pub(crate) fn fresh_mutable(&mut self, class: RegClass) -> Reg {
        let reg = self.fresh(class);
        self.versions[reg.0 as usize] = 1;
        reg
    }

    /// Whether the register keeps its value once it has one.
    pub(crate) fn is_mutable(&self, reg: Reg) -> bool {
        self.versions[reg.0 as usize] != 0
    }

    /// Whether the operand keeps its value.
    pub(crate) fn is_stable(&self, operand: Operand) -> bool {
        match operand {
            Operand::Reg(reg) => !self.is_mutable(reg),
            Operand::Imm(_) => true,
        }
    }

    /// Says that a mutable register has (or may have) a new value.
    pub(crate) fn touch(&mut self, reg: Reg) {
        let version = &mut self.versions[reg.0 as usize];
        debug_assert_ne!(*version, 0);
        *version += 1;
    }

    pub(crate) fn node(&mut self, kind: NodeKind) {
        self.emitted += 1;
        let location = self.location;
        if let Some(block) = self.open.last_mut() {
            block.push(Node { location, kind });
        }
    }

    pub(crate) fn inst(&mut self, inst: Inst) {
        self.node(NodeKind::Inst { guard: None, inst });
    }

    pub(crate) fn guarded(&mut self, guard: Guard, inst: Inst) {
        self.node(NodeKind::Inst {
            guard: Some(guard),
            inst,
        });
    }

    /// Opens a block with a scope for the values that are computed in it.
    pub(crate) fn begin(&mut self) {
        self.open.push(Vec::new());
        self.scopes.push(Vec::new());
    }

    /// Closes the innermost block.
    pub(crate) fn end(&mut self) -> Block {
        for key in self.scopes.pop().unwrap_or_default() {
            if let Some(stack) = self.table.get_mut(&key) {
                stack.pop();
            }
        }
        self.open.pop().unwrap_or_default()
    }

    /// The finished body.
    pub(crate) fn finish(&mut self) -> Block {
        std::mem::take(&mut self.open[0])
    }

    fn key<const N: usize>(&self, operands: &[Operand; N]) -> Vec<(Reg, u32)> {
        let mut versions: Vec<(Reg, u32)> = operands
            .iter()
            .filter_map(|operand| match operand {
                Operand::Reg(reg) if self.is_mutable(*reg) => {
                    Some((*reg, self.versions[reg.0 as usize]))
                }
                _ => None,
            })
            .collect();
        versions.dedup();
        versions
    }

    /// Emits an operation that depends on its operands alone, or finds the register that has its value.
    pub(crate) fn pure<const N: usize>(
        &mut self,
        class: RegClass,
        operands: [Operand; N],
        make: impl Fn(Reg, [Operand; N]) -> Inst,
    ) -> Reg {
        let key = (make(ANY, operands), self.key(&operands));
        if let Some(&reg) = self.table.get(&key).and_then(|stack| stack.last()) {
            return reg;
        }
        let dst = self.fresh(class);
        self.inst(make(dst, operands));
        self.remember(key, dst);
        dst
    }

    fn remember(&mut self, key: Key, dst: Reg) {
        self.table.entry(key.clone()).or_default().push(dst);
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(key);
        }
    }

    /// A load that may be found again while `version` (of the memory that it reads) stays the same.
    pub(crate) fn load(
        &mut self,
        inst: &Inst,
        classes: &[RegClass],
        version: (u32, u32),
    ) -> Vec<Reg> {
        let Inst::Ld { addr, dst, .. } = inst else {
            return Vec::new();
        };
        let mut marks = self.key(&[addr.base]);
        marks.push((ANY, version.0));
        marks.push((ANY, version.1));
        let key_of = |inst: &Inst, lane: usize| {
            let mut inst = inst.clone();
            if let Inst::Ld { dst, .. } = &mut inst {
                let lanes = dst.len();
                *dst = vec![ANY; lanes];
                dst[0] = Reg(u32::MAX - 1 - lane as u32);
            }
            inst
        };
        let lanes = dst.len();
        let known: Option<Vec<Reg>> = (0..lanes)
            .map(|lane| {
                let key = (key_of(inst, lane), marks.clone());
                self.table.get(&key).and_then(|stack| stack.last()).copied()
            })
            .collect();
        if let Some(known) = known {
            return known;
        }
        let fresh: Vec<Reg> = classes.iter().map(|&class| self.fresh(class)).collect();
        let mut made = inst.clone();
        if let Inst::Ld { dst, .. } = &mut made {
            dst.clone_from(&fresh);
        }
        self.inst(made);
        for (lane, &reg) in fresh.iter().enumerate() {
            self.remember((key_of(inst, lane), marks.clone()), reg);
        }
        fresh
    }

    /// `d = src`, into a fresh register.
    pub(crate) fn copy(&mut self, class: RegClass, src: Operand) -> Reg {
        let dst = self.fresh(class);
        self.inst(Inst::Mov { dst, src });
        dst
    }

    /// `dst = src` for a mutable register.
    pub(crate) fn assign(&mut self, dst: Reg, src: Operand) {
        if src != Operand::Reg(dst) {
            self.inst(Inst::Mov { dst, src });
            self.touch(dst);
        }
    }

    /// Says that a register holds no negative number.
    pub(crate) fn note_natural(&mut self, reg: Reg) {
        self.natural.insert(reg);
    }

    /// Whether an operand is known not to be negative, read as signed.
    pub(crate) fn is_natural(&self, operand: Operand, ty: Type) -> bool {
        match operand {
            Operand::Reg(reg) => self.natural.contains(&reg),
            Operand::Imm(bits) => sign_extend(bits, ty.bits()) >= 0,
        }
    }

    /// An integer operation at 32 or 64 bits, folded and simplified where it can be.
    pub(crate) fn int(&mut self, op: IntBinary, ty: Type, a: Operand, b: Operand) -> Operand {
        use IntBinary as Op;
        let result = self.int_operation(op, ty, a, b);
        let both = self.is_natural(a, ty) && self.is_natural(b, ty);
        let natural = match op {
            Op::Add | Op::MulLo | Op::Shl => ty.is_signed() && both,
            Op::Div | Op::Rem | Op::Min => both,
            Op::And => self.is_natural(a, ty) || self.is_natural(b, ty),
            Op::Max if ty.is_signed() => self.is_natural(a, ty) || self.is_natural(b, ty),
            Op::Shr => self.is_natural(a, ty),
            _ => false,
        };
        if let (true, Operand::Reg(reg)) = (natural, result)
            && !self.is_mutable(reg)
        {
            self.natural.insert(reg);
        }
        result
    }

    pub(crate) fn special(&mut self, special: Special) -> Operand {
        let reg = self.pure(special.class(), [], |dst, []| Inst::ReadSpecial {
            dst,
            special,
        });
        // Indices and extents are below 2^31.
        self.natural.insert(reg);
        Operand::Reg(reg)
    }

    fn int_operation(&mut self, op: IntBinary, ty: Type, a: Operand, b: Operand) -> Operand {
        use IntBinary as Op;
        let bits = ty.bits();
        if let (Operand::Imm(x), Operand::Imm(y)) = (a, b)
            && let Some(value) = fold(op, ty, x, y)
        {
            return Operand::Imm(value);
        }
        let commutes = matches!(
            op,
            Op::Add | Op::MulLo | Op::And | Op::Or | Op::Xor | Op::Min | Op::Max
        );
        let (a, b) = match (a, b) {
            (Operand::Imm(_), Operand::Reg(_)) if commutes => (b, a),
            _ => (a, b),
        };
        let all = mask(u64::MAX, bits);
        if let Operand::Imm(value) = b {
            let signed = sign_extend(value, bits);
            match (op, value) {
                (Op::Add | Op::Sub | Op::Or | Op::Xor | Op::Shl | Op::Shr, 0)
                | (Op::MulLo | Op::Div, 1) => return a,
                (Op::MulLo | Op::And, 0) | (Op::Rem, 1) => return Operand::Imm(0),
                (Op::And, _) if value == all => return a,
                (Op::Sub, _) => {
                    return self.int(
                        Op::Add,
                        ty,
                        a,
                        Operand::Imm(mask(value.wrapping_neg(), bits)),
                    );
                }
                (Op::Shl, _) if value < u64::from(bits) => {
                    return self.int(Op::MulLo, ty, a, Operand::Imm(1u64 << value));
                }
                (Op::Div | Op::Rem, _) if value != 0 => {
                    if let Some(result) = self.divide(op, ty, a, value) {
                        return result;
                    }
                }
                (Op::Add, _) => {
                    if let Some((source, constant)) = self.sum_of(a) {
                        let constant = constant.wrapping_add(signed);
                        return self.add_constant(ty, source, constant);
                    }
                    return self.add_constant(ty, a, signed);
                }
                (Op::MulLo, _) => {
                    if let Some((source, Operand::Imm(factor))) = self.product_of(a, ty) {
                        let factor = mask(factor.wrapping_mul(value), bits);
                        return self.int(Op::MulLo, ty, source, Operand::Imm(factor));
                    }
                    if let Some((source, constant)) = self.sum_of(a) {
                        let product = self.int(Op::MulLo, ty, source, b);
                        let constant = mask(constant.wrapping_mul(signed) as u64, bits);
                        return self.int(Op::Add, ty, product, Operand::Imm(constant));
                    }
                }
                _ => {}
            }
        }
        if op == Op::Add {
            if let Some((source, constant)) = self.sum_of(a) {
                let sum = self.int(Op::Add, ty, source, b);
                return self.int(Op::Add, ty, sum, Operand::Imm(mask(constant as u64, bits)));
            }
            if let Some((source, constant)) = self.sum_of(b) {
                let sum = self.int(Op::Add, ty, a, source);
                return self.int(Op::Add, ty, sum, Operand::Imm(mask(constant as u64, bits)));
            }
            for (product, addend) in [(a, b), (b, a)] {
                if let Some((x, y)) = self.product_of(product, ty) {
                    return Operand::Reg(self.pure(
                        ty.class(),
                        [x, y, addend],
                        |dst, [a, b, c]| {
                            let width = MadWidth::Lo;
                            Inst::Mad {
                                width,
                                ty,
                                dst,
                                a,
                                b,
                                c,
                            }
                        },
                    ));
                }
            }
        }
        if op == Op::Sub && a == b {
            return Operand::Imm(0);
        }
        if op == Op::Sub
            && let Some((source, constant)) = self.sum_of(a)
        {
            let difference = self.int(Op::Sub, ty, source, b);
            return self.int(
                Op::Add,
                ty,
                difference,
                Operand::Imm(mask(constant as u64, bits)),
            );
        }
        let emitted = match (op, b) {
            (Op::MulLo, Operand::Imm(value)) if value.is_power_of_two() => {
                let shift = Operand::Imm(u64::from(value.trailing_zeros()));
                self.pure(ty.class(), [a, shift], |dst, [a, b]| Inst::IntBinary {
                    op: Op::Shl,
                    ty,
                    dst,
                    a,
                    b,
                })
            }
            _ => self.pure(ty.class(), [a, b], |dst, [a, b]| Inst::IntBinary {
                op,
                ty,
                dst,
                a,
                b,
            }),
        };
        if op == Op::MulLo {
            self.note_product(emitted, ty, a, b);
        }
        Operand::Reg(emitted)
    }

    fn add_constant(&mut self, ty: Type, source: Operand, constant: i64) -> Operand {
        let bits = ty.bits();
        let constant = sign_extend(mask(constant as u64, bits), bits);
        match source {
            _ if constant == 0 => source,
            Operand::Imm(value) => Operand::Imm(mask(value.wrapping_add(constant as u64), bits)),
            Operand::Reg(_) => {
                let imm = Operand::Imm(mask(constant as u64, bits));
                // A product plus a constant is one instruction.
                let dst = if let Some((x, y)) = self.product_of(source, ty) {
                    self.pure(ty.class(), [x, y, imm], |dst, [a, b, c]| {
                        let width = MadWidth::Lo;
                        Inst::Mad {
                            width,
                            ty,
                            dst,
                            a,
                            b,
                            c,
                        }
                    })
                } else {
                    self.pure(ty.class(), [source, imm], |dst, [a, b]| Inst::IntBinary {
                        op: IntBinary::Add,
                        ty,
                        dst,
                        a,
                        b,
                    })
                };
                if ty.is_signed() && self.is_stable(source) {
                    self.sums.insert(dst, (source, constant));
                }
                Operand::Reg(dst)
            }
        }
    }

    /// `operand` as a stable source plus a constant, where it was computed so.
    pub(crate) fn sum_of(&self, operand: Operand) -> Option<(Operand, i64)> {
        match operand {
            Operand::Reg(reg) => self.sums.get(&reg).copied(),
            Operand::Imm(_) => None,
        }
    }

    fn note_product(&mut self, dst: Reg, ty: Type, a: Operand, b: Operand) {
        let versions = self.key(&[a, b]);
        self.products.insert(dst, Product { ty, a, b, versions });
    }

    fn product_of(&self, operand: Operand, ty: Type) -> Option<(Operand, Operand)> {
        let Operand::Reg(reg) = operand else {
            return None;
        };
        let product = self.products.get(&reg)?;
        let current = |&(reg, version): &(Reg, u32)| self.versions[reg.0 as usize] == version;
        (product.ty == ty && product.versions.iter().all(current)).then_some((product.a, product.b))
    }

    /// Division and remainder by a constant, without a division.
    fn divide(&mut self, op: IntBinary, ty: Type, a: Operand, divisor: u64) -> Option<Operand> {
        use IntBinary as Op;
        let bits = ty.bits();
        let imm = |value: u64| Operand::Imm(mask(value, bits));
        if !ty.is_signed() {
            if !divisor.is_power_of_two() {
                return None;
            }
            let shift = u64::from(divisor.trailing_zeros());
            return Some(match op {
                Op::Div => self.raw_int(Op::Shr, ty, a, imm(shift)),
                _ => self.int(Op::And, ty, a, imm(divisor - 1)),
            });
        }
        let signed = sign_extend(divisor, bits);
        if ty != Type::S32 || signed < 2 {
            return None;
        }
        let natural = self.is_natural(a, ty);
        if natural && divisor.is_power_of_two() {
            let shift = u64::from(divisor.trailing_zeros());
            return Some(match op {
                Op::Div => self.int(Op::Shr, ty, a, imm(shift)),
                _ => self.int(Op::And, ty, a, imm(divisor - 1)),
            });
        }
        let quotient = if divisor.is_power_of_two() {
            // Truncate towards zero: add divisor - 1 to negative dividends.
            let shift = u64::from(divisor.trailing_zeros());
            let sign = self.raw_int(Op::Shr, Type::S32, a, imm(31));
            let bias = self.raw_int(Op::Shr, Type::U32, sign, imm(32 - shift));
            let biased = self.int(Op::Add, Type::S32, a, bias);
            self.raw_int(Op::Shr, Type::S32, biased, imm(shift))
        } else {
            let (multiplier, shift) = magic(signed as u32);
            let high = Operand::Reg(self.pure(
                RegClass::B32,
                [a, imm(u64::from(multiplier))],
                |dst, [a, b]| Inst::IntBinary {
                    op: Op::MulHi,
                    ty: Type::S32,
                    dst,
                    a,
                    b,
                },
            ));
            // A multiplier of 2^31 or more reads as negative: add the dividend back.
            let high = if multiplier >= 1 << 31 {
                self.raw_int(Op::Add, Type::S32, high, a)
            } else {
                high
            };
            let shifted = self.raw_int(Op::Shr, Type::S32, high, imm(u64::from(shift)));
            if natural {
                shifted
            } else {
                let sign = self.raw_int(Op::Shr, Type::U32, a, imm(31));
                self.raw_int(Op::Add, Type::S32, shifted, sign)
            }
        };
        Some(match op {
            Op::Div => quotient,
            _ => {
                // a - quotient * divisor, in one step where the product is one.
                let minus = imm(mask(divisor.wrapping_neg(), bits));
                let product = self.int(Op::MulLo, Type::S32, quotient, minus);
                self.int(Op::Add, Type::S32, a, product)
            }
        })
    }

    fn raw_int(&mut self, op: IntBinary, ty: Type, a: Operand, b: Operand) -> Operand {
        Operand::Reg(
            self.pure(ty.class(), [a, b], |dst, [a, b]| Inst::IntBinary {
                op,
                ty,
                dst,
                a,
                b,
            }),
        )
    }

    /// A floating operation of scalars; a sum of a product becomes one fused operation, as nvcc does it.
    pub(crate) fn float(
        &mut self,
        op: FloatBinary,
        ty: Type,
        mods: FloatMods,
        a: Operand,
        b: Operand,
    ) -> Operand {
        if matches!(op, FloatBinary::Add | FloatBinary::Sub) && matches!(ty, Type::F32 | Type::F64)
        {
            let negate = op == FloatBinary::Sub;
            if let Some((x, y)) = self.product_of(a, ty) {
                let addend = if negate { self.negate(ty, mods, b) } else { b };
                return self.fma(ty, mods, x, y, addend);
            }
            if let Some((x, y)) = self.product_of(b, ty) {
                let x = if negate { self.negate(ty, mods, x) } else { x };
                return self.fma(ty, mods, x, y, a);
            }
        }
        let dst = self.pure(ty.class(), [a, b], |dst, [a, b]| Inst::FloatBinary {
            op,
            ty,
            mods,
            dst,
            a,
            b,
        });
        if op == FloatBinary::Mul {
            self.note_product(dst, ty, a, b);
        }
        Operand::Reg(dst)
    }

    pub(crate) fn fma(
        &mut self,
        ty: Type,
        mods: FloatMods,
        a: Operand,
        b: Operand,
        c: Operand,
    ) -> Operand {
        Operand::Reg(
            self.pure(ty.class(), [a, b, c], |dst, [a, b, c]| Inst::Fma {
                ty,
                mods,
                dst,
                a,
                b,
                c,
            }),
        )
    }

    fn negate(&mut self, ty: Type, mods: FloatMods, a: Operand) -> Operand {
        if let Operand::Imm(bits) = a {
            return Operand::Imm(bits ^ (1 << (ty.bits() - 1)));
        }
        self.float_unary(
            FloatUnary::Neg,
            ty,
            FloatMods {
                ftz: mods.ftz,
                ..Default::default()
            },
            a,
        )
    }

    pub(crate) fn float_unary(
        &mut self,
        op: FloatUnary,
        ty: Type,
        mods: FloatMods,
        a: Operand,
    ) -> Operand {
        Operand::Reg(self.pure(ty.class(), [a], |dst, [a]| Inst::FloatUnary {
            op,
            ty,
            mods,
            dst,
            a,
        }))
    }

    pub(crate) fn cvt(&mut self, to: Type, from: Type, mods: FloatMods, a: Operand) -> Operand {
        Operand::Reg(self.pure(to.class(), [a], |dst, [a]| Inst::Cvt {
            to,
            from,
            mods,
            satfinite: false,
            dst,
            a,
        }))
    }

    /// `base + index * size`, for a 64-bit base.
    pub(crate) fn wide_address(
        &mut self,
        base: Operand,
        index: Operand,
        ty: Type,
        size: u32,
    ) -> Operand {
        let size = Operand::Imm(u64::from(size));
        if ty.bits() == 64 {
            return Operand::Reg(self.pure(
                RegClass::B64,
                [index, size, base],
                |dst, [a, b, c]| {
                    let (width, ty) = (MadWidth::Lo, Type::S64);
                    Inst::Mad {
                        width,
                        ty,
                        dst,
                        a,
                        b,
                        c,
                    }
                },
            ));
        }
        Operand::Reg(
            self.pure(RegClass::B64, [index, size, base], |dst, [a, b, c]| {
                let width = MadWidth::Wide;
                Inst::Mad {
                    width,
                    ty,
                    dst,
                    a,
                    b,
                    c,
                }
            }),
        )
    }

    /// A logical operation on predicates, folded.
    pub(crate) fn logic(&mut self, op: BoolOp, a: Operand, b: Operand) -> Operand {
        match (op, a, b) {
            (_, Operand::Imm(x), Operand::Imm(y)) => Operand::Imm(match op {
                BoolOp::And => x & y,
                BoolOp::Or => x | y,
                BoolOp::Xor => x ^ y,
            }),
            (BoolOp::And, Operand::Imm(0), _) | (BoolOp::And, _, Operand::Imm(0)) => {
                Operand::Imm(0)
            }
            (BoolOp::Or, Operand::Imm(1), _) | (BoolOp::Or, _, Operand::Imm(1)) => Operand::Imm(1),
            (BoolOp::And, Operand::Imm(1), x)
            | (BoolOp::And, x, Operand::Imm(1))
            | (BoolOp::Or, Operand::Imm(0), x)
            | (BoolOp::Or, x, Operand::Imm(0)) => x,
            _ => Operand::Reg(
                self.pure(RegClass::Pred, [a, b], |dst, [a, b]| Inst::PredBinary {
                    op,
                    dst,
                    a,
                    b,
                }),
            ),
        }
    }

    pub(crate) fn not(&mut self, a: Operand) -> Operand {
        match a {
            Operand::Imm(x) => Operand::Imm(x ^ 1),
            Operand::Reg(_) => {
                Operand::Reg(self.pure(RegClass::Pred, [a], |dst, [a]| Inst::PredNot { dst, a }))
            }
        }
    }

    /// A predicate in a register.
    pub(crate) fn in_register(&mut self, class: RegClass, operand: Operand) -> Reg {
        match operand {
            Operand::Reg(reg) => reg,
            Operand::Imm(_) => self.pure(class, [operand], |dst, [src]| Inst::Mov { dst, src }),
        }
    }

    pub(crate) fn setp(
        &mut self,
        cmp: Compare,
        ty: Type,
        ftz: bool,
        a: Operand,
        b: Operand,
    ) -> Operand {
        if ty.is_integer()
            && let (Operand::Imm(x), Operand::Imm(y)) = (a, b)
        {
            let bits = ty.bits();
            let order = if ty.is_signed() {
                sign_extend(x, bits).cmp(&sign_extend(y, bits))
            } else {
                x.cmp(&y)
            };
            let holds = match cmp {
                Compare::Eq => order.is_eq(),
                Compare::Ne => order.is_ne(),
                Compare::Lt => order.is_lt(),
                Compare::Le => order.is_le(),
                Compare::Gt => order.is_gt(),
                _ => order.is_ge(),
            };
            return Operand::Imm(u64::from(holds));
        }
        Operand::Reg(self.pure(RegClass::Pred, [a, b], |dst, [a, b]| Inst::Setp {
            cmp,
            ty,
            ftz,
            dst,
            a,
            b,
            combine: None,
        }))
    }

    pub(crate) fn select(
        &mut self,
        class: RegClass,
        pred: Operand,
        a: Operand,
        b: Operand,
    ) -> Operand {
        match pred {
            Operand::Imm(0) => b,
            Operand::Imm(_) => a,
            _ if a == b => a,
            Operand::Reg(_) => Operand::Reg(self.pure(class, [pred, a, b], |dst, [pred, a, b]| {
                let pred = match pred {
                    Operand::Reg(reg) => reg,
                    Operand::Imm(_) => ANY,
                };
                Inst::Selp { dst, a, b, pred }
            })),
        }
    }
}

/// The low `bits` bits.
pub(crate) fn mask(value: u64, bits: u32) -> u64 {
    if bits >= 64 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

/// The low `bits` bits as a signed number.
pub(crate) fn sign_extend(value: u64, bits: u32) -> i64 {
    let shift = 64 - bits.clamp(1, 64);
    ((value << shift) as i64) >> shift
}

fn fold(op: IntBinary, ty: Type, x: u64, y: u64) -> Option<u64> {
    use IntBinary as Op;
    let bits = ty.bits();
    let (sx, sy) = (sign_extend(x, bits), sign_extend(y, bits));
    let signed = ty.is_signed();
    let value = match op {
        Op::Add => x.wrapping_add(y),
        Op::Sub => x.wrapping_sub(y),
        Op::MulLo => x.wrapping_mul(y),
        Op::And => x & y,
        Op::Or => x | y,
        Op::Xor => x ^ y,
        Op::Div if y != 0 && signed => sx.wrapping_div(sy) as u64,
        Op::Div if y != 0 => x / y,
        Op::Rem if y != 0 && signed => sx.wrapping_rem(sy) as u64,
        Op::Rem if y != 0 => x % y,
        Op::Min if signed => sx.min(sy) as u64,
        Op::Min => x.min(y),
        Op::Max if signed => sx.max(sy) as u64,
        Op::Max => x.max(y),
        Op::Shl if y < u64::from(bits) => x << y,
        Op::Shl => 0,
        Op::Shr if signed => (sx >> y.min(63)) as u64,
        Op::Shr if y < u64::from(bits) => x >> y,
        Op::Shr => 0,
        _ => return None,
    };
    Some(mask(value, bits))
}

/// Multiplier and shift so that `(n * multiplier) >> (32 + shift)`, rounded towards zero, is
/// `n / divisor` for every 32-bit signed `n`.
///
/// After Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994): with
/// l = ceil(log2 d), m = floor(2^(31+l) / d) + 1 and shift l - 1.
fn magic(divisor: u32) -> (u32, u32) {
    let log = 32 - (divisor - 1).leading_zeros();
    let multiplier = (1u64 << (31 + log)) / u64::from(divisor) + 1;
    (multiplier as u32, log - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_division_is_division() {
        let dividends = [
            i32::MIN,
            i32::MIN + 1,
            -100,
            -7,
            -1,
            0,
            1,
            6,
            7,
            8,
            99,
            123_456_789,
            i32::MAX,
        ];
        for divisor in (2..2000).chain([65_537, 1_000_003, i32::MAX as u32]) {
            if divisor.is_power_of_two() {
                continue;
            }
            let (multiplier, shift) = magic(divisor);
            for n in dividends {
                let product = i64::from(n) * i64::from(multiplier as i32);
                let mut high = (product >> 32) as i32;
                if multiplier >= 1 << 31 {
                    high = high.wrapping_add(n);
                }
                let quotient = (high >> shift).wrapping_add(((n as u32) >> 31) as i32);
                assert_eq!(quotient, n / divisor as i32, "{n} / {divisor}");
            }
        }
    }

    #[test]
    fn constants_are_gathered_at_the_end_of_a_sum() {
        let mut b = Builder::new();
        let x = Operand::Reg(b.fresh(RegClass::B32));
        let y = Operand::Reg(b.fresh(RegClass::B32));
        let one = b.int(IntBinary::Add, Type::S32, x, Operand::Imm(1));
        let sum = b.int(IntBinary::Add, Type::S32, one, y);
        let (_, constant) = b.sum_of(sum).unwrap();
        assert_eq!(constant, 1);
        let less = b.int(IntBinary::Sub, Type::S32, sum, Operand::Imm(1));
        assert_eq!(b.sum_of(less), None);
    }

    #[test]
    fn a_value_is_not_found_again_after_its_operand_changed() {
        let mut b = Builder::new();
        let m = b.fresh_mutable(RegClass::B32);
        let other = Operand::Reg(b.fresh(RegClass::B32));
        let first = b.int(IntBinary::Xor, Type::B32, Operand::Reg(m), other);
        let again = b.int(IntBinary::Xor, Type::B32, Operand::Reg(m), other);
        assert_eq!(first, again);
        b.assign(m, Operand::Imm(3));
        let later = b.int(IntBinary::Xor, Type::B32, Operand::Reg(m), other);
        assert_ne!(first, later);
    }
}
