//! A worker with what belongs to it: its process, arena, tape and virtual GPU.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mkb_device::arena::{ARENA_BYTES, Arena, memory_file};
use mkb_device::client::{DeviceOptions, DeviceProcess};
use mkb_sandbox::Isolation;
use serde::Deserialize;
use serde_json::json;

use crate::template::{Ending, Template};
use crate::value::{Memory, Tensor, Value};
use crate::worker::{Control, WorkerError};

/// Bytes of a worker's output that are kept for a report.
const TAIL: u64 = 8 << 10;

/// How workers are started.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// The environment's Python.
    pub python: PathBuf,
    /// Folders of modules, in order.
    pub python_path: Vec<PathBuf>,
    /// Further variables of the environment.
    pub env: Vec<(String, String)>,
    /// What a sandboxed worker must see, read-only, for Python to run.
    pub read_only: Vec<PathBuf>,
    /// How submissions are kept in.
    pub isolation: Isolation,
}

impl Runtime {
    /// The variables of a worker's environment.
    pub fn variables(&self) -> Vec<(String, String)> {
        let path: Vec<_> = self
            .python_path
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        let mut all = self.env.clone();
        all.retain(|(name, _)| name != "PYTHONPATH");
        all.push(("PYTHONPATH".to_owned(), path.join(":")));
        all
    }
}

/// Who a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role<'a> {
    /// Trusted: draws inputs, runs the reference and its anchor.
    Reference,
    /// Sandboxed: runs the kernel file.
    Submission {
        /// The task's DSL.
        dsl: &'a str,
    },
    /// Trusted: plays tapes.
    Replay,
}

impl Role<'_> {
    fn name(self) -> &'static str {
        match self {
            Role::Reference => "reference",
            Role::Submission { .. } => "submission",
            Role::Replay => "replay",
        }
    }
}

/// Why a station could not be opened or used: never the submission's fault.
#[derive(Debug, thiserror::Error)]
pub enum StationError {
    /// The process did not start.
    #[error("cannot start the {role} worker: {source}")]
    Start {
        /// Which.
        role: &'static str,
        /// Why.
        source: mkb_sandbox::Error,
    },
    /// The system refused a resource.
    #[error("cannot make the {what} of the {role} worker: {source}")]
    Resource {
        /// What.
        what: &'static str,
        /// Whose.
        role: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A tensor lies outside the arena, or has no address.
    #[error("a {0} tensor that a worker placed does not lie in its arena")]
    Outside(&'static str),
    /// The virtual GPU's process failed.
    #[error("virtual GPU: {0}")]
    Device(String),
}

/// A stretch of a tape: offset and length in bytes.
pub type Segment = (u64, u64);

/// A template that stations share.
pub type SharedTemplate = Arc<Mutex<Template>>;

/// A worker, started and connected.
#[derive(Debug)]
pub struct Station {
    role: &'static str,
    control: Control,
    template: SharedTemplate,
    pid: i32,
    ending: Option<Ending>,
    /// Its device memory.
    pub arena: Arena,
    /// What it records: a reference's and a submission's tape, a replay's account.
    record: File,
    /// What a replay plays.
    played: Option<File>,
    last_played: Option<Segment>,
    /// What it writes to its standard streams.
    output: File,
    /// Its virtual GPU.
    pub device: Option<DeviceProcess>,
}

#[derive(Deserialize)]
struct Placed {
    inputs: Vec<Value>,
}

impl Station {
    /// Forks a worker from a template. Waits until the template is warm.
    ///
    /// # Errors
    /// Where the system refuses memory, a socket or the process.
    pub fn open(
        template: SharedTemplate,
        role: Role,
        device: Option<&DeviceOptions>,
    ) -> Result<Self, StationError> {
        let name = role.name();
        let resource = |what| {
            move |source| StationError::Resource {
                what,
                role: name,
                source,
            }
        };
        let arena = Arena::create(ARENA_BYTES).map_err(resource("arena"))?;
        let record = memory_file("mkb-tape").map_err(resource("tape"))?;
        let output = memory_file("mkb-output").map_err(resource("output"))?;
        let played = match role {
            Role::Replay => Some(memory_file("mkb-played").map_err(resource("tape"))?),
            _ => None,
        };
        let (ours, theirs) = UnixStream::pair().map_err(resource("control socket"))?;
        let (device, device_socket) = match device {
            Some(options) => {
                let spawned = DeviceProcess::spawn(options, arena.fd());
                let (process, socket) = spawned.map_err(|e| StationError::Device(e.to_string()))?;
                (Some(process), Some(socket))
            }
            None => (None, None),
        };
        let mut fds: Vec<(&str, BorrowedFd)> = vec![
            ("control", theirs.as_fd()),
            ("arena", arena.fd()),
            ("output", output.as_fd()),
        ];
        if let Some(socket) = &device_socket {
            fds.push(("device", socket.as_fd()));
        }
        match &played {
            Some(played) => fds.extend([("tape", played.as_fd()), ("account", record.as_fd())]),
            None => fds.push(("tape", record.as_fd())),
        }
        let dsl = match role {
            Role::Submission { dsl } => Some(dsl),
            _ => None,
        };
        let forked = lock(&template).fork(&json!({"role": name, "dsl": dsl}), &fds);
        let pid = forked.map_err(resource("process"))?;
        Ok(Self {
            role: name,
            control: Control::new(ours),
            template,
            pid,
            ending: None,
            arena,
            record,
            played,
            last_played: None,
            output,
            device,
        })
    }

    /// Asks the worker; see [`Control::request`].
    ///
    /// # Errors
    /// As [`Control::request`].
    pub fn request<T: serde::de::DeserializeOwned>(
        &mut self,
        request: serde_json::Value,
        limit: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<T, WorkerError> {
        self.control.request(&request, limit, cancelled)
    }

    /// Copies tensors of another station into fresh memory of this one; answers where they lie.
    ///
    /// # Errors
    /// The worker's, or that an address is outside (the second kind is never the submission's fault
    /// unless the worker is a submission's).
    pub fn place(
        &mut self,
        inputs: &[Value],
        from: &Arena,
        limit: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Result<Vec<Value>, StationError>, WorkerError> {
        let request = json!({"op": "place", "inputs": inputs.iter().map(without_addresses).collect::<Vec<_>>()});
        let placed: Placed = self.control.request(&request, limit, cancelled)?;
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        inputs.iter().for_each(|v| tensors(v, &mut theirs));
        placed.inputs.iter().for_each(|v| tensors(v, &mut ours));
        let outside = || StationError::Outside(self.role);
        let copied = (|| {
            if ours.len() != theirs.len() {
                return Err(outside());
            }
            for (to, source) in ours.iter().zip(&theirs) {
                let span = source.span().ok_or_else(outside)?;
                if span == 0 {
                    continue;
                }
                let (Some(to), Some(source)) = (to.address, source.address) else {
                    return Err(outside());
                };
                let bytes = from.bytes(source, span).ok_or_else(outside)?;
                self.arena.write(to, bytes).ok_or_else(outside)?;
            }
            Ok(())
        })();
        Ok(copied.map(|()| placed.inputs))
    }

    /// Bytes of its record.
    ///
    /// # Errors
    /// Where the stretch is not all there.
    pub fn recorded(&self, (offset, length): Segment) -> io::Result<Vec<u8>> {
        let end = offset
            .checked_add(length)
            .ok_or(io::ErrorKind::InvalidInput)?;
        if end > self.record.metadata()?.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.record.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Appends to what a replay plays; answers where.
    ///
    /// # Errors
    /// Where the file cannot be written, or this is no replay.
    pub fn to_play(&mut self, bytes: &[u8]) -> io::Result<Segment> {
        let file = self.played.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let offset = file.metadata()?.len();
        file.write_all_at(bytes, offset)?;
        let segment = (offset, bytes.len() as u64);
        self.last_played = Some(segment);
        Ok(segment)
    }

    /// What [`Station::to_play`] appended last.
    pub fn last_played(&self) -> Option<Segment> {
        self.last_played
    }

    /// Ends the process if it has not ended, and says how it did.
    ///
    /// # Errors
    /// Where its template has ended, and it with it.
    pub fn end(&mut self) -> io::Result<Ending> {
        if let Some(ending) = self.ending {
            return Ok(ending);
        }
        let ending = lock(&self.template).end(self.pid)?;
        self.ending = Some(ending);
        Ok(ending)
    }

    /// The end of what it wrote to its standard streams.
    pub fn output_tail(&self) -> String {
        let length = self.output.metadata().map_or(0, |m| m.len());
        let start = length.saturating_sub(TAIL);
        let mut bytes = vec![0; (length - start) as usize];
        match self.output.read_exact_at(&mut bytes, start) {
            Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => String::new(), // It was cut short meanwhile; a report can do without.
        }
    }
}

fn lock(template: &SharedTemplate) -> MutexGuard<'_, Template> {
    template.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory for Station {
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        self.arena.bytes(address, len)
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        // A template that has ended took its workers with it.
        let _ = self.end();
    }
}

/// The tensors of a value, in order.
pub fn tensors<'v>(value: &'v Value, out: &mut Vec<&'v Tensor>) {
    match value {
        Value::Tensor(tensor) => out.push(tensor),
        Value::List { items } | Value::Tuple { items } => {
            items.iter().for_each(|v| tensors(v, out))
        }
        Value::Dict { items } => items.iter().for_each(|(k, v)| {
            tensors(k, out);
            tensors(v, out);
        }),
        _ => {}
    }
}

fn without_addresses(value: &Value) -> Value {
    match value {
        Value::Tensor(tensor) => Value::Tensor(Tensor {
            address: None,
            ..tensor.clone()
        }),
        Value::List { items } => Value::List {
            items: items.iter().map(without_addresses).collect(),
        },
        Value::Tuple { items } => Value::Tuple {
            items: items.iter().map(without_addresses).collect(),
        },
        Value::Dict { items } => Value::Dict {
            items: items
                .iter()
                .map(|(k, v)| (without_addresses(k), without_addresses(v)))
                .collect(),
        },
        other => other.clone(),
    }
}
