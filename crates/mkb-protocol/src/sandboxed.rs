//! The one who attempts: an agent of `mkb-agent` in a sandbox of `mkb-sandbox`.

use std::path::PathBuf;
use std::time::Duration;

use mkb_agent::{Agent, AttemptConfig, AttemptError};
use mkb_catalog::task;
use mkb_sandbox::{Isolation, Limits};
use mkb_store::Usage;

use crate::attempt::{AttemptFailure, AttemptOutcome, AttemptRequest, Attempter};

/// Chooses the agent for an attempt, e.g. the oracle with the task's solution, or the tuner with
/// the trial's seed.
pub type Choose<'a> =
    &'a (dyn Fn(&AttemptRequest<'_>) -> Result<Box<dyn Agent>, AttemptFailure> + Sync);

/// Attempts tasks in sandboxes, each of its own.
pub struct Sandboxed<'a> {
    /// Chooses the agent.
    pub choose: Choose<'a>,
    /// The folder in which sandboxes stand, outside.
    pub state: PathBuf,
    /// How agents are kept in.
    pub isolation: Isolation,
    /// What agents may use.
    pub limits: Limits,
    /// Seen in the sandbox at their own path: a Python environment.
    pub read_only: Vec<PathBuf>,
    /// Variables of every command in the sandbox; `MKB_PYTHON` names its Python.
    pub env: Vec<(String, String)>,
    /// How often the mailbox is looked into.
    pub look: Duration,
}

impl Attempter for Sandboxed<'_> {
    fn attempt(&self, request: &AttemptRequest<'_>) -> Result<AttemptOutcome, AttemptFailure> {
        let agent = (self.choose)(request)?;
        let docs = task::docs(request.task);
        let config = AttemptConfig {
            state: self.state.clone(),
            isolation: self.isolation,
            limits: self.limits.clone(),
            tests: task::tests(request.task),
            app: Vec::new(),
            docs: docs
                .iter()
                .map(|(path, bytes)| (path, bytes.to_vec()))
                .collect(),
            read_only: self.read_only.clone(),
            env: self.env.clone(),
            instruction: task::instruction_text(request.task, request.attachment),
            budget: request.budget,
            grader: request.grader.clone(),
            look: self.look,
            cancel: request.cancel.clone(),
        };
        let end = mkb_agent::attempt(&*agent, config, |served| {
            request.submissions.keep(
                &served.entry,
                served.kernel.as_deref(),
                served.verdict.as_ref(),
                &served.evidence,
            );
        });
        let end = end.map_err(|error| {
            let kind = match &error {
                AttemptError::Sandbox(_) => "SandboxError",
                AttemptError::Cancelled => "CancelledError",
                AttemptError::Agent { .. } => "AgentError",
            };
            AttemptFailure::of_kind(kind, error.to_string())
        })?;
        Ok(AttemptOutcome {
            kernel: end.kernel,
            skill: end.skill,
            timed_out: end.timed_out,
            usage: Some(Usage::without_model((end.agent_sec * 1e3).round() / 1e3)),
            logs: Vec::new(),
        })
    }
}
