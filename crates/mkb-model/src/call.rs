//! One call under way: its tries one after the other, what each means, and the entry that results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::HeaderMap;

use crate::breaker::{Admission, Breaker};
use crate::cancel::{Stop, Stopped};
use crate::client::{Call, HubOptions, url};
use crate::config::Model;
use crate::exchange::{End, Exchange, Terms, exchange};
use crate::key::Scrubber;
use crate::ledger::{Cost, Entry, Spend, Try};
use crate::limits::Limiter;
use crate::outcome::{CallOutcome, Doing, Refuser};
use crate::protocol::{ApiError, ApiErrorKind, Finish, Reply, Stream};

/// What every call of a client needs.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) model: Model,
    pub(crate) headers: HeaderMap,
    pub(crate) shared: Arc<Shared>,
}

/// What all callers of a provider share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) http: reqwest::Client,
    pub(crate) limiter: Limiter,
    pub(crate) breaker: Breaker,
}

/// A call under way.
pub(crate) struct Running {
    job: Arc<Job>,
    options: Arc<HubOptions>,
    scrubber: Scrubber,
    started: Instant,
    at: Timestamp,
    waited: Duration,
    tries: Vec<Try>,
    /// What the call ends as if there is no further try.
    fault: Option<CallOutcome>,
    faults: u32,
}

/// What a try means for the call.
enum Verdict {
    /// It is over.
    Over(CallOutcome),
    /// Try again; else this is how it ends.
    Again(CallOutcome),
}

impl Running {
    pub(crate) fn new(job: Arc<Job>, options: Arc<HubOptions>, scrubber: Scrubber) -> Self {
        Self {
            job,
            options,
            scrubber,
            started: Instant::now(),
            at: Timestamp::now(),
            waited: Duration::ZERO,
            tries: Vec::new(),
            fault: None,
            faults: 0,
        }
    }

    /// Tries until there is an outcome.
    pub(crate) async fn run(mut self, body: String, stream: Stream, stop: &Stop) -> Call {
        let job = self.job.clone();
        let provider = &job.model.provider;
        let outcome = match url(provider, &provider.protocol.path(&job.model.name, stream)) {
            Ok(url) => {
                let terms = Terms {
                    wire: provider.protocol,
                    stream,
                    timeouts: provider.timeouts,
                    stop,
                };
                self.tries(&job, &url, &body, terms).await
            }
            Err(error) => CallOutcome::WrongRequest(ApiError {
                kind: ApiErrorKind::WrongRequest,
                status: None,
                code: None,
                message: error.to_string(),
                retry_after: None,
            }),
        };
        let outcome = outcome.scrubbed(&self.scrubber);
        Call {
            entry: Entry {
                at: self.at,
                provider: provider.name.clone(),
                model: job.model.name.clone(),
                outcome: outcome.kind().name().to_owned(),
                detail: match outcome {
                    CallOutcome::Answered(_) => None,
                    _ => Some(outcome.to_string()),
                },
                elapsed_ms: millis(self.started.elapsed()),
                waited_ms: millis(self.waited),
                tries: self.tries,
            },
            outcome,
        }
    }

    async fn tries(&mut self, job: &Job, url: &Url, body: &str, terms: Terms<'_>) -> CallOutcome {
        // About four bytes a token; what it really took is told afterwards.
        let estimate = body.len() as u64 / 4 + 1;
        loop {
            let waiting = Instant::now();
            let admission = terms.stop.or(job.shared.breaker.admit()).await;
            self.waited += waiting.elapsed();
            let admission = match admission {
                Ok(admission) => admission,
                Err(stopped) => return self.stopped_at_breaker(job, stopped),
            };
            let waiting = Instant::now();
            let permit = terms.stop.or(job.shared.limiter.acquire(estimate)).await;
            self.waited += waiting.elapsed();
            let permit = match permit {
                Ok(permit) => permit,
                Err(stopped) => return self.stopped_at_limiter(job, stopped),
            };
            let request = job
                .shared
                .http
                .post(url.clone())
                .headers(job.headers.clone());
            let at = Timestamp::now();
            let exchange = exchange(request.body(body.to_owned()), terms).await;
            permit.settle(match exchange.spend {
                Spend::Nothing => 0,
                Spend::Unknown => estimate,
                Spend::Reported(usage) => usage.known_total().max(1),
            });
            self.record(at, &exchange);
            let asked = exchange.retry_after;
            let end = exchange.end;
            tell(admission, &end);
            let fault = match judge(end, exchange.first_byte.is_some()) {
                // Silence after faults is the provider's, not the caller's impatience.
                Verdict::Over(CallOutcome::Deadline {
                    doing: Doing::WaitingForAnswer,
                }) if self.fault.is_some() => return self.fault.take().expect("looked at above"),
                Verdict::Over(outcome) => return outcome,
                Verdict::Again(fault) => fault,
            };
            if let Some(outcome) = self.pause(job, fault, asked, terms.stop).await {
                return outcome;
            }
        }
    }

    /// Waits before the next try, unless there is none.
    async fn pause(
        &mut self,
        job: &Job,
        fault: CallOutcome,
        asked: Option<Duration>,
        stop: &Stop,
    ) -> Option<CallOutcome> {
        let limited = matches!(fault, CallOutcome::RateLimited { .. });
        if !limited {
            self.faults += 1;
            if self.faults >= self.options.retry.most_faults {
                return Some(fault);
            }
        }
        if let (true, Some(asked)) = (limited, asked) {
            job.shared.limiter.pause(asked);
        }
        let retry = u32::try_from(self.tries.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(1);
        let pause = self.options.retry.pause(retry, asked);
        let too_late = Instant::now()
            .checked_add(pause)
            .is_none_or(|at| at >= stop.deadline);
        if too_late {
            return Some(fault);
        }
        let waiting = Instant::now();
        let paused = stop.or(tokio::time::sleep(pause)).await;
        self.waited += waiting.elapsed();
        match paused {
            Err(Stopped::Cancelled) => Some(CallOutcome::Cancelled),
            Err(Stopped::Deadline) => Some(fault),
            Ok(()) => {
                self.fault = Some(fault);
                None
            }
        }
    }

    fn stopped_at_breaker(&mut self, job: &Job, stopped: Stopped) -> CallOutcome {
        match stopped {
            Stopped::Cancelled => CallOutcome::Cancelled,
            Stopped::Deadline => match (self.fault.take(), job.shared.breaker.open_because()) {
                (Some(fault), _) => fault,
                (None, Some(message)) => CallOutcome::ProviderDown { message },
                (None, None) => CallOutcome::Deadline {
                    doing: Doing::WaitingForTurn,
                },
            },
        }
    }

    fn stopped_at_limiter(&mut self, job: &Job, stopped: Stopped) -> CallOutcome {
        match stopped {
            Stopped::Cancelled => CallOutcome::Cancelled,
            Stopped::Deadline => match self.fault.take() {
                Some(fault) => fault,
                None if job.shared.limiter.is_paused() => CallOutcome::RateLimited {
                    message: "the provider asked all calls to wait".into(),
                },
                None => CallOutcome::Deadline {
                    doing: Doing::WaitingForTurn,
                },
            },
        }
    }

    fn record(&mut self, at: Timestamp, exchange: &Exchange) {
        let reply = match &exchange.end {
            End::Reply(reply) => Some(reply),
            _ => None,
        };
        let reported = reply.and_then(|reply| reply.cost_usd);
        let price_key = &self.job.model.price_key;
        let id = reply.and_then(|reply| reply.id.clone());
        let id = id.or_else(|| exchange.request_id.clone());
        self.tries.push(Try {
            at,
            latency_ms: millis(exchange.latency),
            first_byte_ms: exchange.first_byte.map(millis),
            status: exchange.status,
            end: end_name(&exchange.end).to_owned(),
            request_id: id.map(|id| self.scrubber.scrub(&id)),
            spend: exchange.spend,
            cost: Cost::of(&exchange.spend, reported, &self.options.prices, price_key),
        });
    }
}

/// Tells the breaker what an end says of the provider's health.
fn tell(admission: Admission<'_>, end: &End) {
    let fault = match end {
        End::Reply(_) => return admission.alive(),
        End::Api(error) if error.kind.is_provider_fault() => error.to_string(),
        End::Api(_) => return admission.alive(),
        End::Malformed(what) | End::Cut(what) | End::Unreachable(what) | End::Lost(what) => {
            what.clone()
        }
        End::Stalled(_) | End::NoFirstByte(_) => "it does not answer in time".to_owned(),
        // Says nothing; a probe's right passes on.
        End::Stopped(_) => return drop(admission),
    };
    admission.fault(&fault);
}

fn judge(end: End, begun: bool) -> Verdict {
    use CallOutcome as Outcome;
    match end {
        End::Reply(reply) => judge_reply(*reply),
        End::Api(error) => judge_error(error),
        End::Malformed(what) => Verdict::Again(Outcome::Malformed { what }),
        End::Cut(what) => Verdict::Again(Outcome::CutStream { what }),
        End::Stalled(silence) => Verdict::Again(Outcome::Stalled { silence }),
        End::NoFirstByte(limit) => Verdict::Again(Outcome::ProviderDown {
            message: format!("no answer began within {:.1} s", limit.as_secs_f64()),
        }),
        End::Unreachable(message) | End::Lost(message) => {
            Verdict::Again(Outcome::ProviderDown { message })
        }
        End::Stopped(Stopped::Cancelled) => Verdict::Over(Outcome::Cancelled),
        End::Stopped(Stopped::Deadline) => Verdict::Over(Outcome::Deadline {
            doing: if begun {
                Doing::Answering
            } else {
                Doing::WaitingForAnswer
            },
        }),
    }
}

fn judge_reply(reply: Reply) -> Verdict {
    let refuser = match reply.finish {
        Finish::Refusal => Some(Refuser::Model),
        Finish::Filter => Some(Refuser::Filter),
        _ => None,
    };
    if let Some(by) = refuser {
        return Verdict::Over(CallOutcome::Refused {
            by,
            message: reply.text.chars().take(300).collect(),
            reply: Some(reply),
        });
    }
    if reply.is_blank() {
        // A model that says nothing still took a token to say so.
        return Verdict::Again(CallOutcome::Malformed {
            what: "it is empty, and no token of output is reported".into(),
        });
    }
    Verdict::Over(if reply.text.trim().is_empty() {
        CallOutcome::Empty(reply)
    } else {
        CallOutcome::Answered(reply)
    })
}

fn judge_error(error: ApiError) -> Verdict {
    match error.kind {
        ApiErrorKind::RateLimited => Verdict::Again(CallOutcome::RateLimited {
            message: error.to_string(),
        }),
        ApiErrorKind::Overloaded | ApiErrorKind::Server => {
            Verdict::Again(CallOutcome::ProviderDown {
                message: error.to_string(),
            })
        }
        ApiErrorKind::Quota | ApiErrorKind::Key => Verdict::Over(CallOutcome::KeyRejected(error)),
        ApiErrorKind::ContextOverflow => Verdict::Over(CallOutcome::ContextOverflow(error)),
        ApiErrorKind::WrongRequest => Verdict::Over(CallOutcome::WrongRequest(error)),
        ApiErrorKind::Filtered => Verdict::Over(CallOutcome::Refused {
            by: Refuser::Filter,
            reply: None,
            message: error.to_string(),
        }),
    }
}

/// How a try's end is named in the ledger.
fn end_name(end: &End) -> &'static str {
    match end {
        End::Reply(reply) if reply.is_blank() => "blank",
        End::Reply(_) => "answered",
        End::Api(error) => match error.kind {
            ApiErrorKind::RateLimited => "rate_limited",
            ApiErrorKind::Quota => "quota",
            ApiErrorKind::Key => "key",
            ApiErrorKind::ContextOverflow => "context_overflow",
            ApiErrorKind::Filtered => "filtered",
            ApiErrorKind::WrongRequest => "wrong_request",
            ApiErrorKind::Overloaded => "overloaded",
            ApiErrorKind::Server => "server_error",
        },
        End::Malformed(_) => "malformed",
        End::Cut(_) => "cut",
        End::Stalled(_) => "stalled",
        End::NoFirstByte(_) => "no_first_byte",
        End::Unreachable(_) => "unreachable",
        End::Lost(_) => "connection_lost",
        End::Stopped(Stopped::Cancelled) => "cancelled",
        End::Stopped(Stopped::Deadline) => "deadline",
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
