//! Anthropic's Messages.
//!
//! - Request and answer: <https://docs.claude.com/en/api/messages>. `max_tokens` is required; where
//!   the settings name none, [`DEFAULT_MAX_TOKENS`] is asked for.
//! - Stream: <https://docs.claude.com/en/docs/build-with-claude/streaming>. `message_start` brings
//!   the usage of the input; counts in `message_delta` are cumulative and replace earlier ones.
//! - `input_tokens` excludes `cache_read_input_tokens` and `cache_creation_input_tokens`; the latter
//!   is split by lifetime in `cache_creation`
//!   (<https://docs.claude.com/en/docs/build-with-claude/prompt-caching>). The system prompt and the
//!   last turn are marked for caching, so that a growing conversation is read from the cache.
//! - `output_tokens` includes thinking; how much of it was thinking is not said.
//! - An effort asks for adaptive thinking
//!   (<https://docs.claude.com/en/docs/build-with-claude/effort>), a budget of tokens for extended
//!   thinking (<https://docs.claude.com/en/docs/build-with-claude/extended-thinking>).
//! - Reasons to stop: <https://docs.claude.com/en/api/handling-stop-reasons>.

use serde_json::{Value, json};

use super::fields::{append, at, count, list, object, text};
use super::{
    ApiError, Finish, ReadError, ReadEvents, Reply, Request, Role, Stream, ToolCall, set, sse,
};
use crate::usage::Usage;

/// What is asked for as `max_tokens` where the settings name no limit.
pub(super) const DEFAULT_MAX_TOKENS: u32 = 16_384;

pub(super) fn body(model: &str, request: &Request) -> Value {
    let settings = &request.settings;
    let last = request.messages.len().saturating_sub(1);
    let messages: Vec<Value> = request
        .messages
        .iter()
        .enumerate()
        .map(|(place, message)| {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            let content = if place == last {
                cached(&message.text)
            } else {
                message.text.as_str().into()
            };
            json!({ "role": role, "content": content })
        })
        .collect();
    let limit = settings.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let mut body = json!({ "model": model, "max_tokens": limit, "messages": messages });
    set(&mut body, "system", request.system.as_deref().map(cached));
    set(&mut body, "temperature", settings.temperature);
    match settings.reasoning_effort.as_deref() {
        None => {}
        Some("none") => body["thinking"] = json!({ "type": "disabled" }),
        Some(effort) => {
            body["thinking"] = json!({ "type": "adaptive" });
            body["output_config"] = json!({ "effort": effort });
        }
    }
    if let Some(budget) = settings.reasoning_tokens {
        body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
    }
    if settings.stream == Stream::Yes {
        body["stream"] = true.into();
    }
    body
}

/// A text that ends at a place to cache. Empty texts cannot be marked.
fn cached(text: &str) -> Value {
    if text.is_empty() {
        return text.into();
    }
    json!([{ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }])
}

pub(super) fn read(answer: &Value) -> Result<Reply, ReadError> {
    if let Some(error) = ApiError::inside(answer) {
        return Err(ReadError::Api(Box::new(error)));
    }
    if at(answer, &["content"]).and_then(Value::as_array).is_none() {
        return Err(ReadError::Malformed(
            "the answer has no list `content`".into(),
        ));
    }
    let mut reply = Reply::default();
    take_head(&mut reply, answer);
    for block in list(answer, &["content"]) {
        take_block(&mut reply, block);
    }
    take_finish(&mut reply, answer);
    let mut counts = Counts::default();
    counts.take(answer);
    reply.usage = counts.usage();
    Ok(reply)
}

/// The events of a stream.
#[derive(Debug, Default)]
pub(super) struct Events {
    reply: Reply,
    counts: Counts,
    over: bool,
}

impl ReadEvents for Events {
    fn event(&mut self, event: &sse::Event) -> Result<(), ReadError> {
        let data = object(event.data.as_bytes())?;
        match text(&data, &["type"]).unwrap_or(&event.name) {
            "message_start" => {
                if let Some(message) = at(&data, &["message"]) {
                    take_head(&mut self.reply, message);
                    self.counts.take(message);
                }
            }
            "content_block_start" => {
                if let Some(block) = at(&data, &["content_block"]) {
                    take_block(&mut self.reply, block);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = at(&data, &["delta"]) {
                    take_delta(&mut self.reply, delta);
                }
            }
            "message_delta" => {
                if let Some(delta) = at(&data, &["delta"]) {
                    take_finish(&mut self.reply, delta);
                }
                self.counts.take(&data);
            }
            "message_stop" => self.over = true,
            "error" => {
                let error = ApiError::read(None, event.data.as_bytes());
                return Err(ReadError::Api(Box::new(error)));
            }
            _ => {}
        }
        self.reply.usage = self.counts.usage();
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn so_far(&self) -> &Reply {
        &self.reply
    }
}

fn take_head(reply: &mut Reply, message: &Value) {
    reply.id = text(message, &["id"]).map(str::to_owned);
    reply.model = text(message, &["model"]).map(str::to_owned);
}

fn take_block(reply: &mut Reply, block: &Value) {
    match text(block, &["type"]).unwrap_or_default() {
        "text" => reply
            .text
            .push_str(text(block, &["text"]).unwrap_or_default()),
        "thinking" => append(
            &mut reply.reasoning,
            text(block, &["thinking"]).unwrap_or_default(),
        ),
        "tool_use" => {
            // A stream opens the block with an empty input, whose text follows in deltas.
            let input = at(block, &["input"]).filter(|input| **input != json!({}));
            reply.tool_calls.push(ToolCall {
                name: text(block, &["name"]).unwrap_or_default().to_owned(),
                arguments: input.map(Value::to_string).unwrap_or_default(),
            });
        }
        _ => {}
    }
}

fn take_delta(reply: &mut Reply, delta: &Value) {
    match text(delta, &["type"]).unwrap_or_default() {
        "text_delta" => reply
            .text
            .push_str(text(delta, &["text"]).unwrap_or_default()),
        "thinking_delta" => {
            append(
                &mut reply.reasoning,
                text(delta, &["thinking"]).unwrap_or_default(),
            );
        }
        "input_json_delta" => {
            if let Some(call) = reply.tool_calls.last_mut() {
                call.arguments
                    .push_str(text(delta, &["partial_json"]).unwrap_or_default());
            }
        }
        _ => {}
    }
}

fn take_finish(reply: &mut Reply, holder: &Value) {
    let Some(reason) = text(holder, &["stop_reason"]) else {
        return;
    };
    reply.finish = match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::Tool,
        "refusal" => Finish::Refusal,
        other => Finish::Other(other.to_owned()),
    };
}

/// The latest of each count.
#[derive(Debug, Default)]
struct Counts {
    input: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    written_long: Option<u64>,
    output: Option<u64>,
}

impl Counts {
    fn take(&mut self, holder: &Value) {
        for (field, path) in [
            (&mut self.input, &["usage", "input_tokens"][..]),
            (&mut self.read, &["usage", "cache_read_input_tokens"]),
            (&mut self.written, &["usage", "cache_creation_input_tokens"]),
            (
                &mut self.written_long,
                &["usage", "cache_creation", "ephemeral_1h_input_tokens"],
            ),
            (&mut self.output, &["usage", "output_tokens"]),
        ] {
            *field = count(holder, path).or(*field);
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            cache_write_long: self.written_long,
            ..Usage::of_parts(self.input, self.read, self.written)
        }
        .with_output(self.output, None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ApiErrorKind, Message, Settings, Wire};
    use super::*;

    fn reader_after(events: &[Value]) -> super::super::Reader {
        let mut reader = Wire::Anthropic.reader();
        for event in events {
            let data = event.to_string();
            reader
                .event(&sse::Event {
                    name: String::new(),
                    data,
                })
                .unwrap();
        }
        reader
    }

    #[test]
    fn a_request_marks_what_to_cache() {
        let request = Request {
            system: Some("Be short.".into()),
            messages: vec![
                Message::user("1+1?"),
                Message::assistant("2"),
                Message::user("+1?"),
            ],
            settings: Settings {
                reasoning_effort: Some("high".into()),
                stream: Stream::No,
                ..Settings::default()
            },
        };
        let mark = json!({ "type": "ephemeral" });
        assert_eq!(
            body("claude", &request),
            json!({
                "model": "claude",
                "max_tokens": 16384,
                "messages": [
                    { "role": "user", "content": "1+1?" },
                    { "role": "assistant", "content": "2" },
                    { "role": "user", "content": [
                        { "type": "text", "text": "+1?", "cache_control": mark.clone() },
                    ]},
                ],
                "system": [{ "type": "text", "text": "Be short.", "cache_control": mark }],
                "thinking": { "type": "adaptive" },
                "output_config": { "effort": "high" },
            })
        );
    }

    #[test]
    fn input_excludes_the_caches_and_the_prompt_is_their_sum() {
        let answer = json!({
            "content": [{ "type": "text", "text": "hi" }],
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": 50, "cache_read_input_tokens": 100_000,
                "cache_creation_input_tokens": 248, "output_tokens": 503,
                "cache_creation": { "ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100 },
            },
        });
        let expected = Usage {
            prompt: Some(100_298),
            input: Some(50),
            cache_read: Some(100_000),
            cache_write: Some(248),
            cache_write_long: Some(100),
            output: Some(503),
            reasoning: None,
        };
        assert_eq!(read(&answer).unwrap().usage, expected);
    }

    #[test]
    fn later_counts_of_a_stream_replace_earlier_ones() {
        let reader = reader_after(&[
            json!({ "type": "message_start", "message": { "id": "msg_1", "model": "claude", "usage": {
                "input_tokens": 100, "cache_read_input_tokens": 10,
                "cache_creation_input_tokens": 20, "output_tokens": 5,
            }}}),
            json!({ "type": "ping" }),
            json!({ "type": "content_block_start", "content_block": { "type": "thinking", "thinking": "" } }),
            json!({ "type": "content_block_delta", "delta": { "type": "thinking_delta", "thinking": "Hm." } }),
            json!({ "type": "content_block_delta", "delta": { "type": "signature_delta", "signature": "x" } }),
            json!({ "type": "content_block_start", "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": "yes" } }),
            json!({ "type": "message_delta", "delta": { "stop_reason": null }, "usage": { "output_tokens": 8 } }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": {
                "output_tokens": 12, "input_tokens": 140,
            }}),
            json!({ "type": "message_stop" }),
        ]);
        let reply = reader.finish().unwrap();
        assert_eq!(reply.text, "yes");
        assert_eq!(reply.reasoning.as_deref(), Some("Hm."));
        assert_eq!(reply.usage.prompt, Some(170));
        assert_eq!(reply.usage.output, Some(12));
    }

    #[test]
    fn a_stream_without_its_end_is_cut() {
        let reader = reader_after(&[
            json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": "yes" } }),
        ]);
        assert_eq!(reader.finish(), Err(ReadError::Cut));
    }

    #[test]
    fn a_tools_input_is_put_together() {
        let reader = reader_after(&[
            json!({ "type": "content_block_start", "content_block": { "type": "tool_use", "name": "run", "input": {} } }),
            json!({ "type": "content_block_delta", "delta": { "type": "input_json_delta", "partial_json": "{\"x\"" } }),
            json!({ "type": "content_block_delta", "delta": { "type": "input_json_delta", "partial_json": ": 1}" } }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
        ]);
        let reply = reader.finish().unwrap();
        assert_eq!(reply.tool_calls[0].arguments, r#"{"x": 1}"#);
        assert_eq!(reply.finish, Finish::Tool);
    }

    #[test]
    fn an_error_inside_of_a_stream_is_the_providers() {
        let data =
            r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#;
        let event = sse::Event {
            name: "error".into(),
            data: data.into(),
        };
        let Err(ReadError::Api(error)) = Wire::Anthropic.reader().event(&event) else {
            panic!("read as an event");
        };
        assert_eq!(error.kind, ApiErrorKind::Overloaded);
    }
}
