//! Memory instructions to handlers.

use super::code::{Extra, Op};
use super::structure::Lowerer;
use crate::exec::*;
use crate::ir::{
    Address, CONST_WINDOW, Inst, LOCAL_WINDOW, MbarrierOp as IrMbarrier, Operand, Reg,
    SHARED_WINDOW, Space, Type,
};

/// A load's handler where vector instructions gain little.
fn slow_load<S: Reach>(ty: Type, count: usize) -> Handler {
    fn of<S: Reach, C: Cell>(count: usize) -> Handler {
        match count {
            1 => slow::<Load<S, C, 1>>(),
            2 => slow::<Load<S, C, 2>>(),
            4 => slow::<Load<S, C, 4>>(),
            _ => slow::<Load<S, C, 8>>(),
        }
    }
    match (ty.memory_bytes(), ty.is_signed()) {
        (Some(1), false) => of::<S, U8>(count),
        (Some(1), true) => of::<S, S8>(count),
        (Some(2), false) => of::<S, U16>(count),
        (Some(2), true) => of::<S, S16>(count),
        (Some(4), _) => of::<S, W32>(count),
        _ => of::<S, W64>(count),
    }
}

/// A store's handler where vector instructions gain little.
fn slow_store<S: Reach>(ty: Type, count: usize) -> Handler {
    fn of<S: Reach, C: Cell>(count: usize) -> Handler {
        match count {
            1 => slow::<Store<S, C, 1>>(),
            2 => slow::<Store<S, C, 2>>(),
            4 => slow::<Store<S, C, 4>>(),
            _ => slow::<Store<S, C, 8>>(),
        }
    }
    match ty.memory_bytes() {
        Some(1) => of::<S, U8>(count),
        Some(2) => of::<S, U16>(count),
        Some(4) => of::<S, W32>(count),
        _ => of::<S, W64>(count),
    }
}

impl Isa {
    fn load_from<S: Reach>(self, ty: Type, count: usize) -> Handler {
        match (ty.memory_bytes(), count, ty.is_signed()) {
            (Some(1), 1, false) => self.pick::<Load<S, U8, 1>>(),
            (Some(1), 4, false) => self.pick::<Load<S, U8, 4>>(),
            (Some(2), 1, false) => self.pick::<Load<S, U16, 1>>(),
            (Some(2), 2, false) => self.pick::<Load<S, U16, 2>>(),
            (Some(2), 4, false) => self.pick::<Load<S, U16, 4>>(),
            (Some(4), 1, _) => self.pick::<Load<S, W32, 1>>(),
            (Some(4), 2, _) => self.pick::<Load<S, W32, 2>>(),
            (Some(4), 4, _) => self.pick::<Load<S, W32, 4>>(),
            (Some(8), 1, _) => self.pick::<Load<S, W64, 1>>(),
            (Some(8), 2, _) => self.pick::<Load<S, W64, 2>>(),
            _ => slow_load::<S>(ty, count),
        }
    }

    fn store_to<S: Reach>(self, ty: Type, count: usize) -> Handler {
        match (ty.memory_bytes(), count) {
            (Some(1), 1) => self.pick::<Store<S, U8, 1>>(),
            (Some(1), 4) => self.pick::<Store<S, U8, 4>>(),
            (Some(2), 1) => self.pick::<Store<S, U16, 1>>(),
            (Some(2), 2) => self.pick::<Store<S, U16, 2>>(),
            (Some(2), 4) => self.pick::<Store<S, U16, 4>>(),
            (Some(4), 1) => self.pick::<Store<S, W32, 1>>(),
            (Some(4), 2) => self.pick::<Store<S, W32, 2>>(),
            (Some(4), 4) => self.pick::<Store<S, W32, 4>>(),
            (Some(8), 1) => self.pick::<Store<S, W64, 1>>(),
            (Some(8), 2) => self.pick::<Store<S, W64, 2>>(),
            _ => slow_store::<S>(ty, count),
        }
    }

    fn load_param(self, ty: Type) -> Handler {
        match (ty.memory_bytes(), ty.is_signed()) {
            (Some(1), false) => slow::<LoadParam<U8>>(),
            (Some(1), true) => slow::<LoadParam<S8>>(),
            (Some(2), false) => slow::<LoadParam<U16>>(),
            (Some(2), true) => slow::<LoadParam<S16>>(),
            (Some(4), _) => self.pick::<LoadParam<W32>>(),
            _ => self.pick::<LoadParam<W64>>(),
        }
    }
}

impl Lowerer<'_> {
    /// An address's base register and whether it is 64 bits wide, and its offset.
    fn address(&mut self, addr: Address) -> (u32, bool, u64) {
        let wide = self.wide_base(addr.base);
        (self.value(addr.base, wide), wide, addr.offset as u64)
    }

    /// One register's place, or that of a list of them.
    fn list(&mut self, places: Vec<u32>) -> u32 {
        if let [one] = places[..] {
            return one;
        }
        let first = self.code.lists.len() as u32;
        self.code.lists.extend(places);
        first
    }

    pub(super) fn load(&mut self, space: Space, ty: Type, dst: &[Reg], addr: Address) {
        if let (Space::Param, Operand::Imm(base), [dst]) = (space, addr.base, dst)
            && self.load_param(ty, *dst, base.wrapping_add(addr.offset as u64))
        {
            return;
        }
        let (a, wide, x) = self.address(addr);
        let isa = self.isa;
        let count = dst.len();
        let run = match space {
            Space::Global => isa.load_from::<ReachGlobal>(ty, count),
            Space::Shared => isa.load_from::<ReachShared>(ty, count),
            Space::Generic => slow_load::<ReachGeneric>(ty, count),
            Space::Local => slow_load::<ReachLocal>(ty, count),
            Space::Const => slow_load::<ReachConst>(ty, count),
            Space::Param => slow_load::<ReachParam>(ty, count),
        };
        let places = dst.iter().map(|&reg| self.place(reg)).collect();
        let op = Op {
            dst: self.list(places),
            a,
            b: self.site(),
            c: u32::from(wide),
            x,
            ..self.op(run)
        };
        self.emit(op);
    }

    /// A parameter at a known place; whether it lies in the layout, aligned.
    fn load_param(&mut self, ty: Type, dst: Reg, offset: u64) -> bool {
        let size = u64::from(ty.memory_bytes().unwrap_or(8));
        let limit = u64::from(self.code.param_bytes);
        if !offset.is_multiple_of(size) || offset >= limit || size > limit - offset {
            return false;
        }
        let run = self.isa.load_param(ty);
        let op = Op {
            dst: self.place(dst),
            x: offset,
            ..self.op(run)
        };
        self.emit(op);
        true
    }

    pub(super) fn store(&mut self, space: Space, ty: Type, src: &[Operand], addr: Address) {
        let (a, wide, x) = self.address(addr);
        let isa = self.isa;
        let count = src.len();
        let run = match space {
            Space::Global => isa.store_to::<ReachGlobal>(ty, count),
            Space::Shared => isa.store_to::<ReachShared>(ty, count),
            Space::Local => slow_store::<ReachLocal>(ty, count),
            Space::Generic | Space::Const | Space::Param => slow_store::<ReachGeneric>(ty, count),
        };
        let wide_value = ty.bits() == 64;
        let places = src.iter().map(|&src| self.value(src, wide_value)).collect();
        let op = Op {
            dst: self.list(places),
            a,
            b: self.site(),
            c: u32::from(wide),
            x,
            ..self.op(run)
        };
        self.emit(op);
    }

    pub(super) fn atomic(&mut self, inst: &Inst) {
        let Inst::Atomic {
            op,
            space,
            ty,
            dst,
            addr,
            b,
            c,
            ..
        } = *inst
        else {
            unreachable!("called for an atomic")
        };
        let (a, wide_base, x) = self.address(addr);
        let wide = ty.bits() == 64;
        let value = self.value(b, wide);
        let site = AtomicSite {
            kind: AtomicKind { op, ty },
            space,
            wide_base,
            value,
            new: c.map_or(value, |c| self.value(c, wide)),
            dst: dst.map(|dst| self.place(dst)),
        };
        self.code.defers |= site.kind.depends_on_order() && space != Space::Shared;
        let extra = self.extra(Extra::Atomic(site));
        let op = Op {
            a,
            b: self.site(),
            c: extra,
            x,
            ..self.slow::<Atomic>()
        };
        self.emit(op);
    }

    pub(super) fn copy_async(
        &mut self,
        bytes: u32,
        shared: Address,
        global: Address,
        src_bytes: Option<Operand>,
    ) {
        let (a, shared_wide, shared_offset) = self.address(shared);
        let source = src_bytes.map(|bytes| self.v32(bytes));
        let extra = self.extra(Extra::Copy {
            bytes,
            shared_wide,
            shared_offset,
            source,
        });
        let op = Op {
            dst: extra,
            a,
            b: self.site(),
            c: self.v64(global.base),
            x: global.offset as u64,
            ..self.slow::<CopyAsync>()
        };
        self.emit(op);
    }

    pub(super) fn mbarrier(&mut self, addr: Address, op: IrMbarrier) {
        let (a, wide, x) = self.address(addr);
        let kind = match op {
            IrMbarrier::Init { count } => MbarrierKind::Init {
                count: self.v32(count),
            },
            IrMbarrier::Inval => MbarrierKind::Inval,
            IrMbarrier::Arrive {
                state,
                count,
                expect_tx,
            } => MbarrierKind::Arrive {
                state: state.map(|state| self.place(state)),
                count: self.v32(count),
                expect: expect_tx.map(|bytes| self.v32(bytes)),
            },
            IrMbarrier::ExpectTx { bytes } => MbarrierKind::ExpectTx {
                bytes: self.v32(bytes),
            },
            IrMbarrier::CompleteTx { bytes } => MbarrierKind::CompleteTx {
                bytes: self.v32(bytes),
            },
            IrMbarrier::TestWaitParity { done, parity } => MbarrierKind::TestParity {
                done: self.place(done),
                parity: self.v32(parity),
                suspend: false,
            },
            IrMbarrier::TryWaitParity { done, parity } => MbarrierKind::TestParity {
                done: self.place(done),
                parity: self.v32(parity),
                suspend: true,
            },
            IrMbarrier::TestWait { done, state } => MbarrierKind::TestState {
                done: self.place(done),
                state: self.v64(state),
            },
            IrMbarrier::CpAsyncArrive { noinc } => MbarrierKind::CopyArrive { noinc },
        };
        let extra = self.extra(Extra::Mbarrier(kind));
        let op = Op {
            a,
            b: u32::from(wide),
            c: extra,
            x,
            ..self.slow::<MbarrierOp>()
        };
        self.emit(op);
    }

    /// `cvta` either way: adds the window's first address or takes it away.
    pub(super) fn rebase(&mut self, space: Space, dst: Reg, a: Operand, to_generic: bool) {
        use crate::ir::RegClass;
        let window = window(space);
        let x = if to_generic {
            window
        } else {
            window.wrapping_neg()
        };
        let wide_source = match a {
            Operand::Reg(reg) => self.class(reg) == RegClass::B64,
            Operand::Imm(_) => true,
        };
        let wide_target = self.class(dst) == RegClass::B64;
        let run = match (wide_source, wide_target) {
            (false, false) => slow::<Rebase<u32, u32>>(),
            (false, true) => slow::<Rebase<u32, u64>>(),
            (true, false) => slow::<Rebase<u64, u32>>(),
            (true, true) => slow::<Rebase<u64, u64>>(),
        };
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, wide_source),
            x,
            ..self.op(run)
        };
        self.emit(op);
    }

    pub(super) fn is_space(&mut self, space: Space, dst: Reg, a: Operand) {
        let op = Op {
            dst: self.place(dst),
            a: self.v64(a),
            x: window(space),
            ..self.slow::<IsSpace>()
        };
        self.emit(op);
    }
}

/// First generic address of a space; 0 for device memory, whose addresses are generic as they are.
fn window(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Const | Space::Param => CONST_WINDOW,
        Space::Global | Space::Generic => 0,
    }
}
