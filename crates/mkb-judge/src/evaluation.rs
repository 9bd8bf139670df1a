//! One kernel file through its draws: run, replayed, compared, charged.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use mkb_catalog::dsl::DslSpec;
use mkb_catalog::grading::{Cancel, GradeFailure};
use mkb_device::account::{Garbage, LaunchAccount};
use mkb_device::tape;
use serde::Deserialize;
use serde_json::json;
use vgpu::cost::eager_op_is_known;

use crate::carried::{Carried, Carrying};
use crate::charge::{Charge, charge};
use crate::limits::{CORRECTNESS_DRAWS, Limits, MODELLED_DRAWS, Stage};
use crate::policy::{Finding, Rule};
use crate::station::{Segment, Station, StationError, tensors};
use crate::value::{self, Outputs, Tensor, Value};
use crate::worker::{FailureKind, WorkerError};

/// Seeds of one evaluation, 63 bits each, no two alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds {
    /// Of the correctness draws.
    pub correctness: Vec<u64>,
    /// Of the timed draws.
    pub timing: Vec<u64>,
    /// Of the garbage that withheld results are overwritten with.
    pub garbage: u64,
}

impl Seeds {
    /// Fresh ones from the system's randomness.
    ///
    /// # Errors
    /// Where the system has none.
    pub fn fresh() -> Result<Self, GradeFailure> {
        let mut all = Vec::new();
        while all.len() < CORRECTNESS_DRAWS + MODELLED_DRAWS + 1 {
            let word = getrandom::u64()
                .map_err(|e| GradeFailure::Infrastructure(format!("no randomness: {e}")))?;
            if !all.contains(&(word >> 1)) {
                all.push(word >> 1);
            }
        }
        let timing = all.split_off(CORRECTNESS_DRAWS);
        Ok(Self {
            correctness: all,
            garbage: timing[MODELLED_DRAWS],
            timing: timing[..MODELLED_DRAWS].to_vec(),
        })
    }
}

/// What came of an evaluation so far; what had finished before a failure is kept.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether the file was imported.
    pub imported: bool,
    /// Correctness draws that agreed.
    pub correct_draws: usize,
    /// The first disagreement.
    pub mismatch: Option<String>,
    /// Why the evaluation stopped early.
    pub error: Option<String>,
    /// What broke a rule.
    pub findings: Vec<Finding>,
    /// Charges of the kernel and of eager, for each timed draw.
    pub timed: Vec<(Charge, Charge)>,
    /// The process's standard error.
    pub stderr: String,
    /// The submission's tape.
    pub tape: Vec<u8>,
}

/// Why an evaluation stops.
enum Halt {
    /// The submission failed; the outcome says how.
    Failed(String),
    /// The device does not model an operation.
    Incomplete(String),
    /// The judge failed.
    Judge(GradeFailure),
}

/// What an evaluation needs.
pub struct Evaluation<'a> {
    /// The task's DSL.
    pub dsl: &'a DslSpec,
    /// Draws inputs and expected values.
    pub reference: &'a mut Station,
    /// Runs the kernel file.
    pub submission: &'a mut Station,
    /// Plays the submission's tape.
    pub replay: &'a mut Station,
    /// Where the submission's worker sees the kernel file.
    pub kernel: &'a Path,
    /// Which of the inputs may change, by position.
    pub mutable: &'a [bool],
    /// What eager operations and launches cost.
    pub device: &'a vgpu::cost::Device,
    /// Seeds.
    pub seeds: &'a Seeds,
    /// The wish to stop.
    pub cancel: &'a Cancel,
    /// When it began.
    pub started: Instant,
    /// What its stages may take.
    pub limits: &'a Limits,
    /// What the replay's launches are watched for.
    pub tracking: Option<Tracking>,
    /// What calls have brought in from the host so far.
    pub carrying: Carrying,
    /// The forms of the modules so far, by number.
    pub modules: HashMap<u64, u8>,
    /// Where the tape's last segment ended.
    pub recorded: u64,
}

/// Watching what launches write.
#[derive(Debug, Clone, Copy)]
pub struct Tracking {
    /// With what it is overwritten; nothing where it is only looked at.
    pub garbage: Option<Garbage>,
}

#[derive(Deserialize)]
struct Drawn {
    inputs: Vec<Value>,
}

#[derive(Deserialize)]
struct Returned {
    outputs: Value,
    #[serde(default)]
    tape: Option<Segment>,
}

/// What a replay answers; of an import there is no return.
#[derive(Deserialize)]
struct Played {
    outputs: Option<Value>,
    account: Segment,
}

/// One draw's expected side.
struct Expected {
    inputs: Vec<Value>,
    outputs: Value,
    anchor: Value,
    eager: Segment,
}

/// What a replay gave.
struct Replayed {
    inputs: Vec<Value>,
    outputs: Value,
    charge: Charge,
    launches: Vec<LaunchAccount>,
    carried: Carried,
}

/// Ends where the virtual GPU met what it does not model.
#[derive(Debug)]
pub struct Incomplete {
    /// The operation, and where.
    pub operation: String,
}

impl Evaluation<'_> {
    /// Runs it all. The outcome holds what came of it, also where the submission failed.
    ///
    /// # Errors
    /// The inner error where the device lacks an operation; the outer where the judge failed.
    pub fn run(mut self, outcome: &mut Outcome) -> Result<Result<(), Incomplete>, GradeFailure> {
        let result = self.stages(outcome);
        // Nothing of the submission runs any more when its verdict is made.
        let _ = self.submission.end();
        outcome.stderr = self.submission.output_tail();
        match result {
            Ok(()) => Ok(Ok(())),
            Err(Halt::Failed(error)) => {
                outcome.error = Some(error);
                Ok(Ok(()))
            }
            Err(Halt::Incomplete(operation)) => Ok(Err(Incomplete { operation })),
            Err(Halt::Judge(failure)) => Err(failure),
        }
    }

    fn stages(&mut self, outcome: &mut Outcome) -> Result<(), Halt> {
        let import: serde_json::Value =
            self.ask_submission(Stage::Import, json!({"op": "import", "path": self.kernel}))?;
        outcome.imported = true;
        if let Some(segment) = import
            .get("tape")
            .and_then(|t| serde_json::from_value::<Segment>(t.clone()).ok())
        {
            self.play(Stage::Import, segment, None, outcome)?;
        }
        for number in 1..=CORRECTNESS_DRAWS {
            let stage = Stage::Draw(number);
            let expected = self.expect(self.seeds.correctness[number - 1])?;
            let replayed = self.draw(stage, &expected, outcome)?;
            match self.compare(&expected, &replayed.inputs, &replayed.outputs) {
                Ok(()) => outcome.correct_draws += 1,
                Err(mismatch) => {
                    outcome
                        .mismatch
                        .get_or_insert(format!("{stage}: {mismatch}"));
                }
            }
            self.look_at_launches(stage, &expected, &replayed, outcome);
            self.release(stage)?;
        }
        if outcome.correct_draws < CORRECTNESS_DRAWS {
            return Ok(()); // Nothing is timed for what is wrong.
        }
        for number in 1..=MODELLED_DRAWS {
            let stage = Stage::Timing(number);
            let expected = self.expect(self.seeds.timing[number - 1])?;
            let last = number == MODELLED_DRAWS;
            self.tracking = last.then_some(Tracking { garbage: None });
            let mut replayed = self.draw(stage, &expected, outcome)?;
            replayed
                .charge
                .add_compilation(replayed.carried.new_modules, self.device);
            if let Err(mismatch) = self.compare(&expected, &replayed.inputs, &replayed.outputs) {
                outcome
                    .mismatch
                    .get_or_insert(format!("{stage}: {mismatch}"));
                outcome.timed.clear();
                return Err(Halt::Failed(format!(
                    "{stage}: an output of a timed call is wrong"
                )));
            }
            self.look_at_launches(stage, &expected, &replayed, outcome);
            if last {
                self.withhold(stage, &expected, &replayed, outcome)?;
            }
            let eager = self
                .reference
                .recorded(expected.eager)
                .map_err(|e| judge(format!("eager tape: {e}")))?;
            let eager =
                charge(&eager, &[], self.device).map_err(|e| judge(format!("eager tape: {e}")))?;
            outcome.timed.push((replayed.charge, eager));
            self.release(stage)?;
        }
        Ok(())
    }

    /// The expected side of a draw. Any failure here is the judge's.
    fn expect(&mut self, seed: u64) -> Result<Expected, Halt> {
        let drawn: Drawn = self.ask_reference(json!({"op": "draw", "seed": seed}))?;
        let returned: Returned = self.ask_reference(json!({"op": "reference"}))?;
        let anchor: Returned = self.ask_reference(json!({"op": "anchor"}))?;
        let eager = returned
            .tape
            .ok_or_else(|| judge("the reference left no tape".to_owned()))?;
        Ok(Expected {
            inputs: drawn.inputs,
            outputs: returned.outputs,
            anchor: anchor.outputs,
            eager,
        })
    }

    /// One call of `solve` and its replay.
    fn draw(
        &mut self,
        stage: Stage,
        expected: &Expected,
        outcome: &mut Outcome,
    ) -> Result<Replayed, Halt> {
        let limit = self.left(stage)?;
        let cancel = self.cancel.clone();
        let cancelled = || cancel.is_cancelled();
        match self
            .submission
            .place(&expected.inputs, &self.reference.arena, limit, &cancelled)
        {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(Halt::Failed(format!("{stage}: {error}"))),
            Err(error) => return Err(self.submission_failed(stage, error)),
        }
        let returned: Returned = self.ask_submission(stage, json!({"op": "call"}))?;
        let segment = returned
            .tape
            .ok_or_else(|| Halt::Failed(format!("{stage}: the call left no tape")))?;
        self.play(stage, segment, Some(expected), outcome)?
            .ok_or_else(|| Halt::Failed(format!("{stage}: the replay returned nothing")))
    }

    /// Replays a segment; with `expected`, on its inputs.
    fn play(
        &mut self,
        stage: Stage,
        segment: Segment,
        expected: Option<&Expected>,
        outcome: &mut Outcome,
    ) -> Result<Option<Replayed>, Halt> {
        let bytes = self.read_tape(stage, segment)?;
        outcome.tape.extend(&bytes);
        let entries = tape::parse(&bytes).map_err(|e| Halt::Failed(format!("{stage}: {e}")))?;
        self.refuse_unknown_operations(stage, &entries)?;
        self.look_at_modules(stage, &entries, outcome);
        let carried = match expected {
            Some(_) => self.carrying.call(&entries),
            None => {
                self.carrying.import(&entries);
                Carried::default()
            }
        };
        let played = self
            .replay
            .to_play(&bytes)
            .map_err(|e| judge(format!("replay tape: {e}")))?;
        let replayed = self.play_again(stage, played, expected)?;
        Ok(replayed.map(|replayed| Replayed {
            carried,
            ..replayed
        }))
    }

    /// A segment of the submission's tape: segments follow one another, and have a size in all.
    fn read_tape(&mut self, stage: Stage, (offset, length): Segment) -> Result<Vec<u8>, Halt> {
        let failed = |why: String| Halt::Failed(format!("{stage}: the tape cannot be read: {why}"));
        let end = offset.saturating_add(length);
        if offset < self.recorded {
            return Err(failed("a segment overlaps the one before".to_owned()));
        }
        if end > TAPE_BYTES {
            return Err(failed(format!(
                "it is longer than {} MiB; data from the host stands on it",
                TAPE_BYTES >> 20
            )));
        }
        self.recorded = end;
        self.submission
            .recorded((offset, length))
            .map_err(|e| failed(e.to_string()))
    }

    /// Torch's processor kernels do not all check what they are given. Those of operations that the
    /// clock has a rule for are known to; others are not played.
    fn refuse_unknown_operations(&self, stage: Stage, entries: &[tape::Entry]) -> Result<(), Halt> {
        let unknown = entries.iter().find_map(|entry| match entry {
            tape::Entry::Op(op) if !is_played(op.name) => Some(op.name),
            _ => None,
        });
        match unknown {
            None => Ok(()),
            Some(name) => Err(Halt::Incomplete(format!(
                "{stage}: torch's operation {name} is not modelled; use others"
            ))),
        }
    }

    /// What is launched must come from the front end of the task's DSL.
    fn look_at_modules(&mut self, stage: Stage, entries: &[tape::Entry], outcome: &mut Outcome) {
        for entry in entries {
            match entry {
                tape::Entry::Module { module, format, .. } => {
                    self.modules.insert(*module, *format);
                }
                tape::Entry::Launch(launch) => {
                    let format = self.modules.get(&launch.module);
                    let fits = format == Some(&self.dsl.module_format) && launch.dsl == self.dsl.id;
                    let known = |f: &Finding| f.rule == Rule::OtherCompiler && f.line == 0;
                    if !fits && !outcome.findings.iter().any(known) {
                        outcome.findings.push(Finding {
                            rule: Rule::OtherCompiler,
                            line: 0,
                            what: format!(
                                "{stage}: the kernel {} does not come from {}, the task's DSL",
                                launch.kernel, self.dsl.display
                            ),
                        });
                    }
                }
                _ => {}
            }
        }
    }

    fn play_again(
        &mut self,
        stage: Stage,
        (offset, length): Segment,
        expected: Option<&Expected>,
    ) -> Result<Option<Replayed>, Halt> {
        let limit = self.left(stage)?;
        let cancel = self.cancel.clone();
        let cancelled = || cancel.is_cancelled();
        let mut inputs = Vec::new();
        if let Some(expected) = expected {
            let placed =
                self.replay
                    .place(&expected.inputs, &self.reference.arena, limit, &cancelled);
            inputs = placed
                .map_err(|e| self.replay_failed(stage, e))?
                .map_err(judge)?;
            self.track(&inputs)?;
        }
        // What is looked at is then played again, from the memory that it found.
        let garbage = self.tracking.map(|tracking| tracking.garbage.is_some());
        let request = json!({
            "op": "replay",
            "offset": offset,
            "length": length,
            "remember": garbage == Some(false),
            "again": garbage == Some(true),
        });
        let played: Played = self
            .replay
            .request(request, limit, &cancelled)
            .map_err(|e| self.replay_failed(stage, e))?;
        let launches = match &mut self.replay.device {
            Some(device) => device
                .account()
                .map_err(|e| judge(format!("virtual GPU: {e}")))?,
            None => Vec::new(),
        };
        let Some(outputs) = played.outputs else {
            return Ok(None);
        };
        let bytes = self
            .replay
            .recorded(played.account)
            .map_err(|e| judge(format!("account: {e}")))?;
        let charge =
            charge(&bytes, &launches, self.device).map_err(|e| judge(format!("account: {e}")))?;
        Ok(Some(Replayed {
            inputs,
            outputs,
            charge,
            launches,
            carried: Carried::default(),
        }))
    }

    /// Compares a replay's outputs with the expected ones, and its inputs with what they were.
    fn compare(
        &self,
        expected: &Expected,
        inputs: &[Value],
        outputs: &Value,
    ) -> Result<(), String> {
        let theirs = Outputs {
            value: outputs,
            memory: &*self.replay,
        };
        let reference = Outputs {
            value: &expected.outputs,
            memory: &*self.reference,
        };
        let anchor = Outputs {
            value: &expected.anchor,
            memory: &*self.reference,
        };
        value::compare(theirs, reference, anchor).map_err(|e| e.to_string())?;
        for (number, (before, after)) in expected.inputs.iter().zip(inputs).enumerate() {
            if !self.mutable.get(number).copied().unwrap_or(false) && self.changed(before, after) {
                return Err(format!(
                    "input {} was changed; only inputs that the problem names may be",
                    number + 1
                ));
            }
        }
        Ok(())
    }

    fn changed(&self, before: &Value, after: &Value) -> bool {
        let (Value::Tensor(before), Value::Tensor(after)) = (before, after) else {
            return false;
        };
        let read = |t: &Tensor, station: &Station| {
            t.address
                .zip(t.span())
                .and_then(|(a, n)| station.arena.bytes(a, n).map(<[u8]>::to_vec))
        };
        match (before.span(), before.address.zip(after.address)) {
            (Some(span), Some((b, a))) => {
                self.reference.arena.bytes(b, span) != self.replay.arena.bytes(a, span)
            }
            _ => read(before, self.reference) != read(after, self.replay),
        }
    }

    /// Each call must run a kernel of the task's DSL, and must not carry data in from the host.
    fn look_at_launches(
        &self,
        stage: Stage,
        expected: &Expected,
        replayed: &Replayed,
        outcome: &mut Outcome,
    ) {
        let mut find = |rule, what: String| {
            if !outcome.findings.iter().any(|f| f.rule == rule) {
                outcome.findings.push(Finding {
                    rule,
                    line: 0,
                    what,
                });
            }
        };
        if replayed.launches.is_empty() {
            find(
                Rule::NoKernel,
                format!("{stage}: the call ran no kernel of the task's DSL"),
            );
        } else if replayed.launches.iter().all(|l| l.copies == Some(true)) {
            find(
                Rule::CopiedResult,
                format!(
                    "{stage}: the DSL's kernels only copy what eager operations of the call computed"
                ),
            );
        }
        let sent = replayed.charge.host_bytes;
        let arguments = replayed.carried.argument_bytes;
        let modules = replayed.carried.module_bytes;
        let allowed = host_bytes_allowed(&expected.outputs);
        if sent + arguments + modules > allowed {
            find(
                Rule::HostData,
                format!(
                    "{stage}: of what the host computed the call brought in {sent} bytes as tensors, {arguments} in launch arguments that differ from the last draw's, and {modules} in new text of kernels; {allowed} are allowed in all"
                ),
            );
        }
    }

    /// Runs the draw again with what the DSL's launches wrote overwritten: the outputs must be wrong.
    fn withhold(
        &mut self,
        stage: Stage,
        expected: &Expected,
        replayed: &Replayed,
        outcome: &mut Outcome,
    ) -> Result<(), Halt> {
        if replayed.launches.is_empty() || self.replay.device.is_none() {
            return Ok(());
        }
        let segment = self
            .replay
            .last_played()
            .ok_or_else(|| judge("nothing was played".to_owned()))?;
        for garbage in [
            Garbage::Nan,
            Garbage::Random {
                seed: self.seeds.garbage,
            },
        ] {
            self.ask_replay_release(stage)?;
            self.tracking = Some(Tracking {
                garbage: Some(garbage),
            });
            // Garbage may well make the call itself fail: it depended on the results.
            let again = match self.play_again(stage, segment, Some(expected)) {
                Ok(Some(again)) => again,
                Ok(None) | Err(Halt::Failed(_)) => break,
                Err(halt) => return Err(halt),
            };
            if self
                .compare(expected, &again.inputs, &again.outputs)
                .is_ok()
            {
                let what = "with the DSL kernels' results withheld the outputs are still right: they do not depend on them".to_owned();
                outcome.findings.push(Finding {
                    rule: Rule::WithheldResult,
                    line: 0,
                    what,
                });
                break;
            }
        }
        self.tracking = None;
        Ok(())
    }

    /// Tells the replay's virtual GPU what to watch; it must know which memory is the call's inputs.
    fn track(&mut self, inputs: &[Value]) -> Result<(), Halt> {
        let Some(device) = &mut self.replay.device else {
            return Ok(());
        };
        let mut found = Vec::new();
        inputs.iter().for_each(|v| tensors(v, &mut found));
        let range = |t: &&Tensor| Some((t.address?, t.span()? as u64));
        let ranges = found.iter().filter_map(range).collect();
        let garbage = self.tracking.and_then(|t| t.garbage);
        device
            .track(self.tracking.is_some(), garbage, ranges)
            .map_err(|e| judge(format!("virtual GPU: {e}")))
    }

    fn release(&mut self, stage: Stage) -> Result<(), Halt> {
        let _: serde_json::Value = self.ask_reference(json!({"op": "release"}))?;
        let _: serde_json::Value = self.ask_submission(stage, json!({"op": "release"}))?;
        self.ask_replay_release(stage)
    }

    fn ask_replay_release(&mut self, stage: Stage) -> Result<(), Halt> {
        let limit = self.left(stage)?;
        let cancel = self.cancel.clone();
        let request = json!({"op": "release"});
        let released: Result<serde_json::Value, _> = self
            .replay
            .request(request, limit, &|| cancel.is_cancelled());
        released
            .map(|_| ())
            .map_err(|e| self.replay_failed(stage, e))
    }

    /// What the stage may still take, within what the whole may.
    fn left(&self, stage: Stage) -> Result<Duration, Halt> {
        let whole = self.limits.whole;
        let left = whole.saturating_sub(self.started.elapsed());
        if left.is_zero() {
            return Err(Halt::Failed(format!(
                "{stage}: the evaluation took longer than {} s",
                whole.as_secs()
            )));
        }
        Ok(self.limits.of(stage).min(left))
    }

    fn ask_reference<T: serde::de::DeserializeOwned>(
        &mut self,
        request: serde_json::Value,
    ) -> Result<T, Halt> {
        let cancel = self.cancel.clone();
        let answer = self
            .reference
            .request(request, self.limits.whole, &|| cancel.is_cancelled());
        answer.map_err(|error| match error {
            WorkerError::Cancelled => Halt::Judge(GradeFailure::Cancelled),
            WorkerError::Ended => judge(format!(
                "the reference worker ended: {}",
                self.reference.output_tail()
            )),
            other => judge(format!("the reference worker: {other}")),
        })
    }

    fn ask_submission<T: serde::de::DeserializeOwned>(
        &mut self,
        stage: Stage,
        request: serde_json::Value,
    ) -> Result<T, Halt> {
        let limit = self.left(stage)?;
        let cancel = self.cancel.clone();
        let answer = self
            .submission
            .request(request, limit, &|| cancel.is_cancelled());
        answer.map_err(|error| self.submission_failed(stage, error))
    }

    fn submission_failed(&mut self, stage: Stage, error: WorkerError) -> Halt {
        let output = self.submission.output_tail();
        match error {
            WorkerError::Failed(failure) if failure.kind == FailureKind::Incomplete => {
                Halt::Incomplete(failure.message)
            }
            WorkerError::Failed(failure) => Halt::Failed(format!("{stage}: {failure}")),
            WorkerError::Ended => {
                let how = self.submission.end();
                let how = how.map_or("ended with its sandbox".to_owned(), |e| e.to_string());
                Halt::Failed(format!("{stage}: the process {how}\n{}", last(&output)))
            }
            WorkerError::TimedOut(limit) => Halt::Failed(format!(
                "{stage}: no result within {} s\n{}",
                limit.as_secs(),
                last(&output)
            )),
            WorkerError::Cancelled => Halt::Judge(GradeFailure::Cancelled),
            other => Halt::Failed(format!("{stage}: {other}")),
        }
    }

    /// A tape that its player cannot play is the submission's failure; its player's absence is the judge's.
    fn replay_failed(&self, stage: Stage, error: WorkerError) -> Halt {
        match error {
            WorkerError::Failed(failure) if failure.kind == FailureKind::Incomplete => {
                Halt::Incomplete(failure.message)
            }
            WorkerError::Failed(failure) => Halt::Failed(format!(
                "{stage}: in the replay of the call: {}",
                failure.message
            )),
            WorkerError::Ended => Halt::Failed(format!(
                "{stage}: the replay of the call ended its process\n{}",
                last(&self.replay.output_tail())
            )),
            WorkerError::TimedOut(limit) => Halt::Failed(format!(
                "{stage}: the replay of the call took longer than {} s",
                limit.as_secs()
            )),
            WorkerError::Cancelled => Halt::Judge(GradeFailure::Cancelled),
            other => judge(format!("the replay worker: {other}")),
        }
    }
}

/// Operations with a rule on the clock whose processor kernels do not check sizes or offsets.
const UNCHECKED: [&str; 4] = [
    "native_batch_norm",
    "_grouped_mm",
    "_scaled_grouped_mm",
    "nested_tensor",
];

/// Whether an operation of torch's dispatcher may be played.
fn is_played(name: &str) -> bool {
    let base = name.rsplit("::").next().unwrap_or(name);
    let base = base.split('.').next().unwrap_or(base);
    eager_op_is_known(name) && !UNCHECKED.contains(&base.trim_end_matches('_'))
}

/// Bytes of a submission's tape: kernels' text, operations, and data from the host.
const TAPE_BYTES: u64 = 256 << 20;
/// Bytes that a call may bring in from the host, whatever the size of its outputs.
const HOST_BYTES: u64 = 4096;
/// The same where the outputs are tiny.
const HOST_BYTES_AT_LEAST: u64 = 64;

/// Bytes that a call may bring in from the host: an eighth of the outputs' size at most, so that
/// these cannot be what was computed there.
fn host_bytes_allowed(outputs: &Value) -> u64 {
    let mut found = Vec::new();
    tensors(outputs, &mut found);
    let size = found
        .iter()
        .filter_map(|tensor| tensor.span())
        .sum::<usize>() as u64;
    (size / 8).clamp(HOST_BYTES_AT_LEAST, HOST_BYTES)
}

fn judge(error: impl ToString) -> Halt {
    Halt::Judge(GradeFailure::Infrastructure(error.to_string()))
}

impl From<StationError> for Halt {
    fn from(error: StationError) -> Self {
        judge(error)
    }
}

/// The last 2,000 characters.
fn last(text: &str) -> &str {
    let start = text.char_indices().rev().nth(1_999).map_or(0, |(i, _)| i);
    text[start..].trim_end()
}
