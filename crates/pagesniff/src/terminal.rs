//! What people read while the program works: lines on standard error, and how wide a terminal is.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;

use terminal_size::{Width, terminal_size_of};

/// Columns of the terminal that the stream goes to. None where it goes to a file or a pipe: there a sentence stays one line,
/// which `grep` finds whole.
pub(crate) fn columns_of(stream: impl AsFd) -> Option<usize> {
    let (Width(columns), _) = terminal_size_of(stream)?;
    Some(columns.into())
}

/// Writes a line to standard error. `eprintln!` panics where nobody reads that any more; what was to be said is no reason to
/// end the work.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
