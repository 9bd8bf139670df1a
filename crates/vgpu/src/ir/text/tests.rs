//! Round trips and errors of the text form.

use super::{parse, print};
use crate::ir::*;

/// A kernel around lines of body, with registers of each class.
fn wrap(body: &str) -> String {
    format!(
        ".vir 1\n.kernel @k (%p0: 8) {{\n.reg pred %p %q\n.reg b32 %a %b %c %d\n.reg b64 %x %y %z\n{body}\n}}\n"
    )
}

#[track_caller]
fn round_trip(text: &str) -> Module {
    let module = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let printed = print(&module);
    let again = parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(module, again, "{printed}");
    assert_eq!(printed, print(&again));
    module
}

/// One line of each shape that the page names, already in the printer's form.
const CANONICAL: &str = r#"
mov.b32 %a, %b
mov.b64 %x, 0x123456789
mov.pred %p, true
mov.special %a, tid.x
mov.special %x, clock64
mov.special %a, lanemask.lt
pack.b64 %x, %a, 7
pack.b32 %a, %b, %c
unpack.b64 %a, %b, %x
unpack.b32 %a, %b, %c
add.s32 %a, %b, -1
add.sat.s32 %a, %b, %c
sub.sat.s32 %a, %b, %c
sub.u64 %x, %y, 1
mul.lo.u32 %a, %b, %c
mul.hi.s64 %x, %y, %z
mul.wide.s32 %x, %a, -4
mul24.lo.u32 %a, %b, %c
div.s32 %a, %b, %c
rem.u16 %a, %b, %c
min.s16x2 %a, %b, %c
and.b64 %x, %y, 0xffffffffffff
shl.b64 %x, %y, 3
shr.s16 %a, %b, %c
neg.s64 %x, %y
abs.s32 %a, %b
not.b32 %a, %b
cnot.b32 %a, %b
popc.b64 %a, %x
clz.b32 %a, %b
bfind.shiftamt.u64 %a, %x
brev.b64 %x, %y
mad.lo.s32 %a, %b, %c, -7
mad.wide.u32 %x, %a, %b, %y
mad24.hi.s32 %a, %b, %c, %d
addc.u32 %a|%p, %b, %c, %q
subc.u64 %x, %y, %z
sad.u32 %a, %b, %c, %d
bfe.s64 %x, %y, 4, %a
bfi.b32 %a, %b, %c, 4, 8
lop3.b32 %a, %b, %c, %d, 0xe8
shf.l.clamp.b32 %a, %b, %c, %d
prmt.b32 %a, %b, %c, 0x12345
prmt.b32.rc16 %a, %b, %c, 1
dp4a.s32.u32 %a, %b, %c, %d
dp2a.hi.u32.s32 %a, %b, %c, %d
add.f32 %a, %b, 0f3F800000
add.rz.ftz.sat.f32 %a, %b, %c
sub.f64 %x, %y, 0d3FF0000000000000
mul.f16x2 %a, %b, %c
div.rp.f32 %a, %b, %c
div.full.ftz.f32 %a, %b, %c
div.approx.f32 %a, %b, %c
min.ftz.nan.f32 %a, %b, %c
max.xorsign.abs.bf16x2 %a, %b, %c
copysign.f32 %a, %b, %c
add.f32x2 %x, %y, %z
neg.ftz.f32 %a, %b
rcp.rm.f64 %x, %y
rcp.approx.ftz.f32 %a, %b
sqrt.rz.f32 %a, %b
rsqrt.approx.f32 %a, %b
ex2.approx.ftz.bf16x2 %a, %b
tanh.approx.f16 %a, 0h3C00
fma.relu.f16 %a, %b, %c, %d
fma.rm.sat.f32 %a, %b, %c, 0fBF800000
testp.notanumber.f64 %p, %x
cvt.rz.s32.f32 %a, %b
cvt.rna.satfinite.tf32.f32 %a, %b
cvt.relu.satfinite.e4m3.f32 %a, %b
cvt.f16x2.e5m2x2 %a, %b
cvt.pack.rz.relu.bf16x2 %a, %b, %c
cvt.pack.satfinite.e4m3x2 %a, %b, 0f00000000
setp.lt.s32 %p, %a, -5
setp.geu.and.ftz.f32 %p, %a, %b, !%q
selp.b32 %a, %b, 4, %p
selp.pred %p, %q, false, %p
and.pred %p, %q, true
not.pred %p, %q
ld.param.b64 %x, [0]
ld.global.f32 %a, [%x+16]
ld.acquire.gpu.global.u32 %a, [%x]
ld.volatile.shared.b32 %a, [%b-4]
ld.global.nc.v4.f32 {%a, %b, %c, %d}, [%x]
ld.generic.v2.b64 {%x, %y}, [%z]
st.global.cs.v4.f32 [%x], {%a, %b, 0f3F800000, %c}
st.release.sys.global.u8 [%x], 255
st.shared.s16 [%a+2], -2
atom.add.global.f32 %a, [%x], 0f3F800000
atom.cas.acq_rel.sys.global.b64 %x, [%y+8], %z, 0
red.max.relaxed.cta.shared.s32 [%a], %b
prefetch.global [%x+128]
cvta.to_generic.shared %x, %y
isspace.shared %p, %x
cp.async.16 [%a], [%x]
cp.async.cg.16 [%a], [%x], %b
cp.async.commit
cp.async.wait_group 2
cp.async.wait_all
mbarrier.init [%a], 1
mbarrier.inval [%a]
mbarrier.arrive %x, [%a], 1
mbarrier.arrive.expect_tx [%a], 1, 1024
mbarrier.expect_tx [%a], 16
mbarrier.complete_tx [%a], 16
mbarrier.test_wait.parity %p, [%a], %b
mbarrier.try_wait.parity %p, [%a], 0
mbarrier.test_wait %p, [%a], %x
mbarrier.cp_async_arrive.noinc [%a]
fence.sc.gpu
fence.acq_rel.cta
fence.proxy.async
fence.mbarrier_init
shfl.down.b32 %a|%p, %b, 16, 31, 0xffffffff
shfl.idx.b32 %a, %b, %c, 31, 0xffffffff
vote.any %p, !%q, 0xffffffff
ballot.b32 %a, %p, 0xffffffff
match.any.b64 %a, %x, 0xffffffff
match.all.b32 %a|%p, %b, 0xffffffff
redux.min.nan.abs.f32 %a, %b, 0xffffffff
redux.add.s32 %a, %b, 0xffffffff
elect %p, 0xffffffff
elect %a|%p, 0xffffffff
activemask %a
warpsync 0xffffffff
bar.sync 0
barrier.sync 1, 64
bar.arrive 1, 64
bar.red.popc %a, 0, %p
bar.red.and %p, 0, 128, !%q
barrier.red.or %p, %a, !%q
nanosleep 100
trap
assert !%p, "bad \"index\"\n"
printf "%d %f\n", s32 %a, f32 0f3F800000, f64 %x
unmodelled "tcgen05.mma"
"#;

#[test]
fn every_shape_of_instruction_prints_as_it_is_written() {
    for expected in CANONICAL.lines().filter(|line| !line.is_empty()) {
        let module = round_trip(&wrap(expected));
        let printed = print(&module);
        assert!(
            printed.lines().any(|line| line.trim() == expected),
            "{expected} became\n{printed}"
        );
        let guarded = round_trip(&wrap(&format!("@!%q {expected}")));
        assert!(matches!(
            &guarded.kernels[0].body[0].kind,
            NodeKind::Inst { guard: Some(guard), .. } if guard.negated
        ));
    }
}

#[test]
fn the_pages_example_reads() {
    let page = include_str!("../../../IR.md");
    let example = page.split("```").nth(1).expect("the page shows an example");
    let module = round_trip(example);
    let kernel = &module.kernels[0];
    assert_eq!(kernel.name, "vector_add");
    assert_eq!(kernel.params.len(), 3);
    assert_eq!(module.constants, [0x00, 0xff, 0x10]);
    assert_eq!(kernel.body[1].location, Location { file: 1, line: 12 });
}

#[test]
fn other_spellings_mean_the_same() {
    for (loose, canonical) in [
        ("add.rn.f32 %a, %b, 1.5", "add.f32 %a, %b, 0f3FC00000"),
        ("add.f32 %a, %b, -2e-3", "add.f32 %a, %b, 0fBB03126F"),
        ("add.f32 %a, %b, -inf", "add.f32 %a, %b, 0fFF800000"),
        ("add.f16 %a, %b, nan", "add.f16 %a, %b, 0h7FFF"),
        ("add.f64 %x, %y, 0.1", "add.f64 %x, %y, 0d3FB999999999999A"),
        ("mov.f32 %a, 1.5", "mov.b32 %a, 0x3fc00000"),
        ("mov.s16 %a, -2", "mov.b32 %a, 0xfffffffe"),
        ("mov.u32 %a, 0xffffffff", "mov.b32 %a, 0xffffffff"),
        (
            "selp.f32 %a, 1.0, %b, %p",
            "selp.b32 %a, 0x3f800000, %b, %p",
        ),
        ("add.s32 %a, %b, 0xffffffff", "add.s32 %a, %b, -1"),
        (
            "cvt.satfinite.rn.e4m3.f32 %a, %b",
            "cvt.satfinite.e4m3.f32 %a, %b",
        ),
        ("ld.weak.global.u32 %a, [%x]", "ld.global.u32 %a, [%x]"),
        (
            "atom.add.relaxed.gpu.global.u32 %a, [%x], 1",
            "atom.add.global.u32 %a, [%x], 1",
        ),
    ] {
        assert_eq!(
            parse(&wrap(loose)).map_err(|error| error.to_string()),
            parse(&wrap(canonical)).map_err(|error| error.to_string()),
            "{loose}"
        );
        parse(&wrap(loose)).expect(loose);
    }
}

#[test]
fn structure_and_locations_round_trip() {
    let module = round_trip(&wrap(
        ".loc 1 3\nif %p {\n.loc 1 4\nadd.s32 %a, %a, 1\nif %q { return }\n}\nelse\n{\nloop {\nbreak %p\ncontinue !%q\nbreak\n}\n}\n.loc 0 0\ntrap\nreturn !%p",
    ));
    let body = &module.kernels[0].body;
    assert_eq!(body.len(), 3);
    assert_eq!(body[0].location.line, 3);
    let NodeKind::If {
        then, otherwise, ..
    } = &body[0].kind
    else {
        panic!("expected an if");
    };
    assert_eq!(then[0].location.line, 4);
    assert_eq!(otherwise[0].location.line, 4);
    assert_eq!(body[1].location, Location::default());
}

#[test]
fn errors_name_the_place_and_the_thing() {
    for (text, line, column, part) in [
        ("", 1, 1, "`.vir 1`"),
        (".vir 2\n", 1, 6, "version"),
        (
            ".vir 1\n.kernel @k () {\n  add.s32 %a, %b, 1\n}",
            3,
            11,
            "`%a` is not declared",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a %a\n}",
            3,
            13,
            "declared twice",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nfrob.s32 %a, %a\n}",
            4,
            1,
            "unknown instruction",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nadd.f32 %a, %a, 1\n}",
            4,
            17,
            "point or an exponent",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nadd.s32 %a, %a, 0x100000000\n}",
            4,
            17,
            "does not fit",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nadd.s32 %a, %a\n}",
            4,
            15,
            "expected `,`",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nmov.b64 %a, 1\n}",
            4,
            9,
            "is b32",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nadd.s33 %a, %a, 1\n}",
            4,
            1,
            "`s33`",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nmul.s32 %a, %a, 1\n}",
            4,
            1,
            "expected a type",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nrsqrt.f32 %a, %a\n}",
            4,
            1,
            "rsqrt.approx",
        ),
        (
            ".vir 1\n.kernel @k () {\n.reg b32 %a\nadd.f32 %a, %a, 1e99\n}",
            4,
            17,
            "too large",
        ),
        (".vir 1\n.kernel @k () {\nloop {\n", 4, 1, "not closed"),
        (
            ".vir 1\n.kernel @k () {\n}\n.kernel @k () {\n}",
            4,
            9,
            "two kernels",
        ),
        (".vir 1\n.file 2 \"a\"", 2, 7, "numbered in order"),
        (".vir 1\n.const \"0g\"", 2, 8, "hexadecimal"),
        (".vir 1\n.kernel @k (%a: 12) {\n}", 2, 17, "alignment"),
        (".vir 1\n.kernel @k () {\nassert\n", 3, 7, "register"),
        (
            ".vir 1\n.kernel @k () {\nunmodelled \"abc\n",
            3,
            12,
            "not closed",
        ),
        (".vir 1\n.kernel @k () { é", 2, 17, "unexpected character"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(
            error.message.contains(part) && (error.line, error.column) == (line, column),
            "{text}\n{error}"
        );
    }
}

#[test]
fn nesting_is_limited_without_overflowing_the_stack() {
    let nested = |depth: usize| {
        wrap(&format!(
            "{}{}",
            "loop {\n".repeat(depth),
            "}\n".repeat(depth)
        ))
    };
    round_trip(&nested(MAX_NESTING));
    assert!(parse(&nested(MAX_NESTING + 1)).is_err());
    assert!(parse(&nested(1_000_000)).is_err());
}
