//! Every file of `filetests/` does what its `#!` lines say (`support/vir.rs` has their form).

mod support;

use std::fs;
use std::path::Path;

use support::vir;

#[test]
fn every_file_does_what_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "vir"))
        .collect();
    files.sort();
    assert!(files.len() >= 100, "only {} files", files.len());
    let mut failures = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a readable file");
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if let Err(error) = vir::run(&text) {
            failures.push(format!("{name}: {error}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn a_test_whose_memory_differs_fails() {
    let text = "#! out x u32 2\n#! expect x: 1 2\n.vir 1\n.kernel @k (%x: 8) {\n.reg b64 %x\n\
                ld.param.b64 %x, [0]\nst.global.v2.u32 [%x], {1, 3}\n}\n";
    let error = vir::run(text).expect_err("the second value is 3");
    assert!(
        error.contains("x[1] is 0x3 (3), expected 0x2 (2)"),
        "{error}"
    );
    assert_eq!(vir::run(&text.replace("1 2\n", "1 3\n")), Ok(()));
    assert!(vir::run(&text.replace("expect x: 1 2", "fault \"trap\"")).is_err());
    assert!(vir::run(&text.replace("#! expect x: 1 2\n", "")).is_err());
}
