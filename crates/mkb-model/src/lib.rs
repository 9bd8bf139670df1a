//! One call to a language model, whatever its provider, with its ledger.
pub mod breaker;
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
pub use usage::Usage;
