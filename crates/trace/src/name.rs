//! Names of trace files: `<UTC start>-<instance>-<sequence>.pgtrace`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use record::Timestamp;

use crate::error::TraceError;

/// What trace files end in.
pub(crate) const FILE_EXTENSION: &str = "pgtrace";

/// The longest instance name, in bytes: with time and sequence it stays far below the 255 that file systems take.
pub const MAX_INSTANCE_LEN: usize = 64;

/// `20261201T052756Z` has so many characters.
const STARTED_LEN: usize = 16;

/// The parts of a trace file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileName {
    /// When the file was begun, to the second: `20261201T052756Z`. Sorts as time does.
    pub(crate) started: String,
    /// Who wrote it.
    pub(crate) instance: String,
    /// Its number in its directory.
    pub(crate) sequence: u64,
}

impl FileName {
    /// Of a file begun then.
    pub(crate) fn new(started: Timestamp, instance: &str, sequence: u64) -> Self {
        let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(started.0));
        let text = humantime::format_rfc3339_seconds(moment.unwrap_or(SystemTime::UNIX_EPOCH)).to_string();
        let started = text.chars().filter(|letter| !matches!(letter, '-' | ':')).collect();
        Self { started, instance: instance.to_owned(), sequence }
    }

    /// The parts of a path's last component, or `None` where it is no trace's name.
    pub(crate) fn parse(path: &Path) -> Option<Self> {
        if path.extension()? != FILE_EXTENSION {
            return None;
        }
        let stem = path.file_stem()?.to_str()?;
        let (started, rest) = stem.split_once('-')?;
        let (instance, sequence) = rest.rsplit_once('-')?;
        if started.len() != STARTED_LEN || instance.is_empty() {
            return None;
        }
        Some(Self { started: started.to_owned(), instance: instance.to_owned(), sequence: sequence.parse().ok()? })
    }

    /// Sorts the files of a directory as they were written.
    pub(crate) fn order(&self) -> (String, u64, String) {
        (self.started.clone(), self.sequence, self.instance.clone())
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { started, instance, sequence } = self;
        write!(f, "{started}-{instance}-{sequence:06}.{FILE_EXTENSION}")
    }
}

/// Refuses instance names that cannot be part of a file name.
pub(crate) fn check_instance(name: &str) -> Result<(), TraceError> {
    let is_allowed = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'_' | b'-');
    let is_good =
        (1..=MAX_INSTANCE_LEN).contains(&name.len()) && name.bytes().all(is_allowed) && !name.starts_with(['.', '-']);
    if is_good { Ok(()) } else { Err(TraceError::InstanceName { name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = FileName::new(Timestamp(1_796_102_876_999_999_999), "eth0-node-7", 17);
        assert_eq!(name.to_string(), "20261201T052756Z-eth0-node-7-000017.pgtrace");
        assert_eq!(FileName::parse(Path::new("/x").join(name.to_string()).as_path()), Some(name));
        for other in ["a.pgtrace", "20261201T052756Z-eth0.pgtrace", "20261201T052756Z-eth0-x.pgtrace", "x-y-1.pcap"] {
            assert_eq!(FileName::parse(Path::new(other)), None, "{other}");
        }
        let last = FileName::new(Timestamp(u64::MAX), "a", u64::MAX);
        assert_eq!(FileName::parse(Path::new(&last.to_string())), Some(last));
    }

    #[test]
    fn instance_names_that_could_leave_the_directory_are_refused() {
        for name in ["", ".", "..", "a/b", "-a", ".hidden", "a b", "ä", &"x".repeat(65)] {
            assert!(check_instance(name).is_err(), "{name}");
        }
        for name in ["replay", "eth0", "node-7.eth0_1", &"x".repeat(64)] {
            assert!(check_instance(name).is_ok(), "{name}");
        }
    }
}
