//! Many callers of one provider: limits and breaker are shared, memory stays flat, nothing is lost.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mkb_model::Cancel;
use mkb_model::breaker::BreakerSettings;
use mkb_model::client::Client;
use mkb_model::ledger::Totals;
use mkb_model::outcome::{CallOutcome, Doing, OutcomeKind};
use mkb_model::retry::RetrySettings;
use support::dialect::all;
use support::{Answer, Ending, Server, Setup, ask, minutes};

/// Calls from many threads at once, several times each.
fn call_together(client: &Client, threads: usize, times: usize) -> Vec<mkb_model::client::Call> {
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..threads)
            .map(|_| {
                std::thread::Builder::new()
                    .stack_size(256 << 10)
                    .spawn_scoped(scope, move || {
                        let call = || ask(client, minutes(10), &Cancel::new());
                        (0..times).map(|_| call()).collect::<Vec<_>>()
                    })
                    .unwrap()
            })
            .collect();
        let calls = callers
            .into_iter()
            .flat_map(|caller| caller.join().unwrap());
        calls.collect()
    })
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn two_hundred_callers_get_their_answers_and_memory_stays_flat() {
    let dialect = &all()[2];
    let stream = dialect.stream();
    // Every tenth is refused once.
    let server = Server::by(move |place, _| {
        if place % 10 == 9 {
            Answer::status(503, "{}")
        } else {
            Answer::stream(&stream, 200, Ending::Whole)
        }
    });
    let setup = Setup {
        retry: RetrySettings {
            most_faults: 30,
            ..Setup::default().retry
        },
        ..Setup::default()
    };
    let client = setup.client("anthropic", server.address);
    let warm = call_together(&client, 200, 2);
    let before = resident();
    let calls = call_together(&client, 200, 10);
    let grown = resident().saturating_sub(before);
    assert_eq!((warm.len(), calls.len()), (400, 2000));
    for call in &calls {
        assert_eq!(
            call.outcome.kind(),
            OutcomeKind::Answered,
            "{}",
            call.outcome
        );
    }
    let totals: Totals = calls.iter().map(|call| &call.entry).collect();
    assert_eq!(totals.output.total(), Some(2000 * 500));
    assert!(totals.tries > totals.calls);
    // The outcomes themselves and what the server noted, some kilobytes a call.
    assert!(grown < 64 << 20, "{grown} bytes more after 2,000 calls");
}

#[test]
fn a_limit_of_requests_holds_over_all_callers() {
    let dialect = &all()[0];
    let whole = Answer::stream(&dialect.stream(), 1000, Ending::Whole);
    let server = Server::of(vec![whole]);
    let setup = Setup {
        // Ten a second, with ten at once.
        rpm: Some(600),
        ..Setup::default()
    };
    let client = setup.client("openai-chat", server.address);
    let started = Instant::now();
    let calls = call_together(&client, 20, 1);
    // Ten of them had to wait a tenth of a second each, one after the other.
    assert!(started.elapsed() >= Duration::from_millis(1000));
    assert!(
        calls
            .iter()
            .all(|call| call.outcome.kind() == OutcomeKind::Answered)
    );

    let setup = Setup {
        rpm: Some(1),
        ..Setup::default()
    };
    let client = setup.client("openai-chat", server.address);
    let _ = ask(&client, minutes(2), &Cancel::new());
    let call = ask(
        &client,
        Instant::now() + Duration::from_millis(50),
        &Cancel::new(),
    );
    let expected = CallOutcome::Deadline {
        doing: Doing::WaitingForTurn,
    };
    assert_eq!(call.outcome, expected);
}

#[test]
fn while_a_provider_is_down_callers_wait_and_go_on_when_it_is_back() {
    let dialect = &all()[3];
    let stream = dialect.stream();
    let down = Arc::new(AtomicBool::new(true));
    let refused = Arc::new(AtomicUsize::new(0));
    let server = {
        let (down, refused) = (down.clone(), refused.clone());
        Server::by(move |_, _| {
            if down.load(Ordering::SeqCst) {
                refused.fetch_add(1, Ordering::SeqCst);
                Answer::status(500, "{}")
            } else {
                Answer::stream(&stream, 1000, Ending::Whole)
            }
        })
    };
    let setup = Setup {
        retry: RetrySettings {
            most_faults: 1000,
            ..Setup::default().retry
        },
        breaker: BreakerSettings {
            faults: 5,
            pause: Duration::from_millis(50),
            longest_pause: Duration::from_millis(200),
        },
        ..Setup::default()
    };
    let client = setup.client("gemini", server.address);
    let calls = std::thread::scope(|scope| {
        let calls = scope.spawn(|| call_together(&client, 30, 1));
        // Until the breaker has opened and let probes through.
        while refused.load(Ordering::SeqCst) < 34 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (before, since) = (refused.load(Ordering::SeqCst), Instant::now());
        std::thread::sleep(Duration::from_millis(1000));
        let probes = refused.load(Ordering::SeqCst) - before;
        // At most one every 100 ms, later 200 ms; without a breaker 30 callers would send some
        // thousands.
        let most = since.elapsed().as_millis() as usize / 100 + 5;
        assert!(
            probes <= most,
            "{probes} requests to a provider that is down"
        );
        down.store(false, Ordering::SeqCst);
        calls.join().unwrap()
    });
    for call in calls {
        assert_eq!(
            call.outcome.kind(),
            OutcomeKind::Answered,
            "{}",
            call.outcome
        );
    }
}

#[test]
fn a_deadline_under_an_open_breaker_is_the_providers_doing() {
    let server = Server::of(vec![Answer::status(500, "{}")]);
    let setup = Setup {
        retry: RetrySettings {
            most_faults: 1,
            ..Setup::default().retry
        },
        breaker: BreakerSettings {
            faults: 1,
            pause: Duration::from_secs(600),
            longest_pause: Duration::from_secs(600),
        },
        ..Setup::default()
    };
    let client = setup.client("openai-chat", server.address);
    let first = ask(&client, minutes(2), &Cancel::new());
    let soon = Instant::now() + Duration::from_millis(100);
    let second = ask(&client, soon, &Cancel::new());
    for call in [&first, &second] {
        assert_eq!(
            call.outcome.kind(),
            OutcomeKind::ProviderDown,
            "{}",
            call.outcome
        );
    }
    assert!(second.entry.tries.is_empty());
    assert_eq!(server.count(), 1);
}

#[test]
fn calls_can_be_made_from_asynchronous_code_and_a_hub_be_dropped_there() {
    let dialect = &all()[1];
    let server = Server::of(vec![Answer::ok(dialect.answer.to_string())]);
    let address = server.address;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let call = runtime.block_on(async move {
        let client = Setup::plain().client("openai-responses", address);
        let request = client.request(None, vec![mkb_model::protocol::Message::user("1+1?")]);
        client
            .call_async(&request, minutes(2), &Cancel::new())
            .await
    });
    assert_eq!(call.outcome.kind(), OutcomeKind::Answered);
}
