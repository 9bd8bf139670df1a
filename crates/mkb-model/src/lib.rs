//! One call to a language model, whatever its provider, with its ledger.
//!
//! - [`client`]: [`Hub`] and [`Client`], which call; [`outcome`] is how calls end, told apart by whose
//!   doing it is.
//! - [`config`]: `models.toml`, providers and models; [`key`]: keys and the scrubber that takes them
//!   out of texts.
//! - [`ledger`]: what calls took and cost; [`prices`]: `prices.toml`; [`usage`]: tokens by kind.
//! - [`protocol`]: the wire protocols, for requests of one's own and for metering those of others,
//!   without input or output.
//! - [`limits`], [`breaker`], [`retry`]: how fast a provider is called, and what happens when it fails.
//!
//! All but [`client`] is independent of it: a gateway that forwards others' calls uses the protocols'
//! meters, the ledger, limits, breaker and scrubber alone.
//!
//! Three rules hold throughout. What a provider does wrong never looks like the model's answer:
//! [`outcome::OutcomeKind::doing_of`] tells them apart. What is unknown is `None`, never 0, and a sum
//! with an unknown part has no total. A key is in one header and nowhere else.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::{Duration, Instant};
//!
//! use mkb_model::config::Config;
//! use mkb_model::key::Keys;
//! use mkb_model::prices::Prices;
//! use mkb_model::protocol::Message;
//! use mkb_model::{CallOutcome, Cancel, Hub, HubOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hub = Hub::new(HubOptions {
//!     keys: Keys::with_file(Path::new(".env"))?,
//!     prices: Prices::built_in(),
//!     rpm: Some(60),
//!     ..HubOptions::default()
//! })?;
//! let client = hub.client(Config::built_in().model("anthropic/claude-haiku-4-5")?)?;
//!
//! let request = client.request(None, vec![Message::user("What is 1 + 1?")]);
//! let deadline = Instant::now() + Duration::from_secs(120);
//! let call = client.call(&request, deadline, &Cancel::new());
//! match &call.outcome {
//!     CallOutcome::Answered(reply) => println!("{}", reply.text),
//!     other => println!("{}: {other}", other.kind()),
//! }
//! let totals = call.entry.totals();
//! match totals.cost_usd.total() {
//!     Some(usd) => println!("{usd} US dollars"),
//!     None => println!("at least {} US dollars", totals.cost_usd.known()),
//! }
//! # Ok(())
//! # }
//! ```

pub mod breaker;
mod call;
mod cancel;
pub mod client;
pub mod config;
mod exchange;
pub mod key;
pub mod ledger;
pub mod limits;
pub mod outcome;
pub mod prices;
pub mod protocol;
pub mod retry;
mod tls;
pub mod usage;

pub use cancel::Cancel;
pub use client::{Call, Client, ClientError, Hub, HubOptions};
pub use config::{Config, ConfigError, Model};
pub use outcome::{CallOutcome, OutcomeKind};
pub use usage::Usage;
