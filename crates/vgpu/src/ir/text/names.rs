//! Names of the enumerations in the text form, both ways from one table each.

use crate::ir::*;

/// An enumeration whose values have names in the text form.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// Every named value.
    const TABLE: &'static [(Self, &'static str)];

    /// The name; empty for a value that has none.
    fn text(self) -> &'static str {
        Self::TABLE
            .iter()
            .find(|entry| entry.0 == self)
            .map_or("", |entry| entry.1)
    }

    /// The value of a name.
    fn from_text(text: &str) -> Option<Self> {
        Self::TABLE
            .iter()
            .find(|entry| entry.1 == text)
            .map(|entry| entry.0)
    }
}

macro_rules! named {
    ($ty:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        impl Named for $ty {
            const TABLE: &'static [(Self, &'static str)] = &[$(($ty::$variant, $name)),*];
        }
    };
}

named!(RegClass { Pred = "pred", B32 = "b32", B64 = "b64" });

named!(Type {
    B8 = "b8", B16 = "b16", B32 = "b32", B64 = "b64",
    U8 = "u8", U16 = "u16", U32 = "u32", U64 = "u64",
    S8 = "s8", S16 = "s16", S32 = "s32", S64 = "s64",
    F16 = "f16", BF16 = "bf16", F32 = "f32", F64 = "f64",
    F16x2 = "f16x2", BF16x2 = "bf16x2", F32x2 = "f32x2",
    U16x2 = "u16x2", S16x2 = "s16x2", TF32 = "tf32",
    E4M3 = "e4m3", E5M2 = "e5m2", E2M1 = "e2m1", E2M3 = "e2m3", E3M2 = "e3m2", UE8M0 = "ue8m0",
    E4M3x2 = "e4m3x2", E5M2x2 = "e5m2x2", E2M1x2 = "e2m1x2", E2M3x2 = "e2m3x2",
    E3M2x2 = "e3m2x2", UE8M0x2 = "ue8m0x2",
});

named!(Space {
    Generic = "generic", Global = "global", Shared = "shared", Local = "local",
    Const = "const", Param = "param",
});

named!(Rounding {
    NearestEven = "rn", Zero = "rz", Down = "rm", Up = "rp", NearestAway = "rna",
});

named!(Ordering {
    Weak = "weak", Volatile = "volatile", Relaxed = "relaxed", Acquire = "acquire",
    Release = "release", AcquireRelease = "acq_rel", SequentiallyConsistent = "sc",
});

named!(Scope { Cta = "cta", Cluster = "cluster", Gpu = "gpu", System = "sys" });

named!(CacheHint {
    Global = "cg", Streaming = "cs", LastUse = "lu", Volatile = "cv", NonCoherent = "nc",
    NoAllocate = "na", EvictLast = "el",
});

named!(Compare {
    Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge", Equ = "equ", Neu = "neu",
    Ltu = "ltu", Leu = "leu", Gtu = "gtu", Geu = "geu", Num = "num", Nan = "nan",
});

named!(BoolOp { And = "and", Or = "or", Xor = "xor" });

named!(IntBinary {
    Add = "add", AddSat = "add.sat", Sub = "sub", SubSat = "sub.sat", MulLo = "mul.lo",
    MulHi = "mul.hi", MulWide = "mul.wide", Mul24Lo = "mul24.lo", Mul24Hi = "mul24.hi",
    Div = "div", Rem = "rem", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor",
    Shl = "shl", Shr = "shr",
});

named!(IntUnary {
    Neg = "neg", Abs = "abs", Not = "not", Cnot = "cnot", Popc = "popc", Clz = "clz",
    Bfind = "bfind", BfindShiftAmt = "bfind.shiftamt", Brev = "brev",
});

// The part before the modifiers; what follows them (`nan`, `xorsign.abs`) is the printer's and parser's.
named!(FloatBinary {
    Add = "add", Sub = "sub", Mul = "mul", Div = "div", DivFull = "div.full",
    DivApprox = "div.approx", Min = "min", Max = "max", MinNan = "min.nan", MaxNan = "max.nan",
    MinXorsignAbs = "min.xorsign.abs", MaxXorsignAbs = "max.xorsign.abs", Copysign = "copysign",
});

named!(FloatUnary {
    Neg = "neg", Abs = "abs", Rcp = "rcp", RcpApprox = "rcp.approx", Sqrt = "sqrt",
    SqrtApprox = "sqrt.approx", RsqrtApprox = "rsqrt.approx", Ex2Approx = "ex2.approx",
    Lg2Approx = "lg2.approx", SinApprox = "sin.approx", CosApprox = "cos.approx",
    TanhApprox = "tanh.approx",
});

named!(FloatClass {
    Finite = "finite", Infinite = "infinite", Number = "number", NotANumber = "notanumber",
    Normal = "normal", Subnormal = "subnormal",
});

named!(MadWidth {
    Lo = "mad.lo", Hi = "mad.hi", Wide = "mad.wide", Lo24 = "mad24.lo", Hi24 = "mad24.hi",
});

named!(PermuteMode {
    F4e = "f4e", B4e = "b4e", Rc8 = "rc8", Ecl = "ecl", Ecr = "ecr", Rc16 = "rc16",
});

named!(AtomicOp {
    Add = "add", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor", Exch = "exch",
    Cas = "cas", Inc = "inc", Dec = "dec",
});

named!(ShuffleMode { Up = "up", Down = "down", Bfly = "bfly", Idx = "idx" });

named!(VoteMode { All = "all", Any = "any", Uni = "uni" });

named!(ReduxOp {
    Add = "add", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor",
    MinNan = "min.nan", MaxNan = "max.nan",
});

named!(BarrierReduction { Popc = "popc", And = "and", Or = "or" });

named!(Special {
    TidX = "tid.x", TidY = "tid.y", TidZ = "tid.z",
    NtidX = "ntid.x", NtidY = "ntid.y", NtidZ = "ntid.z",
    CtaidX = "ctaid.x", CtaidY = "ctaid.y", CtaidZ = "ctaid.z",
    NctaidX = "nctaid.x", NctaidY = "nctaid.y", NctaidZ = "nctaid.z",
    LaneId = "laneid", WarpId = "warpid", NwarpId = "nwarpid", SmId = "smid", NsmId = "nsmid",
    GridId = "gridid",
    LanemaskEq = "lanemask.eq", LanemaskLt = "lanemask.lt", LanemaskLe = "lanemask.le",
    LanemaskGt = "lanemask.gt", LanemaskGe = "lanemask.ge",
    Clock = "clock", Clock64 = "clock64", GlobalTimer = "globaltimer",
    DynamicSharedBase = "dynamic_shared_base", DynamicSharedSize = "dynamic_shared_size",
    TotalSharedSize = "total_shared_size",
    ClusterCtaidX = "cluster_ctaid.x", ClusterCtaidY = "cluster_ctaid.y",
    ClusterCtaidZ = "cluster_ctaid.z",
    ClusterNctaidX = "cluster_nctaid.x", ClusterNctaidY = "cluster_nctaid.y",
    ClusterNctaidZ = "cluster_nctaid.z",
    ClusterCtaRank = "cluster_ctarank", ClusterNctaRank = "cluster_nctarank",
    ClusteridX = "clusterid.x", ClusteridY = "clusterid.y", ClusteridZ = "clusterid.z",
    NclusteridX = "nclusterid.x", NclusteridY = "nclusterid.y", NclusteridZ = "nclusterid.z",
});
