//! `mkb grade`: one kernel file, judged.

use std::fs;
use std::sync::Arc;

use anyhow::{Context, Result};
use mkb_catalog::grading::{Cancel, Graded, Grader, Purpose};
use mkb_catalog::{Catalog, Workload, dsl::DslSet};
use mkb_device::client::DeviceOptions;
use mkb_judge::judge::Judge;

use vgpu::cost::Device;

use crate::cli;
use crate::home::Home;

/// Judges the file and prints the report. Whether it passed.
pub fn grade(home: &Home, options: &cli::Grade, json: bool) -> Result<bool> {
    let dsls = DslSet::builtin();
    let catalog = Catalog::discover(&home.problems(), dsls.clone())?;
    let problem = catalog
        .problems()
        .iter()
        .find(|p| p.name.as_str().starts_with(&options.problem))
        .context("no such problem")?;
    let dsl = dsls.get(&options.dsl).context("no such DSL")?;
    let kernel = fs::read(&options.file).with_context(|| options.file.display().to_string())?;
    let judge = Arc::new(judge(home, &options.conditions, dsls.clone())?);
    let graded = judge
        .grader(problem, dsl)
        .grade(&kernel, Purpose::Submission, &Cancel::new())?;
    match graded {
        Graded::Evaluated { verdict, .. } => {
            if json {
                println!("{}", serde_json::to_string_pretty(&verdict)?);
            } else {
                println!("{}", verdict.report);
            }
            Ok(verdict.rewards.passed())
        }
        Graded::Refused { reason } => {
            println!("refused: {reason}");
            Ok(false)
        }
        Graded::Incomplete { verdict, .. } => {
            println!("{}", verdict.report);
            Ok(false)
        }
    }
}

/// A judge under the given conditions.
pub fn judge(home: &Home, conditions: &cli::Conditions, dsls: DslSet) -> Result<Judge> {
    let server = DeviceOptions {
        program: std::env::current_exe()?,
        arguments: vec!["device-server".to_owned()],
        server: mkb_device::server::ServerOptions::default(),
    };
    let scratch = home.state().join("scratch");
    let judge = Judge::new(
        home.runtime(conditions.sandbox)?,
        device(conditions)?,
        server,
        workload(conditions),
        dsls,
        scratch,
    );
    judge.with_context(|| format!("{} cannot be written", home.state().display()))
}

/// The device description of that name.
pub fn device(conditions: &cli::Conditions) -> Result<Device> {
    Device::by_name(&conditions.device).with_context(|| {
        format!(
            "there is no device {:?}; there are b200 and h200",
            conditions.device
        )
    })
}

pub fn workload(conditions: &cli::Conditions) -> Workload {
    match conditions.workload {
        cli::Workload::Full => Workload::Full,
        cli::Workload::Reduced => Workload::Reduced,
    }
}
