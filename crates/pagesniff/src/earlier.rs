//! What is known of connections that were open before a live capture began.

#[cfg(feature = "live")]
use std::path::Path;

#[cfg(feature = "live")]
use anyhow::anyhow;
use decode::{OpenConnection, Stats};

#[cfg(feature = "live")]
use crate::flags::{DEFAULT_DAEMON_STATE, DaemonState};

/// What a daemon's table of connections told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Earlier {
    /// The connections.
    pub(crate) connections: Vec<OpenConnection>,
    /// Where they are from; `None` where nobody was asked.
    told_by: Option<String>,
    /// Why there are none, in plain words.
    missing: Option<String>,
}

impl Earlier {
    /// Asks a daemon's table.
    ///
    /// # Errors
    ///
    /// One that was named is not there, or cannot be read.
    #[cfg(feature = "live")]
    pub(crate) fn read(state: &DaemonState) -> anyhow::Result<Self> {
        let (path, is_named) = match state {
            DaemonState::None => return Ok(Self::default()),
            DaemonState::Default => (Path::new(DEFAULT_DAEMON_STATE), false),
            DaemonState::At(path) => (path.as_path(), true),
        };
        let at = path.display();
        let missing = match known_connections(path) {
            Ok(Some(connections)) => {
                return Ok(Self { connections, told_by: Some(at.to_string()), missing: None });
            }
            Ok(None) => format!("there is no daemon's table of connections at {at}"),
            Err(error) => format!("a daemon's table of connections cannot be used: {error}"),
        };
        if is_named {
            return Err(anyhow!(
                "--daemon-state: {missing}: name connections.table in the daemon's data_directory, or none"
            ));
        }
        Ok(Self { missing: Some(missing), ..Self::default() })
    }

    /// What the table told, and what it could not; `unknown` requests have no tenant.
    pub(crate) fn notes(&self, stats: &Stats, unknown: u64) -> Vec<String> {
        let mut notes = Vec::new();
        let (told, joined) = (stats.remembered_connections, stats.joined_connections);
        if let (Some(path), 1..) = (&self.told_by, told) {
            let connections = if told == 1 { "connection that was" } else { "connections that were" };
            notes.push(format!("the daemon's table {path} told the tenant of {told} {connections} open before"));
        }
        let left = joined.saturating_sub(told);
        if left == 0 || unknown == 0 {
            return notes;
        }
        let are =
            if left == 1 { "connection that was open before is" } else { "connections that were open before are" };
        match (&self.told_by, &self.missing) {
            (Some(path), _) => notes.push(format!(
                "{left} {are} not in the daemon's table {path}: older than it, or on an interface that it does not capture on"
            )),
            (None, Some(missing)) => notes.push(format!(
                "{left} {are} of unknown tenant, and {missing}: a `pagesniff serve` that runs all the time knows whose \
                 connections are; --daemon-state names its table"
            )),
            (None, None) => {}
        }
        notes
    }
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn known_connections(path: &Path) -> Result<Option<Vec<OpenConnection>>, String> {
    crate::daemon::known_connections(path)
}

/// Where there is no daemon there is no table.
#[cfg(all(feature = "live", not(target_os = "linux")))]
fn known_connections(_path: &Path) -> Result<Option<Vec<OpenConnection>>, String> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_unknown_is_said_with_what_helps() {
        let stats = Stats { joined_connections: 5, remembered_connections: 2, ..Stats::default() };
        assert_eq!(Earlier::default().notes(&stats, 9), [""; 0]);
        let told = Earlier { told_by: Some("/t".to_owned()), ..Earlier::default() };
        let notes = told.notes(&stats, 9);
        assert!(
            notes[0].contains("/t told the tenant of 2 connections") && notes[1].starts_with("3 connections"),
            "{notes:?}"
        );
        assert_eq!(told.notes(&stats, 0).len(), 1);
        let missing = Earlier { missing: Some("there is none".to_owned()), ..Earlier::default() };
        let notes = missing.notes(&Stats { remembered_connections: 0, ..stats }, 9);
        assert!(
            matches!(&notes[..], [note] if note.contains("5 connections") && note.contains("pagesniff serve")),
            "{notes:?}"
        );
    }

    #[cfg(feature = "live")]
    #[test]
    fn a_table_that_was_named_has_to_be_there() {
        let error = Earlier::read(&DaemonState::At("/no/such".into())).unwrap_err().to_string();
        assert!(error.contains("--daemon-state: ") && error.contains("/no/such"), "{error}");
    }
}
