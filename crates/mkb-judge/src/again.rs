//! A recorded verdict judged again: its seeds taken up, and the two verdicts compared.

use mkb_catalog::grading::Verdict;
use serde::Serialize;
use serde_json::Value as Json;

use crate::evaluation::Seeds;
use crate::judge::TaskGrader;

/// A verdict that holds no seeds: its kernel was never evaluated, or another judge wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the verdict keeps no seeds (`details.assignment`), so it cannot be judged again")]
pub struct NoSeeds;

impl Seeds {
    /// Those that a verdict was made with.
    ///
    /// # Errors
    /// Where it keeps none, or not all.
    pub fn recorded(verdict: &Verdict) -> Result<Self, NoSeeds> {
        let assignment = verdict.details.get("assignment").ok_or(NoSeeds)?;
        let list = |name: &str| -> Option<Vec<u64>> {
            let seeds = assignment.get(name)?.as_array()?;
            seeds.iter().map(Json::as_u64).collect()
        };
        Ok(Self {
            correctness: list("correctness")
                .filter(|seeds| seeds.len() == crate::limits::CORRECTNESS_DRAWS)
                .ok_or(NoSeeds)?,
            timing: list("timing")
                .filter(|seeds| seeds.len() == crate::limits::MODELLED_DRAWS)
                .ok_or(NoSeeds)?,
            garbage: assignment
                .get("garbage")
                .and_then(Json::as_u64)
                .ok_or(NoSeeds)?,
        })
    }
}

impl TaskGrader {
    /// The same with the draws of a recorded verdict.
    ///
    /// # Errors
    /// Where the verdict keeps no seeds.
    pub fn as_recorded(self, verdict: &Verdict) -> Result<Self, NoSeeds> {
        Ok(self.with_seeds(Seeds::recorded(verdict)?))
    }
}

/// How two verdicts of one kernel and one set of draws are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strictness {
    /// Every figure must be the same: torch, processor and virtual GPU are those of the record.
    Exact,
    /// Whether it imported, was right, was legal and passed must be the same; times are shown. For
    /// another torch or processor, whose results differ in the last bits.
    Contract,
}

/// A figure of both verdicts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: &'static str,
    /// As recorded.
    pub recorded: Json,
    /// As judged again.
    pub again: Json,
    /// Whether a difference in it counts.
    pub counts: bool,
}

impl Compared {
    /// Whether it differs where it must not.
    pub fn differs(&self) -> bool {
        self.counts && self.recorded != self.again
    }
}

/// The figures of two verdicts, in the order of a report.
pub fn compare(recorded: &Verdict, again: &Verdict, how: Strictness) -> Vec<Compared> {
    let reward = |name: &'static str| move |v: &Verdict| Json::from(v.rewards.get(name));
    let detail = |pointer: &'static [&'static str]| {
        move |v: &Verdict| {
            let mut names = pointer.iter();
            let first = names.next().and_then(|name| v.details.get(*name));
            names
                .try_fold(first, |value, name| Some(value?.get(*name)))
                .flatten()
                .cloned()
                .unwrap_or(Json::Null)
        }
    };
    let rules = |v: &Verdict| {
        let findings = v.details.get("findings").and_then(Json::as_array);
        let rules = findings
            .into_iter()
            .flatten()
            .filter_map(|f| f.get("rule").cloned());
        Json::Array(rules.collect())
    };
    let exact = how == Strictness::Exact;
    let mut all = Vec::new();
    let mut add = |name, counts, of: &dyn Fn(&Verdict) -> Json| {
        all.push(Compared {
            name,
            recorded: of(recorded),
            again: of(again),
            counts,
        });
    };
    add("imported", true, &reward("imported"));
    add("correct", true, &reward("correct"));
    add("correct draws", true, &detail(&["n_correct_draws"]));
    add("rules broken", true, &rules);
    add("passed", true, &reward("passed"));
    add("speedup", exact, &reward("speedup_vs_eager"));
    add("kernel ms", exact, &detail(&["median_ms", "kernel"]));
    add("eager ms", exact, &detail(&["median_ms", "eager"]));
    all
}

#[cfg(test)]
mod tests {
    use mkb_catalog::Rewards;
    use serde_json::json;

    use super::*;

    fn verdict(kernel_ms: f64) -> Verdict {
        let details = json!({
            "assignment": {"correctness": [1, 2, 3, 4, 9_223_372_036_854_775_807_u64], "timing": [6, 7, 8], "garbage": 9},
            "n_correct_draws": 5,
            "median_ms": {"kernel": kernel_ms, "eager": 4.0},
            "findings": [],
        });
        Verdict {
            rewards: Rewards::graded(true, true, Some(4.0 / kernel_ms)),
            details: details.as_object().expect("an object").clone(),
            ..Verdict::default()
        }
    }

    #[test]
    fn seeds_come_back_with_their_63_bits() {
        let seeds = Seeds::recorded(&verdict(1.0)).expect("seeds");
        assert_eq!(seeds.correctness[4], (1 << 63) - 1);
        assert_eq!((seeds.timing, seeds.garbage), (vec![6, 7, 8], 9));
    }

    #[test]
    fn a_verdict_without_all_its_seeds_cannot_be_judged_again() {
        assert_eq!(
            Seeds::recorded(&Verdict::unevaluated("too large")),
            Err(NoSeeds)
        );
        let mut short = verdict(1.0);
        short.details["assignment"]["timing"] = json!([6]);
        assert_eq!(Seeds::recorded(&short), Err(NoSeeds));
        short = verdict(1.0);
        short.details["assignment"]["garbage"] = json!(-1);
        assert_eq!(Seeds::recorded(&short), Err(NoSeeds));
    }

    #[test]
    fn the_last_bit_of_a_time_counts_exactly_and_not_by_the_contract() {
        let differing = |how| -> Vec<&str> {
            let all = compare(&verdict(1.0), &verdict(1.0 + f64::EPSILON), how);
            all.iter().filter(|c| c.differs()).map(|c| c.name).collect()
        };
        assert_eq!(differing(Strictness::Exact), ["speedup", "kernel ms"]);
        assert!(differing(Strictness::Contract).is_empty());
    }

    #[test]
    fn another_outcome_counts_in_both_ways() {
        let mut illegal = verdict(1.0);
        illegal.rewards = Rewards::graded(true, true, None);
        illegal.details["findings"] = json!([{"rule": "no-kernel"}]);
        for how in [Strictness::Exact, Strictness::Contract] {
            let all = compare(&verdict(1.0), &illegal, how);
            let names: Vec<_> = all.iter().filter(|c| c.differs()).map(|c| c.name).collect();
            assert!(names.contains(&"rules broken") && names.contains(&"passed"));
        }
    }
}
