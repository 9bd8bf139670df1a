//! Shared by the integration tests: random modules and programs, a scalar interpreter, file tests.
#![allow(dead_code)] // Each test uses a part.

pub mod generate;
pub mod interpret;
pub mod programs;
pub mod random;
pub mod vir;
