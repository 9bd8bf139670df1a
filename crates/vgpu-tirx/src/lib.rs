//! TVM's lowered device IR (TIR), translated to the virtual GPU's.
//!
//! The input is what `mkb_tirx.lower` gives: a device module as TVM has it where its CUDA code
//! generator would start, in the JSON of `tvm.ir.save_json` inside a small envelope. The output means
//! what the CUDA C++ that TVM 0.25.0 prints for it would mean, compiled with TVM's own flags
//! (`--use_fast_math`). Hostile input gives an error, never a panic.

mod builder;
mod convert;
mod cuda;
mod dtype;
mod error;
mod expr;
mod graph;
mod helpers;
mod intrinsics;
mod kernel;
mod math;
mod matrix;
mod memory;
mod optimize;
mod print;
mod ptx;
mod stmt;
mod value;

pub use error::TranslateError;

use serde::Deserialize;
use vgpu::ir::Module;

use graph::Graph;

/// The envelope around the object graph (`format` 1 of the device socket).
#[derive(Deserialize)]
struct Envelope {
    /// Version of the envelope: 1.
    mkb_tirx: u32,
    /// What `tvm.ir.save_json` gave for the device module.
    graph: serde_json::Value,
}

/// Bytes of stack for the translation of deeply nested programs.
const STACK: usize = 256 << 20;

/// Translates a device module.
///
/// # Errors
/// [`TranslateError::Malformed`] where the bytes are no device module, [`TranslateError::Incomplete`]
/// where the module's structure needs what is not modelled, [`TranslateError::InlineSource`] where it
/// carries CUDA source of its own, [`TranslateError::TooLarge`] beyond the limits. Single operators
/// that are not modelled do not fail here: they become [`vgpu::ir::Inst::Unmodelled`], which makes a
/// launch incomplete where it is reached.
pub fn translate(json: &[u8]) -> Result<Module, TranslateError> {
    // The recursion is bounded, and its bound is larger than a default stack carries.
    std::thread::scope(|scope| {
        let work = std::thread::Builder::new()
            .name("vgpu-tirx".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, || translate_here(json));
        match work.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(TranslateError::malformed(
                "the translator failed on this module",
            )),
            Err(error) => Err(TranslateError::TooLarge(format!("no thread: {error}"))),
        }
    })
}

fn translate_here(json: &[u8]) -> Result<Module, TranslateError> {
    let envelope: Envelope = serde_json::from_slice(json)
        .map_err(|error| TranslateError::malformed(format!("JSON: {error}")))?;
    if envelope.mkb_tirx != 1 {
        return Err(TranslateError::malformed(format!(
            "envelope version {}; this is version 1",
            envelope.mkb_tirx
        )));
    }
    let graph = Graph::new(envelope.graph)?;
    let root = graph.root();
    let (files, sources) = graph.sources();
    let mut module = Module {
        kernels: Vec::new(),
        constants: Vec::new(),
        files,
    };
    for (var, func) in graph.map(graph.get(root, "functions")?)? {
        let name = graph.text(graph.get(var, "name_hint")?)?;
        if graph.kind(func) != "tirx.PrimFunc" {
            return Err(TranslateError::malformed(format!(
                "function {name:?} is not a PrimFunc"
            )));
        }
        let kernel = kernel::translate(&graph, &sources, func, name);
        module
            .kernels
            .push(kernel.map_err(|error| error.in_kernel(name))?);
    }
    module.kernels.sort_by(|a, b| a.name.cmp(&b.name));
    if module
        .kernels
        .windows(2)
        .any(|pair| pair[0].name == pair[1].name)
    {
        return Err(TranslateError::malformed("two kernels have one name"));
    }
    Ok(module)
}
