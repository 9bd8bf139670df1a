//! Whether the benchmark measures what it should: an agent's own skill must help, a wrong one harm,
//! and a placebo do neither.

use std::collections::BTreeSet;

use mkb_catalog::Payload;
use serde::Serialize;

use crate::paired::{
    Comparison, PairedSettings, Tally, lift_interval, lift_interval_over_replicates,
};

/// What a transfer should do to the paired lift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// Raise it.
    Positive,
    /// Lower it.
    Negative,
    /// Leave it where it is.
    Nil,
}

impl Expected {
    /// What a payload should do; `None` where nothing can be said beforehand.
    pub fn of(payload: Payload) -> Option<Self> {
        match payload {
            Payload::Skill => Some(Expected::Positive),
            Payload::Wrong => Some(Expected::Negative),
            Payload::Placebo => Some(Expected::Nil),
            Payload::Code => None,
        }
    }
}

/// Whether what was expected came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It came.
    Holds,
    /// It did not.
    Fails,
    /// There are too few seeds to say.
    TooFew,
}

/// One transfer's part of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// What was expected.
    pub expected: Expected,
    /// Comparisons.
    pub n: usize,
    /// Seeds that they are of.
    pub seeds: usize,
    /// Paired lift in percent; `None` of no comparison.
    pub lift: Option<f64>,
    /// Its 95% interval over seeds, at these problems.
    pub over_seeds: Option<(f64, f64)>,
    /// Its 95% interval over problems.
    pub over_problems: Option<(f64, f64)>,
    /// Comparisons that were helped.
    pub helped: usize,
    /// Neither.
    pub neutral: usize,
    /// Comparisons that were harmed.
    pub harmed: usize,
    /// The neutral band that counts as noise.
    pub band: f64,
    /// Whether it came as expected.
    pub finding: Finding,
    /// That in words.
    pub words: String,
}

/// Judges one transfer's comparisons.
///
/// Positive and negative hold where the whole interval over seeds lies on that side of zero; nil holds
/// where it contains zero, or the lift lies within the neutral band.
pub fn calibrate(
    expected: Expected,
    settings: PairedSettings,
    comparisons: &[Comparison],
) -> Calibration {
    let tally = Tally::of(comparisons.iter());
    let seeds: BTreeSet<u32> = comparisons.iter().map(|c| c.replicate).collect();
    let over_seeds = lift_interval_over_replicates(comparisons);
    let (finding, words) = judge(expected, settings, tally.lift, over_seeds);
    Calibration {
        expected,
        n: tally.n,
        seeds: seeds.len(),
        lift: tally.lift,
        over_seeds,
        over_problems: lift_interval(comparisons),
        helped: tally.helped,
        neutral: tally.neutral(),
        harmed: tally.harmed,
        band: settings.band,
        finding,
        words,
    }
}

fn judge(
    expected: Expected,
    settings: PairedSettings,
    lift: Option<f64>,
    interval: Option<(f64, f64)>,
) -> (Finding, String) {
    let (Some(lift), Some((low, high))) = (lift, interval) else {
        let words = match lift {
            None => "nothing to compare",
            Some(_) => "one seed gives no interval",
        };
        return (Finding::TooFew, words.to_owned());
    };
    let contains_zero = low <= 0.0 && 0.0 <= high;
    let within_band = (lift / 100.0).ln_1p().abs() <= settings.band.ln_1p();
    let holds = match expected {
        Expected::Positive => low > 0.0,
        Expected::Negative => high < 0.0,
        Expected::Nil => contains_zero || within_band,
    };
    let words = match (expected, holds) {
        (Expected::Positive, true) => "positive, as it should be",
        (Expected::Negative, true) => "negative, as it should be",
        (Expected::Nil, true) => "within the noise, as it should be",
        (Expected::Nil, false) if lift > 0.0 => "positive, and should be within the noise",
        (Expected::Nil, false) => "negative, and should be within the noise",
        (_, false) if contains_zero => "not told from zero",
        (Expected::Positive, false) => "negative, and should be positive",
        (Expected::Negative, false) => "positive, and should be negative",
    };
    let finding = if holds {
        Finding::Holds
    } else {
        Finding::Fails
    };
    (finding, words.to_owned())
}

#[cfg(test)]
mod tests {
    use mkb_catalog::{DslSet, ProblemName};

    use super::*;
    use crate::paired::{Outcome, Standing};

    fn comparisons(ratios: &[f64]) -> Vec<Comparison> {
        let directions = DslSet::builtin().directions();
        (1..)
            .zip(ratios)
            .map(|(replicate, &ratio)| Comparison {
                problem: ProblemName::parse("01_a").expect("a name"),
                direction: directions[0].clone(),
                replicate,
                standing: Standing::Same,
                ratio,
                outcome: Outcome::Neutral,
            })
            .collect()
    }

    fn finding(expected: Expected, ratios: &[f64]) -> Finding {
        calibrate(expected, PairedSettings::default(), &comparisons(ratios)).finding
    }

    #[test]
    fn a_clear_lift_is_positive_and_neither_negative_nor_nil() {
        let ratios = [1.5, 1.6, 1.4, 1.5, 1.55];
        assert_eq!(finding(Expected::Positive, &ratios), Finding::Holds);
        assert_eq!(finding(Expected::Negative, &ratios), Finding::Fails);
        assert_eq!(finding(Expected::Nil, &ratios), Finding::Fails);
    }

    #[test]
    fn a_clear_loss_is_negative_alone() {
        let ratios = [0.5, 0.6, 0.55, 0.5];
        assert_eq!(finding(Expected::Positive, &ratios), Finding::Fails);
        assert_eq!(finding(Expected::Negative, &ratios), Finding::Holds);
        assert_eq!(finding(Expected::Nil, &ratios), Finding::Fails);
    }

    #[test]
    fn scatter_about_one_is_nil_and_shows_nothing_else() {
        let ratios = [1.3, 0.75, 1.1, 0.9, 1.0];
        assert_eq!(finding(Expected::Nil, &ratios), Finding::Holds);
        assert_eq!(finding(Expected::Positive, &ratios), Finding::Fails);
    }

    #[test]
    fn a_lift_within_the_band_is_nil_however_narrow_its_interval() {
        assert_eq!(finding(Expected::Nil, &[1.02; 6]), Finding::Holds);
        assert_eq!(finding(Expected::Nil, &[1.2; 6]), Finding::Fails);
    }

    #[test]
    fn one_seed_says_nothing() {
        assert_eq!(finding(Expected::Positive, &[2.0]), Finding::TooFew);
        assert_eq!(finding(Expected::Nil, &[]), Finding::TooFew);
    }
}
