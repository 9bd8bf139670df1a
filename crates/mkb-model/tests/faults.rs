//! What providers do wrong, in each protocol: every kind ends as itself, with the ledger right, and
//! never as the model's answer.

mod support;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use mkb_model::Cancel;
use mkb_model::client::{Call, Client};
use mkb_model::ledger::Spend;
use mkb_model::outcome::{CallOutcome, Doing, DoingOf, OutcomeKind};
use support::dialect::{Dialect, all};
use support::{Answer, Ending, Server, Setup, ask, minutes};

const RATE_LIMIT: &str = r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#;
const BROKEN: &str = r#"{"error":{"message":"internal"}}"#;

fn whole(dialect: &Dialect) -> Answer {
    Answer::stream(&dialect.stream(), 40, Ending::Whole)
}

fn ends(call: &Call) -> Vec<&str> {
    call.entry
        .tries
        .iter()
        .map(|attempt| attempt.end.as_str())
        .collect()
}

/// The call ended well after tries that cost nothing.
fn assert_recovered(dialect: &Dialect, call: &Call, expected: &[&str]) {
    let name = dialect.protocol;
    assert_eq!(
        call.outcome.kind(),
        OutcomeKind::Answered,
        "{name}: {}",
        call.outcome
    );
    assert_eq!(ends(call), expected, "{name}");
    assert_eq!(call.entry.retries(), expected.len() - 1, "{name}");
    let totals = call.entry.totals();
    assert_eq!(totals.prompt.total(), Some(1000), "{name}");
    assert_eq!(totals.output.total(), Some(500), "{name}");
    assert!(totals.cost_usd.total().is_some(), "{name}");
    for refused in &call.entry.tries[..expected.len() - 1] {
        assert_eq!(
            (refused.spend, refused.cost.usd),
            (Spend::Nothing, Some(0.0)),
            "{name}"
        );
    }
}

#[test]
fn a_rate_limit_without_a_time_is_tried_again() {
    for dialect in all() {
        // More often than a provider's faults would be borne.
        let limited = Answer::status(429, RATE_LIMIT);
        let mut answers = vec![limited; 5];
        answers.push(whole(&dialect));
        let (call, _) = Setup::default().call(dialect.protocol, answers);
        let mut expected = vec!["rate_limited"; 5];
        expected.push("answered");
        assert_recovered(&dialect, &call, &expected);
    }
}

#[test]
fn a_rate_limit_with_a_time_is_waited_for() {
    for dialect in all() {
        for (header, value) in [("retry-after-ms", "300"), ("retry-after", "0.3")] {
            let limited = Answer::status(429, RATE_LIMIT).with(header, value);
            let started = Instant::now();
            let (call, _) = Setup::default().call(dialect.protocol, vec![limited, whole(&dialect)]);
            assert!(started.elapsed() >= Duration::from_millis(300), "{header}");
            assert_recovered(&dialect, &call, &["rate_limited", "answered"]);
            assert!(call.entry.waited_ms >= 300, "{header}");
        }
    }
}

#[test]
fn a_rate_limit_beyond_the_deadline_ends_the_call_at_once() {
    for dialect in all() {
        let limited = Answer::status(429, RATE_LIMIT).with("retry-after", "86400");
        let (call, received) = Setup::default().call(dialect.protocol, vec![limited]);
        assert_eq!(call.outcome.kind(), OutcomeKind::RateLimited);
        assert_eq!(received.len(), 1);
        assert_eq!(call.entry.totals().cost_usd.total(), Some(0.0));
    }
}

#[test]
fn a_rate_limit_holds_the_other_callers_of_the_provider() {
    let limited = Answer::status(429, RATE_LIMIT).with("retry-after", "86400");
    let server = Server::of(vec![limited]);
    let client = Setup::default().client("openai-chat", server.address);
    let first = ask(&client, minutes(2), &Cancel::new());
    let soon = Instant::now() + Duration::from_millis(200);
    let second = ask(&client, soon, &Cancel::new());
    for call in [first, second] {
        assert_eq!(
            call.outcome.kind(),
            OutcomeKind::RateLimited,
            "{}",
            call.outcome
        );
    }
    assert_eq!(server.count(), 1);
}

#[test]
fn failures_are_tried_again_until_they_are_too_many() {
    for dialect in all() {
        let failure = Answer::status(500, BROKEN);
        let overload = Answer::status(529, "").with("retry-after-ms", "1");
        let answers = vec![failure.clone(), overload, whole(&dialect)];
        let (call, _) = Setup::default().call(dialect.protocol, answers);
        assert_recovered(&dialect, &call, &["server_error", "overloaded", "answered"]);

        let (call, received) = Setup::default().call(dialect.protocol, vec![failure]);
        assert_eq!(call.outcome.kind(), OutcomeKind::ProviderDown);
        assert_eq!(call.outcome.kind().doing_of(), DoingOf::Provider);
        assert_eq!(received.len(), 3);
        assert_eq!(call.entry.totals().prompt.total(), Some(0));
        assert!(call.entry.detail.as_ref().unwrap().contains("internal"));
    }
}

#[test]
fn a_failure_inside_of_an_answer_is_the_providers() {
    for dialect in all() {
        let mut text = dialect.text(1);
        text += r#"data: {"type":"error","error":{"type":"overloaded_error","code":503,"message":"busy"}}"#;
        text += "\n\n";
        let failing = Answer::stream(&text, 40, Ending::Whole);
        let (call, _) = Setup::default().call(dialect.protocol, vec![failing, whole(&dialect)]);
        assert_eq!(
            ends(&call),
            ["overloaded", "answered"],
            "{}",
            dialect.protocol
        );
        // It had begun to answer: what that took is unknown, and so is the sum.
        let totals = call.entry.totals();
        assert_eq!((totals.output.total(), totals.output.known), (None, 500));
    }
}

#[test]
fn a_cut_stream_is_tried_again_and_what_it_took_stays_unknown() {
    for dialect in all() {
        let name = dialect.protocol;
        let cut = Answer::stream(&dialect.text(1), 40, Ending::Cut);
        let (call, _) = Setup::default().call(name, vec![cut.clone(), whole(&dialect)]);
        assert_eq!(call.outcome.kind(), OutcomeKind::Answered, "{name}");
        assert_eq!(ends(&call), ["cut", "answered"], "{name}");
        let totals = call.entry.totals();
        assert_eq!(
            (totals.output.total(), totals.output.known),
            (None, 500),
            "{name}"
        );
        assert_eq!(
            (totals.cost_usd.total(), totals.cost_usd.unknown),
            (None, 1),
            "{name}"
        );
        let expected = dialect.cut_usage.prompt.map(|first| first + 1000);
        assert_eq!(totals.prompt.total(), expected, "{name}");

        let (call, received) = Setup::default().call(name, vec![cut]);
        assert_eq!(call.outcome.kind(), OutcomeKind::CutStream, "{name}");
        assert_eq!(received.len(), 3, "{name}");
    }
}

#[test]
fn a_stream_that_ends_early_but_in_order_is_cut_too() {
    for dialect in all() {
        let events = dialect.events.len();
        for text in [dialect.text(events - 1), dialect.text(1), String::new()] {
            // Without its last event a stream may already have said that it is complete.
            let complete = text.contains(r#""finish_reason":"stop""#) || text.contains("end_turn");
            let answer = Answer::stream(&text, 40, Ending::Whole);
            let (call, _) = Setup::default().call(dialect.protocol, vec![answer]);
            let expected = if complete {
                OutcomeKind::Answered
            } else {
                OutcomeKind::CutStream
            };
            assert_eq!(
                call.outcome.kind(),
                expected,
                "{}: {text}",
                dialect.protocol
            );
        }
    }
}

#[test]
fn a_stream_that_is_complete_but_lacks_its_usage_is_an_answer_of_unknown_cost() {
    let dialect = &all()[0];
    let without_usage = dialect.text(dialect.events.len() - 1);
    let cut = Answer::stream(&without_usage, 40, Ending::Cut);
    let (call, _) = Setup::default().call("openai-chat", vec![cut]);
    assert_eq!(call.outcome.kind(), OutcomeKind::Answered);
    assert_eq!(call.entry.totals().cost_usd.total(), None);
}

#[test]
fn a_body_shorter_than_announced_is_cut() {
    for dialect in all() {
        let short = Answer::Short(dialect.answer.to_string());
        let (call, _) = Setup::plain().call(dialect.protocol, vec![short]);
        assert_eq!(call.outcome.kind(), OutcomeKind::CutStream);
        assert_eq!(call.entry.totals().prompt.total(), None);
    }
}

#[test]
fn what_is_no_answer_is_malformed() {
    for dialect in all() {
        let name = dialect.protocol;
        let half = &dialect.answer.to_string()[..60];
        for body in [half, "<html>hello</html>", "[]", "null", "{}", "\u{0}"] {
            let (call, received) = Setup::plain().call(name, vec![Answer::ok(body)]);
            assert_eq!(
                call.outcome.kind(),
                OutcomeKind::Malformed,
                "{name}: {body}"
            );
            assert_eq!(received.len(), 3, "{name}");
            assert_eq!(call.entry.totals().cost_usd.total(), None, "{name}");
        }
        let broken = format!("{}data: {{\"half\": \n\n", dialect.text(1));
        let broken = Answer::stream(&broken, 40, Ending::Whole);
        let (call, _) = Setup::default().call(name, vec![broken, whole(&dialect)]);
        assert_eq!(call.outcome.kind(), OutcomeKind::Answered, "{name}");
        assert_eq!(ends(&call), ["malformed", "answered"], "{name}");
    }
}

#[test]
fn a_stall_between_chunks_ends_as_a_stall() {
    let setup = Setup {
        timeouts: "first_byte_s = 60, stall_s = 0.2",
        ..Setup::default()
    };
    for dialect in all() {
        let name = dialect.protocol;
        let stalled = Answer::stream(&dialect.text(1), 10_000, Ending::Stall);
        let (call, received) = setup.call(name, vec![stalled]);
        let CallOutcome::Stalled { silence } = call.outcome else {
            panic!("{name}: {}", call.outcome);
        };
        assert_eq!(silence, Duration::from_millis(200));
        assert_eq!(
            (received.len(), ends(&call)),
            (3, vec!["stalled"; 3]),
            "{name}"
        );
        assert_eq!(call.entry.totals().output.total(), None, "{name}");
    }
}

#[test]
fn silence_before_an_answer_means_that_the_provider_is_down() {
    let setup = Setup {
        timeouts: "first_byte_s = 0.2",
        ..Setup::default()
    };
    for silent in [Answer::Silence, Answer::Stream(Vec::new(), Ending::Stall)] {
        let (call, _) = setup.call("openai-chat", vec![silent]);
        assert_eq!(
            call.outcome.kind(),
            OutcomeKind::ProviderDown,
            "{}",
            call.outcome
        );
        assert_eq!(ends(&call), ["no_first_byte"; 3]);
        // It may have worked on the request.
        assert_eq!(call.entry.totals().prompt.total(), None);
    }
}

#[test]
fn a_lost_connection_may_have_cost_something_and_a_refused_one_has_not() {
    let (call, received) = Setup::default().call("anthropic", vec![Answer::Hangup]);
    assert_eq!(
        call.outcome.kind(),
        OutcomeKind::ProviderDown,
        "{}",
        call.outcome
    );
    assert_eq!(
        (received.len(), ends(&call)),
        (3, vec!["connection_lost"; 3])
    );
    assert_eq!(call.entry.totals().cost_usd.total(), None);

    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let client = Setup::default().client("anthropic", address);
    let call = ask(&client, minutes(2), &Cancel::new());
    assert_eq!(call.outcome.kind(), OutcomeKind::ProviderDown);
    assert_eq!(ends(&call), ["unreachable"; 3]);
    assert_eq!(call.entry.totals().cost_usd.total(), Some(0.0));
    assert!(
        !call.outcome.to_string().contains("http://"),
        "{}",
        call.outcome
    );
}

#[test]
fn wrong_requests_and_redirects_are_not_tried_again() {
    let elsewhere = Server::of(vec![Answer::status(200, "{}")]);
    let location = format!("http://{}/v1/chat/completions", elsewhere.address);
    for answer in [
        Answer::status(404, r#"{"error":{"message":"no such model"}}"#),
        Answer::status(400, r#"{"error":{"message":"unknown field"}}"#),
        Answer::status(307, "").with("location", &location),
    ] {
        let (call, received) = Setup::default().call("openai-chat", vec![answer]);
        assert_eq!(
            call.outcome.kind(),
            OutcomeKind::WrongRequest,
            "{}",
            call.outcome
        );
        assert_eq!(call.outcome.kind().doing_of(), DoingOf::Configuration);
        assert_eq!(received.len(), 1);
    }
    assert_eq!(elsewhere.count(), 0);
}

/// Calls with ever later deadlines until the server has come as far as is wanted: how long that takes
/// depends on the machine.
fn ask_until(client: &Client, reached: impl Fn(&Call) -> bool) -> Call {
    let calls = [0.3, 3.0, 30.0].map(|seconds| {
        let deadline = move || Instant::now() + Duration::from_secs_f64(seconds);
        move || ask(client, deadline(), &Cancel::new())
    });
    let mut last = None;
    for call in calls {
        let call = call();
        if reached(&call) {
            return call;
        }
        last = Some(call);
    }
    last.unwrap()
}

#[test]
fn the_deadline_ends_a_call_wherever_it_is() {
    for dialect in all() {
        let name = dialect.protocol;
        let server = Server::of(vec![Answer::stream(&dialect.text(1), 99, Ending::Stall)]);
        let client = Setup::default().client(name, server.address);
        let answering = CallOutcome::Deadline {
            doing: Doing::Answering,
        };
        let wanted = dialect.cut_usage.prompt;
        let call = ask_until(&client, |call| call.entry.totals().prompt.total() == wanted);
        assert_eq!(call.outcome, answering, "{name}");
        assert_eq!(call.outcome.kind().doing_of(), DoingOf::Caller);
        assert_eq!(call.entry.totals().prompt.total(), wanted, "{name}");

        let server = Server::of(vec![Answer::Silence]);
        let client = Setup::default().client(name, server.address);
        let call = ask_until(&client, |_| true);
        let waiting = CallOutcome::Deadline {
            doing: Doing::WaitingForAnswer,
        };
        assert_eq!(call.outcome, waiting, "{name}");

        let call = ask(&client, Instant::now(), &Cancel::new());
        assert_eq!(call.outcome.kind(), OutcomeKind::Deadline, "{name}");
        assert!(call.entry.tries.is_empty());
    }
}

#[test]
fn silence_after_failures_is_the_providers_even_at_the_deadline() {
    let server = Server::by(|place, _| {
        if place % 2 == 0 {
            Answer::status(500, BROKEN)
        } else {
            Answer::Silence
        }
    });
    let client = Setup::default().client("gemini", server.address);
    let call = ask_until(&client, |call| call.entry.tries.len() == 2);
    assert_eq!(ends(&call), ["server_error", "deadline"]);
    assert_eq!(
        call.outcome.kind(),
        OutcomeKind::ProviderDown,
        "{}",
        call.outcome
    );
}

#[test]
fn cancelling_ends_a_call_while_it_answers_and_while_it_waits() {
    let dialect = &all()[2];
    let answers = [
        Answer::stream(&dialect.text(1), 99, Ending::Stall),
        Answer::status(429, RATE_LIMIT).with("retry-after", "60"),
    ];
    for answer in answers {
        let server = Server::of(vec![answer]);
        let client = Setup::default().client(dialect.protocol, server.address);
        let cancel = Cancel::new();
        let call = std::thread::scope(|scope| {
            let call = scope.spawn(|| ask(&client, minutes(10), &cancel));
            while server.count() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            cancel.cancel();
            call.join().unwrap()
        });
        assert_eq!(call.outcome, CallOutcome::Cancelled);
        assert!(cancel.is_cancelled());
    }
}
