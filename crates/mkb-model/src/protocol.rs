//! Four wire protocols behind one request and one reply, without any input or output of their own.
//!
//! [`Wire`] names a protocol. [`Wire::body`] writes a [`Request`]; [`Wire::read`] reads a plain
//! answer, [`Wire::reader`] a streamed one, event by event; [`Meter`] only counts, over raw bytes
//! of either form, for traffic that somebody else asked for; [`ApiError::read`] says what a refusal
//! means. Each protocol's module cites the pages it was written from.

mod anthropic;
mod error;
mod fields;
mod gemini;
mod meter;
mod openai_chat;
mod openai_responses;
pub mod sse;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::usage::Usage;

pub use error::{ApiError, ApiErrorKind};
pub(crate) use meter::is_event_stream;
pub use meter::{Meter, Metered};

/// A wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// OpenAI's Chat Completions, and what is compatible with it (OpenRouter, DeepSeek, DashScope,
    /// vLLM, SGLang, Ollama, llama.cpp).
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini API, `generateContent`.
    Gemini,
}

/// What is asked of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation, oldest first; it begins and ends with the user.
    pub messages: Vec<Message>,
    /// How to answer.
    pub settings: Settings,
}

/// A turn of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whose.
    pub role: Role,
    /// What was said.
    pub text: String,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The caller's.
    User,
    /// The model's.
    Assistant,
}

impl Message {
    /// A turn of the caller.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            text: text.into(),
        }
    }

    /// A turn of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self {
            role: Role::Assistant,
            text: text.into(),
        }
    }
}

/// How a model shall answer. What is `None` is left to the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How much to reason, in the provider's words (`none`, `low`, `high`, ...).
    pub reasoning_effort: Option<String>,
    /// Reasoning as a budget of tokens, for models that know no effort (Anthropic before 4.6,
    /// Gemini 2.5). Not together with `reasoning_effort`.
    pub reasoning_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens to answer with, reasoning included.
    pub max_output_tokens: Option<u32>,
    /// Whether to ask for a stream.
    pub stream: Stream,
    /// Which upstream providers to use, as OpenRouter's `provider` object.
    pub routing: Option<Map<String, Value>>,
    /// Fields merged into the body, over everything else.
    pub extra_body: Map<String, Value>,
    /// How Chat Completions are asked for at most so many tokens.
    pub max_tokens_field: MaxTokensField,
    /// How Chat Completions are asked to reason.
    pub reasoning_field: ReasoningField,
}

/// Whether to ask for a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum Stream {
    /// Yes: a connection that is lost or stalls is noticed early.
    #[default]
    Yes,
    /// No: the whole answer at once.
    No,
}

impl From<bool> for Stream {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

impl From<Stream> for bool {
    fn from(stream: Stream) -> Self {
        stream == Stream::Yes
    }
}

/// The name of Chat Completions' limit of output tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// The first name, which most servers know.
    #[default]
    MaxTokens,
    /// OpenAI's later name, which its reasoning models ask for.
    MaxCompletionTokens,
}

/// How Chat Completions are asked to reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// OpenAI's `reasoning_effort`; it takes no budget of tokens.
    #[default]
    ReasoningEffort,
    /// OpenRouter's object `reasoning`, of `effort` or `max_tokens`.
    Reasoning,
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The answer's text.
    pub text: String,
    /// The reasoning, where it is shown.
    pub reasoning: Option<String>,
    /// Tools that it wanted to call. We offer none; models call them nevertheless.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens by kind.
    pub usage: Usage,
    /// What the provider says that the call cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// The model, as the provider names what answered.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The upstream provider, where a router names it.
    pub upstream: Option<String>,
}

impl Reply {
    /// Whether the model produced nothing: no text, no reasoning, no call, no tokens as far as
    /// known. This is how a provider's hiccup looks, not a model's answer.
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
            && self.reasoning.is_none()
            && self.tool_calls.is_empty()
            && self.usage.output.unwrap_or(0) == 0
    }
}

/// A tool that the model wanted to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
}

/// Why an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// It was complete.
    Stop,
    /// It reached the limit of output tokens or of the context.
    Length,
    /// The model refused.
    Refusal,
    /// The provider's filter stopped it.
    Filter,
    /// The model wants a tool called.
    Tool,
    /// Another reason, in the provider's word.
    Other(String),
    /// The provider gave none.
    #[default]
    Unstated,
}

/// Why an answer could not be read.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ReadError {
    /// It is not what the protocol says.
    #[error("{0}")]
    Malformed(String),
    /// It ended before its end.
    #[error("the answer ended before its end: the connection was closed, or the provider gave up")]
    Cut,
    /// It is an error, sent where an answer belongs.
    #[error(transparent)]
    Api(Box<ApiError>),
}

impl From<sse::TooLong> for ReadError {
    fn from(error: sse::TooLong) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Fields of a body that [`Settings::extra_body`] may not set, for they decide how the answer is
/// read or what is asked.
pub const RESERVED_FIELDS: [&str; 7] = [
    "messages",
    "contents",
    "input",
    "system",
    "systemInstruction",
    "stream",
    "model",
];

impl Wire {
    /// The path below the provider's base URL.
    pub fn path(self, model: &str, stream: Stream) -> String {
        match self {
            Self::OpenAiChat => "/chat/completions".into(),
            Self::OpenAiResponses => "/responses".into(),
            Self::Anthropic => "/messages".into(),
            Self::Gemini => gemini::path(model, stream),
        }
    }

    /// The header that carries the key, and what stands before the key in it.
    pub fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => ("authorization", "Bearer "),
            Self::Anthropic => ("x-api-key", ""),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }

    /// Headers that the protocol asks for on every call.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Anthropic => &[("anthropic-version", "2023-06-01")],
            _ => &[],
        }
    }

    /// The body that asks `model`.
    pub fn body(self, model: &str, request: &Request) -> Value {
        let mut body = match self {
            Self::OpenAiChat => openai_chat::body(model, request),
            Self::OpenAiResponses => openai_responses::body(model, request),
            Self::Anthropic => anthropic::body(model, request),
            Self::Gemini => gemini::body(request),
        };
        if let Some(routing) = &request.settings.routing {
            merge(&mut body, &json!({ "provider": routing }));
        }
        for (name, value) in &request.settings.extra_body {
            merge(&mut body, &json!({ name: value }));
        }
        body
    }

    /// Reads a plain answer.
    ///
    /// # Errors
    /// Where it is no answer of this protocol, or an error in an answer's place.
    pub fn read(self, body: &[u8]) -> Result<Reply, ReadError> {
        let value = fields::object(body)?;
        match self {
            Self::OpenAiChat => openai_chat::read(&value),
            Self::OpenAiResponses => openai_responses::read(&value),
            Self::Anthropic => anthropic::read(&value),
            Self::Gemini => gemini::read(&value),
        }
    }

    /// A reader of a streamed answer.
    pub fn reader(self) -> Reader {
        Reader(match self {
            Self::OpenAiChat => Box::new(openai_chat::Chunks::default()),
            Self::OpenAiResponses => Box::new(openai_responses::Events::default()),
            Self::Anthropic => Box::new(anthropic::Events::default()),
            Self::Gemini => Box::new(gemini::Chunks::default()),
        })
    }
}

/// Reads a streamed answer, event by event.
pub struct Reader(Box<dyn ReadEvents>);

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reader").field(self.0.so_far()).finish()
    }
}

impl Reader {
    /// Takes an event.
    ///
    /// # Errors
    /// Where it is none of this protocol, or says that the call failed.
    pub fn event(&mut self, event: &sse::Event) -> Result<(), ReadError> {
        self.0.event(event)
    }

    /// Whether the answer has said that it is over; what follows says nothing.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// What has been read so far; its usage may still grow.
    pub fn so_far(&self) -> &Reply {
        self.0.so_far()
    }

    /// The whole answer.
    ///
    /// # Errors
    /// [`ReadError::Cut`] where neither an end nor a reason to end has come.
    pub fn finish(self) -> Result<Reply, ReadError> {
        if self.0.is_over() || self.0.so_far().finish != Finish::Unstated {
            Ok(self.0.so_far().clone())
        } else {
            Err(ReadError::Cut)
        }
    }
}

/// What each protocol's stream does with its events.
trait ReadEvents: Send {
    fn event(&mut self, event: &sse::Event) -> Result<(), ReadError>;
    fn is_over(&self) -> bool;
    fn so_far(&self) -> &Reply;
}

/// Lays `over` on `base`, object into object; all else is replaced.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => over.clone_into(base),
    }
}

/// Sets a field, if there is a value.
fn set(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WIRES: [Wire; 4] = [
        Wire::OpenAiChat,
        Wire::OpenAiResponses,
        Wire::Anthropic,
        Wire::Gemini,
    ];

    #[test]
    fn extra_fields_are_merged_into_objects_and_win() {
        let extra = json!({ "generationConfig": { "topK": 4, "temperature": 0.5 }, "seed": 7 });
        let settings = Settings {
            temperature: Some(1.0),
            max_output_tokens: Some(9),
            extra_body: extra.as_object().unwrap().clone(),
            ..Settings::default()
        };
        let request = Request {
            settings,
            messages: vec![Message::user("hi")],
            ..Request::default()
        };
        let body = Wire::Gemini.body("m", &request);
        assert_eq!(
            body["generationConfig"],
            json!({ "temperature": 0.5, "maxOutputTokens": 9, "topK": 4 })
        );
        assert_eq!(body["seed"], 7);
    }

    #[test]
    fn routing_is_the_providers_object() {
        let routing = json!({ "order": ["a", "b"], "allow_fallbacks": false });
        let request = Request {
            settings: Settings {
                routing: routing.as_object().cloned(),
                ..Settings::default()
            },
            ..Request::default()
        };
        assert_eq!(Wire::OpenAiChat.body("m", &request)["provider"], routing);
    }

    /// JSON of any shape with the names that the parsers look at, so that types go wrong in the
    /// places that matter.
    fn odd_json() -> impl Strategy<Value = Value> {
        const NAMES: [&str; 34] = [
            "choices",
            "delta",
            "message",
            "content",
            "text",
            "finish_reason",
            "usage",
            "error",
            "code",
            "status",
            "type",
            "prompt_tokens",
            "prompt_tokens_details",
            "cached_tokens",
            "completion_tokens",
            "total_tokens",
            "candidates",
            "parts",
            "usageMetadata",
            "promptTokenCount",
            "thoughtsTokenCount",
            "totalTokenCount",
            "index",
            "content_block",
            "stop_reason",
            "input_tokens",
            "output_tokens",
            "response",
            "output",
            "tool_calls",
            "function",
            "cost",
            "cost_details",
            "details",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z_]{0,8}".prop_map(Value::from),
            prop::sample::select(vec![
                "message_start",
                "content_block_delta",
                "message_delta",
                "response.completed",
                "message_stop",
                "error",
                "thinking_delta",
            ])
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((prop::sample::select(NAMES.to_vec()), inner), 0..6)
                    .prop_map(|pairs| {
                        let pairs = pairs
                            .into_iter()
                            .map(|(name, value)| (name.to_owned(), value));
                        Value::Object(pairs.collect())
                    }),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for wire in WIRES {
                let _ = wire.read(&bytes);
                let data = String::from_utf8_lossy(&bytes).into_owned();
                let _ = wire.reader().event(&sse::Event { name: String::new(), data });
            }
            ApiError::read(Some(400), &bytes);
        }

        #[test]
        fn no_json_makes_a_parser_panic(values in prop::collection::vec(odd_json(), 1..5)) {
            for wire in WIRES {
                let mut reader = wire.reader();
                for value in &values {
                    let text = value.to_string();
                    let _ = wire.read(text.as_bytes());
                    ApiError::read(None, text.as_bytes());
                    let event = sse::Event { name: String::new(), data: text };
                    let _ = reader.event(&event);
                }
                let _ = reader.finish();
            }
        }
    }
}
