//! What a provider's refusal of a call means, whatever its shape.
//!
//! Shapes: OpenAI `{"error": {"message", "type", "code"}}`
//! (<https://platform.openai.com/docs/guides/error-codes>); Anthropic `{"type": "error", "error":
//! {"type", "message"}}` (<https://docs.claude.com/en/api/errors>); Gemini `{"error": {"code",
//! "message", "status", "details"}}` (<https://ai.google.dev/gemini-api/docs/troubleshooting>);
//! OpenRouter a numeric `code`, also inside of an answer with status 200
//! (<https://openrouter.ai/docs/api/reference/errors-and-debugging>); llama.cpp a type
//! `exceed_context_size_error`. Servers differ in how they word a context overflow, so that its
//! message is looked at as well.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::fields::{at, list, text};

/// The most of a provider's message that is kept, in characters.
const MESSAGE_CHARS: usize = 1_000;

/// A call that the provider refused or gave up.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// What it means.
    pub kind: ApiErrorKind,
    /// The HTTP status, unless the error came inside of an answer.
    pub status: Option<u16>,
    /// The provider's own code or type.
    pub code: Option<String>,
    /// What the provider says, shortened. It may repeat what was sent to it.
    pub message: String,
    /// How long to wait, where the body says so.
    pub retry_after: Option<Duration>,
}

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiErrorKind {
    /// Too many calls or tokens for now.
    RateLimited,
    /// No credit or spending limit left: waiting does not help.
    Quota,
    /// The key is wrong, or may not do this.
    Key,
    /// The conversation does not fit into the model's context.
    ContextOverflow,
    /// A filter refused the prompt.
    Filtered,
    /// The request is wrong: an unknown model, a setting that it does not take.
    WrongRequest,
    /// The provider has no capacity for anybody.
    Overloaded,
    /// The provider failed.
    Server,
}

impl ApiErrorKind {
    /// Whether the provider is at fault, so that the same call may succeed later.
    pub fn is_provider_fault(self) -> bool {
        matches!(self, Self::Overloaded | Self::Server)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ApiErrorKind::RateLimited => "rate limited",
            ApiErrorKind::Quota => "no credit or quota left; look at the account's billing page",
            ApiErrorKind::Key => "the key was not accepted; look at its variable and its rights",
            ApiErrorKind::ContextOverflow => "the conversation does not fit into the context",
            ApiErrorKind::Filtered => "a filter of the provider refused the prompt",
            ApiErrorKind::WrongRequest => "the provider does not take the request",
            ApiErrorKind::Overloaded => "the provider is overloaded",
            ApiErrorKind::Server => "the provider failed",
        };
        f.write_str(what)?;
        match (self.status, &self.code) {
            (Some(status), Some(code)) => write!(f, " (HTTP {status}, {code})")?,
            (Some(status), None) => write!(f, " (HTTP {status})")?,
            (None, Some(code)) => write!(f, " ({code})")?,
            (None, None) => {}
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    /// What a body means that came with a status other than success.
    pub fn read(status: Option<u16>, body: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        // Gemini's stream wraps an error in a list.
        let value = value.get(0).unwrap_or(&value);
        match at(value, &["error"]) {
            Some(error) => Self::of(status, error, body),
            None => Self::of(status, value, body),
        }
    }

    /// The error inside of an answer, if it holds one.
    pub(super) fn inside(answer: &Value) -> Option<Self> {
        let error = at(answer, &["error"])?;
        Some(Self::of(None, error, error.to_string().as_bytes()))
    }

    fn of(status: Option<u16>, error: &Value, body: &[u8]) -> Self {
        let number = at(error, &["code"]).and_then(Value::as_u64);
        let code = text(error, &["details", "error_code"])
            .or_else(|| text(error, &["code"]))
            .or_else(|| text(error, &["type"]))
            .or_else(|| text(error, &["status"]));
        let message = text(error, &["message"])
            .or_else(|| error.as_str())
            .map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
        let words = Words {
            all: [
                text(error, &["code"]),
                text(error, &["type"]),
                text(error, &["status"]),
                text(error, &["details", "error_code"]),
            ]
            .map(|word| word.unwrap_or_default().to_ascii_lowercase()),
            message: message.to_ascii_lowercase(),
        };
        let number = number.and_then(|number| u16::try_from(number).ok());
        Self {
            kind: words.kind(status.or(number)),
            status,
            code: code.map(|code| code.chars().take(100).collect()),
            message: message.trim().chars().take(MESSAGE_CHARS).collect(),
            retry_after: retry_delay(error),
        }
    }
}

/// What an error says of itself, in lower case.
struct Words {
    all: [String; 4],
    message: String,
}

impl Words {
    fn is(&self, codes: &[&str]) -> bool {
        self.all.iter().any(|word| codes.contains(&word.as_str()))
    }

    fn says(&self, parts: &[&str]) -> bool {
        parts.iter().any(|part| self.message.contains(part))
    }

    fn kind(&self, status: Option<u16>) -> ApiErrorKind {
        use ApiErrorKind as Kind;
        if self.is_quota(status) {
            return Kind::Quota;
        }
        if self.is_key(status) {
            return Kind::Key;
        }
        if status == Some(429)
            || self.is(&[
                "rate_limit_error",
                "rate_limit_exceeded",
                "resource_exhausted",
            ])
        {
            return Kind::RateLimited;
        }
        if self.is_overflow(status) {
            return Kind::ContextOverflow;
        }
        if self.is_filtered(status) {
            return Kind::Filtered;
        }
        if matches!(status, Some(503 | 529))
            || self.is(&[
                "overloaded_error",
                "overloaded",
                "unavailable",
                "engine_overloaded",
            ])
        {
            return Kind::Overloaded;
        }
        match status {
            Some(408 | 409 | 425 | 500..) => Kind::Server,
            Some(_) => Kind::WrongRequest,
            None if self.is(&["invalid_request_error", "not_found_error", "invalid_prompt"]) => {
                Kind::WrongRequest
            }
            None => Kind::Server,
        }
    }

    fn is_quota(&self, status: Option<u16>) -> bool {
        status == Some(402)
            || self.is(&[
                "insufficient_quota",
                "billing_error",
                "billing_hard_limit_reached",
                "enforced_spend_limit_reached",
                "arrearage",
            ])
            || self.says(&["credit balance is too low"])
    }

    fn is_key(&self, status: Option<u16>) -> bool {
        let refused = status == Some(401)
            || self.is(&["authentication_error", "invalid_api_key", "unauthenticated"])
            || self.says(&["api key not valid"]);
        let forbidden = status == Some(403) || self.is(&["permission_error", "permission_denied"]);
        refused || (forbidden && !self.says(&["moderation", "flagged"]))
    }

    fn is_overflow(&self, status: Option<u16>) -> bool {
        let too_long = self.says(&[
            "maximum context length",
            "context length of",
            "model's context length",
            "context window",
            "prompt is too long",
            "exceed context limit",
            "available context size",
            "range of input length should be",
            "too many input tokens",
        ]) || (self.says(&["input token count"]) && self.says(&["exceed"]));
        status == Some(413)
            || self.is(&[
                "context_length_exceeded",
                "exceed_context_size_error",
                "request_too_large",
                "model_context_window_exceeded",
            ])
            || (too_long && matches!(status, None | Some(400 | 422 | 500)))
    }

    fn is_filtered(&self, status: Option<u16>) -> bool {
        self.is(&[
            "content_filter",
            "content_policy_violation",
            "data_inspection_failed",
            "responsibleaipolicyviolation",
        ]) || (status == Some(403) && self.says(&["moderation", "flagged"]))
    }
}

/// Gemini's `google.rpc.RetryInfo`, such as `"retryDelay": "34.07s"`.
fn retry_delay(error: &Value) -> Option<Duration> {
    let seconds: f64 = list(error, &["details"])
        .iter()
        .find_map(|detail| text(detail, &["retryDelay"]))?
        .strip_suffix('s')?
        .parse()
        .ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> ApiErrorKind {
        ApiError::read(Some(status), body.as_bytes()).kind
    }

    #[test]
    fn context_overflows_are_recognised_in_every_servers_words() {
        let bodies = [
            // OpenAI
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 411525 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ),
            // vLLM
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens","type":"BadRequestError","code":400}"#,
            ),
            // llama.cpp, before it sent the right status
            (
                500,
                r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}"#,
            ),
            // Anthropic
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 201431 tokens > 200000 maximum"}}"#,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            ),
            // Gemini
            (
                400,
                r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            ),
            // DashScope
            (
                400,
                r#"{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 129024]","type":"invalid_request_error"}}"#,
            ),
        ];
        for (status, body) in bodies {
            assert_eq!(kind(status, body), ApiErrorKind::ContextOverflow, "{body}");
        }
    }

    #[test]
    fn a_rate_limit_that_speaks_of_tokens_is_no_overflow() {
        let body = r#"{"error":{"message":"Rate limit reached for gpt-4: Limit 10000, Requested 20000. The context window is not at fault.","type":"tokens","code":"rate_limit_exceeded"}}"#;
        assert_eq!(kind(429, body), ApiErrorKind::RateLimited);
    }

    #[test]
    fn spent_credit_is_not_waited_for() {
        let bodies = [
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            ),
            (
                429,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
            ),
            (
                402,
                r#"{"error":{"code":402,"message":"Insufficient credits"}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
            ),
        ];
        for (status, body) in bodies {
            assert_eq!(kind(status, body), ApiErrorKind::Quota, "{body}");
        }
    }

    #[test]
    fn geminis_rate_limit_says_how_long_to_wait() {
        let body = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
        let error = ApiError::read(Some(429), body.as_bytes());
        assert_eq!(error.kind, ApiErrorKind::RateLimited);
        assert_eq!(error.retry_after, Some(Duration::from_millis(34_500)));
    }

    #[test]
    fn keys_filters_overload_and_failures_are_told_apart() {
        use ApiErrorKind as Kind;
        let bodies = [
            (401, "", Kind::Key),
            (403, r#"{"error":{"message":"no access"}}"#, Kind::Key),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
                Kind::Key,
            ),
            (
                403,
                r#"{"error":{"code":403,"message":"Your input was flagged"}}"#,
                Kind::Filtered,
            ),
            (
                400,
                r#"{"error":{"code":"content_filter","message":"filtered"}}"#,
                Kind::Filtered,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Kind::Overloaded,
            ),
            (503, "<html>busy</html>", Kind::Overloaded),
            (502, "<html>bad gateway</html>", Kind::Server),
            (500, r#"{"error":{"message":"oops"}}"#, Kind::Server),
            (
                404,
                r#"{"error":{"message":"model not found"}}"#,
                Kind::WrongRequest,
            ),
            (302, "", Kind::WrongRequest),
        ];
        for (status, body, expected) in bodies {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_message_is_shortened_and_shown_with_what_it_means() {
        let body = format!("{{\"error\":{{\"message\":\"{}\"}}}}", "é".repeat(5000));
        let error = ApiError::read(Some(500), body.as_bytes());
        assert_eq!(error.message.chars().count(), MESSAGE_CHARS);
        assert!(
            error
                .to_string()
                .starts_with("the provider failed (HTTP 500): é")
        );
    }
}
