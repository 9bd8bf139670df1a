//! The kernel DSLs as data, their directions, and the arms that follow from them.
//!
//! A DSL is a plug-in: one more [`DslSpec`] in a [`DslSet`] adds its tasks, its solo arms and a
//! direction to and from every other DSL. Nothing else in the benchmark lists DSLs by name.

use std::fmt;
use std::sync::Arc;

/// A DSL's short name, `[a-z][a-z0-9]*`, as it stands in task and arm names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DslId(Arc<str>);

impl DslId {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DslId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What the benchmark must know of a DSL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DslSpec {
    /// Short name, `[a-z][a-z0-9]*`.
    pub id: &'static str,
    /// The name that people use.
    pub display: &'static str,
    /// The Python package that a submission imports to reach it.
    pub import_name: &'static str,
    /// The form in which its front end hands kernels to the virtual GPU (`docs/tape.md`, MODULE).
    pub module_format: u8,
    /// What stands behind that package on the virtual GPU, as one sentence for the agent.
    pub virtual_provider: &'static str,
    /// What stands behind that package on a real GPU, as one sentence for the agent.
    pub real_provider: &'static str,
}

/// The DSLs that problems are posed in at first.
const BUILTIN: [DslSpec; 2] = [
    DslSpec {
        id: "cutedsl",
        display: "CuTe DSL",
        import_name: "cutlass",
        module_format: 0,
        virtual_provider: "`cutlass` is this benchmark's own implementation of the documented \
                           CuTe DSL Python interface, not NVIDIA's package; what it does not \
                           implement it refuses by name.",
        real_provider: "`cutlass` is NVIDIA's nvidia-cutlass-dsl 4.7.0 package.",
    },
    DslSpec {
        id: "tirx",
        display: "TIRx",
        import_name: "tvm",
        module_format: 2,
        virtual_provider: "`tvm` is Apache TVM 0.25.0.post1 unchanged up to its lowered device \
                           functions; from there the virtual GPU runs them, and refuses by name \
                           what it does not model.",
        real_provider: "`tvm` is Apache TVM 0.25.0.post1.",
    },
];

/// A set of DSLs that cannot be told apart by the names that follow from them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DslSetError {
    /// A DSL's short name is malformed.
    #[error("DSL id {0:?} is not of the form [a-z][a-z0-9]*")]
    Malformed(String),
    /// Two arms, or the tasks of two DSLs, would have one name.
    #[error("the DSL ids give two meanings to {0:?}")]
    Ambiguous(String),
}

/// The DSLs in play, in the order in which their directions stand.
#[derive(Clone, Debug)]
pub struct DslSet {
    entries: Vec<(DslId, DslSpec)>,
}

impl DslSet {
    /// CuTe DSL and TIRx.
    pub fn builtin() -> Self {
        Self::new(BUILTIN.to_vec()).expect("the built-in ids are well formed and distinct")
    }

    /// A set of DSLs of one's own.
    ///
    /// # Errors
    /// Refused where an id is malformed or where two arms would share a name (ids `a`, `b` and
    /// `a2b` would, for instance, if an arm could be read in two ways).
    pub fn new(specs: Vec<DslSpec>) -> Result<Self, DslSetError> {
        for spec in &specs {
            let mut bytes = spec.id.bytes();
            let fits = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
                && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            if !fits {
                return Err(DslSetError::Malformed(spec.id.to_owned()));
            }
        }
        let entries = specs
            .into_iter()
            .map(|spec| (DslId(spec.id.into()), spec))
            .collect();
        let set = Self { entries };
        let mut names: Vec<String> = set.all_arms().iter().map(Arm::to_string).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(DslSetError::Ambiguous(pair[0].clone())),
            None => Ok(set),
        }
    }

    /// The DSLs' ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = &DslId> {
        self.entries.iter().map(|(id, _)| id)
    }

    /// The DSL of that short name.
    pub fn get(&self, id: &str) -> Option<&DslId> {
        self.ids().find(|known| known.as_str() == id)
    }

    /// What is known of a DSL.
    ///
    /// # Panics
    /// When `id` was made by another set that has a DSL which this one lacks.
    pub fn spec(&self, id: &DslId) -> &DslSpec {
        self.entries
            .iter()
            .find(|(known, _)| known == id)
            .map(|(_, spec)| spec)
            .expect("a DslId comes from the set that it is looked up in")
    }

    /// Every ordered pair of different DSLs: N x (N-1) directions.
    pub fn directions(&self) -> Vec<Direction> {
        self.pairs(|source, target| source != target)
    }

    /// The arms of the paper, in the order in which their trials stand within a replicate: solos
    /// by name, then one skill arm for each direction.
    pub fn paper_arms(&self) -> Vec<Arm> {
        let mut solos: Vec<Arm> = self.ids().cloned().map(Arm::Solo).collect();
        solos.sort_by_key(Arm::to_string);
        let skills = self.directions().into_iter().map(Arm::skill);
        solos.into_iter().chain(skills).collect()
    }

    /// The paper's arms and after them the control arms, in the order of their trials.
    pub fn all_arms(&self) -> Vec<Arm> {
        let again = self.ids().cloned().map(Arm::SoloAgain);
        let same = self.pairs(|source, target| source == target);
        let controls = [Payload::Wrong, Payload::Placebo, Payload::Code];
        let transfers = controls.into_iter().flat_map(|payload| {
            let directions = self.directions().into_iter();
            directions.map(move |direction| Arm::Transfer { direction, payload })
        });
        let mut arms = self.paper_arms();
        arms.extend(again);
        arms.extend(same.into_iter().map(Arm::skill));
        arms.extend(transfers);
        arms
    }

    /// The arm of that name, control arms included.
    pub fn parse_arm(&self, name: &str) -> Option<Arm> {
        // By name among all that there are: an id may hold a `2`, so splitting would guess.
        self.all_arms()
            .into_iter()
            .find(|arm| arm.to_string() == name)
    }

    fn pairs(&self, keep: impl Fn(&DslId, &DslId) -> bool) -> Vec<Direction> {
        self.ids()
            .flat_map(|source| self.ids().map(move |target| (source, target)))
            .filter(|(source, target)| keep(source, target))
            .map(|(source, target)| Direction {
                source: source.clone(),
                target: target.clone(),
            })
            .collect()
    }
}

/// From which DSL to which a skill goes; printed `<source>2<target>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Direction {
    /// Where the skill was learned.
    pub source: DslId,
    /// Where it is to help.
    pub target: DslId,
}

impl Direction {
    /// The direction back.
    pub fn reverse(&self) -> Self {
        Self {
            source: self.target.clone(),
            target: self.source.clone(),
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}2{}", self.source, self.target)
    }
}

/// What a transfer arm attaches to the fresh attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payload {
    /// The source solo's SKILL.md.
    Skill,
    /// Control: that SKILL.md with its claims inverted.
    Wrong,
    /// Control: a text of its kind that claims nothing about what can be tuned.
    Placebo,
    /// Control: the source solo's kernel in place of its SKILL.md.
    Code,
}

impl Payload {
    fn suffix(self) -> &'static str {
        match self {
            Payload::Skill => "skill",
            Payload::Wrong => "wrong",
            Payload::Placebo => "placebo",
            Payload::Code => "code",
        }
    }
}

/// Under which condition a trial attempts its task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arm {
    /// From nothing: `solo_<dsl>`.
    Solo(DslId),
    /// Control: from nothing once more, for the noise between equals: `again_<dsl>`.
    SoloAgain(DslId),
    /// With what the solo in the direction's source DSL left: `<source>2<target>_<payload>`.
    /// Source and target are the same only in the control that transfers within one DSL.
    Transfer {
        /// From which DSL to which.
        direction: Direction,
        /// What is attached.
        payload: Payload,
    },
}

impl Arm {
    /// The arm that transfers a skill.
    pub fn skill(direction: Direction) -> Self {
        Arm::Transfer {
            direction,
            payload: Payload::Skill,
        }
    }

    /// The DSL in which the task is posed.
    pub fn target(&self) -> &DslId {
        match self {
            Arm::Solo(dsl) | Arm::SoloAgain(dsl) => dsl,
            Arm::Transfer { direction, .. } => &direction.target,
        }
    }

    /// The solo arm that must stand before this one can start, if any.
    pub fn source(&self) -> Option<Arm> {
        match self {
            Arm::Solo(_) | Arm::SoloAgain(_) => None,
            Arm::Transfer { direction, .. } => Some(Arm::Solo(direction.source.clone())),
        }
    }

    /// Whether the arm is one of the paper's, which alone enter `results.json`.
    pub fn is_paper(&self) -> bool {
        match self {
            Arm::Solo(_) => true,
            Arm::SoloAgain(_) => false,
            Arm::Transfer { direction, payload } => {
                *payload == Payload::Skill && direction.source != direction.target
            }
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arm::Solo(dsl) => write!(f, "solo_{dsl}"),
            Arm::SoloAgain(dsl) => write!(f, "again_{dsl}"),
            Arm::Transfer { direction, payload } => write!(f, "{direction}_{}", payload.suffix()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: &'static str) -> DslSpec {
        DslSpec {
            id,
            ..BUILTIN[0].clone()
        }
    }

    fn names(arms: &[Arm]) -> Vec<String> {
        arms.iter().map(Arm::to_string).collect()
    }

    #[test]
    fn two_dsls_give_the_four_arms_of_the_paper_in_order() {
        assert_eq!(
            names(&DslSet::builtin().paper_arms()),
            [
                "solo_cutedsl",
                "solo_tirx",
                "cutedsl2tirx_skill",
                "tirx2cutedsl_skill"
            ]
        );
    }

    #[test]
    fn a_third_dsl_gives_six_directions() {
        let mut specs = BUILTIN.to_vec();
        specs.push(spec("triton"));
        let set = DslSet::new(specs).expect("distinct");
        assert_eq!(set.directions().len(), 6);
        assert!(set.parse_arm("triton2tirx_skill").is_some());
    }

    #[test]
    fn every_arm_reads_back_from_its_name() {
        let set = DslSet::builtin();
        for arm in set.all_arms() {
            assert_eq!(set.parse_arm(&arm.to_string()), Some(arm));
        }
        assert_eq!(set.parse_arm("solo_triton"), None);
        assert_eq!(set.parse_arm("cutedsl2cutedsl_wrong"), None);
    }

    #[test]
    fn names_that_could_be_read_in_two_ways_are_refused() {
        let ambiguous = DslSet::new(vec![spec("a"), spec("a2a"), spec("b")]);
        assert!(
            matches!(ambiguous, Err(DslSetError::Ambiguous(_))),
            "a to a2a and a2a to a share a name"
        );
        assert!(matches!(
            DslSet::new(vec![spec("Cute")]),
            Err(DslSetError::Malformed(_))
        ));
    }

    #[test]
    fn only_solos_and_cross_dsl_skills_are_the_papers() {
        let set = DslSet::builtin();
        let paper = set.paper_arms();
        for arm in set.all_arms() {
            assert_eq!(arm.is_paper(), paper.contains(&arm), "{arm}");
        }
    }
}
