//! The finished and unfinished files on the disk, and which of them goes first.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use record::{TenantId, TenantTimeline, TimelineId};

use crate::error::TraceError;
use crate::name::FileName;
use crate::read::files::{MAX_DEPTH, collect};

/// The directory of connections whose tenant is not known.
pub(crate) const UNATTRIBUTED: &str = "unattributed";

/// Files take up whole pieces of this size on the usual file systems, and directories at least one; `du` counts so.
const ALLOCATION_BYTES: u64 = 4096;

/// The trace directory and the lock file.
const FIXED_BYTES: u64 = 2 * ALLOCATION_BYTES;

/// Whose trace.
pub(crate) type Owner = Option<TenantTimeline>;

/// The age of a file: by start, then by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age {
    started: String,
    sequence: u64,
    owner: Owner,
}

/// A file on the disk.
#[derive(Debug, Clone)]
pub(crate) struct ShelvedFile {
    pub(crate) path: PathBuf,
    pub(crate) owner: Owner,
    /// Its length.
    pub(crate) bytes: u64,
    /// Records that this run wrote to it.
    pub(crate) kept: u64,
}

/// An owner's files in short.
#[derive(Debug, Default)]
struct OwnerFiles {
    count: usize,
    /// The one with the highest number; it may have been deleted.
    newest: Option<Age>,
}

/// A tenant's files in short.
#[derive(Debug, Default)]
struct TenantFiles {
    count: usize,
    /// With the directories.
    bytes: u64,
}

/// Every file of this instance in the directory, with sums.
#[derive(Debug)]
pub(crate) struct Shelf {
    directory: PathBuf,
    files: BTreeMap<Age, ShelvedFile>,
    owners: HashMap<Owner, OwnerFiles>,
    tenants: HashMap<Option<TenantId>, TenantFiles>,
    total_bytes: u64,
}

/// The directory of an owner's trace.
pub(crate) fn owner_directory(directory: &Path, owner: Owner) -> PathBuf {
    match owner {
        Some(TenantTimeline { tenant, timeline }) => directory.join(tenant.to_string()).join(timeline.to_string()),
        None => directory.join(UNATTRIBUTED),
    }
}

/// The owner whose directory this is, the outer `None` where it is nobody's.
fn owner_of_directory(directory: &Path) -> Option<Owner> {
    let timeline = directory.file_name()?.to_str()?;
    if timeline == UNATTRIBUTED {
        return Some(None);
    }
    let tenant = directory.parent()?.file_name()?.to_str()?;
    let (tenant, timeline) = (tenant.parse::<TenantId>().ok()?, timeline.parse::<TimelineId>().ok()?);
    Some(Some(TenantTimeline { tenant, timeline }))
}

/// What a file of this length takes up.
fn allocated(bytes: u64) -> u64 {
    bytes.div_ceil(ALLOCATION_BYTES).saturating_mul(ALLOCATION_BYTES)
}

impl Shelf {
    /// Finds the files that earlier runs of the same instance left.
    pub(crate) fn open(directory: &Path, instance: &str) -> Result<Self, TraceError> {
        let mut shelf = Self {
            directory: directory.to_owned(),
            files: BTreeMap::new(),
            owners: HashMap::new(),
            tenants: HashMap::new(),
            total_bytes: FIXED_BYTES,
        };
        let mut found = Vec::new();
        collect(directory, MAX_DEPTH, &mut found)?;
        for path in found {
            let Some(name) = FileName::parse(&path).filter(|name| name.instance == instance) else { continue };
            let Some(owner) = path.parent().and_then(owner_of_directory) else { continue };
            let bytes = std::fs::metadata(&path).map_err(TraceError::io("cannot read", &path))?.len();
            shelf.put(&name, ShelvedFile { path, owner, bytes, kept: 0 });
        }
        Ok(shelf)
    }

    /// The number of the newest file of this owner, 0 where there was none.
    pub(crate) fn last_sequence(&self, owner: Owner) -> u64 {
        let newest = self.owners.get(&owner).and_then(|files| files.newest.as_ref());
        newest.map_or(0, |age| age.sequence)
    }

    /// The newest file of this owner.
    pub(crate) fn newest(&self, owner: Owner) -> Option<Age> {
        self.owners.get(&owner)?.newest.clone().filter(|age| self.files.contains_key(age))
    }

    /// Every file, oldest first.
    pub(crate) fn files(&self) -> impl Iterator<Item = &ShelvedFile> {
        self.files.values()
    }

    /// A new file.
    pub(crate) fn put(&mut self, name: &FileName, file: ShelvedFile) -> Age {
        let age = Age { started: name.started.clone(), sequence: name.sequence, owner: file.owner };
        let bytes = allocated(file.bytes).saturating_add(self.directory_bytes(file.owner));
        let owner = self.owners.entry(file.owner).or_default();
        owner.count = owner.count.saturating_add(1);
        if owner.newest.as_ref().is_none_or(|newest| newest.sequence <= age.sequence) {
            owner.newest = Some(age.clone());
        }
        let tenant = self.tenants.entry(tenant_of(file.owner)).or_default();
        tenant.count = tenant.count.saturating_add(1);
        tenant.bytes = tenant.bytes.saturating_add(bytes);
        self.total_bytes = self.total_bytes.saturating_add(bytes);
        self.files.insert(age.clone(), file);
        age
    }

    /// What the directories take up that a first file of this owner needs.
    fn directory_bytes(&self, owner: Owner) -> u64 {
        let is_first_of_owner = self.owners.get(&owner).is_none_or(|files| files.count == 0);
        let is_first_of_tenant =
            owner.is_some() && self.tenants.get(&tenant_of(owner)).is_none_or(|files| files.count == 0);
        ALLOCATION_BYTES.saturating_mul(u64::from(is_first_of_owner).saturating_add(u64::from(is_first_of_tenant)))
    }

    /// A file has grown to `bytes` by `records` records.
    pub(crate) fn grow(&mut self, age: &Age, (bytes, records): (u64, u64)) {
        let Some(file) = self.files.get_mut(age) else { return };
        let more = allocated(bytes).saturating_sub(allocated(file.bytes));
        file.bytes = bytes;
        file.kept = file.kept.saturating_add(records);
        if let Some(tenant) = self.tenants.get_mut(&tenant_of(file.owner)) {
            tenant.bytes = tenant.bytes.saturating_add(more);
        }
        self.total_bytes = self.total_bytes.saturating_add(more);
    }

    /// The tenant's bytes and all bytes, were `bytes` more written: to the end of a file, or to a new one.
    pub(crate) fn bytes_with(&self, owner: Owner, (file, bytes): (Option<&Age>, u64)) -> (u64, u64) {
        let old = file.and_then(|age| self.files.get(age)).map_or(0, |file| file.bytes);
        let more = allocated(old.saturating_add(bytes)).saturating_sub(allocated(old));
        let more = more.saturating_add(self.directory_bytes(owner));
        let tenant_bytes = self.tenants.get(&tenant_of(owner)).map_or(0, |files| files.bytes);
        (tenant_bytes.saturating_add(more), self.total_bytes.saturating_add(more))
    }

    /// The oldest file of a tenant, or of all.
    pub(crate) fn oldest(&self, tenant: Option<Option<TenantId>>) -> Option<Age> {
        let is_meant = |file: &ShelvedFile| tenant.is_none_or(|tenant| tenant_of(file.owner) == tenant);
        self.files.iter().find(|(_, file)| is_meant(file)).map(|(age, _)| age.clone())
    }

    /// A file.
    pub(crate) fn file(&self, age: &Age) -> Option<&ShelvedFile> {
        self.files.get(age)
    }

    /// Deletes a file, and the directories that are empty without it.
    pub(crate) fn delete(&mut self, age: &Age) -> Result<(), TraceError> {
        let Some(file) = self.files.get(age) else { return Ok(()) };
        match std::fs::remove_file(&file.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(TraceError::io("cannot delete", &file.path)(error));
            }
            _ => {}
        }
        let Some(file) = self.files.remove(age) else { return Ok(()) };
        let owner = self.owners.entry(file.owner).or_default();
        owner.count = owner.count.saturating_sub(1);
        let tenant = self.tenants.entry(tenant_of(file.owner)).or_default();
        tenant.count = tenant.count.saturating_sub(1);
        let (owner_is_gone, tenant_is_gone) = (owner.count == 0, tenant.count == 0);
        let bytes = allocated(file.bytes).saturating_add(self.directory_bytes(file.owner));
        if let Some(tenant) = self.tenants.get_mut(&tenant_of(file.owner)) {
            tenant.bytes = tenant.bytes.saturating_sub(bytes);
        }
        self.total_bytes = self.total_bytes.saturating_sub(bytes);
        // Both fail where another instance has files there: then the directories stay.
        if owner_is_gone {
            let _ = std::fs::remove_dir(owner_directory(&self.directory, file.owner));
        }
        if let Some(owner) = file.owner
            && tenant_is_gone
        {
            let _ = std::fs::remove_dir(self.directory.join(owner.tenant.to_string()));
        }
        Ok(())
    }
}

/// The outer directory's tenant.
fn tenant_of(owner: Owner) -> Option<TenantId> {
    owner.map(|owner| owner.tenant)
}
