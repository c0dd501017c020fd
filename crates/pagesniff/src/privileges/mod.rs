//! What the process gives up once its handles are open, and never gets back.
//!
//! ```text
//! handles open → Confinement::apply: user → capabilities → no new privileges → core dumps → files → system calls
//! ```
//!
//! A capture decodes bytes that anybody on the network can forge. Whoever takes it over by them finds a process that can
//! open no socket of the link layer, start no program and, where files are confined, read and write traces only. The
//! passwords and tokens that pass by are in its memory for a moment: it leaves no core dump and cannot be traced by its
//! own user.
//!
//! Limits hold for the calling thread and the threads that it starts, so [`Confinement::apply`] comes before any of them.

mod calls;
mod capabilities;
mod error;
mod files;
mod memory;
mod user;

use std::time::{Duration, Instant};
use std::{fs, thread};

pub use capabilities::Kept;
pub use error::PrivilegeError;
pub use files::Files;
pub use user::{Become, directory_of};

/// What the process is confined to.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// Who it becomes.
    pub user: Become,
    /// Which capabilities it keeps.
    pub capabilities: Kept,
    /// Which files it can open from now on; all that its user may, where nothing is said.
    pub files: Option<Files>,
}

/// What a confinement came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confined {
    /// What this kernel, or this processor, does not offer, in plain sentences.
    pub missing: Vec<String>,
}

impl Confinement {
    /// Confines this process. What was not possible for want of support is in the result; all else that fails is an error,
    /// after which the process should end, since parts of the confinement are in force.
    ///
    /// # Errors
    ///
    /// Where there are other threads already, the user does not exist, a path cannot be opened, or the system refuses.
    pub fn apply(&self) -> Result<Confined, PrivilegeError> {
        only_thread()?;
        let mut missing = Vec::new();
        capabilities::drop_bounding()?;
        missing.extend(self.user.apply()?);
        capabilities::keep_only(self.capabilities)?;
        memory::never_dump()?;
        if let Some(files) = &self.files {
            missing.extend(files.apply()?);
        }
        // The last, as it forbids what the others do.
        missing.extend(calls::restrict()?);
        Ok(Confined { missing })
    }
}

/// A thread that was joined stays in the list until the kernel has cleared it away.
const CLEARING_AWAY: Duration = Duration::from_millis(200);

/// The limits are a thread's: one that runs already would keep everything.
fn only_thread() -> Result<(), PrivilegeError> {
    let since = Instant::now();
    loop {
        let threads = fs::read_dir("/proc/self/task").map_err(PrivilegeError::system("the list of threads"))?;
        match threads.count() {
            1 => return Ok(()),
            count if since.elapsed() >= CLEARING_AWAY => return Err(PrivilegeError::Threads { count }),
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
}
