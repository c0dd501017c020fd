//! Capabilities (capabilities(7)).

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use super::error::PrivilegeError;

/// Which capabilities stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kept {
    /// None.
    #[default]
    Nothing,
    /// Those by which root opens files of others, where the process has them: `sudo pagesniff` in somebody's home writes
    /// there.
    FileAccess,
}

/// The kernel has 41 capabilities now; numbers that it does not know end the loop before.
const MOST_CAPABILITIES: u32 = 64;

/// Empties the bounding set, where the process may. Where not, no-new-privileges has the same effect.
pub(super) fn drop_bounding() -> Result<(), PrivilegeError> {
    for number in 0..MOST_CAPABILITIES {
        let Some(capability) = 1_u64.checked_shl(number).map(CapabilitySet::from_bits_retain) else { break };
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // This number is none to this kernel, and so are all higher ones; or CAP_SETPCAP is not ours.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(PrivilegeError::system("the capability bounding set")(error)),
        }
    }
    Ok(())
}

/// Drops all capabilities but these, for good.
pub(super) fn keep_only(kept: Kept) -> Result<(), PrivilegeError> {
    let kept = match kept {
        Kept::Nothing => CapabilitySet::empty(),
        Kept::FileAccess => CapabilitySet::DAC_OVERRIDE,
    };
    let before = capabilities(None).map_err(PrivilegeError::system("capabilities"))?;
    let kept = kept & before.permitted;
    clear_ambient_capability_set().map_err(PrivilegeError::system("ambient capabilities"))?;
    let sets =
        CapabilitySets { effective: kept & before.effective, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(PrivilegeError::system("capabilities"))?;
    set_no_new_privs(true).map_err(PrivilegeError::system("no-new-privileges"))
}
