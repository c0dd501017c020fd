//! Which files can be opened (landlock(7)).

use std::fmt::Display;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetStatus,
};

use super::error::PrivilegeError;

/// The rights that this program knows. A kernel that knows fewer enforces those, and the result says so.
const KNOWN: ABI = ABI::V5;

/// What libpcap reads for its counters, and Rust for the number of processors. All of it is public.
const ALWAYS_READ: [&str; 4] = ["/proc/self", "/proc/net", "/sys/class/net", "/sys/devices"];

/// What stays open to a confined process. Handles that are open already are not affected.
///
/// A directory stands for everything below it, whenever that comes into being. A file stands for itself: one that is
/// replaced by another of the same name, as editors do, is out of reach. Name its directory where that matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Directories and files that can be read.
    pub read: Vec<PathBuf>,
    /// Directories in which files can be read, made, written, renamed and removed; also single files.
    pub write: Vec<PathBuf>,
}

impl Files {
    /// Confines the thread. Says what the kernel does not offer.
    pub(super) fn apply(&self) -> Result<Option<String>, PrivilegeError> {
        let all = AccessFs::from_all(KNOWN);
        let created = Ruleset::default().handle_access(all).and_then(Ruleset::create);
        let mut rules = created.map_err(refused)?;
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        // Traces need no programs, devices or their controls.
        let write = all & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
        for path in ALWAYS_READ.map(Path::new).into_iter().filter(|path| path.exists()) {
            rules = allow(rules, path, read)?;
        }
        for (paths, access) in [(&self.read, read), (&self.write, write)] {
            for path in paths {
                rules = allow(rules, path, access)?;
            }
        }
        match rules.restrict_self().map_err(refused)?.ruleset {
            RulesetStatus::FullyEnforced => Ok(None),
            RulesetStatus::PartiallyEnforced => Ok(Some(
                "this kernel's landlock is older than 6.10: files are confined, but for truncation, moves or device \
                 controls, as its version has it"
                    .to_owned(),
            )),
            RulesetStatus::NotEnforced => Ok(Some(
                "this kernel has no landlock, or it is switched off (`lsm=` at boot): files are not confined"
                    .to_owned(),
            )),
        }
    }
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, PrivilegeError> {
    let failed = |error: &dyn Display| PrivilegeError::Path { path: path.to_owned(), reason: error.to_string() };
    let opened = PathFd::new(path).map_err(|error| failed(&error))?;
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
    rules.add_rule(PathBeneath::new(opened, access)).map_err(|error| failed(&error))
}

fn refused(error: landlock::RulesetError) -> PrivilegeError {
    PrivilegeError::System { what: "landlock", source: std::io::Error::other(error) }
}
