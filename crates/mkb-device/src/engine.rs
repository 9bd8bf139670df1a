//! The worker's side of the server: modules compiled, launches run, memory events applied.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use vgpu::ir::Module;
use vgpu::{GlobalMemory, Gpu, LaunchConfig, LaunchError, LaunchReport, Options, Program};
use vgpu_tirx::TranslateError;

use crate::account::{Garbage, LaunchAccount};
use crate::arena::{ARENA_BASE, Arena};
use crate::protocol::{FailureClass, Launch, MemoryEvent, ModuleFormat, Reply, Request};
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
    // The mapping must outlive `memory`, which points into it.
    _arena: &'a Arena,
    memory: GlobalMemory,
    gpu: Gpu,
    options: ServerOptions,
    watch: Arc<Mutex<Watch>>,
    modules: HashMap<u64, Program>,
    launches: u64,
}

/// Why a request fails.
struct Failure(FailureClass, String);

impl Failure {
    fn bad(message: impl ToString) -> Self {
        Self(FailureClass::Bad, message.to_string())
    }
}

impl<'a> Engine<'a> {
    /// One with no module.
    ///
    /// # Panics
    /// Where the arena is empty.
    pub fn new(arena: &'a Arena, options: ServerOptions, watch: Arc<Mutex<Watch>>) -> Self {
        let host = NonNull::new(arena.as_ptr()).expect("a mapping is not null");
        // SAFETY: the mapping lives as long as `arena`, cannot shrink, and this process holds no
        // Rust reference into it; the worker and the driver may change its bytes.
        let memory = unsafe { GlobalMemory::from_raw(host, arena.len(), ARENA_BASE) };
        Self {
            _arena: arena,
            memory,
            gpu: Gpu::default(),
            options,
            watch,
            modules: HashMap::new(),
            launches: 0,
        }
    }

    /// Does one request.
    pub fn answer(&mut self, request: Request) -> Reply {
        let done = match request {
            Request::Module { format, source } => self.module(format, &source),
            Request::Launch(launch) => self.launch(&launch),
        };
        done.unwrap_or_else(|Failure(class, message)| Reply::Failed { class, message })
    }

    fn module(&mut self, format: ModuleFormat, source: &[u8]) -> Result<Reply, Failure> {
        let module = read_module(format, source)?;
        let program = Program::compile(&module).map_err(Failure::bad)?;
        let sizes = |params: &[vgpu::ir::Param]| {
            let sizes = params.iter().map(|param| u8::try_from(param.size));
            sizes.collect::<Result<Vec<u8>, _>>()
        };
        let kernels = program.kernels().map(|kernel| {
            let sizes = sizes(kernel.params).map_err(|_| {
                Failure::bad(format!(
                    "kernel `{}` has a parameter of more than 255 bytes",
                    kernel.name
                ))
            })?;
            Ok((kernel.name.to_owned(), sizes))
        });
        let kernels = kernels.collect::<Result<Vec<_>, Failure>>()?;
        let handle = self.modules.len() as u64 + 1;
        self.modules.insert(handle, program);
        Ok(Reply::Module { handle, kernels })
    }

    fn launch(&mut self, launch: &Launch) -> Result<Reply, Failure> {
        for event in &launch.events {
            match *event {
                MemoryEvent::Alloc { address, size } => self.memory.insert(address, size),
                MemoryEvent::Free { address } => self.memory.free(address),
            }
            .map_err(Failure::bad)?;
        }
        let (track, garbage, inputs) = {
            let watch = self.watch();
            (watch.track, watch.garbage, watch.inputs.clone())
        };
        let program = self.modules.get(&launch.module).ok_or_else(|| {
            Failure::bad(format!("there is no module with handle {}", launch.module))
        })?;
        let params = parameters(program, launch)?;
        let config = LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            dynamic_shared: launch.dynamic_shared,
        };
        let options = Options {
            threads: self.options.threads,
            seed: self.options.seed ^ self.launches,
            step_budget: self.options.step_budget,
            track_writes: track,
        };
        self.launches += 1;
        let report = self.gpu.launch(
            program,
            &launch.kernel,
            config,
            &params,
            &mut self.memory,
            &options,
        );
        let report = report.map_err(|error| match error {
            LaunchError::Fault(fault) => Failure(FailureClass::Fault, fault.to_string()),
            LaunchError::Incomplete(what) => Failure(FailureClass::Incomplete, what.to_string()),
            LaunchError::Bad(message) => Failure::bad(message),
        })?;
        let copies = track.then(|| self.copies(launch, &report, &inputs));
        if let Some(garbage) = garbage.filter(|_| track) {
            self.overwrite(&report.written, garbage);
        }
        let written: u64 = report.written.iter().map(|(first, end)| end - first).sum();
        self.watch().launches.push(LaunchAccount {
            module: launch.module,
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            counts: report.counts,
            written_bytes: track.then_some(written),
            copies,
        });
        Ok(Reply::Launched {
            printed: report.printed,
        })
    }

    fn watch(&self) -> std::sync::MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all that a launch wrote is the content of one other allocation that an argument points
    /// into and that is no input of the call, in the same order from its start or from the pointer.
    fn copies(&self, launch: &Launch, report: &LaunchReport, inputs: &[(u64, u64)]) -> bool {
        let Some(&(first, _)) = report.written.first() else {
            return false;
        };
        let overlaps =
            |start: u64, end: u64, other: u64, other_end: u64| start < other_end && other < end;
        let pointers = launch
            .arguments
            .iter()
            .filter_map(|bytes| Some(u64::from_le_bytes(bytes.as_slice().try_into().ok()?)));
        let candidates = pointers.filter_map(|pointer| {
            let (start, size) = self.memory.allocation_at(pointer)?;
            let end = start + size;
            let is_input = inputs
                .iter()
                .any(|&(input, bytes)| overlaps(start, end, input, input.saturating_add(bytes)));
            let is_written = report
                .written
                .iter()
                .any(|&(from, to)| overlaps(start, end, from, to));
            (!is_input && !is_written).then_some((start, pointer, end))
        });
        for (start, pointer, end) in candidates {
            let same_from = |origin: u64| {
                report.written.iter().all(|&(from, to)| {
                    let source = origin + (from - first);
                    source.saturating_add(to - from) <= end
                        && self.memory.read(source, to - from) == self.memory.read(from, to - from)
                })
            };
            if same_from(start) || same_from(pointer) {
                return true;
            }
        }
        false
    }

    fn overwrite(&mut self, written: &[(u64, u64)], garbage: Garbage) {
        for &(first, end) in written {
            let mut bytes = vec![0xff; (end - first) as usize];
            if let Garbage::Random { seed } = garbage {
                // splitmix64, from the seed and the place.
                let mut state = seed ^ first.rotate_left(32);
                for chunk in bytes.chunks_mut(8) {
                    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let mut z = state;
                    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                    z ^= z >> 31;
                    // No exponent's highest bit: as a float of any type it is a number below 2, so
                    // that it does not show through a product with zero.
                    z &= 0xbfbf_bfbf_bfbf_bfbf;
                    chunk.copy_from_slice(&z.to_le_bytes()[..chunk.len()]);
                }
            }
            self.memory.write(first, &bytes);
        }
    }
}

fn read_module(format: ModuleFormat, source: &[u8]) -> Result<Module, Failure> {
    match format {
        ModuleFormat::Text => {
            let text = std::str::from_utf8(source)
                .map_err(|_| Failure::bad("the module's text is not UTF-8"))?;
            vgpu::ir::parse(text).map_err(Failure::bad)
        }
        ModuleFormat::Tirx => vgpu_tirx::translate(source).map_err(|error| match error {
            TranslateError::Incomplete { .. } => {
                Failure(FailureClass::Incomplete, error.to_string())
            }
            error => Failure::bad(error),
        }),
    }
}

/// A launch's arguments as the kernel's parameters are laid out.
fn parameters(program: &Program, launch: &Launch) -> Result<Vec<u8>, Failure> {
    let kernel = program
        .kernels()
        .find(|kernel| kernel.name == launch.kernel)
        .ok_or_else(|| Failure::bad(format!("the module has no kernel `{}`", launch.kernel)))?;
    if kernel.params.len() != launch.arguments.len() {
        return Err(Failure::bad(format!(
            "kernel `{}` takes {} arguments, {} are given",
            kernel.name,
            kernel.params.len(),
            launch.arguments.len()
        )));
    }
    let mut bytes = Vec::with_capacity(kernel.param_bytes as usize);
    for (param, argument) in kernel.params.iter().zip(&launch.arguments) {
        if argument.len() != param.size as usize {
            return Err(Failure::bad(format!(
                "parameter `{}` of kernel `{}` has {} bytes, its argument {}",
                param.name,
                kernel.name,
                param.size,
                argument.len()
            )));
        }
        bytes.resize(bytes.len().next_multiple_of(param.align.max(1) as usize), 0);
        bytes.extend(argument);
    }
    Ok(bytes)
}
