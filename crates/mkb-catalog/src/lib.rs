//! Problems, DSLs, directions, arms, coordinates, task rendering and fingerprints: the static
//! world that every trial is named in.
//!
//! - [`name`]: what a problem and a family may be called.
//! - [`dsl`]: the kernel DSLs as data, their directions, and the arms that follow from them.
//! - [`trial`]: tasks, trials, coordinates and the order in which trials stand.
//! - [`problem`]: one problem file, read and checked; [`catalog`]: all of them.
//! - [`glob`]: shell patterns over names, as Python's `fnmatch` reads them.
//! - [`setting`]: device, clock, workload and budget, the conditions that results depend on.
//! - [`fingerprint`]: a folder of files in memory and its digest.
//! - [`task`]: the folder that an attempt is given, rendered.
//! - [`skill`]: the attachment that carries one attempt's skill to another.
//! - [`grading`]: what a judge gives back, and the trait through which it is asked.
//!

pub mod catalog;
pub mod dsl;
pub mod fingerprint;
pub mod glob;
pub mod grading;
pub mod name;
pub mod problem;
pub mod setting;
pub mod skill;
pub mod task;
pub mod trial;

pub use catalog::{Catalog, CatalogError};
pub use dsl::{Arm, Direction, DslId, DslSet, DslSpec, Payload};
pub use grading::{Cancel, GradeFailure, Graded, Grader, Purpose, Rewards, Verdict};
pub use name::{Family, ProblemName};
pub use problem::Problem;
pub use setting::{Budget, Clock, Setting, Workload};
pub use task::{TaskSettings, render};
pub use trial::{Coordinate, TaskId, Trial};
