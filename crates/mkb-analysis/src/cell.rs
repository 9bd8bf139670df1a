//! The records of a cell's replicates, and what follows from three of them.

use mkb_catalog::{Arm, Direction, Family, Payload, ProblemName, TaskId};
use mkb_store::Record;

/// A problem and a direction, under one kind of transfer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// The problem.
    pub problem: ProblemName,
    /// Its family.
    pub family: Family,
    /// From which DSL to which.
    pub direction: Direction,
    /// What is attached; [`Payload::Skill`] in `results.json`.
    pub payload: Payload,
}

impl Cell {
    /// The task of the source solo.
    pub fn source_task(&self) -> TaskId {
        TaskId {
            problem: self.problem.clone(),
            dsl: self.direction.source.clone(),
        }
    }

    /// The task of the base solo and of the attempt with the attachment.
    pub fn target_task(&self) -> TaskId {
        TaskId {
            problem: self.problem.clone(),
            dsl: self.direction.target.clone(),
        }
    }

    /// The arms of its three records: source, base, and the one with the attachment.
    pub fn arms(&self) -> [Arm; 3] {
        let transfer = Arm::Transfer {
            direction: self.direction.clone(),
            payload: self.payload,
        };
        [
            Arm::Solo(self.direction.source.clone()),
            Arm::Solo(self.direction.target.clone()),
            transfer,
        ]
    }
}

/// One replicate's three records, as far as they exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Replicate {
    /// Counted from 1.
    pub number: u32,
    /// The solo in the source DSL.
    pub source: Option<Record>,
    /// The solo in the target DSL.
    pub base: Option<Record>,
    /// The attempt with the attachment.
    pub skill: Option<Record>,
}

impl Replicate {
    /// The three records, where all exist and none holds an error.
    pub fn resolved(&self) -> Option<Resolved<'_>> {
        let whole = |record: &'_ Option<Record>| record.as_ref().is_some_and(Record::is_resolved);
        if !(whole(&self.source) && whole(&self.base) && whole(&self.skill)) {
            return None;
        }
        Some(Resolved {
            source: self.source.as_ref()?,
            base: self.base.as_ref()?,
            skill: self.skill.as_ref()?,
        })
    }
}

/// A replicate whose three records stand.
#[derive(Clone, Copy, Debug)]
pub struct Resolved<'a> {
    /// The solo in the source DSL.
    pub source: &'a Record,
    /// The solo in the target DSL.
    pub base: &'a Record,
    skill: &'a Record,
}

impl<'a> Resolved<'a> {
    /// Whether something was transferred: the skill trial was not skipped.
    pub fn has_skill(&self) -> bool {
        self.skill.skipped.is_none()
    }

    /// The outcome with the attachment; where nothing was transferred, the base's.
    pub fn outcome(&self) -> &'a Record {
        if self.has_skill() {
            self.skill
        } else {
            self.base
        }
    }
}

/// A cell with its replicates, by number.
#[derive(Clone, Debug, PartialEq)]
pub struct CellResult {
    /// Which cell.
    pub cell: Cell,
    /// Its replicates.
    pub replicates: Vec<Replicate>,
}
