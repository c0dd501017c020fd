//! The traces out of an archive: regular files below its name, and nothing else.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::anyhow;
use tar::{Archive, EntryType};

/// Below the archive's name there are tenant, timeline and file.
const MOST_LEVELS: usize = 8;

/// Unpacks into the directory `to`, which comes to be when all is in it. The archive has one directory, `name`.
///
/// # Errors
///
/// The archive is cut or holds what no daemon puts there, or the disk takes nothing more; nothing of it is left then.
pub(super) fn unpack(archive: &Path, name: &str, to: &Path) -> anyhow::Result<()> {
    let mut aside = to.as_os_str().to_owned();
    aside.push(".unpacking");
    let aside = PathBuf::from(aside);
    // Of one that was killed.
    let _ = fs::remove_dir_all(&aside);
    let unpacked = unpack_all(archive, name, &aside).and_then(|()| {
        let wrong = |error: io::Error| anyhow!("{}: {error}", to.display());
        fs::rename(&aside, to).map_err(wrong)
    });
    if unpacked.is_err() {
        let _ = fs::remove_dir_all(&aside);
    }
    unpacked
}

fn unpack_all(archive: &Path, name: &str, to: &Path) -> anyhow::Result<()> {
    let broken =
        |error: &dyn std::fmt::Display| anyhow!("{}: not the archive that was asked for: {error}", archive.display());
    let wrong = |error: io::Error| anyhow!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(wrong)?;
    let mut read = Archive::new(File::open(archive).map_err(|error| broken(&error))?);
    for entry in read.entries().map_err(|error| broken(&error))? {
        let mut entry = entry.map_err(|error| broken(&error))?;
        let path = entry.path().map_err(|error| broken(&error))?.into_owned();
        let below = below(&path, name).ok_or_else(|| broken(&format_args!("it holds {}", path.display())))?;
        if entry.header().entry_type() != EntryType::Regular {
            return Err(broken(&format_args!("{} is no file", path.display())));
        }
        let place = to.join(below);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(wrong)?;
        }
        // What is there twice is not overwritten.
        let mut file = File::create_new(&place).map_err(wrong)?;
        let size = entry.header().size().map_err(|error| broken(&error))?;
        let copied = io::copy(&mut entry, &mut file).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => broken(&format_args!("{} is cut", path.display())),
            _ => wrong(error),
        })?;
        if copied != size {
            return Err(broken(&format_args!("{} is cut", path.display())));
        }
        file.sync_all().map_err(wrong)?;
    }
    Ok(())
}

/// The path below `name`, where it is one that leads nowhere else.
fn below<'a>(path: &'a Path, name: &str) -> Option<&'a Path> {
    let below = path.strip_prefix(name).ok()?;
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let levels = below.components().count();
    (is_plain && (1..=MOST_LEVELS).contains(&levels)).then_some(below)
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    /// An archive with one entry, whose name no library would write.
    fn archive(name: &str, kind: EntryType, content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        header.set_cksum();
        let mut builder = Builder::new(Vec::new());
        builder.append(&header, content).unwrap();
        builder.into_inner().unwrap()
    }

    fn unpacked(bytes: &[u8]) -> (tempfile::TempDir, anyhow::Result<()>) {
        let directory = tempfile::tempdir().unwrap();
        let tar = directory.path().join("id.tar");
        fs::write(&tar, bytes).unwrap();
        let result = unpack(&tar, "id", &directory.path().join("id"));
        (directory, result)
    }

    #[test]
    fn files_below_the_name_come_out_with_their_directories() {
        let (directory, result) = unpacked(&archive("id/tenant/timeline/a.pgtrace", EntryType::Regular, b"content"));
        result.unwrap();
        assert_eq!(fs::read(directory.path().join("id/tenant/timeline/a.pgtrace")).unwrap(), b"content");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_would_lead_elsewhere_is_refused_and_nothing_is_left() {
        let regular = |name: &str| archive(name, EntryType::Regular, b"x");
        let mut cut = archive("id/a", EntryType::Regular, &[1; 2_000]);
        cut.truncate(1_024);
        let hostile = [
            regular("id/../../escaped"),
            regular("../escaped"),
            regular("/tmp/pagesniff-escaped"),
            regular("other/a"),
            regular("id"),
            regular("id/1/2/3/4/5/6/7/8/9"),
            archive("id/link", EntryType::Symlink, b""),
            archive("id/link", EntryType::Link, b""),
            archive("id/fifo", EntryType::Fifo, b""),
            cut,
            vec![0xff; 2_048],
        ];
        for bytes in hostile {
            let (directory, result) = unpacked(&bytes);
            let error = result.unwrap_err().to_string();
            assert!(error.contains("id.tar: not the archive that was asked for: "), "{error}");
            let left: Vec<_> =
                fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["id.tar"], "{error}");
        }
        assert!(!Path::new("/tmp/pagesniff-escaped").exists());
    }
}
