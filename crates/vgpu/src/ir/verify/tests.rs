//! One legal and one illegal text for each rule.

use crate::ir::*;

use super::MAX_ERRORS;

fn errors_of(head: &str, body: &str) -> Vec<String> {
    let text = format!(
        ".vir 1\n.file 1 \"k.py\"\n.kernel @k (%p0: 8) {{\n{head}\n.reg pred %p %q\n.reg b32 %a %b %c %d\n.reg b64 %x %y\n\
         mov.pred %p, true\nmov.pred %q, true\nmov.b32 %a, 0\nmov.b32 %b, 0\nmov.b32 %c, 0\nmov.b32 %d, 0\nmov.b64 %x, 0\nmov.b64 %y, 0\n\
         .loc 1 7\n{body}\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    match verify(&module) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[track_caller]
fn accepts(body: &str) {
    assert_eq!(errors_of("", body), Vec::<String>::new(), "{body}");
}

#[track_caller]
fn refuses(body: &str, part: &str) {
    let errors = errors_of("", body);
    assert!(
        errors.iter().any(|error| error.contains(part)),
        "{body}: {errors:?}"
    );
}

#[test]
fn legal_instructions_pass() {
    for body in [
        "add.s32 %a, %b, -1",
        "mul.wide.u16 %a, %b, 7",
        "mul.wide.s32 %x, %a, %b",
        "mad.wide.s32 %x, %a, %b, %y",
        "add.u16x2 %a, %b, %c",
        "shl.b64 %x, %y, %a",
        "popc.b64 %a, %x",
        "cvt.rz.s32.f32 %a, %b",
        "cvt.satfinite.e4m3.f32 %a, %b",
        "cvt.pack.satfinite.relu.e2m1x2 %a, %b, %c",
        "cvt.f16x2.e5m2x2 %a, %b",
        "cvt.rp.satfinite.ue8m0x2.bf16x2 %a, %b",
        "cvt.rm.f32.f32 %a, %b",
        "setp.nan.f16 %p, %a, %b",
        "ld.global.v8.f32 {%a, %b, %c, %d, %a, %b, %c, %d}, [%x]",
        "ld.shared.v4.b32 {%a, %b, %c, %d}, [%a+16]",
        "cvta.to_generic.shared %x, %a",
        "cvta.from_generic.shared %a, %x",
        "atom.cas.global.u16 %a, [%x], 1, 2",
        "redux.min.abs.f32 %a, %b, 0xffffffff",
        "printf \"%5.2lf%% %s %d\", f64 %x, b64 %y, s32 %a",
        "loop { if %p { break } }",
    ] {
        if body.contains("v8") {
            refuses(body, "one register");
        } else {
            accepts(body);
        }
    }
}

#[test]
fn each_rule_has_an_error_that_names_it() {
    for (body, part) in [
        ("add.s32 %x, %b, 1", "%x is B64, expected B32"),
        ("add.s64 %x, %a, 1", "%a is B32, expected B64"),
        ("add.b32 %a, %b, 1", "does not exist for this type"),
        ("add.s8 %a, %b, 1", "does not exist for this type"),
        ("add.sat.s32 %a, %p, 1", "%p is Pred"),
        ("mul24.lo.s64 %x, %y, 1", "does not exist for this type"),
        ("div.f16 %a, %b, %c", "does not exist for this type"),
        ("add.rz.f16 %a, %b, %c", "this rounding"),
        ("add.rna.f32 %a, %b, %c", "this rounding"),
        ("add.sat.f64 %x, %y, %y", "`sat`"),
        ("add.ftz.bf16 %a, %b, %c", "`ftz`"),
        ("add.relu.f32 %a, %b, %c", "`relu`"),
        ("fma.sat.relu.f16 %a, %b, %c, %d", "exclude each other"),
        ("sin.approx.f64 %x, %y", "does not exist"),
        ("testp.finite.f16 %p, %a", "does not exist"),
        ("cvt.e2m1.f32 %a, %b", "must be `satfinite`"),
        ("cvt.rz.satfinite.e4m3.f32 %a, %b", "round rz or rp"),
        ("cvt.f32x2.f32 %x, %a", "does not exist"),
        ("cvt.rna.f16.f32 %a, %b", "`rna`"),
        ("cvt.rz.s32.s64 %a, %x", "does not round"),
        ("cvt.pack.f32x2 %x, %a, %b", "packed into"),
        ("setp.lt.b32 %p, %a, %b", "comparison does not exist"),
        ("setp.nan.s32 %p, %a, %b", "comparison does not exist"),
        ("ld.const.u32 %a, [0]", "beyond the 0 bytes"),
        ("ld.param.b64 %x, [8]", "beyond the 8 bytes"),
        ("ld.param.u32 %a, [2]", "multiple of the access's size"),
        ("st.param.u32 [0], %a", "read only"),
        ("ld.global.f32 %a, [%b]", "b64 register"),
        (
            "ld.release.gpu.global.f32 %a, [%x]",
            "weak, volatile, relaxed or acquire",
        ),
        ("ld.global.e2m1 %a, [%x]", "memory holds no values"),
        (
            "ld.shared.v4.b64 {%x, %y, %x, %y}, [%a]",
            "32 bytes at once",
        ),
        ("st.shared.nc.u32 [%a], 1", "`nc`"),
        ("red.exch.global.b32 [%x], 1", "`red` has no exch"),
        (
            "atom.add.shared.b32 %a, [%b], 1",
            "does not exist for this type",
        ),
        ("atom.add.const.u32 %a, [%b], 1", "atomics exist in"),
        ("cp.async.cg.4 [%a], [%x]", "`cg`"),
        ("cp.async.16 [%a], [%x], 17", "more source bytes"),
        ("mbarrier.init [%a], 0", "1 to 2^20 - 1"),
        ("fence.relaxed.gpu", "a fence is"),
        ("shfl.idx.b32 %a, %b, 0, 31, 0", "member mask is empty"),
        ("bar.sync 16", "0 to 15"),
        ("bar.sync 0, 33", "multiple of 32"),
        ("printf \"%d %d\", s32 %a", "takes 2 values, 1 are given"),
        ("printf \"%\"", "ends inside"),
        ("break", "outside of a loop"),
        ("continue %p", "outside of a loop"),
        ("if %a { trap }", "expected Pred"),
        ("unmodelled \"\"", "no name"),
        (".loc 2 1\ntrap", "no file 2"),
    ] {
        refuses(body, part);
    }
}

#[test]
fn an_error_names_kernel_source_line_and_instruction() {
    let errors = errors_of("", "add.rz.f16 %a, %b, %c");
    assert_eq!(
        errors,
        [
            "kernel @k, k.py:7, `add.rz.f16 %a, %b, %c`: this rounding does not exist for the operation and type"
        ]
    );
}

#[test]
fn a_register_that_nothing_writes_is_an_error_where_it_is_read() {
    let errors = errors_of(
        ".reg b32 %never %only_written",
        "add.s32 %only_written, %never, 1",
    );
    assert_eq!(
        errors,
        ["kernel @k, k.py:7, register %never is read, but nothing writes it"]
    );
}

#[test]
fn declarations_are_bounded() {
    for (head, part) in [
        (".shared 232449", "shared bytes"),
        (".local 524289", "local bytes"),
        (".maxthreads 1025", "threads a block"),
        (".registers 256", "registers a thread"),
    ] {
        let errors = errors_of(head, "");
        assert!(errors.len() == 1 && errors[0].contains(part), "{errors:?}");
    }
    assert!(
        errors_of(
            ".shared 232448\n.local 524288\n.maxthreads 1024\n.registers 255",
            ""
        )
        .is_empty()
    );
}

#[test]
fn hostile_modules_are_refused_without_a_panic() {
    let mut kernel = Kernel {
        name: "k".into(),
        ..Kernel::default()
    };
    kernel.params = vec![
        Param {
            name: "p".into(),
            size: u32::MAX,
            align: 0
        };
        3
    ];
    let node = |kind| Node {
        location: Location { file: 9, line: 1 },
        kind,
    };
    kernel.body.push(node(NodeKind::Inst {
        guard: Some(Guard {
            pred: Reg(7),
            negated: false,
        }),
        inst: Inst::Ld {
            space: Space::Param,
            ty: Type::E2M1,
            dst: vec![Reg(u32::MAX); 100],
            addr: Address {
                base: Operand::Imm(u64::MAX),
                offset: i64::MAX,
            },
            order: Ordering::Weak,
            scope: Scope::Gpu,
            cache: CacheHint::Default,
        },
    }));
    let mut body = Block::new();
    for _ in 0..MAX_NESTING + 2 {
        body = vec![Node {
            location: Location::default(),
            kind: NodeKind::Loop { body },
        }];
    }
    kernel.body.extend(body);
    let module = Module {
        kernels: vec![kernel.clone(), kernel],
        ..Module::default()
    };
    let errors = verify(&module).expect_err("it breaks many rules");
    assert!(errors.len() <= MAX_ERRORS);
    for part in [
        "two kernels",
        "bytes, not 1 to 4096",
        "not declared",
        "no file 9",
        "nested deeper",
    ] {
        assert!(
            errors.iter().any(|error| error.message.contains(part)),
            "{part}: {errors:#?}"
        );
    }
    print(&module);
}
