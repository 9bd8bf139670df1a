//! Prints what this machine offers for sandboxes, and how long one takes to start and end.

use std::time::Instant;

use mkb_sandbox::{Submission, probe};

fn main() {
    let probe = probe();
    for finding in &probe.findings {
        let mark = if finding.holds { "yes" } else { "no " };
        println!("{mark} {}: {}", finding.name, finding.detail);
    }
    if !probe.works {
        std::process::exit(1);
    }
    let mut times: Vec<_> = (0..50)
        .map(|_| {
            let began = Instant::now();
            let process = Submission::new(["/bin/true"])
                .spawn()
                .expect("the probe worked");
            let started = began.elapsed();
            process.wait();
            (started, began.elapsed())
        })
        .collect();
    times.sort();
    let (started, ended) = times[times.len() / 2];
    println!(
        "start {started:.1?}, start to end {ended:.1?} (median of {})",
        times.len()
    );
}
