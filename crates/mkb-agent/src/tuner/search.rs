//! The tuner's search: which point next, from what it believes and what it has seen.

use std::collections::BTreeMap;

use super::random::Random;
use crate::reply::Reply;
use crate::skill::{Claim, Setting};
use crate::template::{Parameter, Point};

/// Submissions in a row without gain after which it stops.
const PATIENCE: u32 = 2;
/// A time this much below the best so far is a gain.
const GAIN: f64 = 0.98;

/// What a submission came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Time and eager time in ms (where only a speedup is known, in units of eager's time), and
    /// what bounded it, with the report's words for the first bottleneck.
    Passed {
        time: f64,
        eager: Option<f64>,
        bound: String,
        detail: String,
    },
    Failed(String),
}

impl From<&Reply> for Outcome {
    fn from(reply: &Reply) -> Self {
        let time = match (reply.time_ms, reply.speedup) {
            (Some(time), _) => Some((time, reply.eager_ms)),
            (None, Some(speedup)) => Some((1.0 / speedup, Some(1.0))),
            (None, None) => None,
        };
        match time {
            Some((time, eager)) if reply.passed => {
                let kinds: Vec<_> = reply.bounds.iter().take(3).map(|b| plain(&b.0)).collect();
                let bound = match kinds.is_empty() {
                    true => "bound by nothing that the report names".to_owned(),
                    false => format!("bound by {}", kinds.join(" and by ")),
                };
                let detail = reply
                    .bounds
                    .first()
                    .map(|b| plain(&b.1))
                    .unwrap_or_default();
                Outcome::Passed {
                    time,
                    eager,
                    bound,
                    detail,
                }
            }
            _ => {
                let why = reply.failure.as_deref().or(reply.reason.as_deref());
                Outcome::Failed(plain(why.unwrap_or("the report says no more")))
            }
        }
    }
}

/// A report's words, fit for a sentence: one line, no marks of code, not long.
fn plain(text: &str) -> String {
    let kept = text.chars().map(|c| {
        if c.is_control() || "`#{}=".contains(c) {
            ' '
        } else {
            c
        }
    });
    let words: String = kept.collect();
    let mut words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(120) {
        words.truncate(end);
    }
    words.trim_end_matches(['.', ';', ' ']).to_owned()
}

/// A submission and its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    pub point: Point,
    pub outcome: Outcome,
}

impl Tried {
    pub fn time(&self) -> Option<f64> {
        match &self.outcome {
            Outcome::Passed { time, .. } => Some(*time),
            Outcome::Failed(_) => None,
        }
    }
}

/// What a skill makes the tuner believe, as far as it is about this space.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Belief {
    /// Values to start from, by parameter.
    start: BTreeMap<usize, usize>,
    /// Values to stay away from.
    avoid: Vec<(usize, usize)>,
    /// Values to try first, in order.
    first: Vec<(usize, usize)>,
    /// Parameters to try before the others.
    worth: Vec<usize>,
    /// Parameters that need no more submissions.
    settled: Vec<usize>,
}

impl Belief {
    pub fn read(claims: &[Claim], space: &[Parameter]) -> Self {
        let mut belief = Belief::default();
        let parameter = |name: &str| space.iter().position(|p| p.name == name);
        let place = |(name, value): &Setting| {
            let p = parameter(name)?;
            Some((
                p,
                space[p]
                    .values
                    .iter()
                    .position(|v| v.to_string() == *value)?,
            ))
        };
        // From the general to the particular, so that the later word holds.
        for claim in claims {
            match claim {
                Claim::Step {
                    name,
                    from,
                    to,
                    faster,
                    ..
                } => {
                    let better = if *faster { to } else { from };
                    belief.start.extend(place(&(name.clone(), better.clone())));
                    belief.settled.extend(parameter(name));
                }
                Claim::Idle { name } => belief.settled.extend(parameter(name)),
                Claim::Worth { name } => belief.worth.extend(parameter(name)),
                _ => {}
            }
        }
        for claim in claims {
            match claim {
                Claim::Fastest(point) => belief.start.extend(point.iter().filter_map(place)),
                Claim::Fails(setting) => belief.avoid.extend(place(setting)),
                Claim::Untried(settings) => belief.first.extend(settings.iter().filter_map(place)),
                Claim::Needless(settings) => belief.avoid.extend(settings.iter().filter_map(place)),
                _ => {}
            }
        }
        for claim in claims {
            match claim {
                Claim::Best(setting) => belief.start.extend(place(setting)),
                Claim::Slowest(point) => {
                    let values = point.iter().filter_map(place);
                    // Without a better word: anything else than the slowest.
                    belief
                        .avoid
                        .extend(values.filter(|(p, _)| !belief.start.contains_key(p)));
                }
                _ => {}
            }
        }
        belief
    }
}

/// The search: which point next.
pub(crate) struct Search<'a> {
    space: &'a [Parameter],
    belief: Belief,
    random: Random,
    pub tried: Vec<Tried>,
    /// Changes of one parameter that wait, the next one last.
    moves: Vec<(usize, usize)>,
    without_gain: u32,
}

impl<'a> Search<'a> {
    pub fn new(space: &'a [Parameter], belief: Belief, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut all: Vec<(usize, usize)> = Vec::new();
        // A random order of the parameters; of each parameter's values in turn.
        let mut order: Vec<usize> = (0..space.len()).collect();
        random.shuffle(&mut order);
        let mut values: Vec<Vec<usize>> = space
            .iter()
            .map(|p| (0..p.values.len()).collect())
            .collect();
        values.iter_mut().for_each(|v| random.shuffle(v));
        let most = values.iter().map(Vec::len).max().unwrap_or(0);
        for round in 0..most {
            for &p in &order {
                all.extend(values[p].get(round).map(|&v| (p, v)));
            }
        }
        let worth = |m: &(usize, usize)| belief.worth.contains(&m.0);
        let open = |m: &(usize, usize)| {
            !belief.settled.contains(&m.0) && !belief.avoid.contains(m) && !worth(m)
        };
        let mut moves = belief.first.clone();
        moves.retain(|m| !belief.avoid.contains(m));
        moves.extend(all.iter().copied().filter(worth));
        moves.extend(all.iter().copied().filter(open));
        moves.reverse();
        Search {
            space,
            belief,
            random,
            tried: vec![],
            moves,
            without_gain: 0,
        }
    }

    /// The next point to submit; none when the search is over.
    pub fn next_point(&mut self) -> Option<Point> {
        if self.tried.is_empty() {
            return Some(self.start());
        }
        if self.without_gain >= PATIENCE && self.best().is_some() {
            return None;
        }
        let from = match self.best() {
            Some(best) => best.point.clone(),
            // Nothing has passed yet: change what has been tried last.
            None => self.tried.last()?.point.clone(),
        };
        while let Some(&(p, v)) = self.moves.last() {
            let mut point = from.clone();
            point[p] = v;
            if self.tried.iter().all(|t| t.point != point) {
                return Some(point);
            }
            self.moves.pop();
        }
        None
    }

    fn start(&mut self) -> Point {
        let mut point = Point::new();
        for (p, parameter) in self.space.iter().enumerate() {
            let all = 0..parameter.values.len();
            let mut allowed: Vec<usize> = all
                .clone()
                .filter(|&v| !self.belief.avoid.contains(&(p, v)))
                .collect();
            if allowed.is_empty() {
                allowed = all.collect();
            }
            // Drawn in any case, so that a belief about one parameter changes no other's draw.
            let drawn = allowed[self.random.below(allowed.len())];
            point.push(self.belief.start.get(&p).copied().unwrap_or(drawn));
        }
        point
    }

    pub fn learn(&mut self, point: Point, outcome: Outcome) {
        let before = self.best().map(|b| (b.point.clone(), b.time()));
        let tried = Tried { point, outcome };
        let gained = match (tried.time(), &before) {
            (Some(time), Some((_, Some(best)))) => time < best * GAIN,
            (Some(_), _) => true,
            (None, _) => false,
        };
        if gained {
            self.without_gain = 0;
            if let Some((from, Some(_))) = &before {
                self.go_on(from, &tried.point);
            }
        } else {
            self.without_gain += 1;
        }
        self.tried.push(tried);
    }

    /// After a gain by another value of an ordered parameter: further in that direction next.
    fn go_on(&mut self, from: &[usize], to: &[usize]) {
        let Some(p) = (0..from.len()).find(|&p| from[p] != to[p]) else {
            return;
        };
        let further = if to[p] > from[p] {
            to[p].checked_add(1)
        } else {
            to[p].checked_sub(1)
        };
        let further = further
            .filter(|&v| v < self.space[p].values.len() && !self.belief.avoid.contains(&(p, v)));
        self.moves.extend(further.map(|v| (p, v)));
    }

    pub fn best(&self) -> Option<&Tried> {
        let passed = self.tried.iter().filter(|t| t.time().is_some());
        passed.min_by(|a, b| a.time().partial_cmp(&b.time()).expect("times are finite"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill;
    use crate::template::Template;

    #[test]
    fn a_reports_words_become_fit_for_a_sentence() {
        assert_eq!(plain(" a\nb `c` = {1}. "), "a b c 1");
        assert_eq!(plain(&"é".repeat(500)).chars().count(), 120);
    }

    #[test]
    fn a_text_without_claims_is_no_belief() {
        let template = Template::parse("SPACE = {\"a\": [1, 2]}\nPARAMS = {\"a\": 1}\n");
        let space = template.expect("a template").space;
        let text = skill::placebo("");
        let none = Belief::default();
        assert_eq!(Belief::read(&skill::claims(&text), &space), none);
        let foreign = "The fastest of the points measured (3) had warps 4: 1.0 ms.";
        assert_eq!(Belief::read(&skill::claims(foreign), &space), none);
    }
}
