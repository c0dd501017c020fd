//! The process's memory, where passwords and tokens pass by.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use super::error::PrivilegeError;

/// No core dump, whatever the system is set to, and no debugger of the same user.
pub(super) fn never_dump() -> Result<(), PrivilegeError> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        .map_err(PrivilegeError::system("RLIMIT_CORE"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(PrivilegeError::system("PR_SET_DUMPABLE"))
}
