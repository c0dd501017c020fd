//! Records as Parquet files, partitioned by tenant and day in Hive's way.
//!
//! All files are written under hidden names, and get their own at the end: an export that is cut leaves none.

mod columns;

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{anyhow, bail};
use parquet::file::writer::SerializedFileWriter;
use record::{Record, TenantId};
use tempfile::TempDir;
use xxhash_rust::xxh3::Xxh3;

/// Rows of a group: enough for dictionaries and deltas, some 20 MiB of records and 30 MiB of columns while it is written.
const GROUP_ROWS: usize = 64 << 10;

/// Rows that wait in all partitions together, some 80 MiB. Only requests whose tenant was found later are of several tenants at
/// once. Beyond, partitions of more than the mean are written.
const MOST_WAITING_ROWS: usize = 256 << 10;

/// Files that are written at once; a process may have 1,024 open by default. Beyond, all are ended.
const MOST_OPEN_FILES: usize = 64;

/// Groups of a file, 4 million rows; what is remembered of each until the file's end takes some 10 KiB.
const FILE_GROUPS: usize = 64;

const NS_PER_DAY: u64 = 86_400_000_000_000;

/// Takes records by tenant and, of each tenant, in the order of time.
pub(super) struct ParquetOut {
    directory: PathBuf,
    hidden: TempDir,
    day: u64,
    waiting_rows: usize,
    partitions: HashMap<Option<TenantId>, Partition>,
    /// Where each hidden file belongs, by its number.
    finished: Vec<PathBuf>,
    left_out: u64,
}

/// What came of an export.
pub(super) struct Exported {
    pub(super) files: usize,
    /// Records of times beyond the format.
    pub(super) left_out: u64,
}

#[derive(Default)]
struct Partition {
    records: Vec<Record>,
    file: Option<OpenFile>,
}

struct OpenFile {
    number: usize,
    first_time_ns: u64,
    writer: SerializedFileWriter<HashedFile>,
}

impl ParquetOut {
    /// Makes the directory where it is missing.
    pub(super) fn new(directory: &Path) -> anyhow::Result<Self> {
        let cannot = |error| anyhow!("{}: no files can be written there: {error}", directory.display());
        fs::create_dir_all(directory).map_err(cannot)?;
        // Engines take no notice of what begins with a dot.
        let hidden = TempDir::with_prefix_in(".export-", directory).map_err(cannot)?;
        let directory = directory.to_owned();
        Ok(Self {
            directory,
            hidden,
            day: 0,
            waiting_rows: 0,
            partitions: HashMap::new(),
            finished: Vec::new(),
            left_out: 0,
        })
    }

    /// Takes one record; one of a time beyond the format is left out and counted.
    pub(super) fn record(&mut self, record: &Record) -> anyhow::Result<()> {
        if !columns::fits(record) {
            self.left_out = self.left_out.saturating_add(1);
            return Ok(());
        }
        let day = record.time.0 / NS_PER_DAY;
        if day != self.day {
            self.end_files()?;
            self.day = day;
        }
        let tenant = record.owner.map(|owner| owner.tenant);
        let partition = self.partitions.entry(tenant).or_default();
        partition.records.push(record.clone());
        let is_full = partition.records.len() >= GROUP_ROWS;
        self.waiting_rows = self.waiting_rows.saturating_add(1);
        if is_full {
            self.write_groups(GROUP_ROWS)?;
        } else if self.waiting_rows >= MOST_WAITING_ROWS {
            self.write_groups(self.waiting_rows / self.partitions.len().max(1))?;
        }
        Ok(())
    }

    /// Ends all files: what follows is of another tenant or day.
    pub(super) fn end_files(&mut self) -> anyhow::Result<()> {
        self.write_groups(1)?;
        for (tenant, partition) in std::mem::take(&mut self.partitions) {
            if let Some(file) = partition.file {
                self.end(tenant, file)?;
            }
        }
        Ok(())
    }

    /// Writes the rows of each partition that has so many waiting.
    fn write_groups(&mut self, least_rows: usize) -> anyhow::Result<()> {
        let due = |(_, partition): &(&Option<TenantId>, &Partition)| partition.records.len() >= least_rows.max(1);
        let tenants: Vec<_> = self.partitions.iter().filter(due).map(|(tenant, _)| *tenant).collect();
        for tenant in tenants {
            self.write_group(tenant)?;
        }
        Ok(())
    }

    fn write_group(&mut self, tenant: Option<TenantId>) -> anyhow::Result<()> {
        let Some(mut partition) = self.partitions.remove(&tenant) else { return Ok(()) };
        let mut file = match partition.file.take() {
            Some(file) => file,
            None => {
                self.make_room()?;
                self.open(partition.records.first().map_or(0, |first| first.time.0))?
            }
        };
        columns::write_group(&mut file.writer, &partition.records).map_err(|error| self.cannot_write(error))?;
        self.waiting_rows = self.waiting_rows.saturating_sub(partition.records.len());
        partition.records.clear();
        if file.writer.flushed_row_groups().len() >= FILE_GROUPS {
            return self.end(tenant, file);
        }
        partition.file = Some(file);
        self.partitions.insert(tenant, partition);
        Ok(())
    }

    /// Ends all files where there are too many of them.
    fn make_room(&mut self) -> anyhow::Result<()> {
        let open = self.partitions.values().filter(|partition| partition.file.is_some()).count();
        if open < MOST_OPEN_FILES {
            return Ok(());
        }
        let files: Vec<_> = self
            .partitions
            .iter_mut()
            .filter_map(|(tenant, partition)| Some((*tenant, partition.file.take()?)))
            .collect();
        files.into_iter().try_for_each(|(tenant, file)| self.end(tenant, file))
    }

    fn open(&mut self, first_time_ns: u64) -> anyhow::Result<OpenFile> {
        let number = self.finished.len();
        self.finished.push(PathBuf::new());
        let file = File::create(self.hidden_path(number)).map_err(|error| self.cannot_write(error))?;
        let file = HashedFile { file: BufWriter::new(file), hash: Xxh3::new() };
        let writer = SerializedFileWriter::new(file, columns::schema()?, columns::properties()?.into())
            .map_err(|error| self.cannot_write(error))?;
        Ok(OpenFile { number, first_time_ns, writer })
    }

    /// Writes a file's end. Its name says its first record's time, and what is in it: the same export gives the same names.
    fn end(&mut self, tenant: Option<TenantId>, file: OpenFile) -> anyhow::Result<()> {
        let OpenFile { number, first_time_ns, writer } = file;
        let hashed = writer.into_inner().map_err(|error| self.cannot_write(error))?;
        let hash = hashed.hash.digest();
        let written = hashed.file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        written.map_err(|error| self.cannot_write(error))?;
        let time = humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(first_time_ns)).to_string();
        let (date, _) = time.split_once('T').unwrap_or((&time, ""));
        let tenant = tenant.map_or_else(|| "unattributed".to_owned(), |tenant| tenant.to_string());
        let name = format!("{}-{hash:016x}.parquet", time.replace([':', '-'], ""));
        let path = [format!("tenant_id={tenant}"), format!("date={date}"), name].iter().collect();
        if let Some(place) = self.finished.get_mut(number) {
            *place = path;
        }
        Ok(())
    }

    /// Gives all files their names.
    pub(super) fn finish(mut self) -> anyhow::Result<Exported> {
        self.end_files()?;
        for path in &self.finished {
            let path = self.directory.join(path);
            if path.try_exists().map_err(|error| self.cannot_write(error))? {
                bail!("{}: is there already, with the same records; nothing was written", path.display());
            }
        }
        for (number, path) in self.finished.iter().enumerate() {
            let path = self.directory.join(path);
            let put = path
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::rename(self.hidden_path(number), &path));
            put.map_err(|error| {
                anyhow!(
                    "{}: cannot be put there, {number} of {} files were before: {error}",
                    path.display(),
                    self.finished.len()
                )
            })?;
        }
        Ok(Exported { files: self.finished.len(), left_out: self.left_out })
    }

    fn hidden_path(&self, number: usize) -> PathBuf {
        self.hidden.path().join(number.to_string())
    }

    fn cannot_write(&self, error: impl Display) -> anyhow::Error {
        anyhow!("{}: writing failed, nothing is left there: {error}", self.directory.display())
    }
}

/// A file, and the hash of what was written to it.
struct HashedFile {
    file: BufWriter<File>,
    hash: Xxh3,
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
