//! A run as it goes: a live line for each trial on a terminal, plain lines in a log, JSON lines for machines.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use mkb_protocol::Event;

use crate::text::harmless;

/// How events are shown.
#[derive(Debug)]
enum Shown {
    /// One JSON object a line on standard output.
    Json,
    /// Live lines on a terminal.
    Live {
        /// All the lines.
        all: MultiProgress,
        /// The line of the whole.
        whole: ProgressBar,
        /// A line for each trial in flight.
        trials: BTreeMap<String, ProgressBar>,
    },
    /// Plain lines on standard error.
    Plain,
}

/// Listens to a run and shows it.
#[derive(Debug)]
pub struct Progress {
    shown: Shown,
    /// Submissions of each trial in flight, with the best speedup.
    submissions: BTreeMap<String, (u32, f64)>,
}

impl Progress {
    /// JSON lines where `json`, live lines on a terminal, else plain ones.
    pub fn new(json: bool) -> Self {
        let shown = if json {
            Shown::Json
        } else if std::io::stderr().is_terminal() {
            let all = MultiProgress::new();
            let whole = all.add(
                ProgressBar::no_length()
                    .with_style(style("{bar:24} {pos}/{len} trials  {elapsed}  {msg}")),
            );
            whole.enable_steady_tick(Duration::from_millis(250));
            Shown::Live {
                all,
                whole,
                trials: BTreeMap::new(),
            }
        } else {
            Shown::Plain
        };
        Self {
            shown,
            submissions: BTreeMap::new(),
        }
    }

    /// Shows one event.
    pub fn tell(&mut self, event: &Event) {
        let line = self.line(event);
        match &mut self.shown {
            Shown::Json => {
                // A reader that has gone is no reason to stop the run.
                let mut out = std::io::stdout().lock();
                let _ = serde_json::to_writer(&mut out, event).map(|()| writeln!(out));
                let _ = out.flush();
            }
            Shown::Plain => {
                if let Some(line) = line {
                    eprintln!("{line}");
                }
            }
            Shown::Live { all, whole, trials } => live(all, whole, trials, event, line),
        }
    }

    /// Clears what is live.
    pub fn finish(&mut self) {
        if let Shown::Live { whole, trials, .. } = &mut self.shown {
            trials.values().for_each(ProgressBar::finish_and_clear);
            whole.finish_and_clear();
        }
    }

    /// An event in words; `None` where it is not worth a line.
    fn line(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Planned {
                reuse,
                run,
                rerun,
                stale,
                held,
            } => Some(format!(
                "plan: {} to run, {reuse} kept{}{}",
                run + rerun,
                if *stale > 0 {
                    format!(", {stale} stale")
                } else {
                    String::new()
                },
                if *held > 0 {
                    format!(", {held} held (the virtual GPU still lacks what they need)")
                } else {
                    String::new()
                }
            )),
            Event::Submitted {
                trial,
                counted,
                rewards,
                note,
                ..
            } => {
                let slot = self.submissions.entry(trial.clone()).or_default();
                if !counted {
                    return Some(format!(
                        "{trial}: a submission was not counted: {}",
                        harmless(note.as_deref().unwrap_or("no reason given"))
                    ));
                }
                slot.0 += 1;
                let rewards = rewards.as_ref()?;
                let what = match (rewards.passed(), rewards.get("correct") > 0.0) {
                    (true, _) => format!("{:.2}x", rewards.speedup()),
                    (false, true) => "correct, not passed".to_owned(),
                    (false, false) => "not correct".to_owned(),
                };
                slot.1 = slot.1.max(rewards.speedup());
                Some(format!("{trial}: submission {}: {what}", slot.0))
            }
            Event::Retrying {
                trial,
                phase,
                error,
                wait_sec,
                ..
            } => Some(format!(
                "{trial}: {phase} failed, tried again in {wait_sec} s: {}",
                harmless(error)
            )),
            Event::Finished {
                problem,
                trial,
                rewards,
                timed_out,
                error,
                skipped,
            } => {
                self.submissions.remove(trial);
                let what = match (error, skipped) {
                    (Some(error), _) => format!("error: {}", harmless(error)),
                    (None, Some(why)) => format!("skipped: {why}"),
                    (None, None) if rewards.passed() => {
                        format!("passed, {:.2}x", rewards.speedup())
                    }
                    (None, None) => "failed".to_owned(),
                };
                let late = if *timed_out { " (out of time)" } else { "" };
                Some(format!("{trial}: {what}{late}  [{problem}]"))
            }
            // Of those that never started, the summary says how many.
            Event::Left { trial, why, .. } => {
                self.submissions.remove(trial)?;
                Some(format!("{trial}: left for the next run: {}", harmless(why)))
            }
            Event::Started { trial, .. } => {
                self.submissions.insert(trial.clone(), (0, 0.0));
                None
            }
            Event::Attempting { .. } | Event::Grading { .. } | Event::Snapshot { .. } => None,
        }
    }
}

fn live(
    all: &MultiProgress,
    whole: &ProgressBar,
    trials: &mut BTreeMap<String, ProgressBar>,
    event: &Event,
    line: Option<String>,
) {
    match event {
        Event::Planned {
            run, rerun, stale, ..
        } => {
            whole.set_length((run + rerun + stale) as u64);
            if let Some(line) = line {
                whole.println(line);
            }
        }
        Event::Started { trial, problem } => {
            let bar = all.add(
                ProgressBar::new_spinner()
                    .with_style(style("  {spinner} {prefix} {elapsed:>4} {msg}")),
            );
            bar.set_prefix(trial.clone());
            bar.set_message(problem.clone());
            bar.enable_steady_tick(Duration::from_millis(250));
            trials.insert(trial.clone(), bar);
        }
        Event::Submitted { trial, .. } | Event::Retrying { trial, .. } => {
            if let (Some(bar), Some(line)) = (trials.get(trial), line) {
                bar.set_message(
                    line.strip_prefix(&format!("{trial}: "))
                        .unwrap_or(&line)
                        .to_owned(),
                );
            }
        }
        Event::Grading { trial, .. } => {
            if let Some(bar) = trials.get(trial) {
                bar.set_message("final grading");
            }
        }
        Event::Finished { trial, .. } | Event::Left { trial, .. } => {
            if let Some(bar) = trials.remove(trial) {
                bar.finish_and_clear();
            }
            whole.inc(1);
            if let Some(line) = line {
                whole.println(line);
            }
        }
        Event::Attempting { .. } | Event::Snapshot { .. } => {}
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
