//! The modelled clock: what a launch or an eager operation would take on a described device.
//!
//! A modelled time is an estimate from counts, never a measurement. It ranks: less work, better
//! access, more parallelism give less time. What it leaves out is said where it leaves it out.

mod device;
mod eager;
mod kernel;

#[cfg(test)]
mod tests;

pub use device::{Device, DeviceError, Eager, Host, Latency, Memory, Occupancy, Rates, Tensor};
pub use eager::{
    OpEstimate, OpKind, TensorMeta, compile_time, eager_op, eager_op_is_known, eager_op_time,
    host_read_time,
};
pub use kernel::{Bound, Estimate, Limit, Residency, Terms, kernel_time, residency};
