//! Runs a step's program: its lines are shown and logged, and it dies when the caller stops.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::SetupError;
use crate::steps::Progress;

/// How a program ended.
pub(crate) enum Outcome {
    Done,
    /// Its last lines of output.
    Failed(String),
}

/// Lines of output kept for an error.
const TAIL: usize = 30;

/// Runs `command` with its output going line by line to `progress` and, appended, to `log`.
pub(crate) fn run(
    mut command: Command,
    log: &Path,
    progress: &dyn Progress,
) -> Result<Outcome, SetupError> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(SetupError::file(folder))?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(SetupError::file(log))?;
    let program = Path::new(command.get_program()).to_owned();
    let _ = writeln!(file, "$ {command:?}");
    // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| {
            // A set-up that is killed must not leave a pip behind that goes on writing.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            Ok(())
        });
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(SetupError::file(&program))?;
    let (sender, lines) = mpsc::channel::<String>();
    let streams: [Box<dyn std::io::Read + Send>; 2] = [
        Box::new(child.stdout.take().expect("stdout is piped")),
        Box::new(child.stderr.take().expect("stderr is piped")),
    ];
    for stream in streams {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut tail: Vec<String> = Vec::new();
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                let _ = writeln!(file, "{line}");
                progress.line(&line);
                if tail.len() == TAIL {
                    tail.remove(0);
                }
                tail.push(line);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if progress.cancelled() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(SetupError::Cancelled);
        }
    }
    let status = child.wait().map_err(SetupError::file(&program))?;
    Ok(if status.success() {
        Outcome::Done
    } else {
        tail.push(format!("({status})"));
        Outcome::Failed(tail.join("\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Quiet;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_of_both_streams_is_logged_and_a_failure_keeps_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a/log");
        let outcome = run(shell("echo out; echo err >&2; exit 3"), &log, &Quiet).unwrap();
        let Outcome::Failed(tail) = outcome else {
            panic!("it did not fail")
        };
        let logged = fs::read_to_string(&log).unwrap();
        for text in [tail, logged] {
            assert!(text.contains("out") && text.contains("err"));
        }
    }

    #[test]
    fn a_program_dies_when_the_caller_stops() {
        struct Stop;
        impl Progress for Stop {
            fn cancelled(&self) -> bool {
                true
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let start = std::time::Instant::now();
        let result = run(shell("exec sleep 100"), &folder.path().join("log"), &Stop);
        assert!(matches!(result, Err(SetupError::Cancelled)));
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
