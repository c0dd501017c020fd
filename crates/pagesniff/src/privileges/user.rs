//! Leaving root.

use std::fs;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

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
        match self.wanted()? {
            Wanted::Nobody => Ok(None),
            Wanted::User(user) => change(&user).map(|()| None),
            Wanted::Missing => Ok(Some(format!(
                "the user {SERVICE_USER} does not exist, so the process stays root, without capabilities"
            ))),
        }
    }

    /// Makes a directory where it is missing, and gives it to the user that the process becomes. One that is there already
    /// belongs to whom it belongs.
    ///
    /// # Errors
    ///
    /// The user does not exist, or the directory cannot be made.
    pub fn make_directory(&self, path: &Path) -> Result<(), PrivilegeError> {
        let failed = |error: std::io::Error| PrivilegeError::Directory { path: path.to_owned(), source: error };
        if path.as_os_str().is_empty() || path.exists() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_directory(parent)?;
        }
        fs::create_dir(path).map_err(failed)?;
        match self.wanted()? {
            // Not through a link: what was made is given away, and nothing that somebody has put in its place.
            Wanted::User(user) if getuid().is_root() => {
                lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    fn wanted(&self) -> Result<Wanted, PrivilegeError> {
        let (name, is_required) = match self {
            Self::Nobody => return Ok(Wanted::Nobody),
            Self::ServiceUser if !getuid().is_root() => return Ok(Wanted::Nobody),
            Self::ServiceUser => (SERVICE_USER, false),
            Self::Named(name) => (name.as_str(), true),
        };
        match User::from_name(name).map_err(PrivilegeError::system("the list of users"))? {
            Some(user) => Ok(Wanted::User(user)),
            None if is_required => Err(PrivilegeError::NoUser { name: name.to_owned() }),
            None => Ok(Wanted::Missing),
        }
    }
}

/// Whom that means on this system.
enum Wanted {
    Nobody,
    User(User),
    /// There is no user for the service.
    Missing,
}

/// The directory in which a file is.
pub fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
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
