//! The virtual GPU as a process: arena, launch protocol, tape and account.
//!
//! - [`arena`]: a worker's device memory, shared between the driver, the worker and its device.
//! - [`protocol`]: the frames in which a worker asks its device for modules and launches.
//! - [`server`]: the process; [`engine`]: what it does with a worker's requests.
//! - [`client`]: the driver's end; [`account`]: what it is told there.
//! - [`tape`]: what a worker did, read from bytes that nobody vouches for.

pub mod account;
pub mod arena;
pub mod client;
pub mod engine;
pub mod protocol;
pub mod server;
pub mod tape;
