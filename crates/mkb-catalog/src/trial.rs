//! Tasks, trials, coordinates, and the order in which trials stand.

use std::fmt;

use crate::dsl::{Arm, DslId, DslSet};
use crate::name::ProblemName;

/// A problem posed in one DSL; printed `NN_name_<dsl>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The problem.
    pub problem: ProblemName,
    /// The DSL in which it must be solved.
    pub dsl: DslId,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.problem, self.dsl)
    }
}

/// One attempt that the benchmark wants: a problem, a replicate and an arm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trial {
    /// The problem.
    pub problem: ProblemName,
    /// Which repetition, counted from 1.
    pub replicate: u32,
    /// Under which condition.
    pub arm: Arm,
}

impl Trial {
    /// The trial's name within its problem's number.
    pub fn coordinate(&self) -> Coordinate {
        Coordinate {
            number: self.problem.number().to_owned(),
            replicate: self.replicate,
            arm: self.arm.to_string(),
        }
    }

    /// The task that is attempted.
    pub fn task(&self) -> TaskId {
        TaskId {
            problem: self.problem.clone(),
            dsl: self.arm.target().clone(),
        }
    }

    /// The solo that must stand first, if any: same problem, same replicate.
    pub fn source(&self) -> Option<Trial> {
        self.arm.source().map(|arm| Trial {
            arm,
            ..self.clone()
        })
    }
}

/// A trial's name, `p<NN>_r<k>_<arm>`. The arm is text: a store may hold arms that this build
/// does not know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinate {
    number: String,
    replicate: u32,
    arm: String,
}

impl Coordinate {
    /// Reads a coordinate: a full match of `p[0-9]{2}_r([0-9]+)_[a-z0-9_]+`. `None` where it is
    /// none, or where the replicate is beyond 32 bits.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('p')?;
        let (number, rest) = rest.split_at_checked(2)?;
        let (replicate, arm) = rest.strip_prefix("_r")?.split_once('_')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let arm_fits = !arm.is_empty()
            && arm
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        (digits(number) && !replicate.is_empty() && digits(replicate) && arm_fits).then_some(())?;
        Some(Self {
            number: number.to_owned(),
            replicate: replicate.parse().ok()?,
            arm: arm.to_owned(),
        })
    }

    /// The problem's two digits.
    pub fn number(&self) -> &str {
        &self.number
    }

    /// Which repetition.
    pub fn replicate(&self) -> u32 {
        self.replicate
    }

    /// The arm's name.
    pub fn arm(&self) -> &str {
        &self.arm
    }
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}_r{}_{}", self.number, self.replicate, self.arm)
    }
}

/// Sorts trials into the plan's order: by problem, replicate, then arm as [`DslSet::all_arms`]
/// lists them (solos first, by name; then skills by direction; then controls).
pub fn sort_trials(trials: &mut [Trial], dsls: &DslSet) {
    let order = dsls.all_arms();
    trials.sort_by_cached_key(|trial| {
        let place = order.iter().position(|arm| *arm == trial.arm);
        (trial.problem.clone(), trial.replicate, place)
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trial(problem: &str, replicate: u32, arm: &str) -> Trial {
        Trial {
            problem: ProblemName::parse(problem).expect("a name"),
            replicate,
            arm: DslSet::builtin().parse_arm(arm).expect("an arm"),
        }
    }

    #[test]
    fn coordinates_print_as_the_protocol_writes_them() {
        let trial = trial("01_x", 3, "cutedsl2tirx_skill");
        assert_eq!(trial.coordinate().to_string(), "p01_r3_cutedsl2tirx_skill");
        assert_eq!(trial.task().to_string(), "01_x_tirx");
        let source = trial.source().expect("a skill has a source");
        assert_eq!(source.coordinate().to_string(), "p01_r3_solo_cutedsl");
    }

    #[test]
    fn what_is_no_coordinate_is_refused() {
        for text in [
            "",
            "p01",
            "p1_r1_a",
            "p01_r_a",
            "p01_r1_",
            "p01_r1_A",
            "p01_r1a",
            "x01_r1_a",
            "p01_r1_a ",
            "p01_r-1_a",
            "p01_r1_a.json",
            "pé_r1_a",
            "p01_r99999999999_a",
        ] {
            assert_eq!(Coordinate::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn trials_stand_by_problem_replicate_and_arm() {
        let mut trials = vec![
            trial("02_b", 1, "solo_cutedsl"),
            trial("01_a", 1, "tirx2cutedsl_skill"),
            trial("01_a", 2, "solo_cutedsl"),
            trial("01_a", 1, "cutedsl2tirx_skill"),
            trial("01_a", 1, "cutedsl2tirx_wrong"),
            trial("01_a", 1, "solo_tirx"),
        ];
        sort_trials(&mut trials, &DslSet::builtin());
        let names: Vec<String> = trials.iter().map(|t| t.coordinate().to_string()).collect();
        assert_eq!(
            names,
            [
                "p01_r1_solo_tirx",
                "p01_r1_cutedsl2tirx_skill",
                "p01_r1_tirx2cutedsl_skill",
                "p01_r1_cutedsl2tirx_wrong",
                "p01_r2_solo_cutedsl",
                "p02_r1_solo_cutedsl"
            ]
        );
    }

    proptest! {
        #[test]
        fn a_coordinate_reads_back(number in "[0-9]{2}", replicate: u32, arm in "[a-z0-9_]{1,24}") {
            let text = format!("p{number}_r{replicate}_{arm}");
            let read = Coordinate::parse(&text).expect("well formed");
            prop_assert_eq!(read.to_string(), text);
            prop_assert_eq!(read.arm(), arm);
        }

        #[test]
        fn reading_any_text_never_panics(text in "\\PC{0,40}") {
            let _ = Coordinate::parse(&text);
        }
    }
}
