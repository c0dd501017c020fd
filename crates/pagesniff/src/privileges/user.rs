//! Leaving root.

use nix::unistd::User;
use rustix::process::{Gid, Uid, getuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::error::PrivilegeError;

/// The user of the package's own service.
const SERVICE_USER: &str = "pagesniff";

/// Who the process becomes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Become {
    /// It stays who it is: what it writes belongs to whoever started it.
    #[default]
    Nobody,
    /// Where it is root, the user `pagesniff` if there is one.
    ServiceUser,
    /// This user.
    Named(String),
}

impl Become {
    /// Becomes that user, with no group but its own first one. Says where root was not left.
    pub(super) fn apply(&self) -> Result<Option<String>, PrivilegeError> {
        let (name, is_required) = match self {
            Self::Nobody => return Ok(None),
            Self::ServiceUser if !getuid().is_root() => return Ok(None),
            Self::ServiceUser => (SERVICE_USER, false),
            Self::Named(name) => (name.as_str(), true),
        };
        let user = User::from_name(name).map_err(PrivilegeError::system("the list of users"))?;
        match user {
            Some(user) => change(&user).map(|()| None),
            None if is_required => Err(PrivilegeError::NoUser { name: name.to_owned() }),
            None => {
                Ok(Some(format!("the user {name} does not exist, so the process stays root, without capabilities")))
            }
        }
    }
}

fn change(user: &User) -> Result<(), PrivilegeError> {
    let (uid, gid) = (Uid::from_raw(user.uid.as_raw()), Gid::from_raw(user.gid.as_raw()));
    if uid.is_root() {
        return Err(PrivilegeError::StillRoot { name: user.name.clone() });
    }
    if getuid() == uid {
        return Ok(());
    }
    if !getuid().is_root() {
        return Err(PrivilegeError::NotRoot { name: user.name.clone() });
    }
    // Groups first: once the user is changed, they cannot be.
    set_thread_groups(&[gid]).map_err(PrivilegeError::system("supplementary groups"))?;
    set_thread_res_gid(gid, gid, gid).map_err(PrivilegeError::system("the group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(PrivilegeError::system("the user"))
}
