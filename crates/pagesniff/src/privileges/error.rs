//! Why privileges could not be given up.

use std::io;
use std::path::PathBuf;

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivilegeError {
    /// There are threads that would keep them.
    #[error("privileges cannot be dropped while {count} threads run: this is a fault in pagesniff, please report it")]
    Threads {
        /// How many there are.
        count: usize,
    },
    /// There is no such user.
    #[error("user {name}: there is no such user: `useradd --system {name}` makes one, or name another")]
    NoUser {
        /// As given.
        name: String,
    },
    /// Only root becomes somebody else.
    #[error("user {name}: only root can become another user: start it as {name}, or leave the user out")]
    NotRoot {
        /// As given.
        name: String,
    },
    /// The user has the privileges that are to be left.
    #[error("user {name}: this is root under another name: name an ordinary user")]
    StillRoot {
        /// As given.
        name: String,
    },
    /// A path that is to stay open cannot be opened.
    #[error("{}: cannot be opened, so that access could be confined to it: {reason}", path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// The system's word.
        reason: String,
    },
    /// A directory cannot be made.
    #[error("{}: the directory cannot be made: {source}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The system refuses.
    #[error("{what}: the system refuses: {source}")]
    System {
        /// What was being given up.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

impl PrivilegeError {
    /// For `map_err`: the system refused to do that.
    pub(super) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { what, source: error.into() }
    }
}
