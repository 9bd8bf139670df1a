//! An outcome as its verdict: rewards, details for machines, and the text that an agent reads.

use std::collections::BTreeSet;
use std::fmt::Write;

use mkb_catalog::grading::{Rewards, Verdict};
use serde_json::{Map, Value as Json, json};

use crate::charge::Charge;
use crate::evaluation::{Outcome, Seeds};
use crate::limits::CORRECTNESS_DRAWS;

/// Eager operations that a report lists.
const LISTED: usize = 5;

impl Outcome {
    /// Whether every correctness draw agreed.
    pub fn correct(&self) -> bool {
        self.correct_draws == CORRECTNESS_DRAWS
    }

    /// Whether it passed: correct, timed to the end, legal.
    pub fn passed(&self) -> bool {
        self.correct() && self.error.is_none() && !self.timed.is_empty() && self.findings.is_empty()
    }

    /// Median seconds of the kernel and of eager, where it was timed.
    pub fn medians(&self) -> Option<(f64, f64)> {
        let median = |of: fn(&(Charge, Charge)) -> f64| {
            let mut times: Vec<f64> = self.timed.iter().map(of).collect();
            times.sort_by(f64::total_cmp);
            let middle = times.len() / 2;
            match times.len() {
                0 => None,
                n if n % 2 == 1 => Some(times[middle]),
                _ => Some((times[middle - 1] + times[middle]) / 2.0),
            }
        };
        Some((
            median(|(kernel, _)| kernel.seconds)?,
            median(|(_, eager)| eager.seconds)?,
        ))
    }

    /// Eager's time over the kernel's.
    pub fn speedup(&self) -> Option<f64> {
        let (kernel, eager) = self.medians()?;
        (kernel > 0.0).then(|| eager / kernel)
    }

    /// The charges of the timed draw whose kernel time is the median.
    fn median_charge(&self) -> Option<&Charge> {
        let mut by_time: Vec<_> = self.timed.iter().map(|(kernel, _)| kernel).collect();
        by_time.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        by_time.get(by_time.len() / 2).copied()
    }

    /// The verdict. `device` names what it ran on, e.g. `B200 (virtual)`.
    pub fn verdict(&self, seeds: &Seeds, device: &str, eval_sec: f64) -> Verdict {
        let speedup = self.speedup().filter(|_| self.passed());
        Verdict {
            rewards: Rewards::graded(self.imported, self.correct(), speedup),
            details: self.details(seeds),
            report: self.report(device),
            stderr: self.stderr.clone(),
            eval_sec,
        }
        .trimmed()
    }

    fn details(&self, seeds: &Seeds) -> Map<String, Json> {
        let mut details = Map::new();
        details.insert("error".to_owned(), json!(self.error));
        details.insert("mismatch".to_owned(), json!(self.mismatch));
        details.insert(
            "assignment".to_owned(),
            json!({
                "correctness": seeds.correctness,
                "warmup": [],
                "timing": seeds.timing,
                "sentinel": (0..seeds.timing.len()).collect::<Vec<_>>(),
                "garbage": seeds.garbage,
            }),
        );
        details.insert("n_correct_draws".to_owned(), json!(self.correct_draws));
        if let Some((kernel, eager)) = self.medians() {
            details.insert(
                "median_ms".to_owned(),
                json!({"kernel": kernel * 1e3, "eager": eager * 1e3}),
            );
        }
        details.insert("clock".to_owned(), json!("modelled"));
        details.insert("findings".to_owned(), json!(self.findings));
        if let Some(charge) = self.median_charge() {
            let kernels: Vec<_> = charge.kernels.iter().map(|k| json!({"name": k.name, "launches": k.launches, "ms": k.seconds * 1e3, "bound": k.bound, "bottleneck": k.bottleneck})).collect();
            details.insert("kernels".to_owned(), json!(kernels));
            let operations: Vec<_> = charge
                .operations
                .iter()
                .map(|o| json!({"name": o.name, "calls": o.calls, "ms": o.seconds * 1e3, "modelled": o.modelled}))
                .collect();
            details.insert("eager_operations".to_owned(), json!(operations));
        }
        details
    }

    /// The report. What is absent has no line.
    fn report(&self, device: &str) -> String {
        let mut text = String::new();
        let mut line = |l: std::fmt::Arguments| {
            let _ = writeln!(text, "{l}"); // Writing to a String cannot fail.
        };
        let yes = |b: bool| if b { "yes" } else { "no" };
        if let Some(error) = &self.error {
            line(format_args!("error: {error}"));
        }
        line(format_args!("imported: {}", yes(self.imported)));
        line(format_args!(
            "correct: {}/{CORRECTNESS_DRAWS}",
            self.correct_draws
        ));
        if let Some(mismatch) = &self.mismatch {
            line(format_args!("mismatch: {mismatch}"));
        }
        if let Some((kernel, eager)) = self.medians() {
            line(format_args!(
                "time: {:.4} ms (modelled, {device})",
                kernel * 1e3
            ));
            line(format_args!(
                "eager: {:.4} ms (modelled, {device})",
                eager * 1e3
            ));
        }
        if let Some(speedup) = self.speedup() {
            line(format_args!("speedup: {speedup:.3}"));
        }
        line(format_args!("passed: {}", yes(self.passed())));
        if !self.findings.is_empty() {
            line(format_args!("not allowed (so it does not pass):"));
            for finding in &self.findings {
                line(format_args!("  {finding}"));
            }
        }
        if let Some(charge) = self.median_charge() {
            line(format_args!("kernels of one call:"));
            for k in &charge.kernels {
                line(format_args!(
                    "  {}: {}, {:.4} ms, bound: {}, bottleneck: {}",
                    k.name,
                    times(k.launches, "launch", "launches"),
                    k.seconds * 1e3,
                    k.bound,
                    k.bottleneck
                ));
            }
            let calls: u64 = charge.operations.iter().map(|o| o.calls).sum();
            if calls > 0 {
                let seconds: f64 = charge.operations.iter().map(|o| o.seconds).sum();
                line(format_args!(
                    "eager operations of one call: {}, {:.4} ms",
                    times(calls, "operation", "operations"),
                    seconds * 1e3
                ));
                for o in charge.operations.iter().take(LISTED) {
                    line(format_args!(
                        "  {}: {}, {:.4} ms",
                        o.name,
                        times(o.calls, "call", "calls"),
                        o.seconds * 1e3
                    ));
                }
            }
        }
        let unknown = self.unmodelled();
        if !unknown.is_empty() {
            line(format_args!(
                "charged by their bytes alone, since the model has no rule for them: {}",
                unknown.join(", ")
            ));
        }
        text.truncate(text.trim_end().len());
        text
    }
}

impl Outcome {
    /// Eager operations of the submission or of the reference that the model has no rule for.
    fn unmodelled(&self) -> Vec<&str> {
        let charges = self.timed.iter().flat_map(|(own, eager)| [own, eager]);
        let operations = charges.flat_map(|charge| &charge.operations);
        let names = operations.filter(|o| !o.modelled).map(|o| o.name.as_str());
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn times(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::{KernelCharge, OperationCharge};
    use crate::policy::{Finding, Rule};

    fn seeds() -> Seeds {
        Seeds {
            correctness: vec![1, 2, 3, 4, (1 << 63) - 1],
            timing: vec![6, 7, 8],
            garbage: 9,
        }
    }

    fn timed(kernel: f64, eager: f64) -> (Charge, Charge) {
        let kernels = vec![KernelCharge {
            name: "norm".to_owned(),
            launches: 1,
            seconds: kernel,
            bound: "dram".to_owned(),
            bottleneck: "6.1 TB/s of 8.0".to_owned(),
        }];
        let operations = vec![OperationCharge {
            name: "aten::strange".to_owned(),
            calls: 2,
            seconds: 1e-6,
            modelled: false,
        }];
        (
            Charge {
                seconds: kernel,
                kernels,
                operations,
                host_bytes: 0,
            },
            Charge {
                seconds: eager,
                ..Charge::default()
            },
        )
    }

    fn right() -> Outcome {
        Outcome {
            imported: true,
            correct_draws: 5,
            timed: vec![timed(2e-5, 1e-4), timed(4e-5, 1e-4), timed(3e-5, 9e-5)],
            ..Outcome::default()
        }
    }

    #[test]
    fn a_passing_report_states_each_figure_once() {
        assert_eq!(
            right().report("B200 (virtual)"),
            "imported: yes\n\
             correct: 5/5\n\
             time: 0.0300 ms (modelled, B200 (virtual))\n\
             eager: 0.1000 ms (modelled, B200 (virtual))\n\
             speedup: 3.333\n\
             passed: yes\n\
             kernels of one call:\n  \
             norm: 1 launch, 0.0300 ms, bound: dram, bottleneck: 6.1 TB/s of 8.0\n\
             eager operations of one call: 2 operations, 0.0010 ms\n  \
             aten::strange: 2 calls, 0.0010 ms\n\
             charged by their bytes alone, since the model has no rule for them: aten::strange"
        );
        assert_eq!(
            right().verdict(&seeds(), "B200", 1.0).rewards.speedup(),
            1e-4 / 3e-5
        );
    }

    #[test]
    fn an_illegal_submission_keeps_correct_and_loses_the_rest() {
        let mut outcome = right();
        outcome.findings.push(Finding {
            rule: Rule::NoKernel,
            line: 0,
            what: "draw 1 of 5: the call ran no kernel of the task's DSL".to_owned(),
        });
        let verdict = outcome.verdict(&seeds(), "B200", 1.0);
        assert_eq!(
            (
                verdict.rewards.get("correct"),
                verdict.rewards.passed(),
                verdict.rewards.speedup()
            ),
            (1.0, false, 0.0)
        );
        let lines: Vec<&str> = verdict.report.lines().collect();
        assert_eq!(lines[1], "correct: 5/5");
        assert_eq!(
            lines[5..8],
            [
                "passed: no",
                "not allowed (so it does not pass):",
                "  draw 1 of 5: the call ran no kernel of the task's DSL [no-kernel]",
            ]
        );
    }

    #[test]
    fn a_failed_import_has_no_times() {
        let outcome = Outcome {
            error: Some("import: NameError: x".to_owned()),
            ..Outcome::default()
        };
        assert_eq!(
            outcome.report("B200"),
            "error: import: NameError: x\nimported: no\ncorrect: 0/5\npassed: no"
        );
    }

    #[test]
    fn seeds_keep_their_63_bits() {
        let verdict = right().verdict(&seeds(), "B200", 1.0);
        assert_eq!(
            verdict.details["assignment"]["correctness"][4].as_u64(),
            Some((1 << 63) - 1)
        );
    }
}
