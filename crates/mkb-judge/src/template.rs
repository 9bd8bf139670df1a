//! A warm Python process that forks workers, so that they start in milliseconds.
//!
//! A sandboxed template's workers run in its sandbox, one after another; what a worker left running
//! or in `/tmp` is gone before the next. Its side of the protocol: `python/mkb_worker/template.py`.

use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use mkb_sandbox::{Isolation, Limits, Process, Stream, Submission, View};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::station::{Runtime, StationError};

/// How long a template may take to import torch, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// Which workers a template forks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// References, outside any sandbox.
    Trusted,
    /// Replays, side by side: trusted code, in a sandbox because of what it plays.
    Player,
    /// Submissions in a DSL, in a sandbox.
    Sandboxed {
        /// The DSL.
        dsl: String,
        /// The folder, seen inside as `/app`, that holds the kernel file.
        app: PathBuf,
    },
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Code(i32),
    /// By this signal; SIGKILL where the driver ended it.
    Signal(i32),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Code(code) => write!(f, "exited with code {code}"),
            Ending::Signal(signal) => match rustix::process::Signal::from_named_raw(*signal) {
                Some(name) => write!(f, "ended by signal {signal} ({name:?})"),
                None => write!(f, "ended by signal {signal}"),
            },
        }
    }
}

/// A warm process. Dropping it ends its workers.
#[derive(Debug)]
pub struct Template {
    /// What it is for.
    pub kind: Kind,
    process: Process,
    control: UnixStream,
}

#[derive(Deserialize)]
struct Reply {
    pid: Option<i32>,
    code: Option<i32>,
    signal: Option<i32>,
}

impl Template {
    /// Starts one; it imports while the caller goes on.
    ///
    /// # Errors
    /// Where the system refuses the process.
    pub fn start(runtime: &Runtime, kind: Kind) -> Result<Self, StationError> {
        const ROLE: &str = "template";
        let resource = |what| {
            move |source| StationError::Resource {
                what,
                role: ROLE,
                source,
            }
        };
        let (ours, theirs) = UnixStream::pair().map_err(resource("control socket"))?;
        ours.set_read_timeout(Some(PATIENCE))
            .map_err(resource("control socket"))?;
        let python = runtime.python.display().to_string();
        let mut start = Submission::new([python.as_str(), "-m", "mkb_worker", "template"]);
        let fd = start.pass(theirs.into());
        start
            .argv
            .extend(["--control-fd".to_owned(), fd.to_string()]);
        start.env = runtime.variables();
        start.stderr = Stream::Tail(8 << 10);
        // Many workers at once, each under its driver's clock.
        let unlimited = Limits {
            memory_bytes: u64::MAX / 2,
            cpu_time: None,
            file_bytes: u64::MAX / 2,
            processes: 4096,
            ..Limits::submission()
        };
        match &kind {
            Kind::Trusted => {
                start.isolation = Isolation::None;
                start.limits = unlimited;
            }
            Kind::Player => {
                start.isolation = runtime.isolation;
                start.limits = unlimited;
                start.view.read_only = runtime.read_only.clone();
            }
            Kind::Sandboxed { dsl, app } => {
                start.isolation = runtime.isolation;
                start.argv.extend(["--dsl".to_owned(), dsl.clone()]);
                if runtime.isolation == Isolation::Namespaces {
                    start.argv.push("--sandboxed".to_owned());
                }
                start.view = View {
                    read_only: runtime.read_only.clone(),
                    read_only_at: vec![(app.clone(), "/app".into())],
                    writable_at: vec![],
                };
            }
        }
        let process = start
            .spawn()
            .map_err(|source| StationError::Start { role: ROLE, source })?;
        Ok(Self {
            kind,
            process,
            control: ours,
        })
    }

    /// Forks a worker: its arguments, and its descriptors by name.
    ///
    /// # Errors
    /// Where the template has ended.
    pub fn fork(&mut self, arguments: &Json, fds: &[(&str, BorrowedFd)]) -> io::Result<i32> {
        let names: Vec<&str> = fds.iter().map(|(name, _)| *name).collect();
        let message = format!(
            "{}\n",
            json!({"op": "fork", "arguments": arguments, "fds": names})
        );
        let raw: Vec<BorrowedFd> = fds.iter().map(|(_, fd)| *fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&raw)) {
            return Err(io::Error::other("more descriptors than a message holds"));
        }
        let sent = sendmsg(
            &self.control,
            &[IoSlice::new(message.as_bytes())],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        if sent != message.len() {
            return Err(io::Error::other("the message was cut"));
        }
        self.reply()?
            .pid
            .ok_or_else(|| io::Error::other("the template forked nothing"))
    }

    /// Ends a worker and all that it started.
    ///
    /// # Errors
    /// Where the template has ended.
    pub fn end(&mut self, pid: i32) -> io::Result<Ending> {
        let message = format!("{}\n", json!({"op": "end", "pid": pid}));
        io::Write::write_all(&mut self.control, message.as_bytes())?;
        let reply = self.reply()?;
        match (reply.code, reply.signal) {
            (Some(code), _) => Ok(Ending::Code(code)),
            (_, Some(signal)) => Ok(Ending::Signal(signal)),
            _ => Err(io::Error::other(
                "the template did not say how its worker ended",
            )),
        }
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let mut line = Vec::new();
        let mut byte = [0u8; 1];
        loop {
            match self.control.read(&mut byte) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, self.why())),
                Ok(_) if byte == *b"\n" => break,
                Ok(_) => line.push(byte[0]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(io::Error::new(e.kind(), self.why()));
                }
                Err(e) => return Err(e),
            }
        }
        serde_json::from_slice(&line).map_err(io::Error::other)
    }

    fn why(&self) -> String {
        let outcome = self.process.wait_for(Duration::from_millis(500));
        let how = outcome.map_or("closed its socket".to_owned(), |o| o.to_string());
        let stderr = self.process.stderr_tail();
        format!(
            "the warm Python process {how}\n{}",
            String::from_utf8_lossy(&stderr).trim_end()
        )
    }

    /// Ends it with all its workers.
    pub fn kill(&self) {
        self.process.kill();
    }
}

/// A clone of a descriptor, to hand over.
///
/// # Errors
/// Where the process has no more descriptors.
pub fn clone_fd(fd: &impl AsFd) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}
