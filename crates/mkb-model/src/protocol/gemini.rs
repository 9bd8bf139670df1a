//! Google's Gemini API, `generateContent`.
//!
//! - Request, answer and usage: <https://ai.google.dev/api/generate-content>; a stream
//!   (`streamGenerateContent?alt=sse`) is a row of such answers, each with the usage so far.
//! - `promptTokenCount` includes `cachedContentTokenCount`; `thoughtsTokenCount` and
//!   `toolUsePromptTokenCount` stand beside `candidatesTokenCount` and `promptTokenCount`.
//! - The API speaks ProtoJSON, which omits fields that are 0
//!   (<https://protobuf.dev/programming-guides/json/>): beside a `promptTokenCount`, a count that is
//!   absent is 0. Where `totalTokenCount` says otherwise, what is absent is unknown.
//! - Thinking, by level or by budget: <https://ai.google.dev/gemini-api/docs/thinking>.

use serde_json::{Value, json};

use super::fields::{append, at, count, list, object, text};
use super::{
    ApiError, Finish, ReadError, ReadEvents, Reply, Request, Role, Stream, ToolCall, set, sse,
};
use crate::usage::Usage;

pub(super) fn path(model: &str, stream: Stream) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    match stream {
        Stream::Yes => format!("/models/{model}:streamGenerateContent?alt=sse"),
        Stream::No => format!("/models/{model}:generateContent"),
    }
}

pub(super) fn body(request: &Request) -> Value {
    let settings = &request.settings;
    let contents: Vec<Value> = request
        .messages
        .iter()
        .map(|message| {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "model",
            };
            json!({ "role": role, "parts": [{ "text": message.text }] })
        })
        .collect();
    let mut body = json!({ "contents": contents });
    if let Some(system) = &request.system {
        body["systemInstruction"] = json!({ "parts": [{ "text": system }] });
    }
    let mut config = json!({});
    set(&mut config, "temperature", settings.temperature);
    set(&mut config, "maxOutputTokens", settings.max_output_tokens);
    let mut thinking = json!({});
    set(
        &mut thinking,
        "thinkingLevel",
        settings.reasoning_effort.clone(),
    );
    set(&mut thinking, "thinkingBudget", settings.reasoning_tokens);
    if thinking != json!({}) {
        thinking["includeThoughts"] = true.into();
        config["thinkingConfig"] = thinking;
    }
    if config != json!({}) {
        body["generationConfig"] = config;
    }
    body
}

pub(super) fn read(answer: &Value) -> Result<Reply, ReadError> {
    let mut chunks = Chunks::default();
    chunks.take(answer)?;
    if chunks.reply.finish == Finish::Unstated && list(answer, &["candidates"]).is_empty() {
        return Err(ReadError::Malformed(
            "the answer has no `candidates`".into(),
        ));
    }
    Ok(chunks.reply)
}

/// The chunks of a stream. Its end is the connection's; only a reason to finish tells a whole one.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    reply: Reply,
}

impl ReadEvents for Chunks {
    fn event(&mut self, event: &sse::Event) -> Result<(), ReadError> {
        self.take(&object(event.data.as_bytes())?)
    }

    fn is_over(&self) -> bool {
        false
    }

    fn so_far(&self) -> &Reply {
        &self.reply
    }
}

impl Chunks {
    fn take(&mut self, answer: &Value) -> Result<(), ReadError> {
        if let Some(error) = ApiError::inside(answer) {
            return Err(ReadError::Api(Box::new(error)));
        }
        let reply = &mut self.reply;
        for (field, name) in [
            (&mut reply.id, "responseId"),
            (&mut reply.model, "modelVersion"),
        ] {
            if field.is_none() {
                *field = text(answer, &[name]).map(str::to_owned);
            }
        }
        if let Some(candidate) = list(answer, &["candidates"]).first() {
            for part in list(candidate, &["content", "parts"]) {
                take_part(reply, part);
            }
            if let Some(reason) = text(candidate, &["finishReason"]) {
                reply.finish = finish(reason);
            }
        }
        if let Some(reason) = text(answer, &["promptFeedback", "blockReason"]) {
            reply.finish = Finish::Filter;
            if reply.text.is_empty() {
                reply.text = format!("(the prompt was blocked: {reason})");
            }
        }
        if let Some(metadata) = at(answer, &["usageMetadata"]) {
            reply.usage = usage(metadata);
        }
        Ok(())
    }
}

fn take_part(reply: &mut Reply, part: &Value) {
    let shown = text(part, &["text"]).unwrap_or_default();
    if at(part, &["thought"]) == Some(&Value::Bool(true)) {
        append(&mut reply.reasoning, shown);
    } else {
        reply.text.push_str(shown);
    }
    if let Some(call) = at(part, &["functionCall"]) {
        reply.tool_calls.push(ToolCall {
            name: text(call, &["name"]).unwrap_or_default().to_owned(),
            arguments: at(call, &["args"])
                .map(Value::to_string)
                .unwrap_or_default(),
        });
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "STOP" => Finish::Stop,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
            Finish::Filter
        }
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => Finish::Tool,
        other => Finish::Other(other.to_owned()),
    }
}

fn usage(metadata: &Value) -> Usage {
    let Some(prompt) = count(metadata, &["promptTokenCount"]) else {
        return Usage::default();
    };
    let stated = |name: &str| count(metadata, &[name]);
    let names = [
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "toolUsePromptTokenCount",
    ];
    let parts = names.map(|name| stated(name).unwrap_or(0));
    let sum = parts
        .iter()
        .try_fold(prompt, |sum, part| sum.checked_add(*part));
    let agrees = stated("totalTokenCount").is_none_or(|total| sum == Some(total));
    let known = |name: &str| stated(name).or(agrees.then_some(0));
    let [candidates, thoughts, tools] = names.map(known);
    let whole = tools.and_then(|tools| prompt.checked_add(tools));
    let output = candidates
        .zip(thoughts)
        .and_then(|(candidates, thoughts)| candidates.checked_add(thoughts));
    Usage::of_whole(whole, known("cachedContentTokenCount"), None).with_output(output, thoughts)
}

#[cfg(test)]
mod tests {
    use super::super::{Message, Settings};
    use super::*;

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
                temperature: Some(0.5),
                ..Settings::default()
            },
        };
        assert_eq!(
            body(&request),
            json!({
                "contents": [
                    { "role": "user", "parts": [{ "text": "1+1?" }] },
                    { "role": "model", "parts": [{ "text": "2" }] },
                    { "role": "user", "parts": [{ "text": "+1?" }] },
                ],
                "systemInstruction": { "parts": [{ "text": "Be short." }] },
                "generationConfig": {
                    "temperature": 0.5,
                    "thinkingConfig": { "thinkingLevel": "low", "includeThoughts": true },
                },
            })
        );
        assert_eq!(
            path("models/g", Stream::Yes),
            "/models/g:streamGenerateContent?alt=sse"
        );
    }

    #[test]
    fn thoughts_are_output_and_cached_content_is_part_of_the_prompt() {
        let usage = usage(&json!({
            "promptTokenCount": 1000, "cachedContentTokenCount": 300, "candidatesTokenCount": 40,
            "thoughtsTokenCount": 160, "toolUsePromptTokenCount": 24, "totalTokenCount": 1224,
        }));
        let expected = Usage {
            prompt: Some(1024),
            input: Some(724),
            cache_read: Some(300),
            output: Some(200),
            reasoning: Some(160),
            ..Usage::default()
        };
        assert_eq!(usage, expected);
    }

    #[test]
    fn an_absent_count_is_zero_where_the_total_agrees_and_unknown_where_not() {
        let agreeing = usage(
            &json!({ "promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10 }),
        );
        assert_eq!(
            (agreeing.output, agreeing.reasoning, agreeing.cache_read),
            (Some(2), Some(0), Some(0))
        );
        let lacking = usage(
            &json!({ "promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 50 }),
        );
        assert_eq!(
            (lacking.output, lacking.reasoning, lacking.prompt),
            (None, None, None)
        );
        assert!(usage(&json!({ "totalTokenCount": 50 })).is_unknown());
    }

    #[test]
    fn thoughts_and_text_are_kept_apart() {
        let reply = read(&json!({ "candidates": [{
            "content": { "parts": [
                { "text": "Counting.", "thought": true },
                { "text": "2" },
                { "functionCall": { "name": "run", "args": { "x": 1 } } },
            ]},
            "finishReason": "STOP",
        }]}));
        let reply = reply.unwrap();
        assert_eq!(
            (reply.text.as_str(), reply.reasoning.as_deref()),
            ("2", Some("Counting."))
        );
        assert_eq!(reply.tool_calls[0].arguments, r#"{"x":1}"#);
    }

    #[test]
    fn a_blocked_prompt_is_filtered() {
        let answer = json!({ "promptFeedback": { "blockReason": "SAFETY" }, "usageMetadata": { "promptTokenCount": 4 } });
        assert_eq!(read(&answer).unwrap().finish, Finish::Filter);
    }
}
