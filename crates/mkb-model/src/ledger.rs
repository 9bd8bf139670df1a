//! What calls took and cost: an entry for each call, and sums in which the unknown stays unknown.
//!
//! An [`Entry`] holds every try of a call, retries included, for each of them may have been charged.
//! [`Totals`] adds entries up. A sum with an unknown part has no total; its known part and the number
//! of what is unknown are kept beside it ([`Sum`], [`CostSum`]).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::prices::Prices;
use crate::usage::Usage;

/// One call, with all of its tries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When the call began.
    pub at: Timestamp,
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's name on the wire.
    pub model: String,
    /// How the call ended, as [`crate::outcome::OutcomeKind`] names it.
    pub outcome: String,
    /// One line about it, unless the model answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// From the caller's asking to the end, waiting included, in milliseconds.
    pub elapsed_ms: u64,
    /// How much of that was spent waiting for limits, for a provider to recover, or between tries.
    pub waited_ms: u64,
    /// The tries, in order. There may be none: a deadline can come before the first.
    pub tries: Vec<Try>,
}

/// One time that a request was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// When it was sent.
    pub at: Timestamp,
    /// From sending to its end, in milliseconds.
    pub latency_ms: u64,
    /// From sending to the first byte of the answer's body, if one came.
    pub first_byte_ms: Option<u64>,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// How it ended: `answered`, or what went wrong.
    pub end: String,
    /// The provider's id of the answer or the request.
    pub request_id: Option<String>,
    /// The tokens that it took.
    pub spend: Spend,
    /// What it cost.
    pub cost: Cost,
}

/// The tokens that a try took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spend {
    /// None: it never arrived, or the provider refused it before answering.
    Nothing,
    /// As the provider reports; parts may be unknown.
    Reported(Usage),
    /// Unknown: it may have been worked on, but nothing was reported.
    Unknown,
}

/// What something cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// US dollars; `None` is unknown.
    pub usd: Option<f64>,
    /// Where the figure comes from.
    pub origin: CostOrigin,
    /// Why it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Where a cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostOrigin {
    /// The provider said so.
    Provider,
    /// Tokens by the table of prices.
    Table,
    /// Nothing was served, so nothing is charged.
    NothingServed,
    /// It is unknown.
    Unknown,
}

impl Cost {
    /// The cost of a try: the provider's figure if there is one, else the table's, else unknown.
    pub fn of(spend: &Spend, reported_usd: Option<f64>, prices: &Prices, price_key: &str) -> Self {
        if let Some(usd) = reported_usd {
            return Self {
                usd: Some(usd),
                origin: CostOrigin::Provider,
                why: None,
            };
        }
        let priced = match spend {
            Spend::Nothing => {
                return Self {
                    usd: Some(0.0),
                    origin: CostOrigin::NothingServed,
                    why: None,
                };
            }
            Spend::Unknown => Err("the provider did not say what the try took".to_owned()),
            Spend::Reported(usage) => prices
                .cost(price_key, usage)
                .map_err(|unpriced| unpriced.to_string()),
        };
        match priced {
            Ok(usd) => Self {
                usd: Some(usd),
                origin: CostOrigin::Table,
                why: None,
            },
            Err(why) => Self {
                usd: None,
                origin: CostOrigin::Unknown,
                why: Some(why),
            },
        }
    }
}

impl Entry {
    /// How many tries followed the first.
    pub fn retries(&self) -> usize {
        self.tries.len().saturating_sub(1)
    }

    /// Its sums.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        totals.add(self);
        totals
    }
}

/// A sum of counts, some of which may be unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The sum of what is known.
    pub known: u64,
    /// How many parts are unknown.
    pub unknown: u64,
}

impl Sum {
    /// Adds a part.
    pub fn add(&mut self, part: Option<u64>) {
        match part {
            Some(part) => self.known = self.known.saturating_add(part),
            None => self.unknown += 1,
        }
    }

    /// The sum, unless a part is unknown.
    pub fn total(&self) -> Option<u64> {
        (self.unknown == 0).then_some(self.known)
    }
}

/// A sum of costs, some of which may be unknown; compensated, so that the order does not matter to
/// within a rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostSum {
    sum: f64,
    compensation: f64,
    /// How many parts are unknown.
    pub unknown: u64,
}

impl CostSum {
    /// Adds a part, in US dollars.
    pub fn add(&mut self, part: Option<f64>) {
        let Some(part) = part else {
            self.unknown += 1;
            return;
        };
        let sum = self.sum + part;
        self.compensation += if self.sum.abs() >= part.abs() {
            (self.sum - sum) + part
        } else {
            (part - sum) + self.sum
        };
        self.sum = sum;
    }

    /// The sum of what is known, in US dollars.
    pub fn known(&self) -> f64 {
        self.sum + self.compensation
    }

    /// The sum, unless a part is unknown.
    pub fn total(&self) -> Option<f64> {
        (self.unknown == 0).then(|| self.known())
    }
}

/// Sums over calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Calls.
    pub calls: u64,
    /// Tries, retries included.
    pub tries: u64,
    /// All input tokens.
    pub prompt: Sum,
    /// Uncached input tokens.
    pub input: Sum,
    /// Input tokens read from a cache.
    pub cache_read: Sum,
    /// Input tokens written to a cache; unknown for providers that do not count them apart.
    pub cache_write: Sum,
    /// Output tokens.
    pub output: Sum,
    /// Reasoning among the output.
    pub reasoning: Sum,
    /// US dollars.
    pub cost_usd: CostSum,
}

impl Totals {
    /// Adds a call.
    pub fn add(&mut self, entry: &Entry) {
        self.calls += 1;
        for attempt in &entry.tries {
            self.tries += 1;
            self.cost_usd.add(attempt.cost.usd);
            let usage = match attempt.spend {
                Spend::Nothing => continue,
                Spend::Reported(usage) => usage,
                Spend::Unknown => Usage::default(),
            };
            self.prompt.add(usage.prompt);
            self.input.add(usage.input);
            self.cache_read.add(usage.cache_read);
            self.cache_write.add(usage.cache_write);
            self.output.add(usage.output);
            self.reasoning.add(usage.reasoning);
        }
    }
}

impl<'a> FromIterator<&'a Entry> for Totals {
    fn from_iter<I: IntoIterator<Item = &'a Entry>>(entries: I) -> Self {
        let mut totals = Self::default();
        for entry in entries {
            totals.add(entry);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(spend: Spend, reported: Option<f64>) -> Try {
        Try {
            at: Timestamp::UNIX_EPOCH,
            latency_ms: 1,
            first_byte_ms: None,
            status: Some(200),
            end: "answered".into(),
            request_id: None,
            spend,
            cost: Cost::of(&spend, reported, &Prices::built_in(), "openai/gpt-5"),
        }
    }

    fn entry(tries: Vec<Try>) -> Entry {
        Entry {
            at: Timestamp::UNIX_EPOCH,
            provider: "openai".into(),
            model: "gpt-5".into(),
            outcome: "answered".into(),
            detail: None,
            elapsed_ms: 2,
            waited_ms: 0,
            tries,
        }
    }

    fn reported(prompt: u64, read: u64, output: u64) -> Spend {
        let usage = Usage::of_whole(Some(prompt), Some(read), None);
        Spend::Reported(usage.with_output(Some(output), Some(0)))
    }

    #[test]
    fn the_providers_cost_wins_over_the_tables() {
        let spend = reported(1_000_000, 0, 0);
        let told = attempt(spend, Some(7.0)).cost;
        assert_eq!((told.usd, told.origin), (Some(7.0), CostOrigin::Provider));
        let priced = attempt(spend, None).cost;
        assert_eq!((priced.usd, priced.origin), (Some(1.25), CostOrigin::Table));
    }

    #[test]
    fn a_refused_try_costs_nothing_and_a_lost_one_is_unknown_and_said() {
        let refused = attempt(Spend::Nothing, None).cost;
        assert_eq!(
            (refused.usd, refused.origin),
            (Some(0.0), CostOrigin::NothingServed)
        );
        let lost = attempt(Spend::Unknown, None).cost;
        assert_eq!((lost.usd, lost.origin), (None, CostOrigin::Unknown));
        assert!(lost.why.is_some());
    }

    #[test]
    fn an_unknown_part_leaves_no_total_but_the_known_part() {
        let one = entry(vec![
            attempt(Spend::Nothing, None),
            attempt(reported(100, 60, 7), None),
        ]);
        let two = entry(vec![
            attempt(Spend::Unknown, None),
            attempt(reported(10, 0, 1), None),
        ]);
        let all: Totals = [&one, &two].into_iter().collect();
        assert_eq!((all.calls, all.tries), (2, 4));
        assert_eq!(
            (all.prompt.total(), all.prompt.known, all.prompt.unknown),
            (None, 110, 1)
        );
        assert_eq!(all.cost_usd.total(), None);
        assert_eq!(one.totals().prompt.total(), Some(100));
        assert_eq!(one.totals().cache_read.total(), Some(60));
        assert_eq!(one.retries(), 1);
        // OpenAI counts no cache writes apart: there is no total of them.
        assert_eq!(one.totals().cache_write.total(), None);
    }

    #[test]
    fn costs_are_summed_with_compensation() {
        let mut sum = CostSum::default();
        for part in [1e16, 1.0, -1e16] {
            sum.add(Some(part));
        }
        assert_eq!(sum.total(), Some(1.0));
    }

    #[test]
    fn an_entry_is_a_line_of_json_in_which_the_unknown_is_null() {
        let entry = entry(vec![attempt(Spend::Reported(Usage::default()), None)]);
        let line = serde_json::to_string(&entry).unwrap();
        assert!(
            line.contains(r#""prompt":null"#) && line.contains(r#""usd":null"#),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
    }
}
