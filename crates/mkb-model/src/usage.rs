//! Tokens of one call by kind, in one meaning for every provider.
//!
//! Providers count differently: OpenAI's `prompt_tokens` and Gemini's `promptTokenCount` include
//! what came from a cache, Anthropic's `input_tokens` does not; Gemini counts thoughts beside its
//! candidates, OpenAI within its completion. The parsers of [`crate::protocol`] turn each into
//! [`Usage`]; what a provider does not say is `None`, never 0.

use serde::{Deserialize, Serialize};

/// Tokens by kind. `prompt = input + cache_read + cache_write`, where all of these are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All input tokens, cached or not.
    pub prompt: Option<u64>,
    /// Input tokens that neither came from a cache nor are counted as written to one.
    pub input: Option<u64>,
    /// Input tokens read from a cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache. `None` also where a protocol has no such kind; what was
    /// written is then part of `input`.
    pub cache_write: Option<u64>,
    /// The part of `cache_write` that was written for the longer, dearer lifetime (Anthropic: one
    /// hour instead of five minutes).
    pub cache_write_long: Option<u64>,
    /// All output tokens, reasoning among them.
    pub output: Option<u64>,
    /// The part of `output` that was reasoning.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// From a count of the whole prompt and its cached parts, as OpenAI and Gemini report. Parts
    /// that exceed the whole make the uncached part unknown.
    pub fn of_whole(
        prompt: Option<u64>,
        cache_read: Option<u64>,
        cache_write: Option<u64>,
    ) -> Self {
        let input = prompt.zip(cache_read).and_then(|(whole, read)| {
            whole
                .checked_sub(read)?
                .checked_sub(cache_write.unwrap_or(0))
        });
        Self {
            prompt,
            input,
            cache_read,
            cache_write,
            ..Self::default()
        }
    }

    /// From counts that exclude each other, as Anthropic reports. The whole is known where all of
    /// them are.
    pub fn of_parts(input: Option<u64>, cache_read: Option<u64>, cache_write: Option<u64>) -> Self {
        let prompt = input
            .zip(cache_read)
            .zip(cache_write)
            .and_then(|((a, b), c)| a.checked_add(b)?.checked_add(c));
        Self {
            prompt,
            input,
            cache_read,
            cache_write,
            ..Self::default()
        }
    }

    /// The same with output counts.
    pub fn with_output(self, output: Option<u64>, reasoning: Option<u64>) -> Self {
        Self {
            output,
            reasoning,
            ..self
        }
    }

    /// What is known of a call whose answer was cut: the input, but no final output.
    pub fn cut(self) -> Self {
        self.with_output(None, None)
    }

    /// Whether nothing at all is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Prompt and output together, as far as known: what a limit of tokens a minute counts.
    pub fn known_total(&self) -> u64 {
        let prompt = self.prompt.or(self.input).unwrap_or(0);
        prompt.saturating_add(self.output.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uncached_part_of_a_whole_is_what_the_caches_leave() {
        let usage = Usage::of_whole(Some(1000), Some(600), Some(150));
        assert_eq!(usage.input, Some(250));
        assert_eq!(Usage::of_whole(Some(1000), None, None).input, None);
    }

    #[test]
    fn parts_that_exceed_the_whole_leave_the_uncached_part_unknown() {
        let usage = Usage::of_whole(Some(10), Some(11), None);
        assert_eq!((usage.input, usage.prompt), (None, Some(10)));
    }

    #[test]
    fn a_whole_is_known_only_with_all_its_parts() {
        assert_eq!(Usage::of_parts(Some(3), Some(4), Some(5)).prompt, Some(12));
        assert_eq!(Usage::of_parts(Some(3), None, Some(5)).prompt, None);
        assert_eq!(
            Usage::of_parts(Some(u64::MAX), Some(1), Some(0)).prompt,
            None
        );
    }
}
