//! Calling a model: limits, retries, deadline, outcome and ledger entry.
//!
//! A [`Hub`] holds what a process shares: two threads that do all input and output, and for each
//! provider its connections, limits and circuit breaker. A [`Client`] calls one model through it, from
//! any number of threads.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

use crate::breaker::{Admission, Breaker, BreakerSettings};
use crate::cancel::{Cancel, Stop, Stopped};
use crate::config::{ConfigError, Model, Provider};
use crate::exchange::{End, Exchange, Terms, exchange};
use crate::key::{Key, Keys, Scrubber};
use crate::ledger::{Cost, Entry, Spend, Try};
use crate::limits::Limiter;
use crate::outcome::{CallOutcome, Doing, Refuser};
use crate::prices::Prices;
use crate::protocol::{ApiError, ApiErrorKind, Finish, Message, Reply, Request};
use crate::retry::RetrySettings;
use crate::tls;

/// What a process shares between all of its calls.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Arc<HubOptions>,
    scrubber: Scrubber,
    providers: Mutex<HashMap<String, Arc<Shared>>>,
    runtime: Option<Runtime>,
}

/// How a hub calls.
#[derive(Clone, Debug, Default)]
pub struct HubOptions {
    /// Where keys come from.
    pub keys: Keys,
    /// What tokens cost.
    pub prices: Prices,
    /// Requests a minute for each provider, over what its configuration says.
    pub rpm: Option<u32>,
    /// Tokens a minute for each provider, over what its configuration says.
    pub tpm: Option<u64>,
    /// When to try again.
    pub retry: RetrySettings,
    /// When a provider counts as down.
    pub breaker: BreakerSettings,
}

/// What all callers of a provider share.
#[derive(Debug)]
struct Shared {
    http: reqwest::Client,
    limiter: Limiter,
    breaker: Breaker,
}

/// Why calls cannot begin.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The configuration is of no use.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address or a header is none.
    #[error("provider {provider}: {what}")]
    Provider {
        /// The provider.
        provider: String,
        /// What is wrong; a key is not shown.
        what: String,
    },
    /// The system refused threads, or its certificates cannot be used.
    #[error("calls to models cannot be made here: {0}")]
    System(String),
}

impl Hub {
    /// A hub of two threads.
    ///
    /// # Errors
    /// Where the system refuses them.
    pub fn new(options: HubOptions) -> Result<Self, ClientError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("mkb-model")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| ClientError::System(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            options: Arc::new(options),
            scrubber: Scrubber::new(),
            providers: Mutex::default(),
            runtime: Some(runtime),
        })))
    }

    /// A client of a model. Clients of one provider (by its name) share its limits.
    ///
    /// # Errors
    /// Where its key is missing, or an address or header is none.
    pub fn client(&self, model: Model) -> Result<Client, ClientError> {
        let key = model.provider.key(&self.0.options.keys)?;
        if let Some(key) = &key {
            self.0.scrubber.learn(key);
        }
        let headers = headers(&model.provider, key.as_ref())?;
        let shared = self.shared(&model.provider)?;
        Ok(Client {
            hub: self.clone(),
            job: Arc::new(Job {
                model,
                headers,
                shared,
            }),
        })
    }

    /// What takes the keys that this hub has used out of texts.
    pub fn scrubber(&self) -> &Scrubber {
        &self.0.scrubber
    }

    fn shared(&self, provider: &Provider) -> Result<Arc<Shared>, ClientError> {
        let providers = self.0.providers.lock();
        let mut providers = providers.unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = providers.get(&provider.name) {
            return Ok(shared.clone());
        }
        let options = &self.0.options;
        let shared = Arc::new(Shared {
            http: http(provider)?,
            limiter: Limiter::new(options.rpm.or(provider.rpm), options.tpm.or(provider.tpm)),
            breaker: Breaker::new(options.breaker),
        });
        providers.insert(provider.name.clone(), shared.clone());
        Ok(shared)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not block, so that a hub may be dropped anywhere.
            runtime.shutdown_background();
        }
    }
}

fn http(provider: &Provider) -> Result<reqwest::Client, ClientError> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("mkb-model/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls::config().map_err(ClientError::System)?)
        // A redirect would carry the key elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(provider.timeouts.connect)
        .pool_idle_timeout(Duration::from_secs(60));
    if is_loopback(&url(provider, "")?) {
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| ClientError::System(error.to_string()))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn url(provider: &Provider, path: &str) -> Result<Url, ClientError> {
    let text = format!("{}{path}", provider.base_url);
    Url::parse(&text).map_err(|error| ClientError::Provider {
        provider: provider.name.clone(),
        what: format!(
            "base_url {:?} with {path:?} is no URL: {error}",
            provider.base_url
        ),
    })
}

fn headers(provider: &Provider, key: Option<&Key>) -> Result<HeaderMap, ClientError> {
    let wrong = |what: String| ClientError::Provider {
        provider: provider.name.clone(),
        what,
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in provider.protocol.headers() {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    let name = |name: &str| {
        HeaderName::try_from(name).map_err(|_| wrong(format!("{name:?} is no header's name")))
    };
    for (header, value) in &provider.headers {
        let value = HeaderValue::try_from(value)
            .map_err(|_| wrong(format!("the value of header {header:?} is none")))?;
        headers.insert(name(header)?, value);
    }
    if let Some(key) = key {
        let (standard, prefix) = provider.protocol.key_header();
        let (header, prefix) = match &provider.key_header {
            Some(header) => (header.as_str(), ""),
            None => (standard, prefix),
        };
        let mut value = HeaderValue::try_from(format!("{prefix}{}", key.expose()))
            .map_err(|_| wrong("the key holds what no header may (it is not shown)".into()))?;
        value.set_sensitive(true);
        headers.insert(name(header)?, value);
    }
    Ok(headers)
}

/// Calls one model. Clones and threads share it.
#[derive(Clone, Debug)]
pub struct Client {
    hub: Hub,
    job: Arc<Job>,
}

/// A call's outcome and its entry in the ledger.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Call {
    /// How it ended.
    pub outcome: CallOutcome,
    /// What it took.
    pub entry: Entry,
}

impl Client {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.job.model
    }

    /// A request with the model's settings.
    pub fn request(&self, system: Option<String>, messages: Vec<Message>) -> Request {
        Request {
            system,
            messages,
            settings: self.job.model.settings.clone(),
        }
    }

    /// Asks the model and waits for the outcome: an answer, or what the last try said when the
    /// provider's faults or the deadline end the call. Blocks the thread; in asynchronous code use
    /// [`Client::call_async`].
    pub fn call(&self, request: &Request, deadline: Instant, cancel: &Cancel) -> Call {
        let (sender, receiver) = mpsc::sync_channel(1);
        let call = self.start(request, deadline, cancel);
        self.runtime().spawn(async move {
            // Nobody else has the receiver, and it waits below.
            let _ = sender.send(call.await);
        });
        receiver.recv().expect("a call does not panic")
    }

    /// The same for asynchronous code, under any runtime. Dropping the future lets the call run on
    /// to its deadline; cancel it instead.
    pub async fn call_async(&self, request: &Request, deadline: Instant, cancel: &Cancel) -> Call {
        let call = self.start(request, deadline, cancel);
        self.runtime()
            .spawn(call)
            .await
            .expect("a call does not panic")
    }

    fn start(
        &self,
        request: &Request,
        deadline: Instant,
        cancel: &Cancel,
    ) -> impl Future<Output = Call> + Send + use<> {
        let stop = Stop {
            deadline,
            cancel: cancel.clone(),
        };
        let running = Running {
            job: self.job.clone(),
            options: self.hub.0.options.clone(),
            scrubber: self.hub.0.scrubber.clone(),
            started: Instant::now(),
            at: Timestamp::now(),
            waited: Duration::ZERO,
            tries: Vec::new(),
            fault: None,
            faults: 0,
        };
        let body = self
            .job
            .model
            .provider
            .protocol
            .body(&self.job.model.name, request);
        let stream = request.settings.stream;
        async move { running.run(body.to_string(), stream, &stop).await }
    }

    fn runtime(&self) -> &Runtime {
        let runtime = self.hub.0.runtime.as_ref();
        runtime.expect("a hub has its runtime until it is dropped")
    }
}

/// What every call of a client needs.
#[derive(Debug)]
struct Job {
    model: Model,
    headers: HeaderMap,
    shared: Arc<Shared>,
}

/// A call under way.
struct Running {
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
    async fn run(mut self, body: String, stream: crate::protocol::Stream, stop: &Stop) -> Call {
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
        return Verdict::Again(CallOutcome::Empty(reply));
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
