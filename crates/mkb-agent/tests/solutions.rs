//! The repository's solutions as the tuner's templates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use mkb_agent::Template;
use mkb_agent::template::Parameter;

/// Names with values, in no order.
type Space = BTreeMap<String, BTreeSet<String>>;

#[test]
fn every_solution_is_a_template_and_both_dsls_of_a_problem_have_one_space() {
    let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    let mut spaces = BTreeMap::new();
    for family in fs::read_dir(problems).expect("the problems").flatten() {
        let Ok(solutions) = fs::read_dir(family.path().join("_solutions")) else {
            continue;
        };
        for file in solutions.flatten() {
            let path = file.path();
            let stem = path
                .file_stem()
                .and_then(|s| s.to_str())
                .expect("a name")
                .to_owned();
            // What solutions share begins with `_`.
            if path.extension().is_none_or(|e| e != "py") || stem.starts_with('_') {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a solution");
            let template = match Template::parse(&text) {
                Ok(template) => template,
                Err(error) => panic!("{}: {error}", path.display()),
            };
            assert_eq!(
                Template::parse(&template.fill(&template.choice))
                    .expect("filled")
                    .choice,
                template.choice
            );
            let (problem, _dsl) = stem.rsplit_once('_').expect("a name ends in its DSL");
            let values = |p: &Parameter| p.values.iter().map(ToString::to_string).collect();
            let parameters = template.space.iter();
            let space: Space = parameters.map(|p| (p.name.clone(), values(p))).collect();
            let first = spaces.entry(problem.to_owned()).or_insert(space.clone());
            assert_eq!(*first, space, "{stem}");
        }
    }
    assert!(!spaces.is_empty());
}
