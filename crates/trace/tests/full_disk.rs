//! A disk that is really full: a small file system in memory. Mounting one takes privileges; without them the test says so
//! and the unit test of `write::output`, with a disk of its own, stands alone.

mod sample;

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use trace::{Counter, OnFull, TraceError, TraceWriter, WriterConfig, open_all};

/// A mounted file system, taken down at the end.
struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let options = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self { directory })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.directory.path()).status();
    }
}

/// Fills the disk and returns the records that are left, of how many, and the errors.
fn fill(disk: &SmallDisk, on_full: OnFull) -> (usize, u64, Vec<TraceError>) {
    let directory = disk.path().join("traces");
    let mut config = WriterConfig { on_full, ..WriterConfig::new(&directory, "test") };
    // Files of 1 MB, so that there are old ones to delete.
    config.circumstances.max_bytes = Some(8 << 20);
    let mut writer = TraceWriter::open(config).unwrap();
    let records = sample::records(400_000, 1);
    let errors = records.iter().filter_map(|record| writer.append(record, record.time).err()).collect();
    let (run, _) = writer.close(records[399_999].time);
    let mut read = Vec::new();
    for reader in open_all(&[&directory]).unwrap() {
        let mut reader = reader.unwrap();
        read.extend(reader.records().map(Result::unwrap));
        assert_eq!(reader.damaged_bytes(), 0, "only whole blocks");
    }
    let lost = run.value(Counter::WriteFailed) + run.value(Counter::Rotated);
    assert_eq!(run.value(Counter::Seen), 400_000);
    assert_eq!(lost + read.len() as u64, 400_000);
    let edge = if on_full == OnFull::Rotate { read.last() == records.last() } else { read.first() == records.first() };
    assert!(edge, "the newest are there, or with stop the oldest");
    (read.len(), run.value(Counter::WriteFailed), errors)
}

#[test]
fn a_full_disk_costs_the_oldest_or_the_newest_and_never_a_whole_block() {
    let Some(disk) = SmallDisk::mount("2m") else {
        eprintln!("no privilege to mount a file system: not tested here");
        return;
    };
    let (kept, failed, _) = fill(&disk, OnFull::Rotate);
    assert!(kept > 80_000, "{kept}");
    assert_eq!(failed, 0, "old files make room");
    drop(disk);
    let disk = SmallDisk::mount("2m").unwrap();
    let (kept, failed, errors) = fill(&disk, OnFull::Stop);
    assert!(kept > 150_000 && failed > 0, "{kept} {failed}");
    assert!(errors[0].to_string().contains("records were not written to"), "{}", errors[0]);
}
