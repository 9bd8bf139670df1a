//! Runs a command in a submission's sandbox: `inside [--show FOLDER]... [--python PROGRAM]
//! [--env NAME=VALUE]... -- PROGRAM [ARG...]`. For trying out what a sandboxed program sees.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mkb_sandbox::{Outcome, Stream, Submission};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut submission = Submission::new(Vec::<String>::new());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--show" => submission
                .view
                .read_only
                .extend(args.next().map(Into::into)),
            "--python" => {
                let python = args.next().unwrap_or_default();
                submission.view.show_python(python.as_ref())?;
            }
            "--env" => {
                let pair = args.next().unwrap_or_default();
                let (name, value) = pair.split_once('=').ok_or("--env NAME=VALUE")?;
                submission.env.push((name.to_owned(), value.to_owned()));
            }
            _ => break,
        }
    }
    submission.argv = args.collect();
    submission.stdout = Stream::File(io::stdout().as_fd().try_clone_to_owned()?);
    submission.stderr = Stream::File(io::stderr().as_fd().try_clone_to_owned()?);
    submission.time = Some(Duration::from_secs(600));
    let began = Instant::now();
    let process = submission.spawn()?;
    let outcome = process.wait();
    let mib = process.peak_memory() >> 20;
    eprintln!("{outcome} after {:.2?}, {mib} MiB at most", began.elapsed());
    std::process::exit(match outcome {
        Outcome::Exited(code) => code,
        _ => 1,
    })
}
