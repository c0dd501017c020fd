//! A regular file whose bytes are used where the system keeps them: mapped, a stretch at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, Mmap, MmapOptions};

use super::compression::Compression;
use super::sigbus::Watch;
use super::storage::{ReadFailure, shrunk};

/// How much is mapped at a time. Larger stretches make nothing faster, and all of a stretch counts as memory in use.
const STRETCH_BYTES: usize = 4 << 20;

/// An open file, and the stretch of it that is mapped.
pub(super) struct MappedFile {
    file: File,
    opened_len_bytes: u64,
    /// Dropped before `watch`, which answers for it.
    map: Option<Mmap>,
    /// Where in the file the mapped stretch ends.
    mapped_until: u64,
    watch: Watch,
    read_bytes: Arc<AtomicU64>,
}

impl MappedFile {
    /// Opens it; `None` where it cannot be mapped or is compressed: it is to be read then.
    pub(super) fn open(path: &Path, read_bytes: &Arc<AtomicU64>) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
        let mut start = [0; 4];
        file.read_exact_at(&mut start, 0).ok()?;
        if Compression::recognise(&start).is_some() {
            return None;
        }
        let watch = Watch::new(format!(
            "error: {}: changed while it was read (it became shorter, or its disk failed): what was written before is \
             whole; read a copy that nobody writes to\n",
            path.display()
        ))?;
        let opened_len_bytes = metadata.len();
        let read_bytes = Arc::clone(read_bytes);
        let mut mapped = Self { file, opened_len_bytes, map: None, mapped_until: 0, watch, read_bytes };
        mapped.show(0, 0).ok()?;
        Some(mapped)
    }

    /// The bytes of the stretch.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Maps the stretch that begins at `from`, with at least `needed` bytes where the file has so many.
    ///
    /// # Errors
    ///
    /// The file is shorter than it was and ends before, or the system does not map it.
    #[cold]
    pub(super) fn show(&mut self, from: u64, needed: usize) -> Result<(), ReadFailure> {
        let len_bytes = self.file.metadata()?.len();
        let until_needed = from.saturating_add(needed as u64);
        if len_bytes < self.opened_len_bytes && len_bytes < until_needed {
            return Err(shrunk(self.opened_len_bytes, len_bytes));
        }
        let length = len_bytes.saturating_sub(from).min(STRETCH_BYTES.max(needed) as u64);
        self.watch.uncover();
        self.map = None;
        if length == 0 {
            return Ok(());
        }
        let length = usize::try_from(length).unwrap_or(STRETCH_BYTES);
        let map = map(&self.file, from, length)?;
        self.watch.cover(&map.as_ptr_range());
        self.map = Some(map);
        let until = from.saturating_add(length as u64);
        self.read_bytes.fetch_add(until.saturating_sub(self.mapped_until), Ordering::Relaxed);
        self.mapped_until = self.mapped_until.max(until);
        Ok(())
    }
}

#[allow(unsafe_code, reason = "a mapping of a file cannot be made without it")]
fn map(file: &File, from: u64, length: usize) -> std::io::Result<Mmap> {
    // SAFETY: nobody else may change the bytes while they are borrowed, which the system cannot promise for a file. They are
    // read as plain bytes only, each length checked against the slice; so one that is written to meanwhile gives packets as
    // odd as reading it in pieces does. One that is cut meanwhile raises a signal; `sigbus` answers for it.
    let map = unsafe { MmapOptions::new().offset(from).len(length).map(file)? };
    // Advice only: where it is not taken, everything is the same but slower.
    let _ = map.advise(Advice::Sequential);
    Ok(map)
}
