//! Skills in plain sentences: writing them, reading them, and the two controls on their text.
//!
//! A claim is a sentence of a fixed form about parameters by their DSL-neutral names, with the
//! figures that it rests on and what bounded the kernel. Whatever else stands in a skill is no
//! claim and changes nothing.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A parameter's name and value, as they stand in a sentence.
pub type Setting = (String, String);

/// What a sentence claims.
#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    /// The fastest point that was measured.
    Fastest(Vec<Setting>),
    /// The slowest one.
    Slowest(Vec<Setting>),
    /// A change of one parameter that changed the time.
    Step {
        /// The parameter.
        name: String,
        /// Its value before.
        from: String,
        /// Its value after.
        to: String,
        /// Whether the kernel became faster.
        faster: bool,
        /// By what factor, at least 1.
        factor: f64,
    },
    /// A parameter that made no difference and is not worth a submission.
    Idle {
        /// The parameter.
        name: String,
    },
    /// A parameter that is worth the first submissions.
    Worth {
        /// The parameter.
        name: String,
    },
    /// A value with which the kernel failed.
    Fails(Setting),
    /// A value that did best of all.
    Best(Setting),
    /// Values that were not tried and should be, in this order.
    Untried(Vec<Setting>),
    /// Values that were not tried and need not be.
    Needless(Vec<Setting>),
}

/// A measured point, as a sentence gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// All parameters.
    pub settings: Vec<Setting>,
    /// The kernel's time in ms.
    pub time_ms: f64,
    /// Eager PyTorch's.
    pub eager_ms: Option<f64>,
    /// What bounded it, as `bound by ...`.
    pub bound: String,
    /// The bottleneck in the report's words; may be empty.
    pub detail: String,
}

impl Measured {
    fn cause(&self) -> String {
        match self.detail.as_str() {
            "" => self.bound.clone(),
            detail => format!("{} ({detail})", self.bound),
        }
    }
}

/// The extremes of `count` measured points.
pub(crate) fn extreme(word: &str, count: usize, m: &Measured) -> String {
    let against = m.eager_ms.map_or(String::new(), |eager| {
        format!(
            " against {eager:.4} ms for eager PyTorch, a speedup of {:.3}",
            eager / m.time_ms
        )
    });
    format!(
        "The {word} of the points measured ({count}) had {}: {:.4} ms{against}; it was {}.",
        list(&m.settings),
        m.time_ms,
        m.cause()
    )
}

/// A change of one parameter that changed the time.
pub(crate) fn step(name: &str, from: (&str, &Measured), to: (&str, &Measured)) -> String {
    let ratio = from.1.time_ms / to.1.time_ms;
    let (factor, word) = if ratio >= 1.0 {
        (ratio, "faster")
    } else {
        (1.0 / ratio, "slower")
    };
    format!(
        "Going from {name} {} to {}, all else equal, took the time from {:.4} ms to {:.4} ms, \
         {factor:.2} times {word}, because it {}.",
        from.0,
        to.0,
        from.1.time_ms,
        to.1.time_ms,
        change(from.1, to.1)
    )
}

/// A change of one parameter that changed nothing.
pub(crate) fn idle(name: &str, from: (&str, &Measured), to: (&str, &Measured)) -> String {
    format!(
        "Going from {name} {} to {}, all else equal, left the time where it was ({:.4} ms and \
         {:.4} ms), because it {}; {name} is not worth another submission.",
        from.0,
        to.0,
        from.1.time_ms,
        to.1.time_ms,
        change(from.1, to.1)
    )
}

/// A value with which the kernel failed.
pub(crate) fn fails(name: &str, value: &str, why: &str) -> String {
    format!("With {name} {value}, all else equal, the submission failed: {why}.")
}

/// Values that should be tried next.
pub(crate) fn untried(settings: &[Setting]) -> String {
    format!("Not tried, and what to test next: {}.", list(settings))
}

fn change(from: &Measured, to: &Measured) -> String {
    if from.bound == to.bound {
        format!("was {} both times", from.bound)
    } else {
        format!("was {} before and {} after", from.cause(), to.cause())
    }
}

fn list(settings: &[Setting]) -> String {
    let mut text = String::new();
    for (k, (name, value)) in settings.iter().enumerate() {
        let between = match k {
            0 => "",
            k if k + 1 == settings.len() => " and ",
            _ => ", ",
        };
        let _ = write!(text, "{between}{name} {value}");
    }
    text
}

const NAME: &str = "([a-z][a-z0-9_]*)";
const VALUE: &str = "([A-Za-z0-9_-]+)";
const LIST: &str = "((?:[a-z][a-z0-9_]* [A-Za-z0-9_-]+(?:, | and )?)+)";

struct Forms {
    extreme: Regex,
    step: Regex,
    idle: Regex,
    worth: Regex,
    fails: Regex,
    best: Regex,
    untried: Regex,
    needless: Regex,
}

static FORMS: LazyLock<Forms> = LazyLock::new(|| {
    let form = |text: &str| Regex::new(text).expect("a fixed expression");
    let going = format!("Going from {NAME} {VALUE} to {VALUE}, all else equal, ");
    let times = r"\(([0-9.]+) ms and ([0-9.]+) ms\)";
    Forms {
        extreme: form(&format!(
            r"The (fastest|slowest) of the points measured \(([0-9]+)\) had {LIST}:"
        )),
        step: form(&format!(
            "{going}took the time from ([0-9.]+) ms to ([0-9.]+) ms, ([0-9.]+) times (faster|slower)"
        )),
        idle: form(&format!(
            r"{going}left the time where it was {times}(.*?); {NAME} is not worth another submission"
        )),
        worth: form(&format!(
            r"{going}changed the time more than anything else {times}(.*?); {NAME} is worth the first submissions"
        )),
        fails: form(&format!(
            "With {NAME} {VALUE}, all else equal, the submission failed"
        )),
        best: form(&format!(
            "With {NAME} {VALUE}, all else equal, the submission did best"
        )),
        untried: form(&format!("Not tried, and what to test next: {LIST}")),
        needless: form(&format!("Not tried, and not worth a test: {LIST}")),
    }
});

/// The claims of a text, form by form.
pub fn claims(text: &str) -> Vec<Claim> {
    let text = one_line(text);
    let forms = &*FORMS;
    let mut found = Vec::new();
    for c in forms.extreme.captures_iter(&text) {
        let settings = settings(&c[3]);
        found.push(match &c[1] {
            "fastest" => Claim::Fastest(settings),
            _ => Claim::Slowest(settings),
        });
    }
    for c in forms.step.captures_iter(&text) {
        found.push(Claim::Step {
            name: c[1].to_owned(),
            from: c[2].to_owned(),
            to: c[3].to_owned(),
            faster: &c[7] == "faster",
            factor: c[6].parse().unwrap_or(1.0),
        });
    }
    let named = |c: Captures<'_>, k: usize| c[k].to_owned();
    found.extend(
        forms
            .idle
            .captures_iter(&text)
            .map(|c| Claim::Idle { name: named(c, 1) }),
    );
    found.extend(
        forms
            .worth
            .captures_iter(&text)
            .map(|c| Claim::Worth { name: named(c, 1) }),
    );
    let setting = |c: Captures<'_>| (c[1].to_owned(), c[2].to_owned());
    found.extend(
        forms
            .fails
            .captures_iter(&text)
            .map(|c| Claim::Fails(setting(c))),
    );
    found.extend(
        forms
            .best
            .captures_iter(&text)
            .map(|c| Claim::Best(setting(c))),
    );
    found.extend(
        forms
            .untried
            .captures_iter(&text)
            .map(|c| Claim::Untried(settings(&c[1]))),
    );
    found.extend(
        forms
            .needless
            .captures_iter(&text)
            .map(|c| Claim::Needless(settings(&c[1]))),
    );
    found
}

fn settings(list: &str) -> Vec<Setting> {
    let parts = list.split(", ").flat_map(|p| p.split(" and "));
    parts
        .filter_map(|p| p.trim().split_once(' '))
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// There is no claim in the text to turn round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the skill makes no claim of a known form, so there is nothing to turn round")]
pub struct NoClaims;

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The `wrong` control: the same skill with each claim turned round, and its figures so that they
/// agree with what it then says. The fastest point changes places with the slowest, a change that
/// helped is told backwards, what made no difference is called decisive, what should be tried is
/// called needless, and what failed is called best.
///
/// # Errors
/// [`NoClaims`] where there is nothing to turn round.
pub fn wrong(skill: &str) -> Result<String, NoClaims> {
    if claims(skill).is_empty() {
        return Err(NoClaims);
    }
    let forms = &*FORMS;
    let lines = skill.lines().map(one_line).collect::<Vec<_>>().join("\n");
    let points: Vec<(String, String)> = forms
        .extreme
        .captures_iter(&lines)
        .map(|c| (c[1].to_owned(), c[3].to_owned()))
        .collect();
    let other = |word: &str| points.iter().find(|p| p.0 != word).map(|p| p.1.clone());
    let text = forms.extreme.replace_all(&lines, |c: &Captures<'_>| {
        let (word, count) = (&c[1], &c[2]);
        match other(word) {
            Some(list) => format!("The {word} of the points measured ({count}) had {list}:"),
            None => {
                let word = if word == "fastest" {
                    "slowest"
                } else {
                    "fastest"
                };
                format!("The {word} of the points measured ({count}) had {}:", &c[3])
            }
        }
    });
    let text = forms.step.replace_all(&text, |c: &Captures<'_>| {
        format!(
            "Going from {} {} to {}, all else equal, took the time from {} ms to {} ms, {} times {}",
            &c[1], &c[3], &c[2], &c[4], &c[5], &c[6], &c[7]
        )
    });
    // Turned and unturned forms differ, so that neither is turned twice.
    let pieces = |text: &str| {
        let mut out = String::new();
        for line in text.lines() {
            let line = if forms.idle.is_match(line) {
                forms.idle.replace_all(line, |c: &Captures<'_>| {
                    let after = c[4].parse::<f64>().unwrap_or(1.0) * 3.0;
                    format!(
                        "Going from {} {} to {}, all else equal, changed the time more than \
                         anything else ({after:.4} ms and {} ms){}; {} is worth the first \
                         submissions",
                        &c[1], &c[2], &c[3], &c[5], &c[6], &c[7]
                    )
                })
            } else {
                forms.worth.replace_all(line, |c: &Captures<'_>| {
                    let after = c[4].parse::<f64>().unwrap_or(1.0) / 3.0;
                    format!(
                        "Going from {} {} to {}, all else equal, left the time where it was \
                         ({after:.4} ms and {} ms){}; {} is not worth another submission",
                        &c[1], &c[2], &c[3], &c[5], &c[6], &c[7]
                    )
                })
            };
            let swapped = swap(&line, "the submission failed", "the submission did best");
            let swapped = swap(&swapped, "and what to test next", "and not worth a test");
            out.push_str(&swapped);
            out.push('\n');
        }
        out
    };
    Ok(pieces(&text))
}

fn swap(text: &str, a: &str, b: &str) -> String {
    if text.contains(a) {
        text.replace(a, b)
    } else {
        text.replace(b, a)
    }
}

/// The `placebo` control: sentences of the same kind and about as many, true, and without a claim
/// about anything that can be tuned.
pub fn placebo(skill: &str) -> String {
    const SENTENCES: [&str; 10] = [
        "Five draws decide whether a kernel is right, and each of them is new, so a kernel that is \
         right by luck on one of them is found out on the others.",
        "Sums that the reference takes in a wider type must be taken in a wider type by the kernel \
         too, because the allowance follows the reference's own error.",
        "Rounding once, when the result is stored, keeps the error within the allowance; rounding \
         in between adds error and saves no traffic.",
        "The first call pays for compilation, and no timed call does, so the compiled object should \
         be kept between calls.",
        "The ragged end of the input is where a kernel that was tried on round sizes goes wrong.",
        "Inputs that are not named as mutable must be left as they are, or the submission fails \
         although its result is right.",
        "A report comes back in seconds here, so the limit on submissions binds before the clock \
         does.",
        "The time of eager PyTorch is the same for every submission, so only the kernel's own time \
         is worth comparing.",
        "A submission that does not compile tells nothing about speed, and is better found out \
         before it is submitted.",
        "Values near the end of the type's range occur in the inputs, and clamping has to come \
         before the conversion.",
    ];
    let wanted = claims(skill).len().clamp(4, SENTENCES.len());
    let mut text = SENTENCES[..wanted].join("\n");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(pairs: &[(&str, &str)], time_ms: f64, bound: &str) -> Measured {
        let settings = pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        Measured {
            settings,
            time_ms,
            eager_ms: Some(0.1),
            bound: bound.to_owned(),
            detail: if bound.ends_with("dram") {
                "2.0 times the least reads"
            } else {
                ""
            }
            .to_owned(),
        }
    }

    fn own(pairs: &[(&str, &str)]) -> Vec<Setting> {
        pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect()
    }

    const FAST: [(&str, &str); 3] = [("vector", "8"), ("layout", "contiguous"), ("fused", "true")];
    const SLOW: [(&str, &str); 3] = [("vector", "1"), ("layout", "blocked"), ("fused", "false")];

    fn skill() -> String {
        let fast = point(&FAST, 0.0125, "bound by dram");
        let slow = point(&SLOW, 0.05, "bound by issue");
        [
            "These are modelled times on a B200.".to_owned(),
            extreme("fastest", 5, &fast),
            extreme("slowest", 5, &slow),
            step("vector", ("1", &slow), ("8", &fast)),
            idle("threads", ("64", &fast), ("256", &fast)),
            fails("rows", "4", "correct on 2/5 draws"),
            untried(&own(&[("split", "2"), ("split", "4")])),
        ]
        .join("\n")
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(
            claims(&skill()),
            [
                Claim::Fastest(own(&FAST)),
                Claim::Slowest(own(&SLOW)),
                Claim::Step {
                    name: "vector".to_owned(),
                    from: "1".to_owned(),
                    to: "8".to_owned(),
                    faster: true,
                    factor: 4.0
                },
                Claim::Idle {
                    name: "threads".to_owned()
                },
                Claim::Fails(("rows".to_owned(), "4".to_owned())),
                Claim::Untried(own(&[("split", "2"), ("split", "4")])),
            ]
        );
    }

    #[test]
    fn sentences_are_plain_and_have_their_evidence_and_cause() {
        let text = skill();
        assert!(text.contains(
            "The fastest of the points measured (5) had vector 8, layout contiguous and fused \
             true: 0.0125 ms against 0.1000 ms for eager PyTorch, a speedup of 8.000; it was bound \
             by dram (2.0 times the least reads)."
        ));
        assert!(text.contains("4.00 times faster, because it was bound by issue before and bound"));
        assert!(!text.contains(['#', '`', '=', '{']), "{text}");
    }

    #[test]
    fn line_breaks_and_other_sentences_do_not_matter() {
        let broken = skill().replace(' ', "\n  ");
        assert_eq!(claims(&broken), claims(&skill()));
        assert_eq!(claims("Use vector 8. It was fast. threads matter."), []);
        assert_eq!(claims(""), []);
    }

    #[test]
    fn wrong_turns_each_claim_round() {
        let text = wrong(&skill()).expect("claims");
        assert_eq!(
            claims(&text),
            [
                Claim::Fastest(own(&SLOW)),
                Claim::Slowest(own(&FAST)),
                Claim::Step {
                    name: "vector".to_owned(),
                    from: "8".to_owned(),
                    to: "1".to_owned(),
                    faster: true,
                    factor: 4.0
                },
                Claim::Worth {
                    name: "threads".to_owned()
                },
                Claim::Best(("rows".to_owned(), "4".to_owned())),
                Claim::Needless(own(&[("split", "2"), ("split", "4")])),
            ]
        );
        assert!(text.starts_with("These are modelled times on a B200.\n"));
        assert!(text.contains("had vector 1, layout blocked and fused false: 0.0125 ms against"));
    }

    #[test]
    fn wrong_twice_claims_what_was_claimed() {
        let twice = wrong(&wrong(&skill()).expect("claims")).expect("claims");
        assert_eq!(claims(&twice), claims(&skill()));
    }

    #[test]
    fn a_single_point_becomes_the_slowest() {
        let text = extreme("fastest", 1, &point(&FAST, 0.01, "bound by dram"));
        let turned = wrong(&text).expect("claims");
        assert_eq!(claims(&turned), [Claim::Slowest(own(&FAST))]);
    }

    #[test]
    fn nothing_to_turn_round_is_said() {
        assert_eq!(wrong("Keep the sums wide.\n"), Err(NoClaims));
    }

    #[test]
    fn a_placebo_is_about_as_long_and_claims_nothing() {
        let text = placebo(&skill());
        assert_eq!(claims(&text), []);
        assert_eq!(text.lines().count(), 6);
        let tunable = [
            "thread", "vector", "layout", "fuse", "split", "rows", "stage", "tile",
        ];
        for skill in ["", &skill(), &skill().repeat(3)] {
            let text = placebo(skill).to_lowercase();
            assert!(tunable.iter().all(|word| !text.contains(word)), "{text}");
            assert_eq!(wrong(&text), Err(NoClaims));
        }
    }
}
