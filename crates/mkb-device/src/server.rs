//! The virtual GPU's process: answers its worker's modules and launches, and its driver's questions.
//!
//! It ends when either of them has gone.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use crate::account::{ControlReply, ControlRequest};
use crate::arena::Arena;
use crate::engine::{Engine, Watch};
use crate::protocol::{Reply, read_request, write_reply};

/// Where the process finds the arena's file.
pub const ARENA_FD: RawFd = 3;
/// Where it finds its worker's socket.
pub const WORKER_FD: RawFd = 4;
/// Where it finds its driver's socket.
pub const CONTROL_FD: RawFd = 5;

/// What a virtual GPU runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Host threads that a launch may use.
    pub threads: usize,
    /// Decides what the device may decide: the order in which asynchronous work completes.
    pub seed: u64,
    /// Warp instructions that a launch may run.
    pub step_budget: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            seed: 0,
            step_budget: 8_000_000_000,
        }
    }
}

impl ServerOptions {
    /// As arguments of the process.
    pub fn to_args(&self) -> Vec<String> {
        [self.threads as u64, self.seed, self.step_budget]
            .map(|n| n.to_string())
            .to_vec()
    }

    /// Back from arguments.
    ///
    /// # Errors
    /// Where they are not the three numbers.
    pub fn from_args(args: &[String]) -> io::Result<Self> {
        let number = |i: usize| {
            args.get(i)
                .and_then(|a| a.parse::<u64>().ok())
                .ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidInput, "expected THREADS SEED STEPS")
                })
        };
        Ok(Self {
            threads: number(0)? as usize,
            seed: number(1)?,
            step_budget: number(2)?,
        })
    }
}

/// Runs the process: the descriptors are [`ARENA_FD`], [`WORKER_FD`], [`CONTROL_FD`], as
/// [`crate::client::DeviceProcess::spawn`] passes them. Returns when the worker has gone.
///
/// # Errors
/// Where the descriptors are none, or a socket fails.
pub fn run_from_args(args: &[String]) -> io::Result<()> {
    let options = ServerOptions::from_args(args)?;
    let owned = |fd: RawFd| {
        // SAFETY: asking whether a descriptor is open has no precondition.
        let open = rustix::io::fcntl_getfd(unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) });
        open.map_err(io::Error::from)?;
        // SAFETY: the driver passed it for this process alone; it is open and nothing else here has it.
        Ok::<OwnedFd, io::Error>(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    serve(
        owned(ARENA_FD)?,
        owned(WORKER_FD)?.into(),
        owned(CONTROL_FD)?.into(),
        &options,
    )
}

/// Serves until the worker closes its socket.
///
/// # Errors
/// Where a socket fails, or the worker sends what is no request.
pub fn serve(
    arena: OwnedFd,
    mut worker: UnixStream,
    control: UnixStream,
    options: &ServerOptions,
) -> io::Result<()> {
    let arena = Arena::open(arena)?;
    let watch = Arc::new(Mutex::new(Watch::default()));
    answer_driver(control, Arc::clone(&watch))?;
    let mut engine = Engine::new(&arena, options.clone(), watch);
    loop {
        let request = match read_request(&mut worker) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        let reply: Reply = engine.answer(request);
        write_reply(&mut worker, &reply)?;
    }
}

/// Answers the driver beside the launches; ends the process when the driver has gone.
fn answer_driver(control: UnixStream, watch: Arc<Mutex<Watch>>) -> io::Result<()> {
    let mut writer = control.try_clone()?;
    let answer = move || {
        for line in BufReader::new(control).lines() {
            let Some(request) = line
                .ok()
                .and_then(|l| serde_json::from_str::<ControlRequest>(&l).ok())
            else {
                break;
            };
            let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
            let reply = match request {
                ControlRequest::Account => ControlReply::Account {
                    launches: std::mem::take(&mut watch.launches),
                },
                ControlRequest::Track {
                    on,
                    garbage,
                    inputs,
                } => {
                    watch.track = on;
                    watch.garbage = garbage;
                    watch.inputs = inputs;
                    ControlReply::Done
                }
            };
            drop(watch);
            let mut line = serde_json::to_string(&reply).unwrap_or_default();
            line.push('\n');
            if writer.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
        std::process::exit(0);
    };
    std::thread::Builder::new()
        .name("driver".to_owned())
        .spawn(answer)?;
    Ok(())
}
