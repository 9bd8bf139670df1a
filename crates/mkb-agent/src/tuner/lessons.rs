//! What the tuner writes down: from its own submissions to sentences.

use super::search::{Outcome, Tried};
use crate::skill::{self, Measured, Setting};
use crate::template::{Parameter, Point};

/// Times within this factor of each other are the same.
const SAME: f64 = 1.03;

/// What holds for all of an attempt's figures.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub device: Option<String>,
    pub clock: Option<String>,
}

/// What was learned, one sentence a line.
pub(crate) fn write_skill(space: &[Parameter], tried: &[Tried], notes: &Notes) -> String {
    let mut text = Vec::new();
    let value = |p: usize, point: &[usize]| space[p].values[point[p]].to_string();
    let settings = |point: &[usize]| -> Vec<Setting> {
        (0..space.len())
            .map(|p| (space[p].name.clone(), value(p, point)))
            .collect()
    };
    let measured: Vec<(&Point, Measured)> = tried
        .iter()
        .filter_map(|t| match &t.outcome {
            Outcome::Passed {
                time,
                eager,
                bound,
                detail,
            } => Some((
                &t.point,
                Measured {
                    settings: settings(&t.point),
                    time_ms: *time,
                    eager_ms: *eager,
                    bound: bound.clone(),
                    detail: detail.clone(),
                },
            )),
            Outcome::Failed(_) => None,
        })
        .collect();
    text.push(format!(
        "The figures below are {} times on {}, from {} submissions, each a median over fresh \
         draws; they hold for this problem's sizes.",
        notes.clock.as_deref().unwrap_or("reported"),
        notes.device.as_deref().unwrap_or("the judge's device"),
        tried.len()
    ));
    let by_time = |a: &&(&Point, Measured), b: &&(&Point, Measured)| {
        a.1.time_ms
            .partial_cmp(&b.1.time_ms)
            .expect("times are finite")
    };
    if let (Some(fast), Some(slow)) = (
        measured.iter().min_by(by_time),
        measured.iter().max_by(by_time),
    ) {
        text.push(skill::extreme("fastest", measured.len(), &fast.1));
        if slow.1.time_ms > fast.1.time_ms * SAME {
            text.push(skill::extreme("slowest", measured.len(), &slow.1));
        }
        let gain = fast.1.eager_ms.map(|e| e / fast.1.time_ms);
        if let Some(gain) = gain {
            let verdict = if gain > 1.0 {
                "is worth it"
            } else {
                "was not worth it"
            };
            text.push(format!(
                "Moving this work out of eager PyTorch {verdict}: {gain:.2} times eager's speed at \
                 the fastest point."
            ));
        }
    }

    let mut mattered = Vec::new();
    for (p, parameter) in space.iter().enumerate() {
        let widest = pairs(&measured, p).max_by(|a, b| spread(a).total_cmp(&spread(b)));
        let Some((a, b)) = widest else { continue };
        let (from, to) = (value(p, a.0), value(p, b.0));
        let name = &parameter.name;
        if spread(&(a, b)) < SAME.ln() {
            text.push(skill::idle(name, (&from, &a.1), (&to, &b.1)));
        } else {
            text.push(skill::step(name, (&from, &a.1), (&to, &b.1)));
            let (worse, better) = if a.1.time_ms > b.1.time_ms {
                (a, b)
            } else {
                (b, a)
            };
            mattered.push((spread(&(a, b)), p, worse.0[p], better.0[p]));
        }
    }
    text.extend(failures(space, tried));

    mattered.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut next = never_varied(space, tried);
    let (mut beyond, mut between) = (Vec::new(), Vec::new());
    for (_, p, worse, better) in mattered {
        let (further, amid) = promising(space[p].values.len(), worse, better);
        beyond.extend(further.into_iter().map(|v| (p, v)));
        between.extend(amid.into_iter().map(|v| (p, v)));
    }
    next.extend([beyond, between].concat());
    next.retain(|&(p, v)| tried.iter().all(|t| t.point[p] != v));
    let next: Vec<Setting> = next
        .into_iter()
        .map(|(p, v)| (space[p].name.clone(), space[p].values[v].to_string()))
        .collect();
    if !next.is_empty() {
        text.push(skill::untried(&next));
    }
    text.join("\n") + "\n"
}

/// A value of each parameter that had the same one in all submissions, those with the fewest values
/// first: one submission says most about them. Nothing where nothing was submitted.
fn never_varied(space: &[Parameter], tried: &[Tried]) -> Vec<(usize, usize)> {
    let Some(first) = tried.first() else {
        return Vec::new();
    };
    let constant = |p: &usize| tried.iter().all(|t| t.point[*p] == first.point[*p]);
    let mut parameters: Vec<usize> = (0..space.len()).filter(constant).collect();
    parameters.sort_by_key(|&p| space[p].values.len());
    let another = |p: usize| {
        let (at, count) = (first.point[p], space[p].values.len());
        // Towards the side that has more values.
        let value = if at * 2 < count - 1 || at == 0 {
            at + 1
        } else {
            at - 1
        };
        (count > 1).then_some((p, value))
    };
    parameters.into_iter().filter_map(another).collect()
}

/// The values of an ordered parameter worth a look where `better` beat `worse`, nearest first: those
/// beyond the better one, and those between the two; none on the worse one's far side.
fn promising(count: usize, worse: usize, better: usize) -> (Vec<usize>, Vec<usize>) {
    if better > worse {
        (
            (better + 1..count).collect(),
            (worse + 1..better).rev().collect(),
        )
    } else {
        ((0..better).rev().collect(), (better + 1..worse).collect())
    }
}

type Pair<'m, 'p> = (&'m (&'p Point, Measured), &'m (&'p Point, Measured));

/// Measured points, in the order of submission, that differ in parameter `p` alone.
fn pairs<'m, 'p>(
    measured: &'m [(&'p Point, Measured)],
    p: usize,
) -> impl Iterator<Item = Pair<'m, 'p>> {
    let all = measured.iter().enumerate();
    let all = all.flat_map(move |(k, a)| measured[k + 1..].iter().map(move |b| (a, b)));
    all.filter(move |(a, b)| (0..a.0.len()).all(|q| (a.0[q] != b.0[q]) == (q == p)))
}

fn spread(pair: &Pair<'_, '_>) -> f64 {
    (pair.0.1.time_ms / pair.1.1.time_ms).ln().abs()
}

/// A sentence for each failed point that differs from a passed one in one parameter.
fn failures(space: &[Parameter], tried: &[Tried]) -> Vec<String> {
    let mut sentences = Vec::new();
    for failed in tried {
        let Outcome::Failed(why) = &failed.outcome else {
            continue;
        };
        let passed = tried.iter().filter(|t| t.time().is_some());
        let differing = passed.filter_map(|t| {
            let mut different = (0..space.len()).filter(|&p| t.point[p] != failed.point[p]);
            match (different.next(), different.next()) {
                (Some(p), None) => Some(p),
                _ => None,
            }
        });
        for p in differing.take(1) {
            let value = space[p].values[failed.point[p]].to_string();
            sentences.push(skill::fails(&space[p].name, &value, why));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    #[test]
    fn what_is_promising_lies_beyond_the_better_value_and_between() {
        assert_eq!(promising(6, 1, 3), (vec![4, 5], vec![2]));
        assert_eq!(promising(6, 4, 1), (vec![0], vec![2, 3]));
        assert_eq!(promising(2, 0, 1), (vec![], vec![]));
    }

    #[test]
    fn what_never_varied_is_to_be_tried_first() {
        let text = "SPACE = {\"a\": [1, 2, 4], \"b\": [1, 2], \"c\": [1, 2, 4, 8], \"d\": [7]}\n\
                    PARAMS = {\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 7}\n";
        let space = Template::parse(text).expect("a template").space;
        let tried = |point: [usize; 4], time| Tried {
            point: point.to_vec(),
            outcome: Outcome::Passed {
                time,
                eager: None,
                bound: "bound by issue".to_owned(),
                detail: String::new(),
            },
        };
        let text = write_skill(
            &space,
            &[tried([0, 1, 2, 0], 4.0), tried([1, 1, 2, 0], 2.0)],
            &Notes::default(),
        );
        let next = "Not tried, and what to test next: b 1, c 2 and a 4.";
        assert!(text.contains(next), "{text}");
    }
}
