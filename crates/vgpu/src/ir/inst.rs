//! The instructions: each is one that the PTX ISA documents, with its semantics.

use super::types::*;

/// A virtual register: an index into [`super::Kernel::regs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// A source operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// The same bits in every lane, in the low bits of the operand's type.
    Imm(u64),
}

/// Where a memory instruction points: a register or immediate, plus a constant number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// Base, 64 bits wide for global and generic, 32 or 64 elsewhere.
    pub base: Operand,
    /// Bytes added to it.
    pub offset: i64,
}

/// Two-operand integer operations, at 16, 32 or 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IntBinary {
    Add,
    /// Signed 32-bit addition clamped to the range (`add.sat.s32`).
    AddSat,
    Sub,
    /// Signed 32-bit subtraction clamped to the range.
    SubSat,
    MulLo,
    MulHi,
    /// Twice the width: 16x16 to 32, 32x32 to 64.
    MulWide,
    /// Low 32 bits of the product of 24-bit operands.
    Mul24Lo,
    /// High 32 of the 48 bits of the product of 24-bit operands.
    Mul24Hi,
    /// Division; by zero all bits are set; the most negative by -1 wraps.
    Div,
    /// Remainder; by zero it is the dividend.
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    /// Shift left; the amount is a 32-bit unsigned operand, clamped to the width.
    Shl,
    /// Shift right, arithmetic for signed types; the amount is clamped.
    Shr,
}

/// One-operand integer operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IntUnary {
    Neg,
    Abs,
    Not,
    /// 1 where the operand is zero, else 0.
    Cnot,
    /// Number of set bits; the result is 32 bits.
    Popc,
    /// Number of leading zeros; the result is 32 bits.
    Clz,
    /// Position of the most significant non-sign bit, or 0xFFFFFFFF; the result is 32 bits.
    Bfind,
    /// Number of bits to shift left to bring that bit to the top; the result is 32 bits.
    BfindShiftAmt,
    Brev,
}

/// Two-operand floating operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FloatBinary {
    Add,
    Sub,
    Mul,
    /// IEEE division with the given rounding (`div.rn`...).
    Div,
    /// `div.full.f32`: at most 2 ulp.
    DivFull,
    /// `div.approx.f32`: at most 2 ulp for |b| in [2^-126, 2^126].
    DivApprox,
    /// The number wins over NaN; -0 < +0.
    Min,
    /// The number wins over NaN; -0 < +0.
    Max,
    /// NaN wins (`min.NaN`).
    MinNan,
    /// NaN wins (`max.NaN`).
    MaxNan,
    /// `min.xorsign.abs`.
    MinXorsignAbs,
    /// `max.xorsign.abs`.
    MaxXorsignAbs,
    /// Magnitude of b with the sign of a, as in the ISA's `copysign d, a, b`.
    Copysign,
}

/// One-operand floating operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FloatUnary {
    Neg,
    Abs,
    /// IEEE reciprocal with the given rounding.
    Rcp,
    RcpApprox,
    /// IEEE square root with the given rounding.
    Sqrt,
    SqrtApprox,
    RsqrtApprox,
    Ex2Approx,
    Lg2Approx,
    SinApprox,
    CosApprox,
    TanhApprox,
}

/// Classes that `testp` tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FloatClass {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Which half, or width, of a product `mad` adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MadWidth {
    Lo,
    Hi,
    Wide,
    /// `mad24.lo`.
    Lo24,
    /// `mad24.hi`.
    Hi24,
}

/// Modes of `prmt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum PermuteMode {
    /// Each nibble of the selector picks a byte; its top bit replicates the sign.
    Index,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Read-modify-write operations on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    /// Wrapping increment: `old >= b ? 0 : old + 1`.
    Inc,
    /// Wrapping decrement: `old == 0 || old > b ? b : old - 1`.
    Dec,
}

/// Modes of `shfl.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ShuffleMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// Modes of `vote.sync` that give a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum VoteMode {
    All,
    Any,
    Uni,
}

/// Reductions of `redux.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduxOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    /// `redux.sync.min.NaN.f32`.
    MinNan,
    /// `redux.sync.max.NaN.f32`.
    MaxNan,
}

/// Reductions of `bar.red`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BarrierReduction {
    Popc,
    And,
    Or,
}

/// Fences, by what they order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FenceKind {
    /// `fence` / `membar` with an ordering and a scope.
    Memory(Ordering, Scope),
    /// `fence.proxy.async` and its kin: between the generic and the async proxy.
    ProxyAsync,
    /// `fence.mbarrier_init.release.cluster`.
    MbarrierInit,
}

/// Operations on an mbarrier object in shared memory (8 bytes, PTX ISA "mbarrier").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MbarrierOp {
    /// Initialise with an expected arrival count.
    Init {
        /// Arrivals that complete a phase, 1 to 2^20 - 1.
        count: Operand,
    },
    /// End its life.
    Inval,
    /// Arrive; the phase's state goes to `state` (b64) where asked.
    Arrive {
        /// Register for the state before the arrival.
        state: Option<Reg>,
        /// How many arrivals.
        count: Operand,
        /// Bytes to expect first (`arrive.expect_tx`).
        expect_tx: Option<Operand>,
    },
    /// Raise the pending transaction count.
    ExpectTx {
        /// Bytes.
        bytes: Operand,
    },
    /// Lower the pending transaction count.
    CompleteTx {
        /// Bytes.
        bytes: Operand,
    },
    /// Whether the phase of the given parity has completed; does not wait.
    TestWaitParity {
        /// Predicate that receives the answer.
        done: Reg,
        /// 0 or 1.
        parity: Operand,
    },
    /// Wait for the phase of the given parity; the executor may suspend the warp until it completes.
    TryWaitParity {
        /// Predicate that receives the answer (true once complete).
        done: Reg,
        /// 0 or 1.
        parity: Operand,
    },
    /// Whether the phase that `state` names has completed.
    TestWait {
        /// Predicate that receives the answer.
        done: Reg,
        /// State that an arrival returned.
        state: Operand,
    },
    /// `cp.async.mbarrier.arrive`: arrive when the thread's earlier cp.async complete.
    CpAsyncArrive {
        /// Without raising the pending count first (`noinc`).
        noinc: bool,
    },
}

/// A guard `@%p` or `@!%p`: lanes for which it does not hold skip the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guard {
    /// A predicate register.
    pub pred: Reg,
    /// Whether it must be false.
    pub negated: bool,
}

/// A part of a `printf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrintArg {
    /// How the bits are read.
    pub ty: Type,
    /// The value.
    pub value: Operand,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Operand fields are named as in the ISA.
pub enum Inst {
    /// Copy bits (`mov`), of any class, predicates included (an immediate predicate is 0 or 1).
    Mov {
        dst: Reg,
        src: Operand,
    },
    /// Read a special register.
    ReadSpecial {
        dst: Reg,
        special: Special,
    },
    /// Join two b32 into a b64, or two 16-bit values into a b32 (`mov.b64 d, {lo, hi}`).
    Pack {
        dst: Reg,
        lo: Operand,
        hi: Operand,
    },
    /// Split a b64 into two b32, or a b32 into two 16-bit values.
    Unpack {
        lo: Reg,
        hi: Reg,
        src: Operand,
    },

    IntBinary {
        op: IntBinary,
        ty: Type,
        dst: Reg,
        a: Operand,
        b: Operand,
    },
    IntUnary {
        op: IntUnary,
        ty: Type,
        dst: Reg,
        a: Operand,
    },
    /// `mad`: of `Wide`, `c` and `dst` have twice the width of `ty`.
    Mad {
        width: MadWidth,
        ty: Type,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// `add{c}.cc` / `sub{c}.cc` at 32 or 64 bits, carries (borrows) in predicates.
    Carry {
        subtract: bool,
        ty: Type,
        dst: Reg,
        carry_out: Option<Reg>,
        a: Operand,
        b: Operand,
        carry_in: Option<Reg>,
    },
    /// `sad`: c + |a - b|.
    Sad {
        ty: Type,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// Bit field extract: position and length from the low 8 bits of `pos`, `len`.
    Bfe {
        ty: Type,
        dst: Reg,
        a: Operand,
        pos: Operand,
        len: Operand,
    },
    /// Bit field insert of `a` into `b`.
    Bfi {
        ty: Type,
        dst: Reg,
        a: Operand,
        b: Operand,
        pos: Operand,
        len: Operand,
    },
    /// Any function of three 32-bit operands, by its truth table.
    Lop3 {
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
        table: u8,
    },
    /// Funnel shift of the 64 bits `hi:lo`; `clamp` or wrap of the amount at 32.
    FunnelShift {
        left: bool,
        clamp: bool,
        dst: Reg,
        lo: Operand,
        hi: Operand,
        amount: Operand,
    },
    /// Byte permute of `b:a`.
    Prmt {
        mode: PermuteMode,
        dst: Reg,
        a: Operand,
        b: Operand,
        selector: Operand,
    },
    /// Four-way dot product of bytes plus c; each operand signed or not.
    Dp4a {
        a_signed: bool,
        b_signed: bool,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// Two-way dot product of 16-bit by 8-bit values plus c.
    Dp2a {
        hi: bool,
        a_signed: bool,
        b_signed: bool,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },

    FloatBinary {
        op: FloatBinary,
        ty: Type,
        mods: FloatMods,
        dst: Reg,
        a: Operand,
        b: Operand,
    },
    FloatUnary {
        op: FloatUnary,
        ty: Type,
        mods: FloatMods,
        dst: Reg,
        a: Operand,
    },
    /// Fused multiply-add, rounded once.
    Fma {
        ty: Type,
        mods: FloatMods,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// Class test of f32 or f64 into a predicate.
    Testp {
        class: FloatClass,
        ty: Type,
        dst: Reg,
        a: Operand,
    },

    /// Conversion between scalar types (and from a packed type to f16x2/bf16x2: `cvt.rn.f16x2.e4m3x2`).
    /// `mods.sat` of a conversion to a float is 0 to 1, of one to an integer clamps (floats always clamp);
    /// `satfinite` clamps to the largest finite value of a narrow float.
    Cvt {
        to: Type,
        from: Type,
        mods: FloatMods,
        satfinite: bool,
        dst: Reg,
        a: Operand,
    },
    /// Two f32 into a packed type: `hi` becomes element 1, `lo` element 0 (`cvt.rn.bf16x2.f32 d, hi, lo`).
    CvtPack {
        to: Type,
        mods: FloatMods,
        satfinite: bool,
        dst: Reg,
        hi: Operand,
        lo: Operand,
    },

    /// Compare into a predicate, combined with `combine.1` where given.
    Setp {
        cmp: Compare,
        ty: Type,
        ftz: bool,
        dst: Reg,
        a: Operand,
        b: Operand,
        combine: Option<(BoolOp, Guard)>,
    },
    /// `dst = pred ? a : b`, of any class.
    Selp {
        dst: Reg,
        a: Operand,
        b: Operand,
        pred: Reg,
    },
    /// Boolean operation on predicates.
    PredBinary {
        op: BoolOp,
        dst: Reg,
        a: Operand,
        b: Operand,
    },
    PredNot {
        dst: Reg,
        a: Operand,
    },

    /// Load 1, 2, 4 or 8 values of `ty` (together 1 to 32 bytes, aligned to their sum) at `addr`.
    Ld {
        space: Space,
        ty: Type,
        dst: Vec<Reg>,
        addr: Address,
        order: Ordering,
        scope: Scope,
        cache: CacheHint,
    },
    /// Store 1, 2, 4 or 8 values of `ty`.
    St {
        space: Space,
        ty: Type,
        src: Vec<Operand>,
        addr: Address,
        order: Ordering,
        scope: Scope,
        cache: CacheHint,
    },
    /// Atomic read-modify-write; without `dst` it is a reduction (`red`). `c` is the new value of a `Cas`.
    Atomic {
        op: AtomicOp,
        space: Space,
        ty: Type,
        dst: Option<Reg>,
        addr: Address,
        b: Operand,
        c: Option<Operand>,
        order: Ordering,
        scope: Scope,
    },
    /// A prefetch or another hint on an address: checked for nothing, charged as an instruction.
    Prefetch {
        space: Space,
        addr: Address,
    },
    /// To a generic address from `space`.
    CvtaToGeneric {
        space: Space,
        dst: Reg,
        a: Operand,
    },
    /// From a generic address to `space`.
    CvtaFromGeneric {
        space: Space,
        dst: Reg,
        a: Operand,
    },
    /// Whether a generic address lies in `space`.
    IsSpace {
        space: Space,
        dst: Reg,
        a: Operand,
    },

    /// `cp.async`: `bytes` is 4, 8 or 16; of these `src_bytes` come from global memory, the rest are zero.
    CpAsync {
        bytes: u32,
        shared: Address,
        global: Address,
        src_bytes: Option<Operand>,
        cache: CacheHint,
    },
    CpAsyncCommit,
    /// Wait until at most `pending` of the newest groups are unfinished.
    CpAsyncWaitGroup {
        pending: u32,
    },
    CpAsyncWaitAll,
    /// An operation on the mbarrier at a shared address.
    Mbarrier {
        addr: Address,
        op: MbarrierOp,
    },
    Fence {
        kind: FenceKind,
    },

    /// `shfl.sync` of b32; `in_range` receives whether the source lane was in range.
    Shfl {
        mode: ShuffleMode,
        dst: Reg,
        in_range: Option<Reg>,
        a: Operand,
        lane: Operand,
        clamp: Operand,
        members: Operand,
    },
    Vote {
        mode: VoteMode,
        dst: Reg,
        pred: Guard,
        members: Operand,
    },
    /// `vote.sync.ballot.b32`.
    Ballot {
        dst: Reg,
        pred: Guard,
        members: Operand,
    },
    /// `match.any.sync`: the mask of the member lanes that hold the same value.
    MatchAny {
        ty: Type,
        dst: Reg,
        a: Operand,
        members: Operand,
    },
    /// `match.all.sync`: members if all hold the same value, else 0.
    MatchAll {
        ty: Type,
        dst: Reg,
        pred: Option<Reg>,
        a: Operand,
        members: Operand,
    },
    /// `redux.sync` of 32-bit values; `abs` for f32.
    Redux {
        op: ReduxOp,
        ty: Type,
        abs: bool,
        dst: Reg,
        a: Operand,
        members: Operand,
    },
    /// `elect.sync`: `is_leader` holds in the elected lane; `leader` receives its lane id.
    Elect {
        leader: Option<Reg>,
        is_leader: Reg,
        members: Operand,
    },
    ActiveMask {
        dst: Reg,
    },
    /// `bar.warp.sync`.
    WarpSync {
        members: Operand,
    },

    /// `barrier.sync id {, count}`; `aligned` is `bar.sync`. `count` is in threads, a multiple of 32.
    BarrierSync {
        aligned: bool,
        id: Operand,
        count: Option<Operand>,
    },
    /// `barrier.arrive id, count`.
    BarrierArrive {
        aligned: bool,
        id: Operand,
        count: Operand,
    },
    /// `barrier.red`: a predicate for `And`, `Or`; a b32 for `Popc`.
    BarrierReduce {
        aligned: bool,
        op: BarrierReduction,
        dst: Reg,
        id: Operand,
        count: Option<Operand>,
        pred: Guard,
    },

    Nanosleep {
        nanoseconds: Operand,
    },
    /// End the kernel with a fault.
    Trap,
    /// Fault with a message where the predicate is false.
    Assert {
        pred: Guard,
        message: String,
    },
    /// Device printf: C's conversions over the arguments.
    Printf {
        format: String,
        args: Vec<PrintArg>,
    },
    /// An operation known by name that the virtual GPU does not model: reaching it makes the launch incomplete.
    Unmodelled {
        name: String,
    },
}
