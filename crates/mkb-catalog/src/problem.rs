//! One problem file, read and checked on its syntax tree; its code is never run here.

use std::path::{Path, PathBuf};

use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};

use crate::dsl::DslId;
use crate::name::{Family, ProblemName};

/// A problem: what its file says of itself.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Its name, from the file's name.
    pub name: ProblemName,
    /// Its family, from the folder's name.
    pub family: Family,
    /// Where the file lies.
    pub path: PathBuf,
    /// The file's text.
    pub source: String,
    /// The one line that describes the task: the module's docstring, trimmed.
    pub description: String,
    /// The names of `reference`'s parameters, in order.
    pub parameters: Vec<String>,
    /// Which of them may be changed in place (`MUTABLE_INPUTS`; none where it is absent).
    pub mutable_inputs: Vec<String>,
    /// Whether the file declares a smaller workload (`REDUCED`).
    pub has_reduced: bool,
}

/// What is wrong with a problem file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// It is not Python.
    #[error("line {line}: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// The parser's words.
        message: String,
    },
    /// It has no module docstring, or a blank one.
    #[error("it must open with a docstring that describes the task")]
    NoDocstring,
    /// The docstring runs over several lines.
    #[error("its docstring must be one line")]
    LongDocstring,
    /// A function that every problem must define is not there.
    #[error("it must define {0} with a top-level `def`")]
    NoFunction(&'static str),
    /// A declaration has a form that cannot be read without running the file.
    #[error("{name} must be {form}")]
    Declaration {
        /// The declared name.
        name: &'static str,
        /// What it must be.
        form: &'static str,
    },
    /// `MUTABLE_INPUTS` names what `reference` does not take.
    #[error("MUTABLE_INPUTS names {0:?}, which is no parameter of reference")]
    UnknownInput(String),
}

impl Problem {
    /// Reads a problem from its file's text.
    ///
    /// # Errors
    /// Where the text is not Python, or lacks what a problem must have; see [`ProblemError`].
    pub fn parse(
        name: ProblemName,
        family: Family,
        path: &Path,
        source: String,
    ) -> Result<Self, ProblemError> {
        let module = ruff_python_parser::parse_module(&source)
            .map_err(|error| ProblemError::Syntax {
                line: 1 + source[..error.location.start().to_usize().min(source.len())]
                    .matches('\n')
                    .count(),
                message: error.error.to_string(),
            })?
            .into_syntax();
        let description = docstring(&module.body).ok_or(ProblemError::NoDocstring)?;
        if description.contains(['\n', '\r']) {
            return Err(ProblemError::LongDocstring);
        }
        let reference = function(&module.body, "reference")?;
        function(&module.body, "make_inputs")?;
        let parameters: Vec<String> = reference
            .parameters
            .iter_non_variadic_params()
            .map(|parameter| parameter.parameter.name.to_string())
            .collect();
        let mutable_inputs = match assigned(&module.body, "MUTABLE_INPUTS") {
            Some(value) => strings(value).ok_or(ProblemError::Declaration {
                name: "MUTABLE_INPUTS",
                form: "a tuple or list of string literals",
            })?,
            None => Vec::new(),
        };
        if let Some(unknown) = mutable_inputs.iter().find(|i| !parameters.contains(i)) {
            return Err(ProblemError::UnknownInput(unknown.clone()));
        }
        let has_reduced = match assigned(&module.body, "REDUCED") {
            Some(Expr::Dict(_)) => true,
            Some(_) => {
                return Err(ProblemError::Declaration {
                    name: "REDUCED",
                    form: "a dict literal",
                });
            }
            None => false,
        };
        Ok(Self {
            name,
            family,
            path: path.to_owned(),
            source,
            description,
            parameters,
            mutable_inputs,
            has_reduced,
        })
    }

    /// Where the problem's own solution in that DSL lies, if it has one:
    /// `_solutions/NN_name_<dsl>.py` beside the problem file.
    pub fn solution_path(&self, dsl: &DslId) -> Option<PathBuf> {
        let file = format!("{}_{dsl}.py", self.name);
        let path = self.path.parent()?.join("_solutions").join(file);
        path.is_file().then_some(path)
    }
}

/// The module's docstring with white space trimmed at both ends; `None` where absent or blank.
fn docstring(body: &[Stmt]) -> Option<String> {
    let Stmt::Expr(first) = body.first()? else {
        return None;
    };
    let Expr::StringLiteral(literal) = &*first.value else {
        return None;
    };
    let text = literal.value.to_str().trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn function<'a>(body: &'a [Stmt], name: &'static str) -> Result<&'a StmtFunctionDef, ProblemError> {
    body.iter()
        .filter_map(|statement| match statement {
            Stmt::FunctionDef(def) if !def.is_async && def.name.as_str() == name => Some(def),
            _ => None,
        })
        .next_back()
        .ok_or(ProblemError::NoFunction(name))
}

/// The value of the last top-level assignment to `name`.
fn assigned<'a>(body: &'a [Stmt], name: &str) -> Option<&'a Expr> {
    let is_name = |target: &Expr| matches!(target, Expr::Name(n) if n.id.as_str() == name);
    body.iter()
        .filter_map(|statement| match statement {
            Stmt::Assign(assign) if assign.targets.iter().any(is_name) => Some(&*assign.value),
            Stmt::AnnAssign(assign) if is_name(&assign.target) => assign.value.as_deref(),
            _ => None,
        })
        .next_back()
}

fn strings(value: &Expr) -> Option<Vec<String>> {
    let elements = match value {
        Expr::Tuple(tuple) => &tuple.elts,
        Expr::List(list) => &list.elts,
        _ => return None,
    };
    elements
        .iter()
        .map(|element| match element {
            Expr::StringLiteral(literal) => Some(literal.value.to_str().to_owned()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str) -> Result<Problem, ProblemError> {
        Problem::parse(
            ProblemName::parse("01_a").expect("name"),
            Family::parse("moe").expect("family"),
            Path::new("problems/moe/01_a.py"),
            source.to_owned(),
        )
    }

    const BODY: &str = "\ndef reference(x, cache, *, scale=1.0):\n    return x\n\n\
                        def make_inputs():\n    return []\n";

    #[test]
    fn what_a_problem_says_of_itself_is_read() {
        let source = format!(
            "\"\"\"  Add things. \"\"\"\nN = 4\nREDUCED = {{\"N\": 2}}\n\
             MUTABLE_INPUTS = (\"cache\",)\n{BODY}"
        );
        let problem = parse(&source).expect("a problem");
        assert_eq!(problem.description, "Add things.");
        assert_eq!(problem.parameters, ["x", "cache", "scale"]);
        assert_eq!(problem.mutable_inputs, ["cache"]);
        assert!(problem.has_reduced);
    }

    #[test]
    fn comments_and_odd_quotes_before_the_docstring_are_fine() {
        let source = format!("# a comment\n\n'Add ' \\\n  r'things.'\n{BODY}");
        assert_eq!(
            parse(&source).expect("a problem").description,
            "Add things."
        );
    }

    #[test]
    fn each_missing_part_is_named() {
        let cases = [
            (format!("x = 1\n{BODY}"), ProblemError::NoDocstring),
            (format!("' '\n{BODY}"), ProblemError::NoDocstring),
            (format!("f'a'\n{BODY}"), ProblemError::NoDocstring),
            (format!("b'a'\n{BODY}"), ProblemError::NoDocstring),
            (format!("'''a\nb'''\n{BODY}"), ProblemError::LongDocstring),
            (
                "'a'\ndef make_inputs(): pass\nclass A:\n  def reference(self): pass\n".into(),
                ProblemError::NoFunction("reference"),
            ),
            (
                "'a'\ndef reference(): pass\nmake_inputs = lambda: []\n".into(),
                ProblemError::NoFunction("make_inputs"),
            ),
            (
                "'a'\nasync def reference(): pass\ndef make_inputs(): pass\n".into(),
                ProblemError::NoFunction("reference"),
            ),
            (
                format!("'a'\nMUTABLE_INPUTS = ('y',)\n{BODY}"),
                ProblemError::UnknownInput("y".into()),
            ),
        ];
        for (source, expected) in cases {
            assert_eq!(parse(&source).expect_err(&source), expected, "{source}");
        }
        assert!(matches!(
            parse(&format!("'a'\nREDUCED = dict(N=1)\n{BODY}")),
            Err(ProblemError::Declaration {
                name: "REDUCED",
                ..
            })
        ));
        assert!(matches!(
            parse("'a'\n\ndef reference(:\n"),
            Err(ProblemError::Syntax { line: 3, .. })
        ));
    }
}
