//! How wide what is written to a terminal may be.

use std::os::fd::AsFd;

use terminal_size::{Width, terminal_size_of};

/// Columns of the terminal that the stream goes to. None where it goes to a file or a pipe: there a sentence stays one line,
/// which `grep` finds whole.
pub(crate) fn columns_of(stream: impl AsFd) -> Option<usize> {
    let (Width(columns), _) = terminal_size_of(stream)?;
    Some(columns.into())
}
