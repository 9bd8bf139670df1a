//! What models answer, in each protocol: plain, streamed, with tools and reasoning, empty, refused.

mod support;

use mkb_model::ledger::{CostOrigin, Spend};
use mkb_model::outcome::{CallOutcome, DoingOf, OutcomeKind, Refuser};
use mkb_model::protocol::{Finish, ToolCall};
use support::dialect::{Dialect, all};
use support::{Answer, Ending, KEY, Setup};

/// By hand: 400 input and 600 cached tokens, or 250, 600 and 150 written, and 500 of output.
fn expected_cost(dialect: &Dialect) -> f64 {
    if dialect.protocol == "anthropic" {
        (250.0 + 60.0 + 187.5 + 5000.0) / 1e6
    } else {
        (400.0 + 60.0 + 5000.0) / 1e6
    }
}

#[test]
fn a_plain_answer_is_read_with_its_usage_and_cost() {
    for dialect in all() {
        let name = dialect.protocol;
        let answer = Answer::ok(dialect.answer.to_string()).with("x-request-id", "req-9");
        let (call, received) = Setup::plain().call(name, vec![answer]);
        let CallOutcome::Answered(reply) = &call.outcome else {
            panic!("{name}: {:?}", call.outcome);
        };
        assert_eq!(
            (reply.text.as_str(), &reply.finish),
            ("2", &Finish::Stop),
            "{name}"
        );
        assert_eq!(reply.reasoning.as_deref(), Some("Adding."), "{name}");
        assert_eq!(reply.model.as_deref(), Some("m-2026"), "{name}");
        assert_eq!(reply.usage, dialect.usage, "{name}");

        assert_eq!(received[0].path, dialect.path);
        let (header, prefix) = dialect.key_header;
        assert_eq!(
            received[0].headers[header],
            format!("{prefix}{KEY}"),
            "{name}"
        );

        let entry = &call.entry;
        assert_eq!(
            (entry.outcome.as_str(), entry.tries.len()),
            ("answered", 1),
            "{name}"
        );
        assert_eq!(
            (entry.provider.as_str(), entry.model.as_str()),
            ("scripted", "m")
        );
        let only = &entry.tries[0];
        assert_eq!((only.status, only.end.as_str()), (Some(200), "answered"));
        assert_eq!(only.spend, Spend::Reported(dialect.usage), "{name}");
        assert!(
            only.request_id.is_some() && only.first_byte_ms.is_some(),
            "{name}"
        );
        assert_eq!(only.cost.origin, CostOrigin::Table, "{name}");
        let cost = entry.totals().cost_usd.total().unwrap();
        assert!(
            (cost - expected_cost(&dialect)).abs() < 1e-15,
            "{name}: {cost}"
        );
    }
}

#[test]
fn a_streamed_answer_is_the_same_however_it_is_cut_into_chunks() {
    for dialect in all() {
        let name = dialect.protocol;
        let plain = Answer::ok(dialect.answer.to_string());
        let (plain, _) = Setup::plain().call(name, vec![plain]);
        for chunk in [1, 7, 100_000] {
            let answer = Answer::stream(&dialect.stream(), chunk, Ending::Whole);
            let (call, received) = Setup::default().call(name, vec![answer]);
            assert_eq!(call.outcome, plain.outcome, "{name} in chunks of {chunk}");
            assert_eq!(
                call.entry.tries[0].spend, plain.entry.tries[0].spend,
                "{name}"
            );
            assert_eq!(received[0].path, dialect.stream_path);
        }
    }
}

#[test]
fn a_stream_that_is_answered_plainly_and_the_other_way_round_is_read() {
    for dialect in all() {
        let name = dialect.protocol;
        let answer = Answer::ok(dialect.answer.to_string());
        let (call, _) = Setup::default().call(name, vec![answer]);
        assert_eq!(call.outcome.kind(), OutcomeKind::Answered, "{name}");
        let answer = Answer::stream(&dialect.stream(), 50, Ending::Whole);
        let (call, _) = Setup::plain().call(name, vec![answer]);
        assert_eq!(call.outcome.kind(), OutcomeKind::Answered, "{name}");
    }
}

#[test]
fn tools_and_reasoning_that_nobody_asked_for_do_not_disturb_an_answer() {
    for dialect in all() {
        let name = dialect.protocol;
        let answer = Answer::ok(dialect.tool.to_string());
        let (call, _) = Setup::plain().call(name, vec![answer]);
        let CallOutcome::Answered(reply) = &call.outcome else {
            panic!("{name}: {:?}", call.outcome);
        };
        let called = ToolCall {
            name: "run".into(),
            arguments: r#"{"x":1}"#.into(),
        };
        assert_eq!(
            (reply.text.as_str(), &reply.tool_calls),
            ("2", &vec![called]),
            "{name}"
        );
        assert_eq!(reply.reasoning.as_deref(), Some("Adding."), "{name}");
    }
}

#[test]
fn an_answer_of_reasoning_alone_is_empty_and_the_models_own() {
    for dialect in all() {
        let name = dialect.protocol;
        let answer = Answer::ok(dialect.thoughtful.to_string());
        let (call, received) = Setup::plain().call(name, vec![answer]);
        assert_eq!(call.outcome.kind(), OutcomeKind::Empty, "{name}");
        assert_eq!(received.len(), 1, "{name}");
        let usage = call.outcome.reply().unwrap().usage;
        assert_eq!(usage.prompt, Some(1000), "{name}");
    }
}

#[test]
fn an_answer_that_took_tokens_and_says_nothing_is_empty_and_the_models_own() {
    let mut silent = all()[0].blank.clone();
    silent["usage"]["completion_tokens"] = 1.into();
    silent["usage"]["total_tokens"] = 1001.into();
    let (call, received) = Setup::plain().call("openai-chat", vec![Answer::ok(silent.to_string())]);
    assert_eq!(call.outcome.kind(), OutcomeKind::Empty);
    assert_eq!(call.outcome.kind().doing_of(), DoingOf::Model);
    assert_eq!(received.len(), 1);
}

#[test]
fn an_answer_without_a_token_is_the_providers_and_asked_for_again() {
    for dialect in all() {
        let name = dialect.protocol;
        let blank = Answer::ok(dialect.blank.to_string());
        let answer = Answer::ok(dialect.answer.to_string());
        let (call, _) = Setup::plain().call(name, vec![blank.clone(), answer]);
        assert_eq!(call.outcome.kind(), OutcomeKind::Answered, "{name}");
        assert_eq!(call.entry.tries[0].end, "blank", "{name}");
        // Its input was charged all the same.
        assert_eq!(call.entry.totals().prompt.total(), Some(2000), "{name}");

        let (call, received) = Setup::plain().call(name, vec![blank]);
        assert_eq!(call.outcome.kind(), OutcomeKind::Malformed, "{name}");
        assert_eq!(received.len(), 3, "{name}");
    }
}

#[test]
fn a_refusal_is_told_from_an_answer() {
    for dialect in all() {
        let name = dialect.protocol;
        let answer = Answer::ok(dialect.refusal.to_string());
        let (call, received) = Setup::plain().call(name, vec![answer]);
        let CallOutcome::Refused { by, message, .. } = &call.outcome else {
            panic!("{name}: {:?}", call.outcome);
        };
        let expected = if name == "gemini" {
            Refuser::Filter
        } else {
            Refuser::Model
        };
        assert_eq!(
            (*by, message.as_str(), received.len()),
            (expected, "No.", 1),
            "{name}"
        );
        assert_eq!(call.entry.totals().prompt.total(), Some(1000), "{name}");
    }
}

#[test]
fn a_context_overflow_is_not_tried_again() {
    for dialect in all() {
        let name = dialect.protocol;
        let (status, body) = &dialect.overflow;
        let answer = Answer::status(*status, body.to_string());
        let (call, received) = Setup::default().call(name, vec![answer]);
        assert_eq!(call.outcome.kind(), OutcomeKind::ContextOverflow, "{name}");
        assert_eq!(received.len(), 1, "{name}");
        assert_eq!(call.entry.tries[0].spend, Spend::Nothing, "{name}");
        assert_eq!(call.entry.totals().cost_usd.total(), Some(0.0), "{name}");
    }
}

#[test]
fn openrouters_comments_padding_and_cost_are_understood() {
    let dialect = &all()[0];
    let mut stream = format!(": OPENROUTER PROCESSING\n\n{}", dialect.stream());
    stream = stream.replace(
        r#""total_tokens":1500"#,
        r#""total_tokens":1500,"cost":0.0123,"is_byok":false"#,
    );
    let answer = Answer::stream(&stream, 33, Ending::Whole);
    let (call, _) = Setup::default().call("openai-chat", vec![answer]);
    assert_eq!(call.outcome.reply().unwrap().cost_usd, Some(0.0123));
    assert_eq!(call.entry.tries[0].cost.origin, CostOrigin::Provider);
    assert_eq!(call.entry.totals().cost_usd.total(), Some(0.0123));

    let padded = format!("\n   \n\n{}", dialect.answer);
    let (call, _) = Setup::plain().call("openai-chat", vec![Answer::ok(padded)]);
    assert_eq!(call.outcome.kind(), OutcomeKind::Answered);
}

#[test]
fn a_missing_rate_or_count_makes_the_cost_unknown_and_is_said() {
    let dialect = &all()[0];
    let setup = Setup {
        rates: "input = 1\noutput = 10\n",
        ..Setup::plain()
    };
    let (call, _) = setup.call("openai-chat", vec![Answer::ok(dialect.answer.to_string())]);
    let cost = &call.entry.tries[0].cost;
    assert_eq!((cost.usd, cost.origin), (None, CostOrigin::Unknown));
    assert!(
        cost.why.as_ref().unwrap().contains("cache_read"),
        "{cost:?}"
    );

    let mut silent = dialect.answer.clone();
    silent.as_object_mut().unwrap().remove("usage");
    let (call, _) = Setup::plain().call("openai-chat", vec![Answer::ok(silent.to_string())]);
    let totals = call.entry.totals();
    assert_eq!((totals.prompt.total(), totals.output.total()), (None, None));
    assert_eq!(totals.cost_usd.total(), None);
}
