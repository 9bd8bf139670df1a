//! One attempt from start to end: sandbox, clock, mailbox, agent, and what is left on disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mkb_catalog::setting::{KERNEL_BYTE_LIMIT, KERNEL_PATH, SKILL_PATH};
use mkb_catalog::{Budget, Cancel, Grader};
use mkb_sandbox::{AttemptSandbox, AttemptSpec, Error, Isolation, Limits, Outcome};

use crate::mailbox::{Mailbox, Served};
use crate::world::{Agent, Ran, Stop, World};

/// The most that a skill may hold, in bytes; more is as if none had been written.
pub const SKILL_BYTE_LIMIT: u64 = 1 << 20;

/// What an attempt starts from.
pub struct AttemptConfig {
    /// The folder in which sandboxes stand, outside.
    pub state: PathBuf,
    /// How the agent is kept in.
    pub isolation: Isolation,
    /// What the agent may use.
    pub limits: Limits,
    /// Names and bytes of the files of `/tests`: `test.sh`, `clock.sh`.
    pub tests: Vec<(String, Vec<u8>)>,
    /// Names and bytes of the files that stand in `/app` at the start.
    pub app: Vec<(String, Vec<u8>)>,
    /// Paths and bytes of the files of `/docs`.
    pub docs: Vec<(String, Vec<u8>)>,
    /// Seen at their own path: a Python environment.
    pub read_only: Vec<PathBuf>,
    /// Variables of every command. `MKB_PYTHON` names the Python that checks a kernel's syntax.
    pub env: Vec<(String, String)>,
    /// The task in words, with the skill attached where there is one.
    pub instruction: String,
    /// Time and submissions.
    pub budget: Budget,
    /// Who grades submissions.
    pub grader: Arc<dyn Grader>,
    /// How often the host looks into the mailbox.
    pub look: Duration,
    /// Set when the attempt should end at once.
    pub cancel: Cancel,
}

/// A file that an agent should leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// There is none, or something that is no plain file.
    Nothing,
    /// There is one, larger than allowed.
    TooLarge {
        /// Its bytes.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Its bytes.
    File(Vec<u8>),
}

impl Left {
    /// The bytes of a file that was left and is not too large.
    pub fn file(self) -> Option<Vec<u8>> {
        match self {
            Left::File(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// What an attempt left.
#[derive(Debug, Clone)]
pub struct AttemptEnd {
    /// `/app/kernel.py`, of at most 300,000 bytes.
    pub kernel: Left,
    /// `/app/SKILL.md`.
    pub skill: Left,
    /// Whether the agent was stopped by its time.
    pub timed_out: bool,
    /// Seconds from the agent's start to its end.
    pub agent_sec: f64,
    /// Submissions that counted.
    pub submissions: u32,
}

/// Why an attempt could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The sandbox failed.
    #[error("sandbox: {0}")]
    Sandbox(#[from] Error),
    /// It was asked to end.
    #[error("the attempt was cancelled")]
    Cancelled,
    /// The agent failed.
    #[error("agent {agent}: {why}")]
    Agent {
        /// Its name.
        agent: String,
        /// What it said.
        why: String,
    },
}

/// Carries out one attempt. `keep` gets every submission as it is dealt with, on another thread.
///
/// # Errors
/// See [`AttemptError`]; that an agent runs out of time is none.
pub fn attempt(
    agent: &dyn Agent,
    config: AttemptConfig,
    keep: impl FnMut(Served) + Send,
) -> Result<AttemptEnd, AttemptError> {
    let sandbox = AttemptSandbox::create(AttemptSpec {
        state: config.state,
        isolation: config.isolation,
        limits: config.limits,
        tests: config.tests,
        docs: config.docs,
        read_only: config.read_only,
        env: config.env,
    })?;
    for (name, bytes) in &config.app {
        sandbox.put(&format!("/app/{name}"), bytes)?;
    }
    let started = Instant::now();
    let epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let clock = format!("{epoch} {}", config.budget.wall_sec);
    sandbox.put("/app/.started", clock.as_bytes())?;

    let mailbox = Mailbox::new(
        sandbox.open_app()?,
        config.grader,
        config.budget,
        started,
        config.look,
    );
    let mut world = Sandboxed {
        sandbox: &sandbox,
        instruction: config.instruction,
        deadline: started + config.budget.wall(),
        cancel: config.cancel.clone(),
    };
    // Ends the mailbox with the agent, or with the whole.
    let end = config.cancel.child();
    let (result, submissions) = thread::scope(|scope| {
        let server = scope.spawn(|| mailbox.serve(&end, keep));
        // Also when the agent panics, or the scope would wait for a server without end.
        let _ending = CancelOnDrop(&end);
        let result = agent.attempt(&mut world);
        end.cancel();
        (result, server.join())
    });
    let agent_sec = started.elapsed().as_secs_f64();
    let submissions = match submissions {
        Ok(count) => count,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let timed_out = match result {
        Ok(()) => false,
        Err(Stop::Budget) => true,
        Err(Stop::Cancelled) => return Err(AttemptError::Cancelled),
        Err(Stop::Failed(why)) => {
            return Err(AttemptError::Agent {
                agent: agent.name(),
                why,
            });
        }
    };
    let left = |path, limit| match sandbox.get(path, limit) {
        Ok(Some(bytes)) => Ok(Left::File(bytes)),
        Ok(None) => Ok(Left::Nothing),
        Err(Error::TooLarge { size, limit, .. }) => Ok(Left::TooLarge { size, limit }),
        Err(error) => Err(error),
    };
    let kernel = left(KERNEL_PATH, KERNEL_BYTE_LIMIT as u64)?;
    let skill = left(SKILL_PATH, SKILL_BYTE_LIMIT)?;
    sandbox.remove()?;
    Ok(AttemptEnd {
        kernel,
        skill,
        timed_out,
        agent_sec,
        submissions,
    })
}

struct CancelOnDrop<'a>(&'a Cancel);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A world that is a sandbox.
struct Sandboxed<'a> {
    sandbox: &'a AttemptSandbox,
    instruction: String,
    deadline: Instant,
    cancel: Cancel,
}

impl Sandboxed<'_> {
    fn in_time(&self) -> Result<(), Stop> {
        if self.cancel.is_cancelled() {
            Err(Stop::Cancelled)
        } else if self.time_left().is_zero() {
            Err(Stop::Budget)
        } else {
            Ok(())
        }
    }
}

fn failed(error: &Error) -> Stop {
    Stop::Failed(error.to_string())
}

impl World for Sandboxed<'_> {
    fn instruction(&self) -> &str {
        &self.instruction
    }

    fn inside(&self, path: &str) -> String {
        self.sandbox.inside(path)
    }

    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), Stop> {
        self.in_time()?;
        self.sandbox.put(path, bytes).map_err(|e| failed(&e))
    }

    fn get(&mut self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Stop> {
        self.in_time()?;
        self.sandbox.get(path, limit).map_err(|e| failed(&e))
    }

    fn bash(&mut self, command: &str, time: Duration) -> Result<Ran, Stop> {
        self.in_time()?;
        let time = time.min(self.time_left());
        let argv = ["/bin/bash", "-c", command];
        let stop = || self.cancel.is_cancelled();
        let done = self
            .sandbox
            .run(&argv, b"", time, &stop)
            .map_err(|e| failed(&e))?;
        self.in_time()?;
        let mut text = String::from_utf8_lossy(&done.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&done.stderr));
        let code = match done.outcome {
            Outcome::Exited(code) => Some(code),
            other => {
                text.push_str(&format!("\n(the command {other})\n"));
                None
            }
        };
        Ok(Ran { code, text })
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}
