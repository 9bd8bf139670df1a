//! Compiles `init/init.rs`, the first process of a sandbox, which the library embeds.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=init/init.rs");
    println!("cargo::rerun-if-changed=build.rs");
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("init");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    if !target.starts_with("x86_64-") || !target.contains("linux") {
        // The library says so at run time, where there is someone to read it.
        fs::write(&out, b"").expect("OUT_DIR is writable");
        return;
    }
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let mut command = Command::new(rustc);
    command
        .args([
            "--edition=2024",
            "--crate-name=init",
            "--crate-type=bin",
            "--target",
            &target,
        ])
        .args([
            "-Cpanic=abort",
            "-Copt-level=s",
            "-Cstrip=symbols",
            "-Crelocation-model=static",
        ])
        .args([
            "-Clink-arg=-nostartfiles",
            "-Clink-arg=-nostdlib",
            "-Clink-arg=-static",
        ])
        .arg("init/init.rs")
        .arg("-o")
        .arg(&out);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("-Clinker=");
        flag.push(linker);
        command.arg(flag);
    }
    let status = command
        .status()
        .expect("the compiler that cargo names can be started");
    assert!(status.success(), "init/init.rs did not compile");
}
