//! One call to a language model, whatever its provider, with its ledger.

pub mod breaker;
pub mod config;
pub mod key;
pub mod ledger;
pub mod limits;
pub mod prices;
pub mod protocol;
pub mod usage;

pub use usage::Usage;
