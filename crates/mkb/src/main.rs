//! MetaKernelBench on the command line.

mod cli;

use clap::Parser;

fn main() {
    let _cli = cli::Cli::parse();
}
