//! `models.toml`: providers, models and how to call them.
//!
//! The built-in file knows the usual providers, so that `PROVIDER/NAME` works without an entry; a
//! user's file is laid over it, field by field:
//!
//! ```toml
//! [providers.campus]                     # a new provider, or fields of a known one
//! protocol = "openai-chat"               # openai-responses, anthropic, gemini
//! base_url = "https://llm.example.org/v1"
//! key_env = "CAMPUS_KEY"                 # the variable that holds the key
//! key_optional = false                   # true: no key, no header
//! key_header = "api-key"                 # where the protocol's own header is not the right one
//! headers = { "x-team" = "kernels" }     # no secrets here: only key_env is kept out of sight
//! price_as = "openai"                    # look prices up as this provider's
//! rpm = 60                               # requests a minute, tokens a minute
//! tpm = 200000
//! timeouts = { connect_s = 10, first_byte_s = 300, stall_s = 30 }
//! settings = { temperature = 0.7 }       # for all of its models
//!
//! [models.fast]                          # called by `fast`
//! provider = "campus"                    # may be left out where the entry is named PROVIDER/NAME
//! name = "qwen-3-coder"                  # the name on the wire
//! context_window = 131072
//! price = "campus/qwen-3-coder"          # the key in prices.toml, if it is not PROVIDER/NAME
//!
//! [models.fast.settings]
//! reasoning_effort = "high"
//! max_output_tokens = 32000
//! stream = true
//! extra_body = { top_k = 20 }
//! routing = { order = ["a", "b"], allow_fallbacks = false }
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::key::{Key, Keys};
use crate::protocol::{RESERVED_FIELDS, ReasoningField, Settings, Wire};

const BUILT_IN: &str = include_str!("../models.toml");

/// What `models.toml` says, the built-in one and a user's together.
#[derive(Clone, Debug)]
pub struct Config {
    providers: BTreeMap<String, toml::Table>,
    models: BTreeMap<String, ModelEntry>,
}

/// A provider.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Its name in the configuration.
    #[serde(skip)]
    pub name: String,
    /// Its wire protocol.
    pub protocol: Wire,
    /// The URL that the protocol's paths are appended to.
    pub base_url: String,
    /// The variable that holds the key.
    pub key_env: Option<String>,
    /// Whether it may be called without a key.
    #[serde(default)]
    pub key_optional: bool,
    /// The header that carries the key as it is, instead of the protocol's own.
    pub key_header: Option<String>,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The provider whose prices hold.
    pub price_as: Option<String>,
    /// Requests a minute.
    pub rpm: Option<u32>,
    /// Tokens a minute.
    pub tpm: Option<u64>,
    /// How long to wait for what.
    #[serde(default)]
    pub timeouts: Timeouts,
}

/// How long to wait for what. The deadline of a call comes on top.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// For a connection.
    #[serde(rename = "connect_s", deserialize_with = "seconds")]
    pub connect: Duration,
    /// From sending to the first byte of the answer's body; a plain answer comes whole, so that
    /// this is the time to answer.
    #[serde(rename = "first_byte_s", deserialize_with = "seconds")]
    pub first_byte: Duration,
    /// Between two chunks of the body.
    #[serde(rename = "stall_s", deserialize_with = "seconds")]
    pub stall: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            stall: Duration::from_secs(30),
        }
    }
}

fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| serde::de::Error::custom("a time in seconds, above 0, is wanted"))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ModelEntry {
    provider: Option<String>,
    name: Option<String>,
    context_window: Option<u64>,
    price: Option<String>,
    settings: toml::Table,
}

/// A model, ready to be called.
#[derive(Clone, Debug)]
pub struct Model {
    /// What the user calls it.
    pub id: String,
    /// Its name on the wire.
    pub name: String,
    /// Its provider.
    pub provider: Provider,
    /// Tokens that prompt and answer may take together, if known.
    pub context_window: Option<u64>,
    /// Its key in the table of prices.
    pub price_key: String,
    /// How to call it.
    pub settings: Settings,
}

/// A model as it stands in records: everything but keys and addresses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRecord {
    /// The provider's name.
    pub provider: String,
    /// The name on the wire.
    pub name: String,
    /// How it is called.
    pub settings: Settings,
}

/// Why a configuration or a model's name is of no use.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file does not hold what it must.
    #[error("{place}: {message}")]
    Malformed {
        /// The file, and the entry where one is at fault.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// A model that is named nowhere.
    #[error(
        "no model {id:?}: write PROVIDER/NAME, such as openrouter/deepseek/deepseek-chat, or one of the entries of models.toml ({})",
        list(entries)
    )]
    NoModel {
        /// What was asked for.
        id: String,
        /// The entries.
        entries: Vec<String>,
    },
    /// A provider that is named nowhere.
    #[error(
        "no provider {name:?}: known are {}; others are added in models.toml",
        list(known)
    )]
    NoProvider {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A provider's key is not set.
    #[error("{provider} needs a key: set {variable}, in the environment or in a .env file")]
    NoKey {
        /// The provider.
        provider: String,
        /// The variable.
        variable: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

impl Config {
    /// The built-in configuration.
    pub fn built_in() -> Self {
        Self::parse(&[("the built-in models.toml", BUILT_IN)])
            .expect("a test reads the built-in file")
    }

    /// The built-in configuration with a user's file over it.
    ///
    /// # Errors
    /// Where the file cannot be read or does not hold what it must.
    pub fn with_file(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|source| ConfigError::Io {
            path: path.to_owned(),
            source,
        })?;
        let place = path.display().to_string();
        Self::parse(&[("the built-in models.toml", BUILT_IN), (&place, &text)])
    }

    /// Files laid over each other, later over earlier; each with what errors call it.
    fn parse(files: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let mut whole = toml::Table::new();
        let mut last = "models.toml";
        for (place, text) in files {
            last = place;
            let table: toml::Table =
                text.parse()
                    .map_err(|error: toml::de::Error| ConfigError::Malformed {
                        place: (*place).to_owned(),
                        message: error.to_string(),
                    })?;
            lay_over(&mut whole, table);
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            providers: BTreeMap<String, toml::Table>,
            #[serde(default)]
            models: BTreeMap<String, ModelEntry>,
        }
        let file: File =
            whole
                .try_into()
                .map_err(|error: toml::de::Error| ConfigError::Malformed {
                    place: last.to_owned(),
                    message: error.to_string(),
                })?;
        let config = Self {
            providers: file.providers,
            models: file.models,
        };
        for name in config.providers.keys() {
            config.provider(name).map_err(|error| error.in_file(last))?;
        }
        for id in config.models.keys() {
            config.model(id).map_err(|error| error.in_file(last))?;
        }
        Ok(config)
    }

    /// The names of the providers.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// The names of the models with an entry.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// A provider by name.
    ///
    /// # Errors
    /// Where there is none.
    pub fn provider(&self, name: &str) -> Result<Provider, ConfigError> {
        self.provider_with_settings(name)
            .map(|(provider, _)| provider)
    }

    /// A model: an entry of that name, or `PROVIDER/NAME` with the provider's defaults.
    ///
    /// # Errors
    /// Where there is neither.
    pub fn model(&self, id: &str) -> Result<Model, ConfigError> {
        let entry = self.models.get(id).cloned();
        let named = id.split_once('/').filter(|(_, name)| !name.is_empty());
        if entry.is_none() && named.is_none() {
            return Err(ConfigError::NoModel {
                id: id.to_owned(),
                entries: self.models.keys().cloned().collect(),
            });
        }
        let entry = entry.unwrap_or_default();
        let wanting = |message: &str| ConfigError::Malformed {
            place: format!("models.{id:?}"),
            message: message.to_owned(),
        };
        let of_id = |part: fn((&str, &str)) -> String| named.map(part);
        let provider = entry
            .provider
            .or_else(|| of_id(|(provider, _)| provider.to_owned()))
            .ok_or_else(|| wanting("`provider` is missing"))?;
        let name = entry
            .name
            .or_else(|| of_id(|(_, name)| name.to_owned()))
            .ok_or_else(|| wanting("`name`, the model's name on the wire, is missing"))?;
        let (provider, mut settings) = self.provider_with_settings(&provider)?;
        lay_over(&mut settings, entry.settings);
        let settings: Settings = settings
            .try_into()
            .map_err(|error: toml::de::Error| wanting(&error.to_string()))?;
        check(provider.protocol, &settings).map_err(|message| wanting(&message))?;
        let price_key = entry.price.unwrap_or_else(|| {
            let priced = provider.price_as.as_deref().unwrap_or(&provider.name);
            format!("{priced}/{name}")
        });
        Ok(Model {
            id: id.to_owned(),
            name,
            provider,
            context_window: entry.context_window,
            price_key,
            settings,
        })
    }

    fn provider_with_settings(&self, name: &str) -> Result<(Provider, toml::Table), ConfigError> {
        let mut table =
            self.providers
                .get(name)
                .cloned()
                .ok_or_else(|| ConfigError::NoProvider {
                    name: name.to_owned(),
                    known: self.providers.keys().cloned().collect(),
                })?;
        let wrong = |message: String| ConfigError::Malformed {
            place: format!("providers.{name}"),
            message,
        };
        let settings = match table.remove("settings") {
            None => toml::Table::new(),
            Some(toml::Value::Table(settings)) => settings,
            Some(_) => return Err(wrong("`settings` is no table".into())),
        };
        let mut provider: Provider = table
            .try_into()
            .map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        name.clone_into(&mut provider.name);
        let scheme = ["https://", "http://"];
        if !scheme
            .iter()
            .any(|scheme| provider.base_url.starts_with(scheme))
        {
            return Err(wrong(format!(
                "`base_url` {:?} begins with neither https:// nor http://",
                provider.base_url
            )));
        }
        let authority = provider.base_url.split('/').nth(2).unwrap_or_default();
        if authority.contains('@') {
            return Err(wrong(
                "`base_url` holds a name or password; a key belongs into the variable `key_env`"
                    .into(),
            ));
        }
        let length = provider.base_url.trim_end_matches('/').len();
        provider.base_url.truncate(length);
        Ok((provider, settings))
    }
}

impl ConfigError {
    fn in_file(self, file: &str) -> Self {
        match self {
            Self::Malformed { place, message } => Self::Malformed {
                place: format!("{file}: {place}"),
                message,
            },
            other => other,
        }
    }
}

impl Provider {
    /// Its key.
    ///
    /// # Errors
    /// Where it needs one and there is none.
    pub fn key(&self, keys: &Keys) -> Result<Option<Key>, ConfigError> {
        let Some(variable) = &self.key_env else {
            return Ok(None);
        };
        match keys.get(variable) {
            Some(key) => Ok(Some(key)),
            None if self.key_optional => Ok(None),
            None => Err(ConfigError::NoKey {
                provider: self.name.clone(),
                variable: variable.clone(),
            }),
        }
    }
}

impl Model {
    /// What stands in records.
    pub fn record(&self) -> ModelRecord {
        ModelRecord {
            provider: self.provider.name.clone(),
            name: self.name.clone(),
            settings: self.settings.clone(),
        }
    }
}

/// Whether a protocol can be asked for these settings; nothing is passed over in silence.
fn check(wire: Wire, settings: &Settings) -> Result<(), String> {
    if settings.reasoning_effort.is_some() && settings.reasoning_tokens.is_some() {
        return Err("`reasoning_effort` and `reasoning_tokens` exclude each other".into());
    }
    let takes_budget = match wire {
        Wire::OpenAiChat => settings.reasoning_field == ReasoningField::Reasoning,
        Wire::OpenAiResponses => false,
        Wire::Anthropic | Wire::Gemini => true,
    };
    if settings.reasoning_tokens.is_some() && !takes_budget {
        return Err(
            "this protocol takes no `reasoning_tokens`; use `reasoning_effort`, or the provider's own field in `extra_body`"
                .into(),
        );
    }
    if settings
        .temperature
        .is_some_and(|heat| !heat.is_finite() || heat < 0.0)
    {
        return Err("`temperature` is negative or no number".into());
    }
    if settings.max_output_tokens == Some(0) {
        return Err("`max_output_tokens` is 0".into());
    }
    if let Some(field) = RESERVED_FIELDS
        .iter()
        .find(|f| settings.extra_body.contains_key(**f))
    {
        return Err(format!("`extra_body` may not set `{field}`"));
    }
    Ok(())
}

/// Lays tables over each other; what is no table is replaced.
fn lay_over(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(over)) => lay_over(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::{MaxTokensField, Stream};

    fn with(text: &str) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.toml");
        fs::write(&path, text).unwrap();
        Config::with_file(&path)
    }

    #[test]
    fn a_known_providers_model_needs_no_entry() {
        let model = Config::built_in()
            .model("openrouter/deepseek/deepseek-chat")
            .unwrap();
        assert_eq!(model.name, "deepseek/deepseek-chat");
        assert_eq!(model.provider.protocol, Wire::OpenAiChat);
        assert_eq!(model.price_key, "openrouter/deepseek/deepseek-chat");
        assert_eq!(model.settings.reasoning_field, ReasoningField::Reasoning);
    }

    #[test]
    fn every_built_in_provider_has_a_key_variable_and_can_be_called() {
        let config = Config::built_in();
        for name in config.providers() {
            let model = config.model(&format!("{name}/m")).unwrap();
            assert!(model.provider.key_env.is_some(), "{name}");
        }
        assert!(config.providers().count() >= 8);
    }

    #[test]
    fn an_entry_carries_every_setting() {
        let config = with(
            r#"
            [providers.campus]
            protocol = "openai-chat"
            base_url = "https://llm.example.org/v1/"
            key_env = "CAMPUS_KEY"
            key_header = "api-key"
            headers = { "x-team" = "kernels" }
            rpm = 60
            tpm = 200000
            timeouts = { stall_s = 0.5 }
            settings = { temperature = 0.7, extra_body = { seed = 1 } }

            [models.fast]
            provider = "campus"
            name = "qwen-3-coder"
            context_window = 131072
            price = "house/qwen"

            [models.fast.settings]
            reasoning_effort = "high"
            max_output_tokens = 32000
            stream = false
            extra_body = { top_k = 20 }
            routing = { order = ["a", "b"] }
            "#,
        )
        .unwrap();
        let model = config.model("fast").unwrap();
        assert_eq!(model.provider.base_url, "https://llm.example.org/v1");
        assert_eq!(model.provider.timeouts.stall, Duration::from_millis(500));
        assert_eq!(model.provider.timeouts.connect, Timeouts::default().connect);
        assert_eq!(model.context_window, Some(131_072));
        assert_eq!(model.price_key, "house/qwen");
        let expected = Settings {
            reasoning_effort: Some("high".into()),
            temperature: Some(0.7),
            max_output_tokens: Some(32_000),
            stream: Stream::No,
            routing: json!({ "order": ["a", "b"] }).as_object().cloned(),
            extra_body: json!({ "seed": 1, "top_k": 20 })
                .as_object()
                .unwrap()
                .clone(),
            ..Settings::default()
        };
        assert_eq!(model.settings, expected);
    }

    #[test]
    fn a_users_fields_win_and_the_others_stay() {
        let config = with("[providers.openai]\nbase_url = \"http://localhost:1\"\n").unwrap();
        let model = config.model("openai/gpt-5").unwrap();
        assert_eq!(model.provider.base_url, "http://localhost:1");
        assert_eq!(model.provider.key_env.as_deref(), Some("OPENAI_API_KEY"));
        assert_eq!(
            model.settings.max_tokens_field,
            MaxTokensField::MaxCompletionTokens
        );
    }

    #[test]
    fn errors_name_the_file_the_entry_and_what_to_do() {
        let provider = "provider = \"openai\"\nname = \"m\"\n";
        for (text, wanted) in [
            (
                "[providers.x]\nprotocol = \"smtp\"\nbase_url = \"http://a\"\n",
                "providers.x",
            ),
            (
                "[providers.x]\nprotocol = \"gemini\"\nbase_url = \"a.b\"\n",
                "base_url",
            ),
            (
                "[providers.x]\nprotocol = \"gemini\"\nbase_url = \"http://me:pass@a.b\"\n",
                "key_env",
            ),
            ("[providers.openai]\ncolour = 1\n", "colour"),
            ("[models.m]\nprovider = \"openai\"\n", "`name`"),
            (
                "[models.m]\nprovider = \"nobody\"\nname = \"m\"\n",
                "nobody",
            ),
            (
                &format!("[models.m]\n{provider}settings = {{ warmth = 1 }}\n"),
                "warmth",
            ),
            (
                &format!("[models.m]\n{provider}settings = {{ extra_body = {{ model = 1 }} }}\n"),
                "`model`",
            ),
            (
                &format!("[models.m]\n{provider}settings = {{ reasoning_tokens = 5 }}\n"),
                "reasoning_effort",
            ),
            ("[models", "models.toml"),
            (
                "[providers.x]\nprotocol = \"gemini\"\nbase_url = \"http://a\"\ntimeouts = { stall_s = 0 }\n",
                "above 0",
            ),
        ] {
            let error = with(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let error = Config::built_in().model("gpt-5").unwrap_err().to_string();
        assert!(error.contains("PROVIDER/NAME"), "{error}");
        let error = Config::built_in()
            .model("nobody/m")
            .unwrap_err()
            .to_string();
        assert!(error.contains("anthropic, dashscope"), "{error}");
    }

    #[test]
    fn a_missing_key_names_its_variable_unless_it_is_optional() {
        let config = Config::built_in();
        let none = Keys::of_pairs([("OPENAI_API_KEY", " ")]);
        let error = config
            .provider("openai")
            .unwrap()
            .key(&none)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("OPENAI_API_KEY") && error.contains(".env"),
            "{error}"
        );
        assert_eq!(config.provider("vllm").unwrap().key(&none).unwrap(), None);
        let keys = Keys::of_pairs([("VLLM_API_KEY", "k")]);
        assert!(
            config
                .provider("vllm")
                .unwrap()
                .key(&keys)
                .unwrap()
                .is_some()
        );
    }
}
