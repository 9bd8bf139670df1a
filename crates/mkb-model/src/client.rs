//! Who calls models: what a process shares, and a client for each model.
//!
//! A [`Hub`] holds what a process shares: two threads that do all input and output, and for each
//! provider its connections, limits and circuit breaker. A [`Client`] calls one model through it, from
//! any number of threads.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

use crate::breaker::{Breaker, BreakerSettings};
use crate::call::{Job, Running, Shared};
use crate::cancel::{Cancel, Stop};
use crate::config::{ConfigError, Model, Provider};
use crate::key::{Key, Keys, Scrubber};
use crate::ledger::Entry;
use crate::limits::Limiter;
use crate::outcome::CallOutcome;
use crate::prices::Prices;
use crate::protocol::{Message, Request};
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

/// How a hub calls. By default there are no keys and no prices.
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

pub(crate) fn url(provider: &Provider, path: &str) -> Result<Url, ClientError> {
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
        let options = self.hub.0.options.clone();
        let running = Running::new(self.job.clone(), options, self.hub.0.scrubber.clone());
        let model = &self.job.model;
        let body = model.provider.protocol.body(&model.name, request);
        let stream = request.settings.stream;
        async move { running.run(body.to_string(), stream, &stop).await }
    }

    fn runtime(&self) -> &Runtime {
        let runtime = self.hub.0.runtime.as_ref();
        runtime.expect("a hub has its runtime until it is dropped")
    }
}
