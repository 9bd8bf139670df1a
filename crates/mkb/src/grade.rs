//! `mkb grade`: one kernel file, judged.

use std::fs;

use anyhow::{Context, Result};
use mkb_catalog::grading::{Cancel, Graded, Grader, Purpose};
use mkb_catalog::{Catalog, Workload, dsl::DslSet};
use mkb_device::client::DeviceOptions;
use mkb_judge::judge::Judge;

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
    let judge = judge(home, &options.conditions, dsls.clone())?;
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

pub fn judge(home: &Home, conditions: &cli::Conditions, dsls: DslSet) -> Result<Judge> {
    let runtime = home.runtime(conditions.sandbox)?;
    let device = vgpu::cost::Device {
        name: "B200".to_owned(),
    };
    let server = DeviceOptions {
        program: std::env::current_exe()?,
        arguments: vec!["device-server".to_owned()],
        server: mkb_device::server::ServerOptions::default(),
    };
    let workload = match conditions.workload {
        cli::Workload::Full => Workload::Full,
        cli::Workload::Reduced => Workload::Reduced,
    };
    let scratch = home.state().join("scratch");
    fs::create_dir_all(&scratch)?;
    Ok(Judge::new(runtime, device, server, workload, dsls, scratch))
}
