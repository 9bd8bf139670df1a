//! The same conversation in each protocol: a prompt of 1,000 tokens, 600 of them from a cache, and
//! an answer of 500, 300 of them reasoning.

use mkb_model::Usage;
use serde_json::{Value, json};

/// A protocol's way to say things.
pub struct Dialect {
    pub protocol: &'static str,
    pub path: &'static str,
    pub stream_path: &'static str,
    pub key_header: (&'static str, &'static str),
    /// A whole answer, "2", with reasoning "Adding."
    pub answer: Value,
    /// The same as events.
    pub events: Vec<(&'static str, Value)>,
    /// What ends a stream, beside its events.
    pub done: &'static str,
    pub usage: Usage,
    /// What is known of usage when a stream is cut after its first event.
    pub cut_usage: Usage,
    /// An answer that refuses.
    pub refusal: Value,
    /// An answer with reasoning only.
    pub thoughtful: Value,
    /// An answer with nothing in it.
    pub blank: Value,
    /// An answer that calls the tool `run` with `{"x":1}`.
    pub tool: Value,
    /// Status and body of a context overflow.
    pub overflow: (u16, Value),
}

impl Dialect {
    /// The stream's bytes.
    pub fn stream(&self) -> String {
        self.text(self.events.len()) + self.done
    }

    /// The bytes of the stream's first events.
    pub fn text(&self, events: usize) -> String {
        let text = |(name, data): &(&str, Value)| {
            let name = if name.is_empty() {
                String::new()
            } else {
                format!("event: {name}\n")
            };
            format!("{name}data: {data}\n\n")
        };
        self.events[..events].iter().map(text).collect()
    }
}

pub fn all() -> Vec<Dialect> {
    vec![openai_chat(), openai_responses(), anthropic(), gemini()]
}

fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    *base.pointer_mut(pointer).expect("the base has this place") = value;
    base
}

fn whole_usage(cache_write: Option<u64>) -> Usage {
    Usage {
        prompt: Some(1000),
        input: Some(400 - cache_write.unwrap_or(0)),
        cache_read: Some(600),
        cache_write,
        cache_write_long: None,
        output: Some(500),
        reasoning: Some(300),
    }
}

fn openai_chat() -> Dialect {
    let usage = json!({
        "prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500,
        "prompt_tokens_details": { "cached_tokens": 600 },
        "completion_tokens_details": { "reasoning_tokens": 300 },
    });
    let answer = json!({
        "id": "chatcmpl-1", "model": "m-2026", "object": "chat.completion",
        "choices": [{
            "index": 0, "finish_reason": "stop",
            "message": { "role": "assistant", "content": "2", "reasoning_content": "Adding." },
        }],
        "usage": usage,
    });
    let chunk = |choices: Value, usage: Value| {
        (
            "",
            json!({ "id": "chatcmpl-1", "model": "m-2026", "choices": choices, "usage": usage }),
        )
    };
    let delta = |delta: Value| {
        chunk(
            json!([{ "index": 0, "delta": delta, "finish_reason": null }]),
            Value::Null,
        )
    };
    let no_output = with(usage.clone(), "/completion_tokens", json!(0));
    let no_output = with(no_output, "/total_tokens", json!(1000));
    Dialect {
        protocol: "openai-chat",
        path: "/v1/chat/completions",
        stream_path: "/v1/chat/completions",
        key_header: ("authorization", "Bearer "),
        events: vec![
            delta(json!({ "role": "assistant", "content": "" })),
            delta(json!({ "reasoning_content": "Add" })),
            delta(json!({ "reasoning_content": "ing." })),
            delta(json!({ "content": "2" })),
            chunk(
                json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]),
                Value::Null,
            ),
            chunk(json!([]), usage),
        ],
        done: "data: [DONE]\n\n",
        usage: whole_usage(None),
        cut_usage: Usage::default(),
        refusal: with(
            answer.clone(),
            "/choices/0/message",
            json!({ "content": null, "refusal": "No." }),
        ),
        thoughtful: with(answer.clone(), "/choices/0/message/content", Value::Null),
        blank: with(
            with(
                answer.clone(),
                "/choices/0/message",
                json!({ "content": "" }),
            ),
            "/usage",
            no_output,
        ),
        tool: with(
            answer.clone(),
            "/choices/0/message",
            json!({ "content": "2", "reasoning": "Adding.", "tool_calls": [
                { "id": "c", "type": "function", "function": { "name": "run", "arguments": "{\"x\":1}" } },
            ]}),
        ),
        overflow: (
            400,
            json!({ "error": { "code": "context_length_exceeded", "message": "too long" } }),
        ),
        answer,
    }
}

fn openai_responses() -> Dialect {
    let usage = json!({
        "input_tokens": 1000, "input_tokens_details": { "cached_tokens": 600 },
        "output_tokens": 500, "output_tokens_details": { "reasoning_tokens": 300 },
    });
    let reasoning =
        json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Adding." }] });
    let said = |part: Value| json!({ "type": "message", "role": "assistant", "content": [part] });
    let text = said(json!({ "type": "output_text", "text": "2" }));
    let answer = json!({
        "id": "resp_1", "model": "m-2026", "status": "completed", "error": null,
        "output": [reasoning, text], "usage": usage,
    });
    let no_output = with(usage, "/output_tokens", json!(0));
    Dialect {
        protocol: "openai-responses",
        path: "/v1/responses",
        stream_path: "/v1/responses",
        key_header: ("authorization", "Bearer "),
        events: vec![
            (
                "response.created",
                json!({ "type": "response.created", "response": { "id": "resp_1" } }),
            ),
            (
                "response.output_text.delta",
                json!({ "type": "response.output_text.delta", "delta": "2" }),
            ),
            (
                "response.completed",
                json!({ "type": "response.completed", "response": answer }),
            ),
        ],
        done: "",
        usage: whole_usage(None),
        cut_usage: Usage::default(),
        refusal: with(
            answer.clone(),
            "/output",
            json!([said(json!({ "type": "refusal", "refusal": "No." }))]),
        ),
        thoughtful: with(answer.clone(), "/output", json!([reasoning])),
        blank: with(
            with(answer.clone(), "/output", json!([])),
            "/usage",
            no_output,
        ),
        tool: with(
            answer.clone(),
            "/output",
            json!([
                reasoning, text,
                { "type": "function_call", "name": "run", "arguments": "{\"x\":1}" },
            ]),
        ),
        overflow: (
            400,
            json!({ "error": { "code": "context_length_exceeded", "message": "too long" } }),
        ),
        answer,
    }
}

fn anthropic() -> Dialect {
    let input = json!({
        "input_tokens": 250, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 150,
        "cache_creation": { "ephemeral_5m_input_tokens": 150, "ephemeral_1h_input_tokens": 0 },
    });
    let usage = |output: u64| {
        let mut usage = input.clone();
        usage["output_tokens"] = output.into();
        usage
    };
    let thinking = json!({ "type": "thinking", "thinking": "Adding.", "signature": "x" });
    let text = json!({ "type": "text", "text": "2" });
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m-2026",
        "content": [thinking, text], "stop_reason": "end_turn", "usage": usage(500),
    });
    let event = |name: &'static str, mut data: Value| {
        data["type"] = name.into();
        (name, data)
    };
    let delta = |delta: Value| event("content_block_delta", json!({ "index": 0, "delta": delta }));
    let expected = Usage {
        cache_write_long: Some(0),
        reasoning: None,
        ..whole_usage(Some(150))
    };
    Dialect {
        protocol: "anthropic",
        path: "/v1/messages",
        stream_path: "/v1/messages",
        key_header: ("x-api-key", ""),
        events: vec![
            event(
                "message_start",
                json!({ "message": {
                    "id": "msg_1", "model": "m-2026", "content": [], "usage": usage(1),
                }}),
            ),
            event("ping", json!({})),
            event(
                "content_block_start",
                json!({ "index": 0, "content_block": { "type": "thinking", "thinking": "" } }),
            ),
            delta(json!({ "type": "thinking_delta", "thinking": "Adding." })),
            event("content_block_stop", json!({ "index": 0 })),
            event(
                "content_block_start",
                json!({ "index": 1, "content_block": { "type": "text", "text": "" } }),
            ),
            delta(json!({ "type": "text_delta", "text": "2" })),
            event(
                "message_delta",
                json!({
                    "delta": { "stop_reason": "end_turn" },
                    "usage": { "output_tokens": 500 },
                }),
            ),
            event("message_stop", json!({})),
        ],
        done: "",
        usage: expected,
        cut_usage: expected.cut(),
        refusal: with(
            with(
                answer.clone(),
                "/content",
                json!([{ "type": "text", "text": "No." }]),
            ),
            "/stop_reason",
            json!("refusal"),
        ),
        thoughtful: with(answer.clone(), "/content", json!([thinking])),
        blank: with(
            with(answer.clone(), "/content", json!([])),
            "/usage",
            usage(0),
        ),
        tool: with(
            answer.clone(),
            "/content",
            json!([thinking, text, { "type": "tool_use", "name": "run", "input": { "x": 1 } }]),
        ),
        overflow: (
            400,
            json!({ "type": "error", "error": {
                "type": "invalid_request_error", "message": "prompt is too long: 201431 tokens > 200000 maximum",
            }}),
        ),
        answer,
    }
}

fn gemini() -> Dialect {
    let usage = |candidates: u64, thoughts: u64| {
        json!({
            "promptTokenCount": 1000, "cachedContentTokenCount": 600,
            "candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts,
            "totalTokenCount": 1000 + candidates + thoughts,
        })
    };
    let said = |parts: Value, reason: Value, usage: Value| {
        json!({
            "responseId": "r1", "modelVersion": "m-2026", "usageMetadata": usage,
            "candidates": [{ "index": 0, "finishReason": reason, "content": { "role": "model", "parts": parts } }],
        })
    };
    let thought = json!({ "text": "Adding.", "thought": true });
    let text = json!({ "text": "2" });
    let stop = json!("STOP");
    Dialect {
        protocol: "gemini",
        path: "/v1/models/m:generateContent",
        stream_path: "/v1/models/m:streamGenerateContent?alt=sse",
        key_header: ("x-goog-api-key", ""),
        answer: said(json!([thought, text]), stop.clone(), usage(200, 300)),
        events: vec![
            ("", said(json!([thought]), Value::Null, usage(0, 300))),
            ("", said(json!([text]), stop.clone(), usage(200, 300))),
        ],
        done: "",
        usage: whole_usage(None),
        cut_usage: whole_usage(None).cut(),
        refusal: said(json!([{ "text": "No." }]), json!("SAFETY"), usage(2, 0)),
        thoughtful: said(json!([thought]), stop.clone(), usage(0, 300)),
        blank: said(json!([]), stop.clone(), usage(0, 0)),
        tool: said(
            json!([thought, text, { "functionCall": { "name": "run", "args": { "x": 1 } } }]),
            stop,
            usage(200, 300),
        ),
        overflow: (
            400,
            json!({ "error": {
                "code": 400, "status": "INVALID_ARGUMENT",
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            }}),
        ),
    }
}
