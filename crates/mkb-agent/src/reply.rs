//! What a submission's reply says, read as a tool would read it: known lines are taken, others let
//! be.

/// What a reply says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// Whether the submission counted.
    pub counted: bool,
    /// Why it didn't.
    pub reason: Option<String>,
    /// Submissions left, if it says so.
    pub left: Option<u32>,
    /// The device, as the reply names it.
    pub device: Option<String>,
    /// Whether the kernel passed.
    pub passed: bool,
    /// The kernel's time in ms, and how it came about (`modelled`, `measured`).
    pub time_ms: Option<f64>,
    /// See `time_ms`.
    pub clock: Option<String>,
    /// Eager PyTorch's time in ms.
    pub eager_ms: Option<f64>,
    /// Eager time over the kernel's.
    pub speedup: Option<f64>,
    /// What bounds the kernels, and the bottleneck in words (or nothing); each bound once, in the
    /// report's order.
    pub bounds: Vec<(String, String)>,
    /// What went wrong, if something did.
    pub failure: Option<String>,
}

impl Reply {
    /// Reads what `test.sh` printed.
    pub fn read(text: &str) -> Self {
        let mut reply = Reply::default();
        let mut correct = None;
        let mut finding_next = false;
        for line in text.lines().map(str::trim) {
            if finding_next {
                finding_next = false;
                reply.failure.get_or_insert_with(|| line.to_owned());
            } else if line.starts_with("not allowed") && line.ends_with(':') {
                finding_next = true;
            } else if let Some(rest) = line.strip_prefix("not counted: ") {
                reply.reason = Some(rest.to_owned());
            } else if line.starts_with("submission ") && line.contains(" of ") {
                reply.counted = true;
                reply.device = line.split(", ").nth(1).map(str::to_owned);
            } else if let Some((count, _)) = line.split_once(" submissions and ") {
                reply.left = count.parse().ok();
            } else if let Some((name, value)) = line.split_once(':') {
                let value = value.trim();
                match name.trim().to_ascii_lowercase().as_str() {
                    "passed" => reply.passed = value.starts_with("yes"),
                    "time" => {
                        reply.time_ms = leading(value);
                        reply.clock = bracketed(value);
                    }
                    "eager" => reply.eager_ms = leading(value),
                    "speedup" => reply.speedup = leading(value),
                    "correct" => correct = Some(value.to_owned()),
                    "error" | "mismatch" => {
                        reply.failure.get_or_insert_with(|| value.to_owned());
                    }
                    _ => {}
                }
            }
            // Also within a kernel's line.
            if let Some((_, rest)) = line.split_once("bound: ") {
                let (bound, bottleneck) = rest.split_once(", bottleneck:").unwrap_or((rest, ""));
                let (bound, bottleneck) = (bound.trim(), bottleneck.trim());
                if !bound.is_empty() && reply.bounds.iter().all(|(known, _)| known != bound) {
                    reply.bounds.push((bound.to_owned(), bottleneck.to_owned()));
                }
            }
        }
        if !reply.passed && reply.failure.is_none() {
            reply.failure = correct.map(|c| format!("correct on {c} draws"));
        }
        reply
    }
}

fn leading(value: &str) -> Option<f64> {
    let number: f64 = value.split_whitespace().next()?.parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

/// The first word of a remark in brackets.
fn bracketed(value: &str) -> Option<String> {
    let (_, rest) = value.split_once('(')?;
    let word = rest.split([',', ')']).next()?.trim();
    (!word.is_empty()).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_gives_its_figures_and_other_lines_are_let_be() {
        let reply = Reply::read(
            "waiting for the report (30 s)\nsubmission 3 of 10, B200 (virtual), 12 s\n7 \
             submissions and 31 minutes left\n\nimported: yes\ncorrect: 5/5\nsomething new: \
             maybe\ntime: 0.0123 ms (modelled, B200 (virtual))\neager: 0.1000 ms (modelled)\nspeedup: 8.130\n\
             passed: yes\nkernel add: 2 launches, bound: dram, bottleneck: read traffic\nkernel \
             sum: bound: dram, bottleneck: read traffic\nbound: launch\n",
        );
        let expected = Reply {
            counted: true,
            reason: None,
            left: Some(7),
            device: Some("B200 (virtual)".to_owned()),
            passed: true,
            time_ms: Some(0.0123),
            clock: Some("modelled".to_owned()),
            eager_ms: Some(0.1),
            speedup: Some(8.13),
            bounds: vec![
                ("dram".to_owned(), "read traffic".to_owned()),
                ("launch".to_owned(), String::new()),
            ],
            failure: None,
        };
        assert_eq!(reply, expected);
    }

    #[test]
    fn a_failure_is_told_by_its_first_cause() {
        let text = "submission 1 of 10, B200, 1 s\n9 submissions and 3 minutes left\n\nimported: \
                    yes\ncorrect: 2/5\nmismatch: output 0: 3 of 9 elements\npassed: no\n";
        let reply = Reply::read(text);
        assert!(!reply.passed);
        assert_eq!(reply.failure.as_deref(), Some("output 0: 3 of 9 elements"));
        let reply = Reply::read("submission 1 of 10, B200, 1 s\ncorrect: 2/5\npassed: no\n");
        assert_eq!(reply.failure.as_deref(), Some("correct on 2/5 draws"));
    }

    #[test]
    fn a_kernel_that_is_not_allowed_is_told_by_the_first_finding() {
        let reply = Reply::read(
            "submission 1 of 10, B200, 1 s\nimported: yes\ncorrect: 5/5\npassed: no\nnot allowed \
             (so it does not pass):\n  line 3: another compiler\n  line 4: more\n",
        );
        assert_eq!(reply.failure.as_deref(), Some("line 3: another compiler"));
    }

    #[test]
    fn a_refusal_gives_its_reason_and_what_is_left() {
        let reply = Reply::read(
            "not counted: the limit of 10 submissions is reached\n0 submissions and 3 minutes left\n",
        );
        assert!(!reply.counted);
        assert_eq!(reply.left, Some(0));
        assert!(reply.reason.expect("a reason").starts_with("the limit"));
        assert_eq!(Reply::read(""), Reply::default());
        assert_eq!(Reply::read("time: nan ms\nspeedup: -1\n").time_ms, None);
    }
}
