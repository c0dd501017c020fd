//! What the daemon gives up before it runs.

use super::RawServe;
use super::config::Config;
use crate::privileges::{Become, Confinement, Files, Kept, directory_of};

/// Leaves root, and confines the process to its directories. Says what this system does not offer for that.
///
/// To be called with the interfaces open, and before any thread is started.
///
/// # Errors
///
/// See [`Confinement::apply`]; and where a directory cannot be made.
pub(super) fn confine(config: &Config, raw: &RawServe) -> anyhow::Result<Vec<String>> {
    let user = raw.user.clone().map_or(Become::ServiceUser, Become::Named);
    let write = vec![config.data_directory.clone(), directory_of(&config.control.socket)];
    for directory in &write {
        user.make_directory(directory)?;
    }
    // Not the file alone: whoever edits it puts another file in its place, which is to be read too.
    let files = Files { read: vec![directory_of(&raw.config)], write };
    let confinement = Confinement { user, capabilities: Kept::Nothing, files: Some(files) };
    Ok(confinement.apply()?.missing)
}
