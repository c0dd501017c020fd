//! What the daemon gives up before it runs.

#[cfg(feature = "upload")]
use std::path::PathBuf;

use super::RawServe;
use super::config::Config;
use crate::privileges::{Become, Confinement, Files, Kept, directory_of};

/// What the C library reads to find a host by its name, and rustls to know whom to trust.
#[cfg(feature = "upload")]
const NETWORK_FILES: [&str; 5] = ["/etc", "/usr/lib", "/usr/share/ca-certificates", "/lib", "/run/systemd/resolve"];

/// Leaves root, and confines the process to its directories. Says what this system does not offer for that.
///
/// To be called with the interfaces open, and before any thread is started.
///
/// # Errors
///
/// See [`Confinement::apply`]; and where a directory cannot be made.
pub(super) fn confine(config: &Config, raw: &RawServe) -> anyhow::Result<Vec<String>> {
    let user = raw.user.clone().map_or(Become::ServiceUser, Become::Named);
    #[cfg_attr(not(feature = "upload"), expect(unused_mut, reason = "nothing is added"))]
    let mut write = vec![config.data_directory.clone(), directory_of(&config.control.socket)];
    for directory in &write {
        user.make_directory(directory)?;
    }
    // Not the file alone: whoever edits it puts another file in its place, which is to be read too.
    #[cfg_attr(not(any(feature = "api", feature = "upload")), expect(unused_mut, reason = "nothing is added"))]
    let mut read = vec![directory_of(&raw.config)];
    // It is read again when it changes.
    #[cfg(feature = "api")]
    read.extend(config.authentication.tokens.as_deref().map(directory_of));
    #[cfg(feature = "upload")]
    if let Some(upload) = &config.upload {
        match upload.directory() {
            Some(directory) => {
                user.make_directory(&directory)?;
                write.push(directory);
            }
            None => read.extend(NETWORK_FILES.map(PathBuf::from).into_iter().filter(|path| path.exists())),
        }
        read.extend(upload.secrets.as_deref().map(directory_of));
    }
    let files = Files { read, write };
    let confinement = Confinement { user, capabilities: Kept::Nothing, files: Some(files) };
    Ok(confinement.apply()?.missing)
}
