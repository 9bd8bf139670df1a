//! Which trials are wanted.

use std::collections::BTreeSet;

use mkb_catalog::glob::Globs;
use mkb_catalog::{Arm, Catalog, Problem, Trial};

/// Which arms are in play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arms {
    /// The paper's: solos and skills.
    Paper,
    /// These, control arms among them.
    Some(Vec<Arm>),
}

/// A selection of trials; the default is the whole experiment of the paper.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Over problem names without family.
    pub problems: Globs,
    /// Exact family names; empty for all.
    pub families: BTreeSet<String>,
    /// Over coordinates.
    pub trials: Globs,
    /// Replicates 1 to this one.
    pub replicates: u32,
    /// Which arms are in play at all.
    pub arms: Arms,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            problems: Globs::default(),
            families: BTreeSet::new(),
            trials: Globs::default(),
            replicates: 3,
            arms: Arms::Paper,
        }
    }
}

/// A selection that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A family that no problem has.
    #[error("there is no family {name:?}; there are {known}")]
    UnknownFamily {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// No problem is selected.
    #[error("no problem matches --problems {0:?} in the selected families")]
    NoProblem(String),
    /// No trial is selected.
    #[error("no trial of the selected problems matches --trials {0:?}")]
    NoTrial(String),
    /// No replicate is selected.
    #[error("--replicates must be at least 1")]
    NoReplicate,
}

impl Selection {
    /// The selected problems, by number.
    ///
    /// # Errors
    /// Where there are none.
    pub fn problems<'a>(&self, catalog: &'a Catalog) -> Result<Vec<&'a Problem>, SelectionError> {
        let known: BTreeSet<&str> = catalog
            .problems()
            .iter()
            .map(|p| p.family.as_str())
            .collect();
        if let Some(name) = self
            .families
            .iter()
            .find(|name| !known.contains(name.as_str()))
        {
            return Err(SelectionError::UnknownFamily {
                name: name.clone(),
                known: known.into_iter().collect::<Vec<_>>().join(", "),
            });
        }
        let problems: Vec<&Problem> = catalog
            .problems()
            .iter()
            .filter(|p| self.families.is_empty() || self.families.contains(p.family.as_str()))
            .filter(|p| self.problems.matches(p.name.as_str()))
            .collect();
        if problems.is_empty() {
            return Err(SelectionError::NoProblem(self.problems.to_text()));
        }
        Ok(problems)
    }

    /// The selected trials and the solos that they need, in the plan's order: by problem,
    /// replicate, then arm.
    ///
    /// # Errors
    /// Where nothing is selected.
    pub fn trials(&self, catalog: &Catalog) -> Result<Vec<Trial>, SelectionError> {
        if self.replicates == 0 {
            return Err(SelectionError::NoReplicate);
        }
        let arms: Vec<Arm> = match &self.arms {
            Arms::Paper => catalog.dsls().paper_arms(),
            Arms::Some(arms) => arms.clone(),
        };
        let order = catalog.dsls().all_arms();
        let mut trials = Vec::new();
        for problem in self.problems(catalog)? {
            for replicate in 1..=self.replicates {
                let trial = |arm: &Arm| Trial {
                    problem: problem.name.clone(),
                    replicate,
                    arm: arm.clone(),
                };
                let selected: Vec<Trial> = arms
                    .iter()
                    .map(trial)
                    .filter(|trial| self.trials.matches(&trial.coordinate().to_string()))
                    .collect();
                let sources = selected.iter().filter_map(Trial::source);
                let wanted: Vec<Trial> = sources.chain(selected.iter().cloned()).collect();
                let of_replicate = order.iter().map(trial).filter(|t| wanted.contains(t));
                trials.extend(of_replicate);
            }
        }
        if trials.is_empty() {
            return Err(SelectionError::NoTrial(self.trials.to_text()));
        }
        Ok(trials)
    }
}
