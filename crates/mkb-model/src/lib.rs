//! One call to a language model, whatever its provider, with its ledger.

pub mod key;
pub mod ledger;
pub mod prices;
pub mod protocol;
pub mod usage;

pub use usage::Usage;
