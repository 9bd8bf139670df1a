//! What a call costs on the modelled clock: its eager operations and launches, in order, summed.

use std::collections::BTreeMap;

use mkb_device::account::LaunchAccount;
use mkb_device::tape::{self, Entry, TapeError, Value};
use vgpu::cost::{
    Device, TensorMeta, compile_time, eager_op_is_known, eager_op_time, host_read_time, kernel_time,
};

/// What a call costs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Charge {
    /// The whole, in seconds.
    pub seconds: f64,
    /// By kernel, in the order in which they first ran.
    pub kernels: Vec<KernelCharge>,
    /// By eager operation, the dearest first.
    pub operations: Vec<OperationCharge>,
    /// Bytes that the host computed and sent to the device.
    pub host_bytes: u64,
}

/// What a kernel's launches cost.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelCharge {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub launches: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// What bounds the dearest launch: `dram`, `l2`, `launch`...
    pub bound: String,
    /// The same for a person, with figures.
    pub bottleneck: String,
}

/// What an eager operation's calls cost.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationCharge {
    /// torch's name without overload.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Whether the model has a rule for it; one without is charged by its operands' bytes alone.
    pub modelled: bool,
}

/// Why an account cannot be charged.
#[derive(Debug, thiserror::Error)]
pub enum ChargeError {
    /// It is no tape.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The tape and the virtual GPU disagree about what ran.
    #[error("the tape has {tape} launches, the virtual GPU ran {device}")]
    Launches {
        /// On the tape.
        tape: usize,
        /// Run.
        device: usize,
    },
}

/// Charges a segment that a trusted worker recorded, with what its virtual GPU says of the launches.
///
/// # Errors
/// See [`ChargeError`].
pub fn charge(
    segment: &[u8],
    launches: &[LaunchAccount],
    device: &Device,
) -> Result<Charge, ChargeError> {
    let entries = tape::parse(segment)?;
    let on_tape = entries
        .iter()
        .filter(|e| matches!(e, Entry::Launch(_)))
        .count();
    if on_tape != launches.len() {
        return Err(ChargeError::Launches {
            tape: on_tape,
            device: launches.len(),
        });
    }
    let mut charge = Charge::default();
    let mut operations: BTreeMap<String, OperationCharge> = BTreeMap::new();
    let mut add = |name: &str, seconds: f64, modelled: bool| {
        let slot = operations
            .entry(name.to_owned())
            .or_insert_with(|| OperationCharge {
                name: name.to_owned(),
                calls: 0,
                seconds: 0.0,
                modelled,
            });
        slot.calls += 1;
        slot.seconds += seconds;
    };
    let mut launches = launches.iter();
    let mut dearest: Vec<f64> = Vec::new();
    for entry in &entries {
        match entry {
            Entry::Op(op) => {
                let operands: Vec<_> = op.operands().map(meta).collect();
                let results: Vec<_> = op.result_tensors().map(meta).collect();
                let seconds = eager_op_time(op.name, &operands, &results, op.host_bytes(), device);
                charge.seconds += seconds;
                charge.host_bytes += op.host_bytes();
                let name = op.name.split('.').next().unwrap_or(op.name);
                add(name, seconds, eager_op_is_known(op.name));
            }
            Entry::Read(_) | Entry::Sync => {
                let seconds = host_read_time(read_bytes(entry), device);
                charge.seconds += seconds;
                add("host synchronisation", seconds, true);
            }
            Entry::Launch(_) => {
                let Some(launch) = launches.next() else {
                    continue;
                };
                let estimate = kernel_time(&launch.counts, device);
                charge.seconds += estimate.seconds;
                let known = charge.kernels.iter().position(|k| k.name == launch.kernel);
                let index = known.unwrap_or_else(|| {
                    charge.kernels.push(KernelCharge {
                        name: launch.kernel.clone(),
                        launches: 0,
                        seconds: 0.0,
                        bound: String::new(),
                        bottleneck: String::new(),
                    });
                    dearest.push(-1.0);
                    charge.kernels.len() - 1
                });
                let kernel = &mut charge.kernels[index];
                kernel.launches += 1;
                kernel.seconds += estimate.seconds;
                if estimate.seconds > dearest[index] {
                    dearest[index] = estimate.seconds;
                    kernel.bound = estimate.bound.to_string();
                    kernel.bottleneck = estimate.bottleneck;
                }
            }
            _ => {}
        }
    }
    charge.operations = operations.into_values().collect();
    charge
        .operations
        .sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Ok(charge)
}

/// Bytes that an entry copies to the host.
fn read_bytes(entry: &Entry) -> u64 {
    match entry {
        Entry::Read(Value::Tensor(tensor)) => tensor.elements().saturating_mul(tensor.dtype.size()),
        _ => 0,
    }
}

impl Charge {
    /// Adds the compilation of `modules` that the call was the first to need.
    pub fn add_compilation(&mut self, modules: u64, device: &Device) {
        if modules == 0 {
            return;
        }
        let seconds = compile_time(modules, device);
        self.seconds += seconds;
        let operation = OperationCharge {
            name: "compilation in the call".to_owned(),
            calls: modules,
            seconds,
            modelled: true,
        };
        self.operations.insert(0, operation);
    }
}

fn meta(tensor: &tape::Tensor) -> TensorMeta {
    TensorMeta {
        dtype: tensor.dtype.name().to_owned(),
        sizes: tensor.sizes.clone(),
        strides: tensor.strides.clone(),
    }
}
