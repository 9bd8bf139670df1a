//! Sets up the repository in the current folder, and prints each step and line.

use std::time::Instant;

use mkb_setup::{Options, Progress, Step, ensure};

struct Print(Instant);

impl Progress for Print {
    fn step(&self, step: Step, skipped: bool) {
        let seconds = self.0.elapsed().as_secs_f64();
        let note = if skipped { " (done before)" } else { "" };
        println!("{seconds:7.1} s  {}{note}", step.title());
    }

    fn line(&self, line: &str) {
        println!("           {line}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let environment = ensure(&Options::new("."), &Print(start))?;
    println!(
        "{:7.3} s  {} with {:?}",
        start.elapsed().as_secs_f64(),
        environment.python.display(),
        environment.versions
    );
    Ok(())
}
