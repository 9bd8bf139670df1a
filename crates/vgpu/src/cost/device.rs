//! A device description: the figures of `devices/*.toml`, each with its source there.

use serde::Deserialize;

use crate::device::Pipe;

/// A device as the modelled clock sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Name, as the device gives it to programs that ask.
    pub name: String,
    /// Architecture for compilers, as `sm_100a`.
    pub arch: String,
    /// Compute capability, major and minor.
    pub capability: [u32; 2],
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Clock of the SMs and L2, hertz.
    pub clock_hz: f64,
    /// Device memory, bytes.
    pub memory_bytes: u64,
    /// Memory system.
    pub memory: Memory,
    /// Latencies.
    pub latency: Latency,
    /// What fits an SM.
    pub occupancy: Occupancy,
    /// Issue rates.
    pub rates: Rates,
    /// Dense tensor-core rates, operations per second.
    pub tensor: Tensor,
    /// Costs on the host.
    pub host: Host,
    /// Eager PyTorch.
    pub eager: Eager,
}

/// Bandwidths and capacities.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Peak of device memory.
    pub dram_bytes_per_second: f64,
    /// Share of the peak that plain copies reach, 0 to 1.
    pub dram_efficiency: f64,
    /// L2 capacity.
    pub l2_bytes: u64,
    /// L2 bandwidth of the device, bytes a clock.
    pub l2_bytes_per_clock: f64,
    /// Bandwidth between an SM and L2, bytes a clock.
    pub l2_bytes_per_clock_per_sm: f64,
    /// Shared-memory bandwidth of an SM, bytes a clock: one wavefront.
    pub shared_bytes_per_clock_per_sm: f64,
    /// Atomic operations that L2 does in a clock.
    pub l2_atomics_per_clock: f64,
    /// Between host and device, one way.
    pub host_bytes_per_second: f64,
}

/// Clocks until a dependent instruction may go on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// A load of device memory that misses the caches.
    pub global: f64,
    /// A load of shared memory.
    pub shared: f64,
    /// A barrier whose warps have all arrived.
    pub barrier: f64,
    /// An arithmetic instruction.
    pub alu: f64,
}

/// Resources of an SM.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Occupancy {
    /// Resident warps at most.
    pub max_warps_per_sm: u32,
    /// Resident CTAs at most.
    pub max_ctas_per_sm: u32,
    /// Registers of 32 bits.
    pub registers_per_sm: u32,
    /// Registers are given to a warp in multiples of this.
    pub register_unit: u32,
    /// Shared bytes.
    pub shared_per_sm: u32,
    /// Shared bytes that one CTA may have.
    pub shared_per_cta: u32,
    /// Shared bytes that the system takes for each CTA.
    pub shared_reserved_per_cta: u32,
    /// Warp schedulers, each of which issues one instruction a clock.
    pub schedulers_per_sm: u32,
}

/// Warp instructions per clock per SM, by pipe.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The names are the pipes'.
pub struct Rates {
    pub int: f64,
    pub fp32: f64,
    pub fp64: f64,
    pub fp16: f64,
    pub special: f64,
    pub convert: f64,
    pub memory: f64,
    pub warp: f64,
    pub sync: f64,
    pub control: f64,
}

impl Rates {
    /// The rate of a pipe.
    pub const fn of(&self, pipe: Pipe) -> f64 {
        match pipe {
            Pipe::Int => self.int,
            Pipe::Fp32 => self.fp32,
            Pipe::Fp64 => self.fp64,
            Pipe::Fp16 => self.fp16,
            Pipe::Special => self.special,
            Pipe::Convert => self.convert,
            Pipe::Memory => self.memory,
            Pipe::Warp => self.warp,
            Pipe::Sync => self.sync,
            Pipe::Control => self.control,
        }
    }
}

/// Dense tensor-core operations per second (a multiply-add is two).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The names are the formats'.
pub struct Tensor {
    pub fp4: f64,
    pub fp8: f64,
    pub fp16: f64,
    pub tf32: f64,
    pub int8: f64,
    pub fp64: f64,
}

/// Seconds that the host spends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// To submit one kernel.
    pub launch: f64,
    /// To wait for the device and read a value back.
    pub synchronize: f64,
    /// To compile one module of kernels.
    pub compile: f64,
}

/// Eager PyTorch's kernels.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Eager {
    /// Share of the peak that a large matrix product reaches, 0 to 1.
    pub matmul_efficiency: f64,
}

/// Why a description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Not TOML, or a field is missing, unknown or of another type.
    #[error("the device description cannot be read: {0}")]
    Form(#[from] toml::de::Error),
    /// A figure that must be positive is not.
    #[error("the device description has {field} = {value}, which is not a positive number")]
    NotPositive {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

impl Device {
    /// Reads a description (the form of `devices/*.toml`).
    ///
    /// # Errors
    /// See [`DeviceError`].
    pub fn from_toml(text: &str) -> Result<Device, DeviceError> {
        let device: Device = toml::from_str(text)?;
        let figures = [
            ("sms", f64::from(device.sms)),
            ("clock_hz", device.clock_hz),
            (
                "memory.dram_bytes_per_second",
                device.memory.dram_bytes_per_second,
            ),
            ("memory.dram_efficiency", device.memory.dram_efficiency),
            (
                "memory.l2_bytes_per_clock",
                device.memory.l2_bytes_per_clock,
            ),
            (
                "memory.l2_bytes_per_clock_per_sm",
                device.memory.l2_bytes_per_clock_per_sm,
            ),
            (
                "memory.shared_bytes_per_clock_per_sm",
                device.memory.shared_bytes_per_clock_per_sm,
            ),
            (
                "memory.l2_atomics_per_clock",
                device.memory.l2_atomics_per_clock,
            ),
            (
                "memory.host_bytes_per_second",
                device.memory.host_bytes_per_second,
            ),
            ("latency.global", device.latency.global),
            (
                "occupancy.max_warps_per_sm",
                f64::from(device.occupancy.max_warps_per_sm),
            ),
            (
                "occupancy.max_ctas_per_sm",
                f64::from(device.occupancy.max_ctas_per_sm),
            ),
            (
                "occupancy.register_unit",
                f64::from(device.occupancy.register_unit),
            ),
            (
                "occupancy.schedulers_per_sm",
                f64::from(device.occupancy.schedulers_per_sm),
            ),
            ("tensor.fp16", device.tensor.fp16),
            ("tensor.fp8", device.tensor.fp8),
            ("host.launch", device.host.launch),
            ("eager.matmul_efficiency", device.eager.matmul_efficiency),
        ];
        let rates = Pipe::ALL.map(|pipe| (pipe.name(), device.rates.of(pipe)));
        for (field, value) in figures.into_iter().chain(rates) {
            if !(value.is_finite() && value > 0.0) {
                return Err(DeviceError::NotPositive { field, value });
            }
        }
        Ok(device)
    }

    /// The B200 that this build describes.
    pub fn b200() -> Device {
        Self::built_in(include_str!("../../../../devices/b200.toml"))
    }

    /// The H200 that this build describes.
    pub fn h200() -> Device {
        Self::built_in(include_str!("../../../../devices/h200.toml"))
    }

    /// A device by the name of its description: `b200`, `h200`.
    pub fn by_name(name: &str) -> Option<Device> {
        match name {
            "b200" => Some(Self::b200()),
            "h200" => Some(Self::h200()),
            _ => None,
        }
    }

    fn built_in(text: &str) -> Device {
        // The descriptions are part of the build, and a test reads them.
        Self::from_toml(text).unwrap_or_else(|error| panic!("built-in device: {error}"))
    }

    /// Device-memory bandwidth that kernels reach, bytes per second.
    pub fn dram_bandwidth(&self) -> f64 {
        self.memory.dram_bytes_per_second * self.memory.dram_efficiency
    }

    /// Seconds of a number of clocks.
    pub fn seconds(&self, clocks: f64) -> f64 {
        clocks / self.clock_hz
    }

    /// Operations per second (a multiply-add is two) of the plain f32 lanes.
    pub fn fp32_flops(&self) -> f64 {
        f64::from(self.sms) * self.rates.fp32 * 64.0 * self.clock_hz
    }

    /// Operations per second of the plain f64 lanes.
    pub fn fp64_flops(&self) -> f64 {
        f64::from(self.sms) * self.rates.fp64 * 64.0 * self.clock_hz
    }
}
