//! The driver's end of a virtual GPU's process: start it, ask for its account.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};

use crate::account::{ControlReply, ControlRequest, Garbage, LaunchAccount};

/// How a virtual GPU's process is started.
#[derive(Debug, Clone)]
pub struct DeviceOptions {
    /// The program, usually the driver's own.
    pub program: PathBuf,
    /// Its first arguments, which lead to [`crate::server::run_from_args`].
    pub arguments: Vec<String>,
    /// What it runs with.
    pub server: crate::server::ServerOptions,
}

/// How long it may take to answer the driver; a running launch does not hold it up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A virtual GPU's process; ends when dropped.
#[derive(Debug)]
pub struct DeviceProcess {
    child: Child,
    control: BufReader<UnixStream>,
}

impl DeviceProcess {
    /// Starts one over an arena; the socket is the worker's end.
    ///
    /// # Errors
    /// Where the system refuses a socket or the process.
    pub fn spawn(options: &DeviceOptions, arena: BorrowedFd) -> io::Result<(Self, OwnedFd)> {
        let (worker_ours, worker_theirs) = UnixStream::pair()?;
        let (control_ours, control_theirs) = UnixStream::pair()?;
        control_ours.set_read_timeout(Some(PATIENCE))?;
        let mapping = |parent_fd: OwnedFd, child_fd| FdMapping {
            parent_fd,
            child_fd,
        };
        let mut command = Command::new(&options.program);
        command
            .args(&options.arguments)
            .args(options.server.to_args())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
            .fd_mappings(vec![
                mapping(arena.as_fd().try_clone_to_owned()?, crate::server::ARENA_FD),
                mapping(worker_theirs.into(), crate::server::WORKER_FD),
                mapping(control_theirs.into(), crate::server::CONTROL_FD),
            ])
            .map_err(io::Error::other)?;
        let child = command.spawn()?;
        let process = Self {
            child,
            control: BufReader::new(control_ours),
        };
        Ok((process, worker_ours.into()))
    }

    fn ask(&mut self, request: &ControlRequest) -> io::Result<ControlReply> {
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        self.control.get_mut().write_all(line.as_bytes())?;
        let mut answer = String::new();
        if self.control.read_line(&mut answer)? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the virtual GPU's process ended",
            ));
        }
        Ok(serde_json::from_str(&answer)?)
    }

    /// The launches since the last time, in order.
    ///
    /// # Errors
    /// Where the process has ended or breaks the protocol.
    pub fn account(&mut self) -> io::Result<Vec<LaunchAccount>> {
        match self.ask(&ControlRequest::Account)? {
            ControlReply::Account { launches } => Ok(launches),
            ControlReply::Done => Err(io::Error::other(
                "the virtual GPU answered another question",
            )),
        }
    }

    /// Has it track what launches write, and overwrite that with `garbage` where given.
    ///
    /// # Errors
    /// As [`DeviceProcess::account`].
    pub fn track(
        &mut self,
        on: bool,
        garbage: Option<Garbage>,
        inputs: Vec<(u64, u64)>,
    ) -> io::Result<()> {
        self.ask(&ControlRequest::Track {
            on,
            garbage,
            inputs,
        })
        .map(|_| ())
    }
}

impl Drop for DeviceProcess {
    fn drop(&mut self) {
        // Whether it has ended by itself does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
