//! The virtual GPU as a process: arena, launch protocol, tape and account.
//!
//! - [`arena`]: a worker's device memory, shared between the driver, the worker and its device.
//! - [`protocol`]: the frames in which a worker asks its device for modules and launches.

pub mod arena;
pub mod protocol;
