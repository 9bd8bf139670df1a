//! The worker's side of the server: modules compiled, launches run, memory events applied.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::account::{Garbage, LaunchAccount};
use crate::arena::Arena;
use crate::protocol::{FailureClass, ModuleFormat, Reply, Request};
use crate::server::ServerOptions;

/// What the driver asks to be told, and what has been seen.
#[derive(Debug, Default)]
pub struct Watch {
    /// Launches since the driver last asked.
    pub launches: Vec<LaunchAccount>,
    /// Whether writes are tracked.
    pub track: bool,
    /// With what written bytes are overwritten.
    pub garbage: Option<Garbage>,
    /// Address ranges of the call's inputs.
    pub inputs: Vec<(u64, u64)>,
}

/// Runs what a worker asks for.
pub struct Engine<'a> {
    _arena: &'a Arena,
    _options: ServerOptions,
    _watch: Arc<Mutex<Watch>>,
    modules: HashMap<u64, vgpu::ir::Module>,
}

impl<'a> Engine<'a> {
    /// One with no module.
    pub fn new(arena: &'a Arena, options: ServerOptions, watch: Arc<Mutex<Watch>>) -> Self {
        Self {
            _arena: arena,
            _options: options,
            _watch: watch,
            modules: HashMap::new(),
        }
    }

    /// Does one request.
    pub fn answer(&mut self, request: Request) -> Reply {
        let failed = |class, message: String| Reply::Failed { class, message };
        match request {
            Request::Module {
                format: ModuleFormat::Text,
                source,
            } => {
                let Ok(text) = std::str::from_utf8(&source) else {
                    return failed(
                        FailureClass::Bad,
                        "the module's text is not UTF-8".to_owned(),
                    );
                };
                let module = match vgpu::ir::parse(text) {
                    Ok(module) => module,
                    Err(error) => return failed(FailureClass::Bad, error.to_string()),
                };
                let handle = self.modules.len() as u64 + 1;
                let kernels = module
                    .kernels
                    .iter()
                    .map(|k| {
                        (
                            k.name.clone(),
                            k.params.iter().map(|p| p.size.min(255) as u8).collect(),
                        )
                    })
                    .collect();
                self.modules.insert(handle, module);
                Reply::Module { handle, kernels }
            }
            Request::Module {
                format: ModuleFormat::Tirx,
                ..
            } => failed(
                FailureClass::Incomplete,
                "TIRx modules are not supported yet".to_owned(),
            ),
            Request::Launch(_) => failed(
                FailureClass::Incomplete,
                "launches are not supported yet".to_owned(),
            ),
        }
    }
}
