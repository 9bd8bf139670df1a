//! Where untrusted code lives: an attempt's sandbox and a submission's.
//!
//! Both are Linux namespaces of their own (user where the driver is not root, mount, process,
//! network, IPC, host name, cgroup), entered by this crate itself: the libraries and programs that
//! do the same either close inherited file descriptors, cannot drop to another user before process
//! limits bind, or are not on every machine. What is kept and what is not: `docs/threat-model.md`.
//!
//! * [`AttemptSandbox`]: an agent's shell. Folders `/app`, `/tests`, `/docs`, `/tmp` that last over
//!   many commands; every command is a process namespace of its own that ends whole.
//! * [`Submission`]: one process that is judged, with the file descriptors that it is given.
//! * [`Process`]: a running command of either: wait, freeze, kill.
//! * [`sweep()`]: what a killed driver left behind, removed and named.
//! * [`probe()`]: what this machine offers.
//!
//! Invariant: nothing started here outlives its driver, whatever kills that driver.

mod attempt;
mod child;
mod error;
mod folder;
mod identity;
mod limits;
mod measure;
mod plan;
mod probe;
mod process;
mod python;
mod seccomp;
mod submission;
mod sweep;

pub use attempt::{AttemptSandbox, AttemptSpec, Exec, ExecOutput};
pub use error::{Error, Result};
pub use folder::{Entry, Folder};
pub use limits::Limits;
pub use plan::View;
pub use probe::{Finding, Probe, probe};
pub use process::{Isolation, Outcome, Process, SharedMemory};
pub use submission::{Stream, Submission};
pub use sweep::{Leftover, sweep};
