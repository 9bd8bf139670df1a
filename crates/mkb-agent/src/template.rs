//! A solution as a template: its legal parameter values (`SPACE`), its choice (`PARAMS`), and the
//! same file with another choice.

use std::fmt;

use serde_json::{Map, Value};

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Choice {
    /// `True` or `False`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A word, `[A-Za-z][A-Za-z0-9_]*`.
    Word(String),
}

/// As it stands in a sentence.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Flag(flag) => write!(f, "{flag}"),
            Choice::Number(number) => write!(f, "{number}"),
            Choice::Word(word) => f.write_str(word),
        }
    }
}

/// A parameter and its legal values, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, `[a-z][a-z0-9_]*`.
    pub name: String,
    /// At least one, all different.
    pub values: Vec<Choice>,
}

/// One value of each parameter, by index.
pub type Point = Vec<usize>;

/// A solution file with its parameters.
#[derive(Debug, Clone)]
pub struct Template {
    before: String,
    after: String,
    /// The parameters, in the order of `SPACE`.
    pub space: Vec<Parameter>,
    /// The choice that the file came with.
    pub choice: Point,
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A line is missing or there twice.
    #[error("a template needs exactly one line that begins with `{0} = `; this one has {1}")]
    Line(&'static str, usize),
    /// A line is no literal of the form.
    #[error("line {line}: {name} is not a one-line literal in JSON's syntax: {why}")]
    Literal {
        /// The line, from 1.
        line: usize,
        /// Which of the two.
        name: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl Template {
    /// Reads a solution file.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let (space_line, space) = literal(text, "SPACE")?;
        let (line, params) = literal(text, "PARAMS")?;
        let wrong = |line, name, why: String| TemplateError::Literal { line, name, why };
        let mut parameters = Vec::new();
        for (name, values) in space {
            let bad = |why: &str| wrong(space_line, "SPACE", format!("{name}: {why}"));
            let well_named = name.starts_with(|c: char| c.is_ascii_lowercase())
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if !well_named {
                return Err(bad("a parameter's name is [a-z][a-z0-9_]*"));
            }
            let values = values
                .as_array()
                .ok_or_else(|| bad("needs a list of values"))?;
            let values: Option<Vec<Choice>> = values.iter().map(choice).collect();
            let values = values.ok_or_else(|| bad("a value is a whole number, word or flag"))?;
            let repeated = (1..values.len()).any(|k| values[..k].contains(&values[k]));
            if values.is_empty() || repeated {
                return Err(bad("needs at least one value, and none twice"));
            }
            parameters.push(Parameter { name, values });
        }
        let bad = |why: String| wrong(line, "PARAMS", why);
        if params.len() != parameters.len() {
            return Err(bad(
                "must choose a value for each parameter of SPACE".to_owned()
            ));
        }
        let mut point = Vec::new();
        for parameter in &parameters {
            let chosen = params.get(&parameter.name).and_then(choice);
            let index = parameter
                .values
                .iter()
                .position(|v| Some(v) == chosen.as_ref());
            let why = || bad(format!("{} has no legal value", parameter.name));
            point.push(index.ok_or_else(why)?);
        }
        let start: usize = text
            .split_inclusive('\n')
            .take(line - 1)
            .map(str::len)
            .sum();
        let end = start + text[start..].find('\n').unwrap_or(text.len() - start);
        Ok(Template {
            before: text[..start].to_owned(),
            after: text[end..].to_owned(),
            space: parameters,
            choice: point,
        })
    }

    /// The file with the choice `point`.
    ///
    /// # Panics
    /// If `point` is none of this space.
    pub fn fill(&self, point: &[usize]) -> String {
        assert_eq!(point.len(), self.space.len(), "one index a parameter");
        let pairs = self.space.iter().zip(point).map(|(parameter, &index)| {
            let value = match &parameter.values[index] {
                Choice::Flag(true) => "True".to_owned(),
                Choice::Flag(false) => "False".to_owned(),
                Choice::Number(number) => number.to_string(),
                Choice::Word(word) => format!("\"{word}\""),
            };
            format!("\"{}\": {value}", parameter.name)
        });
        let pairs: Vec<_> = pairs.collect();
        format!(
            "{}PARAMS = {{{}}}{}",
            self.before,
            pairs.join(", "),
            self.after
        )
    }
}

fn choice(value: &Value) -> Option<Choice> {
    match value {
        Value::Bool(flag) => Some(Choice::Flag(*flag)),
        Value::Number(number) => number.as_i64().map(Choice::Number),
        Value::String(word) => {
            let fits = word.starts_with(|c: char| c.is_ascii_alphabetic())
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            fits.then(|| Choice::Word(word.clone()))
        }
        _ => None,
    }
}

/// The line (from 1) and the value of `name = {...}` at top level.
fn literal(text: &str, name: &'static str) -> Result<(usize, Map<String, Value>), TemplateError> {
    let head = format!("{name} = ");
    let lines = text.lines().enumerate();
    let found: Vec<_> = lines
        .filter_map(|(k, l)| Some((k + 1, l.strip_prefix(&head)?)))
        .collect();
    let &[(line, source)] = found.as_slice() else {
        return Err(TemplateError::Line(name, found.len()));
    };
    let value = serde_json::from_str(&with_json_flags(source));
    value
        .map(|map| (line, map))
        .map_err(|e| TemplateError::Literal {
            line,
            name,
            why: e.to_string(),
        })
}

/// Python's `True` and `False` as JSON's, outside strings; a comment at the end goes.
fn with_json_flags(source: &str) -> String {
    let mut out = String::new();
    let mut rest = source;
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        let escape = quoted && c == '\\';
        if c == '"' {
            quoted = !quoted;
        }
        if !quoted && c == '#' {
            break;
        }
        let flag = [("True", "true"), ("False", "false")]
            .into_iter()
            .find(|(python, _)| !quoted && rest.starts_with(python));
        let taken = match flag {
            Some((python, json)) => {
                out.push_str(json);
                python.len()
            }
            None => {
                let length = c.len_utf8() + usize::from(escape && rest.len() > 1);
                let length = if rest.is_char_boundary(length) {
                    length
                } else {
                    c.len_utf8()
                };
                out.push_str(&rest[..length]);
                length
            }
        };
        rest = &rest[taken..];
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "import tvm\n\nSPACE = {\"threads\": [64, 128], \"layout\": [\"blocked\", \
                        \"contiguous\"], \"fused\": [True, False]}\nPARAMS = {\"threads\": 128, \
                        \"layout\": \"blocked\", \"fused\": True}  # the choice\n\ndef solve(x):\n    \
                        return x\n";

    #[test]
    fn a_file_gives_its_space_and_choice() {
        let t = Template::parse(FILE).expect("a template");
        let names: Vec<_> = t.space.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["threads", "layout", "fused"]);
        assert_eq!(t.space[1].values[1], Choice::Word("contiguous".to_owned()));
        assert_eq!(t.choice, [1, 0, 0]);
    }

    #[test]
    fn another_choice_changes_its_line_alone() {
        let t = Template::parse(FILE).expect("a template");
        let filled = t.fill(&[0, 1, 1]);
        let line = "PARAMS = {\"threads\": 64, \"layout\": \"contiguous\", \"fused\": False}";
        assert_eq!(filled.lines().nth(3), Some(line));
        let rest = |text: &str| {
            text.lines()
                .enumerate()
                .filter(|l| l.0 != 3)
                .map(|l| l.1.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(rest(&filled), rest(FILE));
        assert_eq!(
            Template::parse(&filled).expect("a template").choice,
            [0, 1, 1]
        );
        assert!(filled.ends_with("return x\n"));
    }

    #[test]
    fn what_is_no_template_is_refused_with_its_line() {
        let cases = [
            ("x = 1\n", "exactly one line that begins with `SPACE = `"),
            ("SPACE = {\"a\": [1]}\n", "`PARAMS = `"),
            (
                "SPACE = {\"a\": [1]}\nSPACE = {\"a\": [1]}\nPARAMS = {\"a\": 1}",
                "has 2",
            ),
            ("SPACE = {'a': [1]}\nPARAMS = {\"a\": 1}\n", "line 1: SPACE"),
            (
                "SPACE = {\"a\": [1]}\nPARAMS = {\"a\": 2}\n",
                "line 2: PARAMS",
            ),
            (
                "SPACE = {\"a\": [1]}\nPARAMS = {\"b\": 1}\n",
                "a has no legal value",
            ),
            (
                "SPACE = {\"a\": []}\nPARAMS = {\"a\": 1}\n",
                "at least one value",
            ),
            (
                "SPACE = {\"a\": [1, 1]}\nPARAMS = {\"a\": 1}\n",
                "none twice",
            ),
            (
                "SPACE = {\"a\": 1}\nPARAMS = {\"a\": 1}\n",
                "a list of values",
            ),
            ("SPACE = {\"A b\": [1]}\nPARAMS = {\"A b\": 1}\n", "name"),
            (
                "SPACE = {\"a\": [1.5]}\nPARAMS = {\"a\": 1.5}\n",
                "whole number",
            ),
            (
                "SPACE = {\"a\": [\"x y\"]}\nPARAMS = {\"a\": \"x y\"}\n",
                "word",
            ),
        ];
        for (text, word) in cases {
            let error = Template::parse(text).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(SPACE = |PARAMS = |[\\[\\]{}\":,\\\\#é]|True|False|a|1|\n){0,40}") {
            let _ = Template::parse(&text);
        }

        #[test]
        fn every_point_comes_back(a in 0usize..2, b in 0usize..2, c in 0usize..2) {
            let t = Template::parse(FILE).expect("a template");
            let again = Template::parse(&t.fill(&[a, b, c])).expect("a template");
            prop_assert_eq!(again.choice, vec![a, b, c]);
        }
    }
}
