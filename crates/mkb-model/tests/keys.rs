//! A key goes to its provider in one header, and shows up nowhere else.

mod support;

use mkb_model::outcome::OutcomeKind;
use support::dialect::all;
use support::{Answer, KEY, Setup};

/// Everything that a caller could log of a call.
fn shown(call: &mkb_model::client::Call) -> String {
    let entry = serde_json::to_string(&call.entry).unwrap();
    format!("{} {:?} {entry}", call.outcome, call)
}

fn writings() -> Vec<String> {
    vec![
        KEY.to_owned(),
        KEY.replace('/', r"\/").replace('-', r"\u002d"),
        KEY.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        KEY.chars()
            .map(|letter| format!("\\u{:04X}", u32::from(letter)))
            .collect(),
    ]
}

#[test]
fn a_key_that_an_error_repeats_is_taken_out() {
    for writing in writings() {
        for (status, kind) in [
            (401, OutcomeKind::KeyRejected),
            (400, OutcomeKind::WrongRequest),
            (500, OutcomeKind::ProviderDown),
        ] {
            let json =
                format!(r#"{{"error":{{"message":"bad key {writing}","code":"{writing}"}}}}"#);
            for body in [json, format!("<p>bad key {writing}</p>")] {
                let answer = Answer::status(status, body).with("x-request-id", KEY);
                let (call, received) = Setup::default().call("openai-chat", vec![answer]);
                assert_eq!(call.outcome.kind(), kind);
                let shown = shown(&call);
                assert!(shown.contains("[key]"), "{shown}");
                for hidden in writings().iter().map(String::as_str).chain(["0123+4567"]) {
                    assert!(!shown.contains(hidden), "{shown}");
                }
                assert_eq!(
                    received[0].headers["authorization"],
                    format!("Bearer {KEY}")
                );
            }
        }
    }
}

#[test]
fn a_key_that_an_answer_repeats_is_taken_out() {
    for dialect in all() {
        let text = dialect.tool.to_string();
        let text = text
            .replace("m-2026", KEY)
            .replace("Adding.", KEY)
            .replace(r#""2""#, &format!("\"{KEY}\""));
        let (call, _) = Setup::plain().call(dialect.protocol, vec![Answer::ok(text)]);
        let reply = call.outcome.reply().unwrap();
        assert_eq!(reply.text, "[key]");
        assert_eq!(reply.reasoning.as_deref(), Some("[key]"));
        assert!(!shown(&call).contains(KEY));
    }
}

#[test]
fn clients_and_requests_do_not_show_a_key() {
    let address = "127.0.0.1:1".parse().unwrap();
    let client = Setup::default().client("anthropic", address);
    let shown = format!("{client:?} {:#?}", client.model());
    assert!(
        !shown.contains(KEY) && shown.contains("SCRIPTED_KEY"),
        "{shown}"
    );
}
