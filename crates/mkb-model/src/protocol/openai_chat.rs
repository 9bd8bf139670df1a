//! OpenAI's Chat Completions, and the dialects of what is compatible with it.
//!
//! - Request, answer and chunks: <https://platform.openai.com/docs/api-reference/chat>. A stream
//!   reports usage only when asked by `stream_options.include_usage`, in a last chunk without
//!   choices, before `[DONE]`.
//! - `prompt_tokens` includes `prompt_tokens_details.cached_tokens` and `cache_write_tokens`
//!   (<https://platform.openai.com/docs/guides/prompt-caching>); `completion_tokens` includes
//!   `completion_tokens_details.reasoning_tokens`.
//! - DeepSeek splits the prompt into `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`
//!   (<https://api-docs.deepseek.com/guides/kv_cache>) and shows `reasoning_content`.
//! - OpenRouter reports `usage.cost` in US dollars, for a user's own key without the upstream's
//!   share, which stands in `cost_details` (<https://openrouter.ai/docs/use-cases/usage-accounting>);
//!   it shows `reasoning`, names the upstream `provider`, keeps streams alive by comments and sends
//!   failures as an `error` inside of a chunk.
//! - xAI and Gemini's compatible endpoint count reasoning beside `completion_tokens`; only
//!   `total_tokens` tells (<https://docs.x.ai/developers/rate-limits>). So output is what the total
//!   leaves over the prompt, where that is more.

use serde_json::{Value, json};

use super::fields::{amount, append, at, count, list, object, text};
use super::{
    ApiError, ApiErrorKind, Finish, MaxTokensField, ReadError, ReadEvents, ReasoningField, Reply,
    Request, Role, Stream, ToolCall, set, sse,
};
use crate::usage::Usage;

pub(super) fn body(model: &str, request: &Request) -> Value {
    let settings = &request.settings;
    let system = request.system.iter().map(|text| ("system", text));
    let turns = request.messages.iter().map(|message| match message.role {
        Role::User => ("user", &message.text),
        Role::Assistant => ("assistant", &message.text),
    });
    let messages: Vec<Value> = system
        .chain(turns)
        .map(|(role, text)| json!({ "role": role, "content": text }))
        .collect();
    let mut body = json!({ "model": model, "messages": messages });
    set(&mut body, "temperature", settings.temperature);
    let effort = settings.reasoning_effort.clone();
    match settings.reasoning_field {
        ReasoningField::ReasoningEffort => set(&mut body, "reasoning_effort", effort),
        ReasoningField::Reasoning => {
            let mut reasoning = json!({});
            set(&mut reasoning, "effort", effort);
            set(&mut reasoning, "max_tokens", settings.reasoning_tokens);
            if reasoning != json!({}) {
                body["reasoning"] = reasoning;
            }
        }
    }
    let limit = match settings.max_tokens_field {
        MaxTokensField::MaxTokens => "max_tokens",
        MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
    };
    set(&mut body, limit, settings.max_output_tokens);
    if settings.stream == Stream::Yes {
        body["stream"] = true.into();
        body["stream_options"] = json!({ "include_usage": true });
    }
    body
}

pub(super) fn read(answer: &Value) -> Result<Reply, ReadError> {
    if let Some(error) = ApiError::inside(answer) {
        return Err(ReadError::Api(Box::new(error)));
    }
    let choice = list(answer, &["choices"])
        .first()
        .ok_or_else(|| ReadError::Malformed("the answer has no `choices`".into()))?;
    let message = at(choice, &["message"])
        .ok_or_else(|| ReadError::Malformed("the answer's choice has no `message`".into()))?;
    let mut reply = Reply::default();
    take_head(&mut reply, answer);
    take_part(&mut reply, message)?;
    take_usage(&mut reply, answer);
    take_finish(&mut reply, choice)?;
    Ok(reply)
}

/// The chunks of a stream.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    reply: Reply,
    over: bool,
}

impl ReadEvents for Chunks {
    fn event(&mut self, event: &sse::Event) -> Result<(), ReadError> {
        if event.data.trim() == "[DONE]" {
            self.over = true;
            return Ok(());
        }
        let chunk = object(event.data.as_bytes())?;
        if let Some(error) = ApiError::inside(&chunk) {
            return Err(ReadError::Api(Box::new(error)));
        }
        take_head(&mut self.reply, &chunk);
        take_usage(&mut self.reply, &chunk);
        if let Some(choice) = list(&chunk, &["choices"]).first() {
            if let Some(delta) = at(choice, &["delta"]) {
                take_part(&mut self.reply, delta)?;
            }
            take_finish(&mut self.reply, choice)?;
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

fn take_head(reply: &mut Reply, answer: &Value) {
    for (field, name) in [
        (&mut reply.id, "id"),
        (&mut reply.model, "model"),
        (&mut reply.upstream, "provider"),
    ] {
        if field.is_none() {
            *field = text(answer, &[name]).map(str::to_owned);
        }
    }
}

/// Takes a message, or the part of one that a chunk brings.
fn take_part(reply: &mut Reply, part: &Value) -> Result<(), ReadError> {
    match at(part, &["content"]) {
        None => {}
        Some(Value::String(text)) => reply.text.push_str(text),
        Some(Value::Array(parts)) => {
            for part in parts {
                reply
                    .text
                    .push_str(text(part, &["text"]).unwrap_or_default());
            }
        }
        Some(_) => {
            return Err(ReadError::Malformed(
                "`content` of the answer is neither a text nor a list".into(),
            ));
        }
    }
    let shown = text(part, &["reasoning_content"]).or_else(|| text(part, &["reasoning"]));
    append(&mut reply.reasoning, shown.unwrap_or_default());
    if let Some(refusal) = text(part, &["refusal"]) {
        reply.text.push_str(refusal);
        reply.finish = Finish::Refusal;
    }
    for call in list(part, &["tool_calls"]) {
        let name = text(call, &["function", "name"]);
        let arguments = text(call, &["function", "arguments"]).unwrap_or_default();
        match (name, reply.tool_calls.last_mut()) {
            (None, Some(last)) => last.arguments.push_str(arguments),
            (name, _) => reply.tool_calls.push(ToolCall {
                name: name.unwrap_or_default().to_owned(),
                arguments: arguments.to_owned(),
            }),
        }
    }
    Ok(())
}

fn take_finish(reply: &mut Reply, choice: &Value) -> Result<(), ReadError> {
    let Some(reason) = text(choice, &["finish_reason"]) else {
        return Ok(());
    };
    if reply.finish == Finish::Refusal {
        return Ok(());
    }
    reply.finish = match reason {
        "stop" => Finish::Stop,
        "length" => Finish::Length,
        "tool_calls" | "function_call" => Finish::Tool,
        "content_filter" => Finish::Filter,
        "refusal" => Finish::Refusal,
        "error" => return Err(gave_up(ApiErrorKind::Server, reason)),
        "insufficient_system_resource" => return Err(gave_up(ApiErrorKind::Overloaded, reason)),
        other => Finish::Other(other.to_owned()),
    };
    Ok(())
}

/// A reason to end that is the provider's failure: OpenRouter's `error`, DeepSeek's
/// `insufficient_system_resource`.
fn gave_up(kind: ApiErrorKind, reason: &str) -> ReadError {
    ReadError::Api(Box::new(ApiError {
        kind,
        status: None,
        code: Some(reason.to_owned()),
        message: "the answer ended by the provider's failure".into(),
        retry_after: None,
    }))
}

fn take_usage(reply: &mut Reply, answer: &Value) {
    if let Some(found) = at(answer, &["usage"]) {
        reply.usage = usage(found);
        reply.cost_usd = cost(found);
    }
}

fn usage(usage: &Value) -> Usage {
    let prompt = count(usage, &["prompt_tokens"]);
    let completion = count(usage, &["completion_tokens"]);
    let cached = count(usage, &["prompt_tokens_details", "cached_tokens"])
        .or_else(|| count(usage, &["prompt_cache_hit_tokens"]))
        .or_else(|| count(usage, &["cached_tokens"]));
    let written = count(usage, &["prompt_tokens_details", "cache_write_tokens"]);
    let reasoning = count(usage, &["completion_tokens_details", "reasoning_tokens"])
        .or_else(|| count(usage, &["reasoning_tokens"]));
    let beyond_prompt = count(usage, &["total_tokens"])
        .zip(prompt)
        .and_then(|(total, prompt)| total.checked_sub(prompt));
    let output = completion.map(|completion| completion.max(beyond_prompt.unwrap_or(0)));
    Usage::of_whole(prompt, cached, written).with_output(output, reasoning)
}

fn cost(usage: &Value) -> Option<f64> {
    let cost = amount(usage, &["cost"])?;
    let own_key = at(usage, &["is_byok"]) == Some(&Value::Bool(true));
    if own_key {
        Some(cost + amount(usage, &["cost_details", "upstream_inference_cost"])?)
    } else {
        Some(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Message, Settings, Wire};
    use super::*;

    fn usage_of(text: &str) -> Usage {
        usage(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_request_is_written_as_the_reference_says() {
        let request = Request {
            system: Some("Be short.".into()),
            messages: vec![
                Message::user("1+1?"),
                Message::assistant("2"),
                Message::user("+1?"),
            ],
            settings: Settings {
                reasoning_effort: Some("low".into()),
                temperature: Some(0.25),
                max_output_tokens: Some(100),
                max_tokens_field: MaxTokensField::MaxCompletionTokens,
                ..Settings::default()
            },
        };
        assert_eq!(
            body("gpt-5", &request),
            json!({
                "model": "gpt-5",
                "messages": [
                    { "role": "system", "content": "Be short." },
                    { "role": "user", "content": "1+1?" },
                    { "role": "assistant", "content": "2" },
                    { "role": "user", "content": "+1?" },
                ],
                "temperature": 0.25,
                "reasoning_effort": "low",
                "max_completion_tokens": 100,
                "stream": true,
                "stream_options": { "include_usage": true },
            })
        );
    }

    #[test]
    fn openais_cached_and_reasoning_tokens_are_parts() {
        // A usage of GPT-5 as published in a report of a user.
        let usage = usage_of(
            r#"{"prompt_tokens": 1486, "completion_tokens": 651, "total_tokens": 2137,
                "prompt_tokens_details": {"cached_tokens": 1408, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 512}}"#,
        );
        let expected = Usage {
            prompt: Some(1486),
            input: Some(78),
            cache_read: Some(1408),
            output: Some(651),
            reasoning: Some(512),
            ..Usage::default()
        };
        assert_eq!(usage, expected);
    }

    #[test]
    fn cache_writes_are_a_part_of_the_prompt() {
        let usage = usage_of(
            r#"{"prompt_tokens": 3300, "completion_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 3207}}"#,
        );
        assert_eq!((usage.input, usage.cache_write), (Some(93), Some(3207)));
    }

    #[test]
    fn deepseeks_hits_are_cache_reads() {
        let usage = usage_of(
            r#"{"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36,
                "completion_tokens": 5, "total_tokens": 105}"#,
        );
        assert_eq!((usage.cache_read, usage.input), (Some(64), Some(36)));
    }

    #[test]
    fn reasoning_beside_the_completion_is_output() {
        // Gemini's compatible endpoint, as published in a report of a user.
        let usage =
            usage_of(r#"{"completion_tokens": 102, "prompt_tokens": 758, "total_tokens": 1725}"#);
        assert_eq!((usage.output, usage.reasoning), (Some(967), None));
    }

    #[test]
    fn what_a_server_does_not_count_is_unknown() {
        let usage = usage_of(r#"{"prompt_tokens": 7, "completion_tokens": 3}"#);
        let expected = Usage {
            prompt: Some(7),
            output: Some(3),
            ..Usage::default()
        };
        assert_eq!(usage, expected);
        assert!(usage_of(r#"{"prompt_tokens": -7, "completion_tokens": "3"}"#).is_unknown());
    }

    #[test]
    fn a_reported_cost_counts_with_the_upstreams_share_for_an_own_key() {
        let cost = |text: &str| cost(&serde_json::from_str(text).unwrap());
        let routed = r#"{"cost": 0.25, "is_byok": false, "cost_details": {"upstream_inference_cost": 0.25}}"#;
        assert_eq!(cost(routed), Some(0.25));
        let own =
            r#"{"cost": 0.25, "is_byok": true, "cost_details": {"upstream_inference_cost": 4.5}}"#;
        assert_eq!(cost(own), Some(4.75));
        assert_eq!(cost(r#"{"cost": 0.25, "is_byok": true}"#), None);
        assert_eq!(cost(r#"{"cost": -1}"#), None);
        assert_eq!(cost("{}"), None);
    }

    #[test]
    fn tool_calls_of_a_stream_are_put_together() {
        let mut reader = Wire::OpenAiChat.reader();
        for data in [
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"run","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            "[DONE]",
        ] {
            let event = sse::Event {
                data: data.into(),
                ..sse::Event::default()
            };
            reader.event(&event).unwrap();
        }
        let reply = reader.finish().unwrap();
        let call = ToolCall {
            name: "run".into(),
            arguments: r#"{"x":1}"#.into(),
        };
        assert_eq!((reply.tool_calls, reply.finish), (vec![call], Finish::Tool));
    }

    #[test]
    fn a_refusal_is_told_whatever_reason_follows() {
        let answer = json!({ "choices": [{
            "message": { "content": null, "refusal": "I can't help with that." },
            "finish_reason": "stop",
        }]});
        let reply = read(&answer).unwrap();
        assert_eq!(reply.finish, Finish::Refusal);
        assert_eq!(reply.text, "I can't help with that.");
    }
}
