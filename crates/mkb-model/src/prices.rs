//! What tokens cost, by kind: the built-in table, a user's own, and the cost of one call.
//!
//! A table is TOML, US dollars for a million tokens:
//!
//! ```toml
//! [[price]]
//! model = "openai/gpt-5.4"           # the price key, PROVIDER/NAME unless models.toml names another
//! also = ["openai/gpt-5.4-2026-03"]  # further keys with the same prices
//! date = "2026-07-02"                # of the copy of the source that was read
//! source = "https://models.dev"
//! input = 2.5
//! cache_read = 0.25
//! output = 15.0
//! # cache_write, cache_write_long, reasoning: where they differ from what they are part of
//!
//! [price.long_prompt]                # for prompts of more tokens than `above`, all of it
//! above = 272000
//! input = 5.0
//! cache_read = 0.5
//! output = 22.5
//! ```
//!
//! A kind that occurred and has no price makes the cost unknown, never cheaper.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::usage::Usage;

const BUILT_IN: &str = include_str!("../prices.toml");

/// Prices by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    by_key: BTreeMap<String, Price>,
}

/// The prices of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price key.
    pub model: String,
    /// Further keys with the same prices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The date of the copy of the source that was read, as `YYYY-MM-DD`.
    pub date: jiff::civil::Date,
    /// Where it was said.
    pub source: String,
    /// The rates; with `long_prompt`, those of shorter prompts.
    #[serde(flatten)]
    pub rates: Rates,
    /// The rates of long prompts, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPrompt>,
}

/// US dollars for a million tokens, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Of uncached input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    /// Of input read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Of input written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Of input written to a cache for the longer lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<f64>,
    /// Of output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    /// Of reasoning, where it costs something else than output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<f64>,
}

/// The rates of prompts beyond a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongPrompt {
    /// Prompts of more tokens than this, cached ones included, cost these rates for all of it.
    pub above: u64,
    /// The rates.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Why a table could not be read.
#[derive(Debug, Error)]
pub enum PricesError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is no table of prices.
    #[error("{place}: {message}")]
    Malformed {
        /// The file, or what else was read.
        place: String,
        /// What is wrong, with line and column.
        message: String,
    },
    /// A rate is negative or no number.
    #[error(
        "{place}: a rate of {model} is negative or no number; rates are US dollars for a million tokens"
    )]
    Rate {
        /// The file, or what else was read.
        place: String,
        /// The price key.
        model: String,
    },
}

/// Why a call has no cost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unpriced {
    /// No entry.
    #[error("prices.toml has no entry {0:?}")]
    NoEntry(String),
    /// A kind that occurred has no rate.
    #[error("prices.toml has no rate `{kind}` for {model:?}, and {tokens} such tokens occurred")]
    NoRate {
        /// The price key.
        model: String,
        /// The kind.
        kind: &'static str,
        /// How many.
        tokens: u64,
    },
    /// The provider did not say how many tokens of a kind occurred.
    #[error("the provider did not say how many {0} tokens the call took")]
    UnknownTokens(&'static str),
}

impl Prices {
    /// The built-in table.
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN, "the built-in prices.toml").expect("a test reads the built-in table")
    }

    /// The built-in table, and a user's over it.
    ///
    /// # Errors
    /// Where the file cannot be read or is no table.
    pub fn with_file(path: &Path) -> Result<Self, PricesError> {
        let text = fs::read_to_string(path).map_err(|source| PricesError::Io {
            path: path.to_owned(),
            source,
        })?;
        let mut prices = Self::built_in();
        let own = Self::parse(&text, &path.display().to_string())?;
        prices.by_key.extend(own.by_key);
        Ok(prices)
    }

    /// Reads a table; `place` is what errors call it.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(text: &str, place: &str) -> Result<Self, PricesError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            #[serde(default)]
            price: Vec<Price>,
        }
        let table: Table = toml::from_str(text).map_err(|error| PricesError::Malformed {
            place: place.to_owned(),
            message: error.to_string(),
        })?;
        let mut by_key = BTreeMap::new();
        for price in table.price {
            let long = price.long_prompt.map(|long| long.rates);
            if ![Some(price.rates), long]
                .into_iter()
                .flatten()
                .all(Rates::are_amounts)
            {
                return Err(PricesError::Rate {
                    place: place.to_owned(),
                    model: price.model,
                });
            }
            for key in price.also.iter().chain([&price.model]) {
                by_key.insert(key.clone(), price.clone());
            }
        }
        Ok(Self { by_key })
    }

    /// A model's prices.
    pub fn get(&self, key: &str) -> Option<&Price> {
        self.by_key.get(key)
    }

    /// Every key with its prices, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Price)> {
        self.by_key.iter().map(|(key, price)| (key.as_str(), price))
    }

    /// What tokens cost, in US dollars.
    ///
    /// # Errors
    /// Where a price or a count is missing.
    pub fn cost(&self, key: &str, usage: &Usage) -> Result<f64, Unpriced> {
        let price = self
            .get(key)
            .ok_or_else(|| Unpriced::NoEntry(key.to_owned()))?;
        let rates = price.rates_for(usage)?;
        Ok(rates.input_cost(key, usage)? + rates.output_cost(key, usage)?)
    }
}

impl Price {
    fn rates_for(&self, usage: &Usage) -> Result<Rates, Unpriced> {
        match self.long_prompt {
            None => Ok(self.rates),
            Some(long) => match usage.prompt {
                None => Err(Unpriced::UnknownTokens("prompt")),
                Some(prompt) if prompt > long.above => Ok(long.rates),
                Some(_) => Ok(self.rates),
            },
        }
    }
}

impl Rates {
    fn are_amounts(self) -> bool {
        [
            self.input,
            self.cache_read,
            self.cache_write,
            self.cache_write_long,
            self.output,
            self.reasoning,
        ]
        .into_iter()
        .flatten()
        .all(|rate| rate.is_finite() && rate >= 0.0)
    }

    fn input_cost(&self, model: &str, usage: &Usage) -> Result<f64, Unpriced> {
        let read = usage.cache_read.unwrap_or(0);
        let written = usage.cache_write.unwrap_or(0);
        let parts = usage
            .input
            .and_then(|input| input.checked_add(read)?.checked_add(written));
        let Some(input) = usage.input.filter(|_| parts == usage.prompt) else {
            return self.undivided_cost(model, usage);
        };
        let long = match usage.cache_write_long {
            Some(long) => long.min(written),
            None if written > 0
                && self
                    .cache_write_long
                    .is_some_and(|rate| Some(rate) != self.cache_write) =>
            {
                return Err(Unpriced::UnknownTokens("long-lived cache write"));
            }
            None => 0,
        };
        Ok(charge(model, "input", input, self.input)?
            + charge(model, "cache_read", read, self.cache_read)?
            + charge(model, "cache_write", written - long, self.cache_write)?
            + charge(model, "cache_write_long", long, self.cache_write_long)?)
    }

    /// A prompt whose cached part is unknown has a cost only where every kind of input costs the
    /// same.
    fn undivided_cost(&self, model: &str, usage: &Usage) -> Result<f64, Unpriced> {
        let prompt = usage.prompt.ok_or(Unpriced::UnknownTokens("input"))?;
        let alike = self.cache_read == self.input
            && [self.cache_write, self.cache_write_long]
                .into_iter()
                .flatten()
                .all(|rate| Some(rate) == self.input);
        if alike {
            charge(model, "input", prompt, self.input)
        } else {
            Err(Unpriced::UnknownTokens("cached input"))
        }
    }

    fn output_cost(&self, model: &str, usage: &Usage) -> Result<f64, Unpriced> {
        let output = usage.output.ok_or(Unpriced::UnknownTokens("output"))?;
        if self.reasoning.is_none() || self.reasoning == self.output {
            return charge(model, "output", output, self.output);
        }
        let reasoning = usage
            .reasoning
            .ok_or(Unpriced::UnknownTokens("reasoning"))?;
        let rest = output.saturating_sub(reasoning);
        Ok(charge(model, "output", rest, self.output)?
            + charge(model, "reasoning", reasoning, self.reasoning)?)
    }
}

fn charge(
    model: &str,
    kind: &'static str,
    tokens: u64,
    rate: Option<f64>,
) -> Result<f64, Unpriced> {
    match rate {
        _ if tokens == 0 => Ok(0.0),
        // Counts of tokens are far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        Some(rate) => Ok(tokens as f64 * rate / 1e6),
        None => Err(Unpriced::NoRate {
            model: model.to_owned(),
            kind,
            tokens,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, read: u64, written: u64, output: u64) -> Usage {
        Usage::of_parts(Some(input), Some(read), Some(written)).with_output(Some(output), None)
    }

    fn table(lines: &str) -> Prices {
        let head = "[[price]]\nmodel = \"p/m\"\ndate = \"2026-01-01\"\nsource = \"s\"\n";
        Prices::parse(&format!("{head}{lines}"), "test").unwrap()
    }

    fn close(cost: Result<f64, Unpriced>, expected: f64) {
        let cost = cost.unwrap();
        assert!((cost - expected).abs() < 1e-12, "{cost} is not {expected}");
    }

    #[test]
    fn the_built_in_table_has_a_date_a_source_and_rates_for_every_model() {
        let prices = Prices::built_in();
        assert!(prices.iter().count() > 10);
        for (key, price) in prices.iter() {
            assert!(key.contains('/'), "{key}");
            assert!(price.source.starts_with("https://"), "{key}");
            assert!(
                price.rates.input.is_some() && price.rates.output.is_some(),
                "{key}"
            );
            assert!(price.rates.cache_read.is_some(), "{key}");
        }
    }

    #[test]
    fn anthropics_own_example_of_a_cached_call_costs_what_its_table_says() {
        // Claude Opus 4.5: $5 input, $6.25 five-minute writes, $0.50 hits, $25 output.
        let mut call = usage(1_000_000, 1_000_000, 1_000_000, 1_000_000);
        call.cache_write_long = Some(0);
        close(
            Prices::built_in().cost("anthropic/claude-opus-4-5", &call),
            36.75,
        );
        call.cache_write_long = Some(1_000_000);
        close(
            Prices::built_in().cost("anthropic/claude-opus-4-5", &call),
            40.5,
        );
    }

    #[test]
    fn long_prompts_have_their_own_rates_for_all_tokens() {
        let key = "google/gemini-2.5-pro";
        let prices = Prices::built_in();
        let of = |prompt, output| {
            let usage =
                Usage::of_whole(Some(prompt), Some(0), None).with_output(Some(output), None);
            prices.cost(key, &usage)
        };
        close(of(200_000, 1_000_000), 0.25 + 10.0);
        close(of(200_001, 1_000_000), 200_001.0 * 2.5 / 1e6 + 15.0);
    }

    #[test]
    fn a_kind_that_occurred_without_a_rate_makes_the_cost_unknown() {
        let prices = table("input = 1\noutput = 2\n");
        close(prices.cost("p/m", &usage(1_000_000, 0, 0, 0)), 1.0);
        let unpriced = prices.cost("p/m", &usage(1, 7, 0, 0));
        let expected = Unpriced::NoRate {
            model: "p/m".into(),
            kind: "cache_read",
            tokens: 7,
        };
        assert_eq!(unpriced, Err(expected));
        assert!(prices.cost("p/other", &usage(1, 0, 0, 0)).is_err());
    }

    #[test]
    fn unknown_counts_make_the_cost_unknown_unless_they_cannot_matter() {
        let unsplit = Usage::of_whole(Some(1_000_000), None, None).with_output(Some(0), None);
        let differing = table("input = 1\ncache_read = 0.1\noutput = 2\n");
        assert_eq!(
            differing.cost("p/m", &unsplit),
            Err(Unpriced::UnknownTokens("cached input"))
        );
        close(
            table("input = 1\ncache_read = 1\noutput = 2\n").cost("p/m", &unsplit),
            1.0,
        );
        let no_output = Usage::of_whole(Some(1), Some(0), None);
        assert_eq!(
            differing.cost("p/m", &no_output),
            Err(Unpriced::UnknownTokens("output"))
        );
    }

    #[test]
    fn reasoning_may_have_a_rate_of_its_own() {
        let prices = table("input = 0\ncache_read = 0\noutput = 2\nreasoning = 10\n");
        let usage = Usage::of_whole(Some(0), Some(0), None);
        let known = usage.with_output(Some(1_000_000), Some(250_000));
        close(prices.cost("p/m", &known), 1.5 + 2.5);
        let unknown = usage.with_output(Some(5), None);
        assert_eq!(
            prices.cost("p/m", &unknown),
            Err(Unpriced::UnknownTokens("reasoning"))
        );
    }

    #[test]
    fn a_users_table_wins_and_its_errors_name_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let own = "[[price]]\nmodel = \"openai/gpt-5\"\nalso = [\"openai/g\"]\ndate = \"2026-12-01\"\nsource = \"contract\"\ninput = 0.5\n";
        fs::write(&path, own).unwrap();
        let prices = Prices::with_file(&path).unwrap();
        for key in ["openai/gpt-5", "openai/g"] {
            assert_eq!(prices.get(key).unwrap().rates.input, Some(0.5));
        }
        assert!(prices.get("openai/gpt-5.4").is_some());
        fs::write(&path, own.replace("0.5", "-0.5")).unwrap();
        let error = Prices::with_file(&path).unwrap_err().to_string();
        assert!(
            error.contains("prices.toml") && error.contains("openai/gpt-5"),
            "{error}"
        );
        assert!(Prices::parse("[[price]]\nmodel = 3\n", "x").is_err());
    }
}
