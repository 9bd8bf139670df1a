//! What a problem and a family may be called.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A name that does not have the form that it must have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?} is not of the form {form}")]
pub struct NameError {
    what: &'static str,
    name: String,
    form: &'static str,
}

/// A problem's name, `NN_name`: two digits, then one or more runs of `[a-z0-9]`, each after a `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProblemName(String);

impl ProblemName {
    /// Reads a name, e.g. `28_fused_add_rmsnorm_h4096_llama31_8b_bf16`.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let error = || NameError {
            what: "problem",
            name: name.to_owned(),
            form: "[0-9]{2}_[a-z0-9]+(_[a-z0-9]+)*",
        };
        let (number, rest) = name.split_once('_').ok_or_else(error)?;
        let number_fits = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
        let rest_fits = rest.split('_').all(is_lower_alphanumeric);
        if number_fits && rest_fits {
            Ok(Self(name.to_owned()))
        } else {
            Err(error())
        }
    }

    /// The problem's number as its two digits, unique over a catalog.
    pub fn number(&self) -> &str {
        &self.0[..2]
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A family of problems (the formats call it a category): `[a-z][a-z0-9_]*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Family(String);

impl Family {
    /// Reads a family's name, e.g. `kv_cache`.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let mut bytes = name.bytes();
        let fits = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
            && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if fits {
            Ok(Self(name.to_owned()))
        } else {
            Err(NameError {
                what: "family",
                name: name.to_owned(),
                form: "[a-z][a-z0-9_]*",
            })
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_lower_alphanumeric(part: &str) -> bool {
    !part.is_empty()
        && part
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

macro_rules! string_forms {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(name: String) -> Result<Self, NameError> {
                Self::parse(&name)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}
string_forms!(ProblemName);
string_forms!(Family);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_problem_names_are_read() {
        for name in ["01_a", "74_delta_rule_deltanet_bf16", "00_0", "28_a_1_b"] {
            assert_eq!(ProblemName::parse(name).expect(name).as_str(), name);
        }
        assert_eq!(ProblemName::parse("07_a").expect("07_a").number(), "07");
    }

    #[test]
    fn malformed_problem_names_are_refused() {
        for name in [
            "", "1_a", "001_a", "01", "01_", "01__a", "01_a_", "01_A", "01_a-b", "01_ä", "٠١_a",
            "01_a\n",
        ] {
            assert!(ProblemName::parse(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn families_begin_with_a_letter() {
        for name in ["moe", "kv_cache", "a", "a_", "a9"] {
            assert!(Family::parse(name).is_ok(), "{name:?}");
        }
        for name in ["", "_a", "9a", "Moe", "a b", "a-b"] {
            assert!(Family::parse(name).is_err(), "{name:?}");
        }
    }
}
