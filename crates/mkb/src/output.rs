//! What commands print on standard output: a reader that has gone is no error, a full disk is one.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Prints a line, as `println!` does, and does not panic where nobody reads.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Prints a line. Ends the program with exit code 1 where it cannot be written.
pub fn line(text: Arguments) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        // Nothing better is left to do, and standard error may be closed too.
        let _ = writeln!(std::io::stderr(), "mkb: standard output: {error}");
        std::process::exit(1);
    }
}
