//! MetaKernelBench on the command line.
fn main() {}
