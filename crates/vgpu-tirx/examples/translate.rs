//! Translates a device module (a file that holds what `mkb_tirx.lower` gave), prints its IR and
//! verifies it: `cargo run -p vgpu-tirx --example translate -- FILE`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: translate FILE");
        return ExitCode::from(2);
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let module = match vgpu_tirx::translate(&bytes) {
        Ok(module) => module,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    print!("{}", vgpu::ir::print(&module));
    if let Err(errors) = vgpu::ir::verify(&module) {
        for error in errors {
            eprintln!("{path}: {error}");
        }
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
