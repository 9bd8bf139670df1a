//! A worker process as the judge sees it: requests over a control socket, each with a deadline.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// The longest answer that is read; a tree of outputs takes a few kilobytes.
const MAX_ANSWER: usize = 16 << 20;

/// What can go wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The worker answered that it failed.
    #[error("{0}")]
    Failed(Failure),
    /// It ended instead of answering.
    #[error("the process ended")]
    Ended,
    /// It did not answer in time.
    #[error("no answer within {:.0} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// It answered with something that is no answer.
    #[error("the process broke the protocol: {0}")]
    Protocol(String),
    /// The socket failed.
    #[error("control socket: {0}")]
    Io(#[from] io::Error),
}

/// How a worker says that it failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// One line or a few.
    pub message: String,
    /// The Python traceback, where there is one.
    #[serde(default)]
    pub traceback: Option<String>,
}

/// What kind of failure a worker reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// Python raised.
    Exception,
    /// A kernel faulted on the device.
    Fault,
    /// The device does not model an operation.
    Incomplete,
    /// The request was wrong.
    Protocol,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        if let Some(traceback) = &self.traceback {
            write!(f, "\n{}", traceback.trim_end())?;
        }
        Ok(())
    }
}

/// The driver's end of a worker's control socket.
#[derive(Debug)]
pub struct Control {
    stream: UnixStream,
    pending: Vec<u8>,
}

impl Control {
    /// Wraps a connected socket.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            pending: Vec::new(),
        }
    }

    /// Sends `request` and waits for the answer until `deadline`, or until `cancelled` says to stop.
    /// After any error but [`WorkerError::Failed`] the worker is of no more use.
    pub fn request<T: DeserializeOwned>(
        &mut self,
        request: &Json,
        limit: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<T, WorkerError> {
        let deadline = Instant::now() + limit;
        let mut line = request.to_string();
        line.push('\n');
        self.stream
            .set_write_timeout(Some(limit.max(Duration::from_millis(1))))?;
        match self.stream.write_all(line.as_bytes()) {
            Ok(()) => {}
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                return Err(WorkerError::Ended);
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                return Err(WorkerError::TimedOut(limit));
            }
            Err(e) => return Err(e.into()),
        }
        let answer = self.read_line(deadline, limit, cancelled)?;
        parse_answer(&answer)
    }

    fn read_line(
        &mut self,
        deadline: Instant,
        limit: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, WorkerError> {
        let mut scanned = 0;
        let mut buffer = [0u8; 64 << 10];
        loop {
            if let Some(end) = self.pending[scanned..].iter().position(|b| *b == b'\n') {
                let rest = self.pending.split_off(scanned + end + 1);
                let mut line = std::mem::replace(&mut self.pending, rest);
                line.pop();
                return Ok(line);
            }
            scanned = self.pending.len();
            if scanned > MAX_ANSWER {
                return Err(WorkerError::Protocol(format!(
                    "an answer longer than {MAX_ANSWER} bytes"
                )));
            }
            if cancelled() {
                return Err(WorkerError::Cancelled);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(WorkerError::TimedOut(limit));
            }
            // Wakes now and then to look at `cancelled`.
            self.stream.set_read_timeout(Some(
                left.clamp(Duration::from_millis(1), Duration::from_millis(200)),
            ))?;
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(WorkerError::Ended),
                Ok(n) => self.pending.extend_from_slice(&buffer[..n]),
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                            | io::ErrorKind::Interrupted
                    ) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(WorkerError::Ended);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
}

fn parse_answer<T: DeserializeOwned>(line: &[u8]) -> Result<T, WorkerError> {
    let protocol = |e: serde_json::Error| WorkerError::Protocol(e.to_string());
    let answer: Json = serde_json::from_slice(line).map_err(protocol)?;
    match answer.get("ok") {
        Some(Json::Bool(true)) => serde_json::from_value(answer).map_err(protocol),
        Some(Json::Bool(false)) => {
            let failure = answer.get("error").cloned().unwrap_or_default();
            Err(WorkerError::Failed(
                serde_json::from_value(failure).map_err(protocol)?,
            ))
        }
        _ => Err(WorkerError::Protocol("an answer without \"ok\"".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn answering(answer: &'static [u8]) -> Control {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let mut byte = [0u8; 1];
            while byte != *b"\n" {
                theirs.read_exact(&mut byte).unwrap();
            }
            theirs.write_all(answer).unwrap();
            if !answer.ends_with(b"\n") && !answer.is_empty() {
                thread::sleep(Duration::from_secs(5));
            }
        });
        Control::new(ours)
    }

    fn ask(control: &mut Control, limit: Duration) -> Result<Json, WorkerError> {
        control.request(&serde_json::json!({"op": "x"}), limit, &|| false)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_answer_comes_back_as_it_is() {
        let mut control = answering(b"{\"ok\":true,\"n\":9223372036854775807}\n");
        assert_eq!(ask(&mut control, LONG).unwrap()["n"], i64::MAX);
    }

    #[test]
    fn a_failure_keeps_its_kind_and_text() {
        let mut control = answering(
            b"{\"ok\":false,\"error\":{\"kind\":\"fault\",\"message\":\"out of bounds\"}}\n",
        );
        match ask(&mut control, LONG).unwrap_err() {
            WorkerError::Failed(failure) => assert_eq!(
                (failure.kind, failure.message.as_str()),
                (FailureKind::Fault, "out of bounds")
            ),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_worker_that_ends_hangs_or_talks_nonsense_is_told_apart() {
        assert!(matches!(
            ask(&mut answering(b""), LONG),
            Err(WorkerError::Ended)
        ));
        assert!(matches!(
            ask(&mut answering(b"{\"ok\":tr"), Duration::from_millis(50)),
            Err(WorkerError::TimedOut(_))
        ));
        assert!(matches!(
            ask(&mut answering(b"hello\n"), LONG),
            Err(WorkerError::Protocol(_))
        ));
        assert!(matches!(
            ask(&mut answering(b"{}\n"), LONG),
            Err(WorkerError::Protocol(_))
        ));
    }

    #[test]
    fn a_cancelled_request_returns_before_its_deadline() {
        let mut control = answering(b"{\"ok\":");
        let start = Instant::now();
        let result: Result<Json, _> = control.request(&serde_json::json!({}), LONG, &|| true);
        assert!(matches!(result, Err(WorkerError::Cancelled)));
        assert!(start.elapsed() < LONG);
    }
}
