//! Keys, which never show themselves, and the scrubber, which takes them out of any text.
//!
//! A provider may repeat a key in an error, escaped in any of the ways of the formats that carry it:
//! `\u002d` or `\/` in JSON, once or several times over, `%2D` or `%252D` in a URL, `&#45;` in HTML.
//! [`Scrubber`] finds a key under any mix of them, in a text or in a stream of bytes that may cut it
//! anywhere.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, RwLock};

use thiserror::Error;

/// What stands where a key stood.
pub const REDACTED: &str = "[key]";

/// Keys shorter than this are not looked for: local servers take any word for a key, and a word is
/// no secret.
pub const MIN_SECRET_BYTES: usize = 8;

/// A provider's key. Neither `Debug` nor `Display` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<str>);

impl Key {
    /// A key; space around it is cut off.
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }

    /// The key itself, for the one header that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key([key])")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Where keys come from: the environment, then a `.env` file.
#[derive(Clone, Default)]
pub struct Keys {
    pairs: Vec<(String, Key)>,
    environment: bool,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.pairs.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

/// Why a `.env` file could not be read. It never shows what the file holds.
#[derive(Debug, Error)]
pub enum KeysError {
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A line is no `NAME=VALUE`.
    #[error("{path}: entry {entry} is no NAME=VALUE; it is not shown, for it may hold a key")]
    Malformed {
        /// The file.
        path: String,
        /// Which entry, counted from 1, comments and empty lines left out.
        entry: usize,
    },
}

impl Keys {
    /// Keys of the environment.
    pub fn of_environment() -> Self {
        Self {
            pairs: Vec::new(),
            environment: true,
        }
    }

    /// Keys of the environment, and of a `.env` file where the environment has none. The process's
    /// environment is left alone, so that what it starts inherits no key from the file.
    ///
    /// # Errors
    /// Where the file cannot be read or is none.
    pub fn with_file(path: &Path) -> Result<Self, KeysError> {
        let shown = || path.display().to_string();
        let io = |source| KeysError::Io {
            path: shown(),
            source,
        };
        let file = std::fs::File::open(path).map_err(io)?;
        let mut pairs = Vec::new();
        for (place, item) in dotenvy::from_read_iter(file).enumerate() {
            match item {
                Ok((name, value)) => pairs.push((name, Key::new(&value))),
                Err(dotenvy::Error::Io(source)) => return Err(io(source)),
                Err(_) => {
                    return Err(KeysError::Malformed {
                        path: shown(),
                        entry: place + 1,
                    });
                }
            }
        }
        Ok(Self {
            pairs,
            environment: true,
        })
    }

    /// These keys alone, by variable.
    pub fn of_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs.into_iter();
        Self {
            pairs: pairs
                .map(|(name, key)| (name.to_owned(), Key::new(key)))
                .collect(),
            environment: false,
        }
    }

    /// A variable's key, unless it is unset or blank.
    pub fn get(&self, variable: &str) -> Option<Key> {
        let set = if self.environment {
            std::env::var(variable).ok()
        } else {
            None
        };
        let key = match set {
            Some(text) => Key::new(&text),
            None => self
                .pairs
                .iter()
                .rev()
                .find(|(name, _)| name == variable)?
                .1
                .clone(),
        };
        (!key.expose().is_empty()).then_some(key)
    }
}

/// Takes every key that it knows out of text. Clones share what they know.
#[derive(Clone, Default)]
pub struct Scrubber {
    keys: Arc<RwLock<Vec<Key>>>,
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrubber({} keys)", self.known().len())
    }
}

impl Scrubber {
    /// A scrubber that knows no key yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a key known. One shorter than [`MIN_SECRET_BYTES`] is no secret and is passed over.
    pub fn learn(&self, key: &Key) {
        let mut keys = self
            .keys
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if key.expose().len() >= MIN_SECRET_BYTES && !keys.contains(key) {
            keys.push(key.clone());
            // The longest first: a key may be the start of another.
            keys.sort_by_key(|key| std::cmp::Reverse(key.expose().len()));
        }
    }

    /// The text without keys.
    pub fn scrub(&self, text: &str) -> String {
        // A match begins at a character's first byte and ends behind a whole character.
        String::from_utf8_lossy(&self.scrub_bytes(text.as_bytes())).into_owned()
    }

    /// The bytes without keys.
    pub fn scrub_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut out = stream.push(bytes);
        out.extend(stream.finish());
        out
    }

    /// A scrubber of a stream of bytes, for the keys known now.
    pub fn stream(&self) -> StreamScrubber {
        StreamScrubber {
            keys: self.known(),
            held: Vec::new(),
        }
    }

    fn known(&self) -> Vec<Key> {
        let keys = self.keys.read();
        keys.unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

/// Takes keys out of bytes that come in chunks. It holds back what may be the start of a key until
/// more is known, never more than a key in its longest writing.
pub struct StreamScrubber {
    keys: Vec<Key>,
    held: Vec<u8>,
}

impl fmt::Debug for StreamScrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamScrubber({} bytes held)", self.held.len())
    }
}

impl StreamScrubber {
    /// Takes the next bytes and gives those that are certain to be no part of a key.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        self.release(false)
    }

    /// Ends the stream and gives the rest.
    pub fn finish(mut self) -> Vec<u8> {
        self.release(true)
    }

    fn release(&mut self, ended: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.held.len());
        let mut at = 0;
        while at < self.held.len() {
            match self.at(at, ended) {
                Found::Key { end } => {
                    out.extend_from_slice(REDACTED.as_bytes());
                    at = end;
                }
                Found::Start => break,
                Found::Nothing => {
                    out.push(self.held[at]);
                    at += 1;
                }
            }
        }
        self.held.drain(..at);
        out
    }

    /// Whether a key stands at a place. Where a longer one may still come, it is waited for.
    fn at(&self, at: usize, ended: bool) -> Found {
        for key in &self.keys {
            match find(key.expose().as_bytes(), &self.held[at..]) {
                Found::Key { end } => return Found::Key { end: at + end },
                Found::Start if !ended => return Found::Start,
                Found::Start | Found::Nothing => {}
            }
        }
        Found::Nothing
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A key, up to here.
    Key {
        end: usize,
    },
    /// What there is may be the start of a key.
    Start,
    Nothing,
}

/// Looks for a key at the start of bytes, under any escapes.
fn find(key: &[u8], bytes: &[u8]) -> Found {
    let mut at = 0;
    for &wanted in key {
        match unit(&bytes[at..]) {
            Unit::Byte { value, length } if value == wanted => at += length,
            Unit::Partial if bytes.len() - at <= MAX_UNIT_BYTES => return Found::Start,
            _ => return Found::Nothing,
        }
    }
    Found::Key { end: at }
}

/// The longest writing of one byte that is looked for.
const MAX_UNIT_BYTES: usize = 24;

enum Unit {
    /// A byte, and how many it took to write.
    Byte { value: u8, length: usize },
    /// The input ends inside of what may be one.
    Partial,
}

/// Reads one byte in whatever writing.
fn unit(bytes: &[u8]) -> Unit {
    let slashes = bytes.iter().take_while(|byte| **byte == b'\\').count();
    let rest = &bytes[slashes..];
    let Some(&first) = rest.first() else {
        return Unit::Partial;
    };
    let (value, length) = match first {
        b'u' | b'U' if slashes > 0 => match digits(&rest[1..], 4, 16) {
            Digits::Value(value, length) => (value, 1 + length),
            Digits::Short => return Unit::Partial,
            Digits::Other => (first, 1),
        },
        b'x' if slashes > 0 => match digits(&rest[1..], 2, 16) {
            Digits::Value(value, length) => (value, 1 + length),
            Digits::Short => return Unit::Partial,
            Digits::Other => (first, 1),
        },
        b'%' => match percent(rest) {
            Digits::Value(value, length) => (value, length),
            Digits::Short => return Unit::Partial,
            Digits::Other => (first, 1),
        },
        b'&' => match entity(rest) {
            Digits::Value(value, length) => (value, length),
            Digits::Short => return Unit::Partial,
            Digits::Other => (first, 1),
        },
        _ => (first, 1),
    };
    Unit::Byte {
        value,
        length: slashes + length,
    }
}

enum Digits {
    /// A byte, and how many bytes wrote it.
    Value(u8, usize),
    /// The input ends first.
    Short,
    /// Something else.
    Other,
}

/// Exactly `count` digits to a base.
fn digits(bytes: &[u8], count: usize, base: u32) -> Digits {
    let mut value = 0u32;
    for place in 0..count {
        let Some(byte) = bytes.get(place) else {
            return Digits::Short;
        };
        let Some(digit) = char::from(*byte).to_digit(base) else {
            return Digits::Other;
        };
        value = value * base + digit;
    }
    u8::try_from(value).map_or(Digits::Other, |value| Digits::Value(value, count))
}

/// `%2D`, `%252D`, `%25252D`, ...
fn percent(bytes: &[u8]) -> Digits {
    let mut at = 1;
    while bytes[at..].starts_with(b"25") {
        at += 2;
    }
    match digits(&bytes[at..], 2, 16) {
        Digits::Value(value, length) => Digits::Value(value, at + length),
        // `%25` alone is a percent sign; so is a `%` that no digits follow.
        Digits::Other if at > 1 => Digits::Value(b'%', at),
        other => other,
    }
}

/// `&#45;` or `&#x2d;`.
fn entity(bytes: &[u8]) -> Digits {
    let Some(&hash) = bytes.get(1) else {
        return Digits::Short;
    };
    if hash != b'#' {
        return Digits::Other;
    }
    let (from, base) = match bytes.get(2) {
        None => return Digits::Short,
        Some(b'x' | b'X') => (3, 16),
        Some(_) => (2, 10),
    };
    let mut value = 0u32;
    for (place, byte) in bytes.iter().enumerate().skip(from).take(8) {
        if *byte == b';' && place > from {
            let value = u8::try_from(value);
            return value.map_or(Digits::Other, |value| Digits::Value(value, place + 1));
        }
        let Some(digit) = char::from(*byte).to_digit(base) else {
            return Digits::Other;
        };
        value = value.saturating_mul(base).saturating_add(digit);
    }
    if bytes.len() < from + 8 {
        Digits::Short
    } else {
        Digits::Other
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "sk-proj/a+b_C.9";

    fn scrubber() -> Scrubber {
        let scrubber = Scrubber::new();
        scrubber.learn(&Key::new(KEY));
        scrubber
    }

    #[test]
    fn a_key_never_shows_itself() {
        let key = Key::new(&format!(" {KEY}\n"));
        assert_eq!(key.expose(), KEY);
        let keys = Keys::of_pairs([("A_KEY", KEY)]);
        let shown = format!("{key} {key:?} {key:#?} {keys:?} {:?}", scrubber());
        assert!(
            !shown.contains("sk-proj") && shown.contains("A_KEY"),
            "{shown}"
        );
    }

    #[test]
    fn a_key_is_found_in_every_writing() {
        let writings = [
            KEY.to_owned(),
            KEY.replace('/', r"\/"),
            KEY.replace('-', r"\u002d"),
            KEY.replace('-', r"\\u002D"),
            KEY.chars()
                .map(|c| format!("\\u{:04x}", u32::from(c)))
                .collect(),
            KEY.bytes().map(|byte| format!("%{byte:02x}")).collect(),
            KEY.replace('/', "%2F").replace('+', "%2B"),
            KEY.replace('/', "%252F"),
            KEY.replace('-', "&#45;").replace('/', "&#x2F;"),
            KEY.replace('-', r"\x2d"),
        ];
        for writing in writings {
            let text = format!(r#"{{"error":"Incorrect API key provided: {writing}."}}"#);
            let clean = scrubber().scrub(&text);
            assert_eq!(
                clean, r#"{"error":"Incorrect API key provided: [key]."}"#,
                "{text}"
            );
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "sk-proj",
            r"a \u00e9 100% &amp; &#45; %2",
            "ключ \\",
            "%25",
            "",
        ] {
            assert_eq!(scrubber().scrub(text), text);
        }
    }

    #[test]
    fn the_longer_of_two_keys_is_taken_whole() {
        let scrubber = scrubber();
        scrubber.learn(&Key::new(&format!("{KEY}-long")));
        assert_eq!(
            scrubber.scrub(&format!("<{KEY}-long> <{KEY}>")),
            "<[key]> <[key]>"
        );
    }

    #[test]
    fn a_word_that_local_servers_take_for_a_key_is_no_secret() {
        let scrubber = Scrubber::new();
        scrubber.learn(&Key::new("EMPTY"));
        assert_eq!(scrubber.scrub("the list is EMPTY"), "the list is EMPTY");
    }

    #[test]
    fn a_dotenv_file_gives_keys_and_its_errors_do_not_show_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        std::fs::write(
            &path,
            "# keys\nMKB_TEST_A='one two'\nexport MKB_TEST_B=three\nMKB_TEST_C=\n",
        )
        .unwrap();
        let keys = Keys::with_file(&path).unwrap();
        assert_eq!(keys.get("MKB_TEST_A").unwrap().expose(), "one two");
        assert_eq!(keys.get("MKB_TEST_B").unwrap().expose(), "three");
        assert_eq!(keys.get("MKB_TEST_C"), None);
        assert!(std::env::var("MKB_TEST_A").is_err());
        std::fs::write(&path, format!("MKB_TEST_A=1\n{KEY} is mine\n")).unwrap();
        let error = Keys::with_file(&path).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("sk-proj") && shown.contains("entry 2"),
            "{shown}"
        );
    }

    /// A byte in one of its writings.
    fn written(byte: u8, way: u8) -> String {
        match way % 6 {
            0 => format!("%{byte:02X}"),
            1 => format!("\\u{byte:04x}"),
            2 => format!("&#{byte};"),
            3 => format!("%25{byte:02x}"),
            4 if !byte.is_ascii_alphanumeric() => format!("\\{}", char::from(byte)),
            _ => char::from(byte).to_string(),
        }
    }

    proptest! {
        #[test]
        fn no_mix_of_writings_and_no_cut_lets_a_key_through(
            ways in prop::collection::vec(any::<u8>(), KEY.len()),
            before in "[a-z\\\\%&#u ]{0,12}",
            after in "[a-z\\\\%&#u ]{0,12}",
            chunk in 1usize..9,
        ) {
            let hidden: String = KEY.bytes().zip(ways).map(|(b, way)| written(b, way)).collect();
            let text = format!("{before}{hidden}{after}");
            let mut stream = scrubber().stream();
            let mut out = Vec::new();
            for chunk in text.as_bytes().chunks(chunk) {
                out.extend(stream.push(chunk));
            }
            out.extend(stream.finish());
            let out = String::from_utf8(out).unwrap();
            prop_assert!(out.contains(REDACTED), "{text} -> {out}");
            prop_assert!(!out.contains(&hidden));
            prop_assert_eq!(out, scrubber().scrub(&text));
        }

        #[test]
        fn bytes_without_a_key_pass_whole_however_they_are_cut(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            chunk in 1usize..20,
        ) {
            let mut stream = scrubber().stream();
            let mut out = Vec::new();
            for chunk in bytes.chunks(chunk) {
                out.extend(stream.push(chunk));
            }
            out.extend(stream.finish());
            prop_assert_eq!(out, bytes);
        }
    }
}
