//! What is kept of a trial, as data in the formats' shapes and key orders.

use mkb_catalog::Rewards;
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// What an attempt spent. A number that is not known is null, never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read by the model, cached ones included.
    pub n_input_tokens: Option<Number>,
    /// Those of them that came from a cache.
    pub n_cache_tokens: Option<Number>,
    /// Tokens written by the model.
    pub n_output_tokens: Option<Number>,
    /// US dollars.
    pub cost_usd: Option<Number>,
    /// Wall time of the agent in seconds.
    pub agent_sec: Number,
}

impl Usage {
    /// Of an agent without a language model: wall time alone; it used no tokens and cost nothing.
    pub fn without_model(agent_sec: f64) -> Self {
        let zero = || Some(Number::from(0));
        Self {
            n_input_tokens: zero(),
            n_cache_tokens: zero(),
            n_output_tokens: zero(),
            cost_usd: Number::from_f64(0.0),
            agent_sec: Number::from_f64(agent_sec).unwrap_or_else(|| Number::from(0)),
        }
    }
}

/// A trial's outcome: `record.json` without its stamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The final verdict's numbers; empty where nothing was evaluated.
    pub rewards: Rewards,
    /// Whether the agent's budget ended it; its verdict counts all the same.
    pub timed_out: bool,
    /// Why there is no verdict, as `Type: message`.
    pub error: Option<String>,
    /// Why nothing had to be attempted.
    #[serde(default)]
    pub skipped: Option<String>,
    /// What was spent.
    #[serde(default)]
    pub usage: Option<Usage>,
}

impl Record {
    /// Of a trial that ended without a verdict.
    pub fn failed(kind: &str, message: &str) -> Self {
        Self {
            error: Some(format!("{kind}: {message}")),
            ..Self::default()
        }
    }

    /// Of a skill trial that was given nothing.
    pub fn skipped(why: &str) -> Self {
        Self {
            skipped: Some(why.to_owned()),
            ..Self::default()
        }
    }

    /// Whether the trial stands: it holds no error.
    pub fn is_resolved(&self) -> bool {
        self.error.is_none()
    }

    /// Whether the kernel passed.
    pub fn passed(&self) -> bool {
        self.rewards.passed()
    }

    /// The type before the `:` of the error.
    pub fn error_kind(&self) -> Option<&str> {
        let error = self.error.as_deref()?;
        Some(error.split_once(':').map_or(error, |(kind, _)| kind))
    }
}

/// What a record was made of, to notice when that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// The task's fingerprint.
    pub task_fingerprint: String,
    /// The digest of the attachment that was given; `None` for solos and skipped trials.
    pub skill_sha256: Option<String>,
}

/// `record.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredTrial {
    /// The outcome.
    #[serde(flatten)]
    pub record: Record,
    /// What it was made of.
    pub stamps: Stamps,
}

/// A line of `submissions.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmissionEntry {
    /// The request's nanosecond stamp.
    pub id: String,
    /// Seconds from the agent's start to the pick-up of the request, to one decimal.
    pub elapsed_sec: f64,
    /// Whether it counts against the limit.
    pub counted: bool,
    /// The verdict's numbers, of a counted one.
    pub rewards: Option<Rewards>,
    /// Why it does not count.
    pub note: Option<String>,
    /// Seconds from pick-up to reply, to one decimal, the queue included.
    pub wall_sec: Option<f64>,
    /// Seconds of evaluation, the queue excluded.
    pub eval_sec: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn a_record_has_the_formats_keys_in_order() {
        let stored = StoredTrial {
            record: Record {
                rewards: Rewards::graded(true, true, Some(2.5)),
                usage: Some(Usage::without_model(12.5)),
                ..Record::default()
            },
            stamps: Stamps {
                task_fingerprint: "ab".to_owned(),
                skill_sha256: None,
            },
        };
        let text = json::line(&serde_json::to_value(&stored).expect("json"));
        assert_eq!(
            text,
            "{\"rewards\": {\"imported\": 1.0, \"correct\": 1.0, \"speedup_vs_eager\": 2.5, \
             \"passed\": 1.0}, \"timed_out\": false, \"error\": null, \"skipped\": null, \
             \"usage\": {\"n_input_tokens\": 0, \"n_cache_tokens\": 0, \"n_output_tokens\": 0, \
             \"cost_usd\": 0.0, \"agent_sec\": 12.5}, \"stamps\": {\"task_fingerprint\": \"ab\", \
             \"skill_sha256\": null}}"
        );
    }

    #[test]
    fn skipped_and_usage_may_be_absent_but_a_usage_is_whole() {
        let read = |text: &str| serde_json::from_str::<Record>(text);
        let record = read(r#"{"rewards": {"passed": 1}, "timed_out": false, "error": null}"#)
            .expect("a record");
        assert!(record.passed() && record.is_resolved());
        let partial = r#"{"rewards": {}, "timed_out": false, "error": null,
                          "usage": {"n_input_tokens": 1, "agent_sec": 2}}"#;
        assert!(read(partial).is_ok(), "absent numbers are null");
        let without_time = r#"{"rewards": {}, "timed_out": false, "error": null,
                               "usage": {"n_input_tokens": 1}}"#;
        assert!(read(without_time).is_err());
        assert!(
            read(r#"{"rewards": {"passed": "1"}, "timed_out": false, "error": null}"#).is_err()
        );
    }
}
