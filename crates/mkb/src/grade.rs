//! `mkb grade`: one kernel file, judged.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use mkb_catalog::glob::Globs;
use mkb_catalog::grading::{Cancel, Graded, Grader, Purpose};
use mkb_catalog::{Catalog, DslId, Problem, Workload, dsl::DslSet};
use mkb_device::client::DeviceOptions;
use mkb_judge::judge::Judge;
use mkb_report::text::harmless;
use serde_json::{Value, json};
use vgpu::cost::Device;

use crate::cli;
use crate::home::Home;
use crate::output::say;
use crate::usage::Usage;

/// Judges the file and prints the report. Whether it passed.
pub fn grade(home: &Home, options: &cli::Grade, json: bool) -> Result<bool> {
    let dsls = DslSet::builtin();
    let catalog = Catalog::discover(&home.problems(), dsls.clone())?;
    let problem = problem(&catalog, &options.problem)?;
    let dsl = dsl(&dsls, &options.dsl)?;
    device(&options.conditions.device)?;
    let kernel = read(&options.file)?;
    if let Some(folder) = &options.keep {
        // Before the work is done that is to be kept there.
        fs::create_dir_all(folder)
            .map_err(|e| Usage::error(format!("--keep {}: {e}", folder.display())))?;
    }
    let conditions = &options.conditions;
    let judge = judge(
        home,
        conditions.sandbox,
        &conditions.device,
        workload(conditions),
        dsls.clone(),
    )?;
    let grader = Arc::new(judge).grader(problem, dsl);
    let graded = grader.grade(&kernel, Purpose::Submission, &Cancel::new())?;
    let shown = json!({
        "problem": problem.name.as_str(),
        "dsl": dsl.as_str(),
        "device": grader.device(),
        "clock": "modelled",
        "workload": workload(conditions).as_str(),
        "sandbox": sandbox(conditions.sandbox),
    });
    if let Some(folder) = &options.keep {
        keep(folder, &kernel, &graded).with_context(|| folder.display().to_string())?;
    }
    if json {
        say!(
            "{}",
            serde_json::to_string_pretty(&as_json(shown, &graded))?
        );
    } else {
        say!("{}", harmless(&as_text(&graded)));
    }
    Ok(passed(&graded))
}

/// A kernel file's bytes, where it is a plain file that can be one.
fn read(path: &Path) -> Result<Vec<u8>> {
    // What is no plain file may have no end, or nobody who writes to it.
    let wrong = |why: String| Usage::error(format!("{}: {why}", path.display()));
    let about = fs::metadata(path).map_err(|e| wrong(e.to_string()))?;
    if !about.is_file() {
        return Err(wrong(
            "is no plain file; a kernel file is Python".to_owned(),
        ));
    }
    if about.len() > LARGEST_READ {
        let len = about.len();
        return Err(wrong(format!("has {len} bytes; no kernel file does")));
    }
    fs::read(path).map_err(|e| wrong(e.to_string()))
}

/// The problem of that number or name, or the only one whose name matches the pattern.
pub fn problem<'a>(catalog: &'a Catalog, wanted: &str) -> Result<&'a Problem> {
    if let Some(problem) = catalog.get(wanted) {
        return Ok(problem);
    }
    let by_number = wanted.parse::<u32>().ok();
    let by_number = by_number.and_then(|number| catalog.get(&format!("{number:02}")));
    if let Some(problem) = by_number {
        return Ok(problem);
    }
    let globs = Globs::new([wanted]);
    let matching = catalog.problems().iter();
    let matching: Vec<&Problem> = matching
        .filter(|p| globs.matches(p.name.as_str()))
        .collect();
    match matching[..] {
        [problem] => Ok(problem),
        [] => Err(Usage::error(format!(
            "there is no problem {wanted:?}; `mkb problems` lists them"
        ))),
        _ => {
            let names: Vec<&str> = matching.iter().map(|p| p.name.as_str()).collect();
            let names = names.join(", ");
            Err(Usage::error(format!(
                "{wanted:?} means several problems: {names}; give one"
            )))
        }
    }
}

/// Bytes from which on a file is not even read; the judge's own limit is far below.
const LARGEST_READ: u64 = 64 << 20;

/// The DSL of that name.
fn dsl<'a>(dsls: &'a DslSet, wanted: &str) -> Result<&'a DslId> {
    dsls.get(wanted).ok_or_else(|| {
        let names: Vec<&str> = dsls.ids().map(DslId::as_str).collect();
        Usage::error(format!(
            "there is no DSL {wanted:?}; there are {}",
            names.join(" and ")
        ))
    })
}

fn passed(graded: &Graded) -> bool {
    matches!(graded, Graded::Evaluated { verdict, .. } if verdict.rewards.passed())
}

/// What came out, as text: the report, and for what did not pass the end of what its process said.
fn as_text(graded: &Graded) -> String {
    match graded {
        Graded::Refused { reason } => format!("refused: {reason}"),
        Graded::Evaluated { verdict, .. } | Graded::Incomplete { verdict, .. } => {
            let mut text = verdict.report.clone();
            let said = verdict.stderr.trim();
            if !passed(graded) && !said.is_empty() && !text.contains(said) {
                text += "\nstandard error of its process (the end):\n";
                text += said;
            }
            text
        }
    }
}

fn as_json(mut shown: Value, graded: &Graded) -> Value {
    shown["passed"] = json!(passed(graded));
    let (outcome, reason, verdict) = match graded {
        Graded::Evaluated { verdict, .. } => ("evaluated", None, Some(verdict)),
        Graded::Refused { reason } => ("refused", Some(reason), None),
        Graded::Incomplete {
            operation, verdict, ..
        } => ("incomplete", Some(operation), Some(verdict)),
    };
    shown["outcome"] = json!(outcome);
    shown["reason"] = json!(reason);
    shown["verdict"] = json!(verdict);
    shown
}

/// Writes the kernel, its verdict and the evidence into a folder.
fn keep(folder: &Path, kernel: &[u8], graded: &Graded) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("kernel.py"), kernel)?;
    match graded {
        Graded::Refused { reason } => fs::write(folder.join("report.txt"), reason)?,
        Graded::Evaluated { verdict, evidence }
        | Graded::Incomplete {
            verdict, evidence, ..
        } => {
            fs::write(folder.join("report.txt"), &verdict.report)?;
            let text = serde_json::to_string_pretty(verdict)?;
            fs::write(folder.join("verdict.json"), text)?;
            for (name, bytes) in evidence {
                fs::write(folder.join(name), bytes)?;
            }
        }
    }
    Ok(())
}

/// A judge under the given conditions.
pub fn judge(
    home: &Home,
    sandbox: cli::Sandbox,
    device_name: &str,
    workload: Workload,
    dsls: DslSet,
) -> Result<Judge> {
    let server = DeviceOptions {
        program: std::env::current_exe()?,
        arguments: vec!["device-server".to_owned()],
        server: mkb_device::server::ServerOptions::default(),
    };
    let scratch = home.state().join("scratch");
    let judge = Judge::new(
        home.runtime(sandbox)?,
        device(device_name)?,
        server,
        workload,
        dsls,
        scratch,
    );
    judge.with_context(|| format!("{} cannot be written", home.state().display()))
}

/// The device description of that name.
pub fn device(name: &str) -> Result<Device> {
    Device::by_name(name).ok_or_else(|| {
        Usage::error(format!(
            "there is no device {name:?}; there are b200 and h200"
        ))
    })
}

/// The workload that was asked for.
pub fn workload(conditions: &cli::Conditions) -> Workload {
    match conditions.workload {
        cli::Workload::Full => Workload::Full,
        cli::Workload::Reduced => Workload::Reduced,
    }
}

/// How untrusted code is kept in, as records name it.
pub fn sandbox(sandbox: cli::Sandbox) -> &'static str {
    match sandbox {
        cli::Sandbox::Namespaces => "namespaces",
        cli::Sandbox::None => "none",
    }
}
