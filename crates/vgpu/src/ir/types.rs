//! The vocabulary of the IR: register classes, value types, spaces, roundings, scopes and special registers.

/// What a virtual register holds, for each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegClass {
    /// One bit.
    Pred,
    /// 32 bits; narrower values sit in the low bits (see [`Type`]).
    B32,
    /// 64 bits.
    B64,
}

/// How an instruction reads or writes the bits of a register.
///
/// A value narrower than 32 bits occupies the low bits of a [`RegClass::B32`] register. An
/// instruction that produces a signed type sign-extends it to 32 bits, any other type is
/// zero-extended; an instruction that consumes one looks at the low bits alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // The names are the ISA's own.
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    BF16,
    F32,
    F64,
    /// Two halves in 32 bits, element 0 in the low half.
    F16x2,
    /// Two bfloat16 in 32 bits, element 0 in the low half.
    BF16x2,
    /// Two singles in 64 bits, element 0 in the low half.
    F32x2,
    U16x2,
    S16x2,
    /// A single whose low 13 mantissa bits are zero after conversion.
    TF32,
    E4M3,
    E5M2,
    E2M1,
    E2M3,
    E3M2,
    UE8M0,
    E4M3x2,
    E5M2x2,
    /// Two 4-bit codes in the low 8 bits.
    E2M1x2,
    /// Two 6-bit codes, each in the low bits of a byte.
    E2M3x2,
    /// Two 6-bit codes, each in the low bits of a byte.
    E3M2x2,
    UE8M0x2,
}

impl Type {
    /// Every type, in declaration order.
    pub const ALL: [Type; 34] = [
        Type::B8,
        Type::B16,
        Type::B32,
        Type::B64,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
        Type::S8,
        Type::S16,
        Type::S32,
        Type::S64,
        Type::F16,
        Type::BF16,
        Type::F32,
        Type::F64,
        Type::F16x2,
        Type::BF16x2,
        Type::F32x2,
        Type::U16x2,
        Type::S16x2,
        Type::TF32,
        Type::E4M3,
        Type::E5M2,
        Type::E2M1,
        Type::E2M3,
        Type::E3M2,
        Type::UE8M0,
        Type::E4M3x2,
        Type::E5M2x2,
        Type::E2M1x2,
        Type::E2M3x2,
        Type::E3M2x2,
        Type::UE8M0x2,
    ];

    /// Bits that a value occupies in a register.
    pub const fn bits(self) -> u32 {
        match self {
            Type::E2M1 => 4,
            Type::E2M3 | Type::E3M2 => 6,
            Type::B8
            | Type::U8
            | Type::S8
            | Type::E4M3
            | Type::E5M2
            | Type::UE8M0
            | Type::E2M1x2 => 8,
            Type::B16
            | Type::U16
            | Type::S16
            | Type::F16
            | Type::BF16
            | Type::E4M3x2
            | Type::E5M2x2
            | Type::E2M3x2
            | Type::E3M2x2
            | Type::UE8M0x2 => 16,
            Type::B32
            | Type::U32
            | Type::S32
            | Type::F32
            | Type::TF32
            | Type::F16x2
            | Type::BF16x2
            | Type::U16x2
            | Type::S16x2 => 32,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 | Type::F32x2 => 64,
        }
    }

    /// Bytes that a load or store of this type moves; `None` where memory has no such access.
    pub const fn memory_bytes(self) -> Option<u32> {
        match self.bits() {
            8 => Some(1),
            16 => Some(2),
            32 => Some(4),
            64 => Some(8),
            _ => None,
        }
    }

    /// The class of register that holds a value of this type.
    pub const fn class(self) -> RegClass {
        if self.bits() == 64 {
            RegClass::B64
        } else {
            RegClass::B32
        }
    }

    /// Whether it is a signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    /// Whether it is an integer or untyped bits.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Type::B8
                | Type::B16
                | Type::B32
                | Type::B64
                | Type::U8
                | Type::U16
                | Type::U32
                | Type::U64
                | Type::S8
                | Type::S16
                | Type::S32
                | Type::S64
        )
    }

    /// The name in the text form, as in the ISA (`f32`, `bf16x2`, `e4m3`).
    pub const fn name(self) -> &'static str {
        match self {
            Type::B8 => "b8",
            Type::B16 => "b16",
            Type::B32 => "b32",
            Type::B64 => "b64",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::S8 => "s8",
            Type::S16 => "s16",
            Type::S32 => "s32",
            Type::S64 => "s64",
            Type::F16 => "f16",
            Type::BF16 => "bf16",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::F16x2 => "f16x2",
            Type::BF16x2 => "bf16x2",
            Type::F32x2 => "f32x2",
            Type::U16x2 => "u16x2",
            Type::S16x2 => "s16x2",
            Type::TF32 => "tf32",
            Type::E4M3 => "e4m3",
            Type::E5M2 => "e5m2",
            Type::E2M1 => "e2m1",
            Type::E2M3 => "e2m3",
            Type::E3M2 => "e3m2",
            Type::UE8M0 => "ue8m0",
            Type::E4M3x2 => "e4m3x2",
            Type::E5M2x2 => "e5m2x2",
            Type::E2M1x2 => "e2m1x2",
            Type::E2M3x2 => "e2m3x2",
            Type::E3M2x2 => "e3m2x2",
            Type::UE8M0x2 => "ue8m0x2",
        }
    }
}

/// A state space (PTX ISA, "State Spaces").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Any space, told apart by the address's window.
    Generic,
    /// Device memory: 64-bit addresses.
    Global,
    /// The CTA's shared memory: offsets from 0, in a b32 or b64 register.
    Shared,
    /// The thread's own memory: offsets from 0.
    Local,
    /// The module's constant bank: offsets from 0; read only.
    Const,
    /// The kernel's parameters: offsets from 0; read only.
    Param,
}

/// First generic address of the shared window.
pub const SHARED_WINDOW: u64 = 0x1000_0000_0000;
/// First generic address of the local window.
pub const LOCAL_WINDOW: u64 = 0x1100_0000_0000;
/// First generic address of the constant window.
pub const CONST_WINDOW: u64 = 0x1200_0000_0000;
/// Bytes that each of the windows spans.
pub const WINDOW_BYTES: u64 = 0x0100_0000_0000;

/// Rounding of a floating-point result or of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// To nearest, ties to even (`rn`); of a conversion to integer, `rni`.
    #[default]
    NearestEven,
    /// Towards zero (`rz`, `rzi`).
    Zero,
    /// Towards minus infinity (`rm`, `rmi`).
    Down,
    /// Towards plus infinity (`rp`, `rpi`).
    Up,
    /// To nearest, ties away from zero (`rna`).
    NearestAway,
}

/// Modifiers of a floating-point operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FloatMods {
    /// Rounding.
    pub rounding: Rounding,
    /// Flush subnormal inputs and results to zero of the same sign.
    pub ftz: bool,
    /// Clamp the result to [0, 1]; NaN becomes +0.
    pub sat: bool,
    /// Clamp negative results to +0 (NaN stays).
    pub relu: bool,
}

/// How memory is ordered by an access (PTX ISA, "Memory Consistency Model").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub enum Ordering {
    #[default]
    Weak,
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
    SequentiallyConsistent,
}

/// Who takes part in an ordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub enum Scope {
    Cta,
    Cluster,
    #[default]
    Gpu,
    System,
}

/// A cache hint; it has a cost, never an effect on values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CacheHint {
    /// The default (`ca` for loads, `wb` for stores).
    #[default]
    Default,
    /// Cache at L2 only (`cg`).
    Global,
    /// Streaming, evict first (`cs`).
    Streaming,
    /// Last use (`lu`).
    LastUse,
    /// Write through (`wt`) or fetch again (`cv`).
    Volatile,
    /// Read-only path (`nc`).
    NonCoherent,
    /// Do not allocate in L1 (`L1::no_allocate`).
    NoAllocate,
    /// Keep in cache (`evict_last`).
    EvictLast,
}

/// A special register (PTX ISA, "Special Registers"); all but the 64-bit clocks are 32 bits wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Special {
    TidX,
    TidY,
    TidZ,
    NtidX,
    NtidY,
    NtidZ,
    CtaidX,
    CtaidY,
    CtaidZ,
    NctaidX,
    NctaidY,
    NctaidZ,
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LanemaskEq,
    LanemaskLt,
    LanemaskLe,
    LanemaskGt,
    LanemaskGe,
    Clock,
    /// 64 bits.
    Clock64,
    /// 64 bits.
    GlobalTimer,
    /// Offset of the first dynamic shared byte.
    DynamicSharedBase,
    /// Number of dynamic shared bytes.
    DynamicSharedSize,
    TotalSharedSize,
    ClusterCtaidX,
    ClusterCtaidY,
    ClusterCtaidZ,
    ClusterNctaidX,
    ClusterNctaidY,
    ClusterNctaidZ,
    ClusterCtaRank,
    ClusterNctaRank,
    ClusteridX,
    ClusteridY,
    ClusteridZ,
    NclusteridX,
    NclusteridY,
    NclusteridZ,
}

impl Special {
    /// Class of the register that receives it.
    pub const fn class(self) -> RegClass {
        match self {
            Special::Clock64 | Special::GlobalTimer => RegClass::B64,
            _ => RegClass::B32,
        }
    }
}

/// A comparison. The unordered forms are true when an operand is NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both are numbers.
    Num,
    /// Either is NaN.
    Nan,
}

/// A boolean operation on predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BoolOp {
    And,
    Or,
    Xor,
}
