//! Shell patterns over names, as Python's `fnmatch.fnmatchcase` reads them: `*`, `?`, `[seq]`,
//! `[!seq]`, case counts, a `[` without its `]` stands for itself.
//!
//! Own code because the crates at hand read classes as a shell or a regular expression does; the
//! protocol's selections are `fnmatch`'s, and fixtures made by Python hold this to it.

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    AnyRun,
    AnyOne,
    Literal(char),
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// Compiles a pattern. Every text is one.
    pub fn new(pattern: &str) -> Self {
        let chars: Vec<char> = pattern.chars().collect();
        let mut parts = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            let c = chars[at];
            at += 1;
            match c {
                '*' => {
                    if !matches!(parts.last(), Some(Part::AnyRun)) {
                        parts.push(Part::AnyRun);
                    }
                }
                '?' => parts.push(Part::AnyOne),
                '[' => match class_end(&chars, at) {
                    Some(end) => {
                        parts.push(class(&chars[at..end]));
                        at = end + 1;
                    }
                    None => parts.push(Part::Literal('[')),
                },
                c => parts.push(Part::Literal(c)),
            }
        }
        Self {
            text: pattern.to_owned(),
            parts,
        }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `name` matches. Time is at most proportional to the product of both
    /// lengths, whatever the pattern.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut part, mut at) = (0, 0);
        // Where the last `*` stands, and how much of the name it has taken so far.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.parts.get(part) {
                Some(Part::AnyRun) => {
                    retry = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(single) if at < name.len() && single.fits(name[at]) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                None if at == name.len() => return true,
                _ => {}
            }
            match retry {
                Some((star, taken)) if taken < name.len() => {
                    retry = Some((star, taken + 1));
                    part = star + 1;
                    at = taken + 1;
                }
                _ => return false,
            }
        }
    }
}

/// Some patterns, any of which may match; none at all match everything.
#[derive(Clone, Debug, Default)]
pub struct Globs(Vec<Glob>);

impl Globs {
    /// Compiles patterns.
    pub fn new<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Self {
        let patterns = patterns.into_iter();
        Self(
            patterns
                .map(|pattern| Glob::new(pattern.as_ref()))
                .collect(),
        )
    }

    /// Whether the whole of `name` matches one of them.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|glob| glob.matches(name))
    }

    /// The patterns as they were written, with spaces between them; `*` where there are none.
    pub fn to_text(&self) -> String {
        match self.0.len() {
            0 => "*".to_owned(),
            _ => self
                .0
                .iter()
                .map(Glob::as_str)
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

impl Part {
    fn fits(&self, c: char) -> bool {
        match self {
            Part::AnyRun | Part::AnyOne => true,
            Part::Literal(literal) => *literal == c,
            Part::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

/// The index of the `]` that closes a class whose body begins at `start`. A `]` that stands first
/// (after `!`) belongs to the body.
fn class_end(chars: &[char], start: usize) -> Option<usize> {
    let mut at = start;
    if chars.get(at) == Some(&'!') {
        at += 1;
    }
    if chars.get(at) == Some(&']') {
        at += 1;
    }
    (at..chars.len()).find(|&index| chars[index] == ']')
}

/// A class from its body. A `-` between two characters makes a range, one whose ends are the
/// wrong way round is empty, and a `-` at either end stands for itself.
fn class(body: &[char]) -> Part {
    let (negated, body) = match body.split_first() {
        Some(('!', rest)) => (true, rest),
        _ => (false, body),
    };
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < body.len() {
        match body.get(at + 1..at + 3) {
            Some(&['-', high]) => {
                ranges.push((body[at], high));
                at += 3;
            }
            _ => {
                ranges.push((body[at], body[at]));
                at += 1;
            }
        }
    }
    Part::Class { negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_pythons_fnmatch_on_recorded_cases() {
        let cases: Vec<(String, String, bool)> =
            serde_json::from_str(include_str!("../tests/data/fnmatch.json")).expect("fixture");
        assert!(cases.len() > 1000);
        for (pattern, name, expected) in cases {
            assert_eq!(
                Glob::new(&pattern).matches(&name),
                expected,
                "{pattern:?} on {name:?}"
            );
        }
    }

    #[test]
    fn of_several_patterns_one_is_enough_and_none_match_all() {
        let globs = Globs::new(["28_*", "72_*"]);
        assert!(globs.matches("28_a") && globs.matches("72_b") && !globs.matches("01_c"));
        assert_eq!(globs.to_text(), "28_* 72_*");
        assert!(Globs::default().matches("anything"));
        assert_eq!(Globs::default().to_text(), "*");
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let glob = Glob::new(&"*a".repeat(40));
        assert!(!glob.matches(&format!("{}b", "a".repeat(5_000))));
    }
}
