//! Tiers, help and harm, paired lift, its interval, and the noise between equals.
//!
//! A comparison is a resolved cell-replicate: the attempt with the attachment against the solo in
//! the same DSL. Pass or fail decides first; the ratio of speedups decides only where both
//! passed. The paper publishes these figures but not how it clips, imputes and bounds them, so
//! ours are settings, and stand beside the figures.

use std::collections::BTreeMap;

use mkb_catalog::{Direction, ProblemName};
use mkb_store::Record;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cell::{CellResult, Resolved};

/// The speedups that an attempt's tier counts.
pub const TIER_THRESHOLDS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// How many repeated solos it takes for their spread to bound the neutral band.
pub const NOISE_PAIRS: usize = 20;

/// What the paper leaves open, with our defaults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedSettings {
    /// The speedup with which a failed attempt, or one below it, counts.
    pub floor: f64,
    /// Ratios are clipped to `[1/clip, clip]`.
    pub clip: f64,
    /// The neutral band `e`: helped above `1 + e`, harmed below `1/(1 + e)`.
    pub band: f64,
}

impl Default for PairedSettings {
    fn default() -> Self {
        Self {
            floor: 0.1,
            clip: 10.0,
            band: 0.05,
        }
    }
}

impl PairedSettings {
    /// The settings with the band widened to the measured noise, where that is larger and there
    /// are enough pairs to say.
    pub fn with_noise(self, noise: &Noise) -> Self {
        match noise.p90 {
            Some(p90) if noise.n_pairs >= NOISE_PAIRS => Self {
                band: self.band.max(p90),
                ..self
            },
            _ => self,
        }
    }
}

/// An attempt's tier: 0 where it failed, else 1 and one more for each threshold that its speedup
/// reaches.
pub fn tier(record: &Record) -> u8 {
    if !record.passed() {
        return 0;
    }
    let speedup = record.rewards.speedup();
    1 + TIER_THRESHOLDS.iter().filter(|&&t| speedup >= t).count() as u8
}

/// What an attachment did to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It passed where the solo failed, or was faster beyond the band.
    Helped,
    /// It failed where the solo passed, or was slower beyond the band.
    Harmed,
    /// Neither; also where nothing was transferred.
    Neutral,
}

/// Where the source solo's tier stands as seen from the target solo's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Standing {
    /// The source was better.
    Above,
    /// They were of one tier.
    Same,
    /// The source was worse.
    Below,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The problem.
    pub problem: ProblemName,
    /// From which DSL to which.
    pub direction: Direction,
    /// Which repetition.
    pub replicate: u32,
    /// The source solo's tier against the target solo's.
    pub standing: Standing,
    /// Speedup with the attachment over speedup without, clipped.
    pub ratio: f64,
    /// What the attachment did.
    pub outcome: Outcome,
}

/// The comparisons of the resolved replicates of some cells, in their order.
pub fn comparisons(settings: PairedSettings, cells: &[CellResult]) -> Vec<Comparison> {
    let compare = |result: &CellResult, number: u32, resolved: &Resolved| {
        let (ratio, outcome) = compare(settings, resolved.base, resolved.outcome());
        Comparison {
            problem: result.cell.problem.clone(),
            direction: result.cell.direction.clone(),
            replicate: number,
            standing: match tier(resolved.source).cmp(&tier(resolved.base)) {
                std::cmp::Ordering::Greater => Standing::Above,
                std::cmp::Ordering::Equal => Standing::Same,
                std::cmp::Ordering::Less => Standing::Below,
            },
            ratio,
            outcome,
        }
    };
    cells
        .iter()
        .flat_map(|result| {
            let resolved = result.replicates.iter();
            resolved.filter_map(move |r| Some(compare(result, r.number, &r.resolved()?)))
        })
        .collect()
}

/// The clipped ratio of an attempt to its base, and what that says.
pub fn compare(settings: PairedSettings, base: &Record, attempt: &Record) -> (f64, Outcome) {
    let counted = |record: &Record| match record.passed() {
        true => record.rewards.speedup().max(settings.floor),
        false => settings.floor,
    };
    let ratio = counted(attempt) / counted(base);
    let outcome = match (base.passed(), attempt.passed()) {
        (false, true) => Outcome::Helped,
        (true, false) => Outcome::Harmed,
        (true, true) if ratio > 1.0 + settings.band => Outcome::Helped,
        (true, true) if ratio < 1.0 / (1.0 + settings.band) => Outcome::Harmed,
        _ => Outcome::Neutral,
    };
    (ratio.clamp(1.0 / settings.clip, settings.clip), outcome)
}

/// Counts and the paired lift of some comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// How many comparisons.
    pub n: usize,
    /// How many were helped.
    pub helped: usize,
    /// How many were harmed.
    pub harmed: usize,
    /// 100 x (geometric mean of the ratios - 1); `None` of none.
    pub lift: Option<f64>,
}

impl Tally {
    /// Of some comparisons.
    pub fn of<'a>(comparisons: impl Iterator<Item = &'a Comparison>) -> Self {
        let mut tally = Self::default();
        let mut logarithms = 0.0;
        for comparison in comparisons {
            tally.n += 1;
            tally.helped += usize::from(comparison.outcome == Outcome::Helped);
            tally.harmed += usize::from(comparison.outcome == Outcome::Harmed);
            logarithms += comparison.ratio.ln();
        }
        tally.lift = (tally.n > 0).then(|| 100.0 * (logarithms / tally.n as f64).exp_m1());
        tally
    }

    /// How many were neither helped nor harmed.
    pub fn neutral(&self) -> usize {
        self.n - self.helped - self.harmed
    }

    fn to_json(self) -> Value {
        let rate = |count: usize| (self.n > 0).then(|| count as f64 / self.n as f64);
        json!({
            "n": self.n,
            "helped": self.helped,
            "harmed": self.harmed,
            "neutral": self.neutral(),
            "help_rate": rate(self.helped),
            "harm_rate": rate(self.harmed),
            "neutral_rate": rate(self.neutral()),
            "paired_lift_percent": self.lift,
        })
    }
}

/// Of the comparisons that were helped, what became of the same problem and replicate in the
/// direction back: a tally over those that were also compared.
pub fn reverse_of_helped(comparisons: &[Comparison]) -> Tally {
    let by_key: BTreeMap<(&ProblemName, Direction, u32), &Comparison> = comparisons
        .iter()
        .map(|c| ((&c.problem, c.direction.clone(), c.replicate), c))
        .collect();
    let helped = comparisons.iter().filter(|c| c.outcome == Outcome::Helped);
    Tally::of(helped.filter_map(|c| {
        let back = (&c.problem, c.direction.reverse(), c.replicate);
        by_key.get(&back).copied()
    }))
}

/// The spread between attempts that should be equal: repeated solos at one task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Pairs of which both passed.
    pub n_pairs: usize,
    /// The 90th percentile of |ln ratio| over the pairs, interpolated between neighbours.
    pub p90: Option<f64>,
}

/// The noise between solos, given for each task as a list of its repeated attempts. Every pair of
/// attempts at one task of which both passed is a pair.
pub fn noise(settings: PairedSettings, repeated: &[Vec<Record>]) -> Noise {
    let mut spreads: Vec<f64> = Vec::new();
    for attempts in repeated {
        let speedups: Vec<f64> = attempts
            .iter()
            .filter(|record| record.is_resolved() && record.passed())
            .map(|record| record.rewards.speedup().max(settings.floor))
            .collect();
        for (index, first) in speedups.iter().enumerate() {
            spreads.extend(
                speedups[index + 1..]
                    .iter()
                    .map(|second| (second / first).ln().abs()),
            );
        }
    }
    spreads.sort_by(f64::total_cmp);
    Noise {
        n_pairs: spreads.len(),
        p90: percentile(&spreads, 0.9),
    }
}

/// The percentile of sorted values, interpolated linearly between neighbours.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    let (low, high) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    Some(low + (high - low) * place.fract())
}

/// A 95% interval of the paired lift in percent, by resampling problems with all their
/// comparisons (percentile bootstrap, 2,000 resamples, always the same ones). `None` below two
/// problems: one problem says nothing about others.
pub fn lift_interval(comparisons: &[Comparison]) -> Option<(f64, f64)> {
    interval_over(comparisons, |comparison| &comparison.problem)
}

/// The same by resampling replicates with all their comparisons: what another set of repetitions at
/// the same problems could have given. `None` below two replicates.
pub fn lift_interval_over_replicates(comparisons: &[Comparison]) -> Option<(f64, f64)> {
    interval_over(comparisons, |comparison| comparison.replicate)
}

fn interval_over<'a, K: Ord>(
    comparisons: &'a [Comparison],
    unit: impl Fn(&'a Comparison) -> K,
) -> Option<(f64, f64)> {
    const RESAMPLES: usize = 2_000;
    let mut units: BTreeMap<K, (f64, usize)> = BTreeMap::new();
    for comparison in comparisons {
        let (sum, n) = units.entry(unit(comparison)).or_default();
        *sum += comparison.ratio.ln();
        *n += 1;
    }
    let units: Vec<(f64, usize)> = units.into_values().collect();
    if units.len() < 2 {
        return None;
    }
    let mut state = 0_u64;
    let mut lifts: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let (mut sum, mut n) = (0.0, 0);
            for _ in 0..units.len() {
                let pick = (split_mix(&mut state) % units.len() as u64) as usize;
                sum += units[pick].0;
                n += units[pick].1;
            }
            100.0 * (sum / n as f64).exp_m1()
        })
        .collect();
    lifts.sort_by(f64::total_cmp);
    percentile(&lifts, 0.025).zip(percentile(&lifts, 0.975))
}

/// The SplitMix64 generator (Steele, Lea, Flood 2014): well mixed and the same everywhere.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Every paired figure of the comparisons of one kind of transfer, as data.
pub fn figures(comparisons: &[Comparison]) -> Value {
    let tally = |keep: &dyn Fn(&Comparison) -> bool| {
        Tally::of(comparisons.iter().filter(|c| keep(c))).to_json()
    };
    let mut directions: Vec<String> = comparisons
        .iter()
        .map(|c| c.direction.to_string())
        .collect();
    directions.sort_unstable();
    directions.dedup();
    let by_direction: serde_json::Map<String, Value> = directions
        .into_iter()
        .map(|name| {
            let figures = tally(&|c| c.direction.to_string() == name);
            (name, figures)
        })
        .collect();
    let interval = lift_interval(comparisons).map(|(low, high)| [low, high]);
    json!({
        "overall": tally(&|_| true),
        "paired_lift_interval_95": interval,
        "by_direction": by_direction,
        "by_source_tier": {
            "above": tally(&|c| c.standing == Standing::Above),
            "same": tally(&|c| c.standing == Standing::Same),
            "below": tally(&|c| c.standing == Standing::Below),
        },
        "reverse_of_helped": reverse_of_helped(comparisons).to_json(),
    })
}

/// A share in percent to one decimal, halves to even, as Python prints it.
pub fn percent(count: usize, n: usize) -> String {
    format!("{:.1}", 100.0 * count as f64 / n as f64)
}

#[cfg(test)]
mod tests {
    use mkb_catalog::{DslSet, Rewards};
    use proptest::prelude::*;

    use super::*;

    fn record(speedup: Option<f64>) -> Record {
        Record {
            rewards: Rewards::graded(true, true, speedup),
            ..Record::default()
        }
    }

    fn outcome(base: Option<f64>, attempt: Option<f64>) -> (f64, Outcome) {
        compare(PairedSettings::default(), &record(base), &record(attempt))
    }

    #[test]
    fn tiers_count_the_thresholds_reached() {
        let tiers: Vec<u8> = [0.0, 0.49, 0.5, 0.99, 1.0, 2.0, 3.9, 4.0, 100.0]
            .map(|speedup| tier(&record(Some(speedup))))
            .to_vec();
        assert_eq!(tiers, [1, 1, 2, 2, 3, 4, 4, 5, 5]);
        assert_eq!(tier(&record(None)), 0);
    }

    #[test]
    fn pass_or_fail_decides_before_the_ratio() {
        // The failed solo counts as the floor, 0.1; so does a pass at 0.05.
        assert_eq!(outcome(None, Some(0.05)), (1.0, Outcome::Helped));
        assert_eq!(outcome(Some(0.05), None), (1.0, Outcome::Harmed));
        assert_eq!(outcome(None, None), (1.0, Outcome::Neutral));
        assert_eq!(outcome(None, Some(50.0)), (10.0, Outcome::Helped));
        assert_eq!(outcome(Some(50.0), None), (0.1, Outcome::Harmed));
    }

    #[test]
    fn the_neutral_band_is_open_at_neither_end() {
        assert_eq!(outcome(Some(1.0), Some(1.05)).1, Outcome::Neutral);
        assert_eq!(outcome(Some(1.0), Some(1.0501)).1, Outcome::Helped);
        assert_eq!(outcome(Some(1.05), Some(1.0)).1, Outcome::Neutral);
        assert_eq!(outcome(Some(1.0501), Some(1.0)).1, Outcome::Harmed);
    }

    fn comparison(problem: &str, direction: usize, ratio: f64, outcome: Outcome) -> Comparison {
        Comparison {
            problem: ProblemName::parse(problem).expect("a name"),
            direction: DslSet::builtin().directions()[direction].clone(),
            replicate: 1,
            standing: Standing::Same,
            ratio,
            outcome,
        }
    }

    #[test]
    fn the_lift_is_the_geometric_means() {
        let ratios = [2.0, 0.5, 4.0, 1.0];
        let all = ratios.map(|ratio| comparison("01_a", 0, ratio, Outcome::Neutral));
        let lift = Tally::of(all.iter()).lift.expect("some");
        assert!((lift - 100.0 * (2.0_f64.sqrt() - 1.0)).abs() < 1e-12);
        assert_eq!(Tally::of([].iter()).lift, None);
    }

    #[test]
    fn the_reverse_of_what_was_helped_is_the_direction_back() {
        let all = [
            comparison("01_a", 0, 2.0, Outcome::Helped),
            comparison("01_a", 1, 0.5, Outcome::Harmed),
            comparison("02_b", 0, 2.0, Outcome::Helped),
            comparison("02_b", 1, 2.0, Outcome::Helped),
            comparison("03_c", 0, 2.0, Outcome::Helped),
        ];
        let tally = reverse_of_helped(&all);
        assert_eq!((tally.n, tally.helped, tally.harmed), (3, 2, 1));
    }

    #[test]
    fn the_published_percentages_follow_from_the_whole_numbers() {
        let golden: Value =
            serde_json::from_str(include_str!("../tests/data/tiers.json")).expect("golden");
        let number = |value: &Value| value.as_u64().expect("a count") as usize;
        let mut seen = 0;
        for (tier, counts) in golden["tiers"].as_object().expect("tiers") {
            for what in ["helped", "harmed"] {
                let expected = &golden["published_percent"][tier][what];
                let printed = percent(number(&counts[what]), number(&counts["n"]));
                assert_eq!(printed, expected.to_string(), "{tier} {what}");
                seen += 1;
            }
        }
        let helped = number(&golden["total"]["helped"]);
        for what in ["helped", "harmed"] {
            let printed = percent(number(&golden["helped_reverse"][what]), helped);
            let expected = &golden["published_percent"]["helped_reverse"][what];
            assert_eq!(printed, expected.to_string(), "reverse {what}");
        }
        assert_eq!(seen, 6);
    }

    #[test]
    fn noise_is_the_spread_of_repeated_solos_that_passed() {
        let settings = PairedSettings::default();
        let task = |speedups: &[f64]| -> Vec<Record> {
            speedups.iter().map(|&s| record(Some(s))).collect()
        };
        let mut repeated = vec![task(&[1.0, 1.1]); 18];
        repeated.push(vec![record(Some(1.0)), record(None)]);
        let few = noise(settings, &repeated);
        assert_eq!(few.n_pairs, 18);
        assert_eq!(settings.with_noise(&few).band, 0.05, "too few pairs to say");
        repeated.push(task(&[1.0, 1.0, 2.0]));
        let enough = noise(settings, &repeated);
        // 21 pairs: one of 0, 18 of ln 1.1, two of ln 2; place 18 of 0..20 is ln 1.1.
        assert_eq!(enough.n_pairs, 21);
        let p90 = enough.p90.expect("some");
        assert!((p90 - 1.1_f64.ln()).abs() < 1e-12, "{p90}");
        assert!((settings.with_noise(&enough).band - p90).abs() < 1e-15);
    }

    #[test]
    fn an_interval_needs_two_problems_and_holds_the_lift() {
        let one = vec![comparison("01_a", 0, 2.0, Outcome::Helped)];
        assert_eq!(lift_interval(&one), None);
        let names = ["01_a", "02_b", "03_c", "04_d", "05_e", "06_f"];
        let many: Vec<Comparison> = names
            .iter()
            .zip([1.2, 0.9, 1.5, 1.1, 1.0, 1.3])
            .map(|(name, ratio)| comparison(name, 0, ratio, Outcome::Neutral))
            .collect();
        let (low, high) = lift_interval(&many).expect("six problems");
        let lift = Tally::of(many.iter()).lift.expect("some");
        assert!(low < lift && lift < high, "{low} {lift} {high}");
        assert_eq!(
            lift_interval(&many),
            lift_interval(&many),
            "always the same resamples"
        );
    }

    proptest! {
        #[test]
        fn help_one_way_is_harm_the_other_way(base in prop::option::of(0.01..20.0f64),
                                              attempt in prop::option::of(0.01..20.0f64)) {
            let (forth, back) = (outcome(base, attempt), outcome(attempt, base));
            prop_assert!((forth.0 * back.0 - 1.0).abs() < 1e-9);
            let mirrored = match back.1 {
                Outcome::Helped => Outcome::Harmed,
                Outcome::Harmed => Outcome::Helped,
                Outcome::Neutral => Outcome::Neutral,
            };
            // On the very edge of the band rounding may fall either way.
            let on_edge = base.zip(attempt).is_some_and(|(b, a)| {
                let spread = (a.max(0.1) / b.max(0.1)).ln().abs();
                (spread - 1.05_f64.ln()).abs() < 1e-12
            });
            prop_assert!(on_edge || forth.1 == mirrored);
        }
    }
}
