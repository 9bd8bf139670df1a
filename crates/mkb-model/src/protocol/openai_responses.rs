//! OpenAI's Responses.
//!
//! Request, answer and events: <https://platform.openai.com/docs/api-reference/responses>. The last
//! event (`response.completed`, `response.incomplete`, `response.failed`) carries the whole answer
//! with its usage. `input_tokens` includes `input_tokens_details.cached_tokens` and
//! `cache_write_tokens`, `output_tokens` includes `output_tokens_details.reasoning_tokens`.

use serde_json::{Value, json};

use super::fields::{amount, append, at, count, list, object, text};
use super::{
    ApiError, Finish, ReadError, ReadEvents, Reply, Request, Role, Stream, ToolCall, set, sse,
};
use crate::usage::Usage;

pub(super) fn body(model: &str, request: &Request) -> Value {
    let settings = &request.settings;
    let input: Vec<Value> = request
        .messages
        .iter()
        .map(|message| {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            json!({ "role": role, "content": message.text })
        })
        .collect();
    let mut body = json!({ "model": model, "input": input, "store": false });
    set(&mut body, "instructions", request.system.clone());
    set(&mut body, "temperature", settings.temperature);
    set(&mut body, "max_output_tokens", settings.max_output_tokens);
    if let Some(effort) = &settings.reasoning_effort {
        body["reasoning"] = json!({ "effort": effort, "summary": "auto" });
    }
    if settings.stream == Stream::Yes {
        body["stream"] = true.into();
    }
    body
}

pub(super) fn read(answer: &Value) -> Result<Reply, ReadError> {
    if let Some(error) = ApiError::inside(answer) {
        return Err(ReadError::Api(Box::new(error)));
    }
    if at(answer, &["output"]).and_then(Value::as_array).is_none() {
        return Err(ReadError::Malformed(
            "the answer has no list `output`".into(),
        ));
    }
    let mut reply = Reply {
        id: text(answer, &["id"]).map(str::to_owned),
        model: text(answer, &["model"]).map(str::to_owned),
        finish: finish(answer),
        ..Reply::default()
    };
    for item in list(answer, &["output"]) {
        take_item(&mut reply, item);
    }
    if let Some(found) = at(answer, &["usage"]) {
        reply.usage = usage(found);
        reply.cost_usd = amount(found, &["cost"]);
    }
    if reply.finish == Finish::Stop && reply.text.is_empty() && !reply.tool_calls.is_empty() {
        reply.finish = Finish::Tool;
    }
    Ok(reply)
}

/// The events of a stream.
#[derive(Debug, Default)]
pub(super) struct Events {
    reply: Reply,
    over: bool,
}

impl ReadEvents for Events {
    fn event(&mut self, event: &sse::Event) -> Result<(), ReadError> {
        let data = object(event.data.as_bytes())?;
        match text(&data, &["type"]).unwrap_or(&event.name) {
            "response.output_text.delta" => {
                self.reply
                    .text
                    .push_str(text(&data, &["delta"]).unwrap_or_default());
            }
            "response.created" | "response.in_progress" => {
                self.reply.id = text(&data, &["response", "id"]).map(str::to_owned);
                self.reply.model = text(&data, &["response", "model"]).map(str::to_owned);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = at(&data, &["response"]).ok_or_else(|| {
                    ReadError::Malformed("the stream's last event has no `response`".into())
                })?;
                self.reply = read(response)?;
                self.over = true;
            }
            "error" => {
                let error = ApiError::inside(&data)
                    .unwrap_or_else(|| ApiError::read(None, event.data.as_bytes()));
                return Err(ReadError::Api(Box::new(error)));
            }
            _ => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn so_far(&self) -> &Reply {
        &self.reply
    }
}

fn take_item(reply: &mut Reply, item: &Value) {
    match text(item, &["type"]).unwrap_or_default() {
        "message" => {
            for part in list(item, &["content"]) {
                reply
                    .text
                    .push_str(text(part, &["text"]).unwrap_or_default());
                if let Some(refusal) = text(part, &["refusal"]) {
                    reply.text.push_str(refusal);
                    reply.finish = Finish::Refusal;
                }
            }
        }
        "reasoning" => {
            for part in list(item, &["summary"])
                .iter()
                .chain(list(item, &["content"]))
            {
                append(
                    &mut reply.reasoning,
                    text(part, &["text"]).unwrap_or_default(),
                );
            }
        }
        "function_call" => reply.tool_calls.push(ToolCall {
            name: text(item, &["name"]).unwrap_or_default().to_owned(),
            arguments: text(item, &["arguments"]).unwrap_or_default().to_owned(),
        }),
        _ => {}
    }
}

fn finish(answer: &Value) -> Finish {
    match text(answer, &["status"]) {
        Some("completed") => Finish::Stop,
        Some("incomplete") => match text(answer, &["incomplete_details", "reason"]) {
            Some("max_output_tokens") => Finish::Length,
            Some("content_filter") => Finish::Filter,
            other => Finish::Other(other.unwrap_or("incomplete").to_owned()),
        },
        Some(other) => Finish::Other(other.to_owned()),
        None => Finish::Unstated,
    }
}

fn usage(usage: &Value) -> Usage {
    Usage::of_whole(
        count(usage, &["input_tokens"]),
        count(usage, &["input_tokens_details", "cached_tokens"]),
        count(usage, &["input_tokens_details", "cache_write_tokens"]),
    )
    .with_output(
        count(usage, &["output_tokens"]),
        count(usage, &["output_tokens_details", "reasoning_tokens"]),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{ApiErrorKind, Wire};
    use super::*;

    fn answer() -> Value {
        json!({
            "id": "resp_1", "model": "gpt-5-2025-08-07", "status": "completed", "error": null,
            "output": [
                { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Adding." }] },
                { "type": "message", "content": [{ "type": "output_text", "text": "2" }] },
            ],
            "usage": {
                "input_tokens": 75, "input_tokens_details": { "cached_tokens": 25 },
                "output_tokens": 1186, "output_tokens_details": { "reasoning_tokens": 1024 },
                "total_tokens": 1261,
            },
        })
    }

    #[test]
    fn an_answer_is_read_with_its_parts_of_usage() {
        let reply = read(&answer()).unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("2", Finish::Stop));
        assert_eq!(reply.reasoning.as_deref(), Some("Adding."));
        let expected = Usage {
            prompt: Some(75),
            input: Some(50),
            cache_read: Some(25),
            output: Some(1186),
            reasoning: Some(1024),
            ..Usage::default()
        };
        assert_eq!(reply.usage, expected);
    }

    #[test]
    fn a_stream_is_its_last_event() {
        let mut reader = Wire::OpenAiResponses.reader();
        for data in [
            json!({ "type": "response.created", "response": { "id": "resp_1" } }),
            json!({ "type": "response.output_text.delta", "delta": "2" }),
        ] {
            let data = data.to_string();
            reader
                .event(&sse::Event {
                    name: String::new(),
                    data,
                })
                .unwrap();
        }
        assert_eq!(reader.so_far().text, "2");
        assert!(!reader.is_over());
        let data = json!({ "type": "response.completed", "response": answer() }).to_string();
        reader
            .event(&sse::Event {
                name: String::new(),
                data,
            })
            .unwrap();
        assert_eq!(reader.finish().unwrap(), read(&answer()).unwrap());
    }

    #[test]
    fn an_incomplete_answer_says_why() {
        let mut answer = answer();
        answer["status"] = "incomplete".into();
        answer["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        assert_eq!(read(&answer).unwrap().finish, Finish::Length);
    }

    #[test]
    fn a_failed_answer_is_an_error() {
        let mut answer = answer();
        answer["status"] = "failed".into();
        answer["error"] = json!({ "code": "rate_limit_exceeded", "message": "slow down" });
        let Err(ReadError::Api(error)) = read(&answer) else {
            panic!("read as an answer");
        };
        assert_eq!(error.kind, ApiErrorKind::RateLimited);
    }
}
