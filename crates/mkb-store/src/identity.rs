//! Whose results a store holds and under which conditions, and its folder's name.

use std::collections::BTreeMap;

use mkb_catalog::fingerprint::sha256_hex;
use mkb_catalog::{Budget, Setting};
use serde_json::{Value, json};

use crate::error::StoreError;

/// The version of what we add to the paper's formats.
pub const SCHEMA: u64 = 1;

/// What results must have in common to stand in one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The model's id, e.g. `vendor/name`; for a built-in agent its own name.
    pub model: String,
    /// Device, clock and workload.
    pub setting: Setting,
    /// What each attempt may spend.
    pub budget: Budget,
}

impl Identity {
    /// The store's folder below the results folder: the model's slug in the paper's setting, and
    /// `<slug>@<device>-<clock>-<workload>` in any other.
    ///
    /// # Errors
    /// Where the model id gives no slug.
    pub fn folder(&self) -> Result<String, StoreError> {
        let slug = slug(&self.model)?;
        Ok(if self.setting == Setting::paper() {
            slug
        } else {
            format!("{slug}@{}", self.setting)
        })
    }

    /// The first six hexadecimal digits of sha256 over the whole model id; trial folders begin
    /// with it.
    pub fn prefix(&self) -> String {
        sha256_hex(self.model.as_bytes())[..6].to_owned()
    }

    /// `store.json`: the paper's three fields, then ours.
    pub(crate) fn to_json(&self, created_at: &str, versions: &BTreeMap<String, String>) -> Value {
        json!({
            "model": self.model,
            "prefix": self.prefix(),
            "created_at": created_at,
            "schema": SCHEMA,
            "device": self.setting.device,
            "clock": self.setting.clock,
            "workload": self.setting.workload,
            "budget": self.budget,
            "versions": versions,
        })
    }

    /// Reads `store.json`. A store of the reference implementation has none of our fields: it is
    /// of the paper's setting and budget.
    pub(crate) fn from_json(value: &Value) -> Result<Self, String> {
        let model = value
            .get("model")
            .and_then(Value::as_str)
            .ok_or("model: must be text")?;
        let paper = Setting::paper();
        fn field<T: serde::de::DeserializeOwned>(
            value: &Value,
            name: &str,
            absent: T,
        ) -> Result<T, String> {
            match value.get(name) {
                None => Ok(absent),
                Some(found) => T::deserialize(found).map_err(|error| format!("{name}: {error}")),
            }
        }
        Ok(Self {
            model: model.to_owned(),
            setting: Setting {
                device: field(value, "device", paper.device)?,
                clock: field(value, "clock", paper.clock)?,
                workload: field(value, "workload", paper.workload)?,
            },
            budget: field(value, "budget", Budget::PAPER)?,
        })
    }

    /// The first field in which a stored identity differs from this one: its name, the stored
    /// value and this one's.
    pub(crate) fn difference(&self, stored: &Self) -> Option<(&'static str, String, String)> {
        let budget = |b: Budget| format!("{} s and {} submissions", b.wall_sec, b.submissions);
        let fields = [
            ("model", stored.model.clone(), self.model.clone()),
            (
                "device",
                stored.setting.device.clone(),
                self.setting.device.clone(),
            ),
            (
                "clock",
                stored.setting.clock.to_string(),
                self.setting.clock.to_string(),
            ),
            (
                "workload",
                stored.setting.workload.to_string(),
                self.setting.workload.to_string(),
            ),
            ("budget", budget(stored.budget), budget(self.budget)),
        ];
        fields
            .into_iter()
            .find(|(_, stored, wanted)| stored != wanted)
    }
}

/// The model id after its last `/`, with each run of characters outside `[0-9A-Za-z._-]` as one
/// `-`.
///
/// # Errors
/// Where no ASCII letter or digit is left.
pub fn slug(model: &str) -> Result<String, StoreError> {
    let last = model.rsplit('/').next().unwrap_or(model);
    let mut slug = String::with_capacity(last.len());
    let mut in_run = false;
    for c in last.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            slug.push(c);
            in_run = false;
        } else if !in_run {
            slug.push('-');
            in_run = true;
        }
    }
    if slug.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
        Ok(slug)
    } else {
        Err(StoreError::Model(model.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use mkb_catalog::{Clock, Workload};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slugs_agree_with_pythons_on_recorded_cases() {
        let cases: Vec<(String, Option<String>)> =
            serde_json::from_str(include_str!("../tests/data/slugs.json")).expect("fixture");
        assert!(cases.len() > 300);
        for (model, expected) in cases {
            assert_eq!(slug(&model).ok(), expected, "{model:?}");
        }
    }

    #[test]
    fn the_papers_setting_has_the_bare_slug_and_others_say_theirs() {
        let mut identity = Identity {
            model: "vendor/Tiny Model:v1".to_owned(),
            setting: Setting::paper(),
            budget: Budget::PAPER,
        };
        assert_eq!(identity.folder().expect("a slug"), "Tiny-Model-v1");
        assert_eq!(identity.prefix(), "683ef0");
        identity.setting.clock = Clock::Modelled;
        identity.setting.workload = Workload::Reduced;
        assert_eq!(
            identity.folder().expect("a slug"),
            "Tiny-Model-v1@b200-modelled-reduced"
        );
    }

    #[test]
    fn a_store_of_the_reference_implementation_is_of_the_papers_setting() {
        let stored = json!({"model": "m", "prefix": "62c66a", "created_at": "x"});
        let identity = Identity::from_json(&stored).expect("an identity");
        assert_eq!(identity.setting, Setting::paper());
        assert_eq!(identity.budget, Budget::PAPER);
    }

    proptest! {
        #[test]
        fn a_slug_is_a_safe_folder_name(model in any::<String>()) {
            if let Ok(slug) = slug(&model) {
                prop_assert!(slug.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)));
                prop_assert!(slug != "." && slug != "..");
            }
        }
    }
}
