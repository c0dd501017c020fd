//! Which files a path stands for.

use std::path::{Path, PathBuf};

use super::TraceReader;
use crate::error::TraceError;
use crate::name::{FILE_EXTENSION, FileName};

/// Directories are searched so deep: the trace directory, a tenant's, a timeline's.
pub(crate) const MAX_DEPTH: usize = 3;

/// The trace files that these paths stand for: a file for itself, a directory for every `.pgtrace` file in it, its tenants'
/// and their timelines'. Within a directory they come in the order in which they were written; no file comes twice.
///
/// # Errors
///
/// A path does not exist or a directory cannot be read. A directory that holds no trace adds nothing.
pub fn trace_files<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<PathBuf>, TraceError> {
    let mut files = Vec::new();
    for path in paths {
        let path = path.as_ref();
        let metadata = std::fs::metadata(path).map_err(TraceError::io("cannot open", path))?;
        if !metadata.is_dir() {
            if !files.iter().any(|known| known == path) {
                files.push(path.to_owned());
            }
            continue;
        }
        let mut found = Vec::new();
        collect(path, MAX_DEPTH, &mut found)?;
        found.sort_by_cached_key(|file| {
            let name = FileName::parse(file);
            (file.parent().map(Path::to_owned), name.as_ref().map(|name| name.order()), file.clone())
        });
        found.dedup();
        found.retain(|file| !files.contains(file));
        files.append(&mut found);
    }
    Ok(files)
}

/// Opens the files of [`trace_files`] one after the other, when their turn comes. One that rotation has deleted in the
/// meantime is passed over.
///
/// # Errors
///
/// As [`trace_files`]; each file may fail by itself as [`TraceReader::open`] does.
pub fn open_all<P: AsRef<Path>>(
    paths: &[P],
) -> Result<impl Iterator<Item = Result<TraceReader, TraceError>>, TraceError> {
    let files = trace_files(paths)?;
    Ok(files.into_iter().map(TraceReader::open).filter(|opened| !opened.as_ref().is_err_and(is_gone)))
}

/// Whether the file was there and is no more.
pub(crate) fn is_gone(error: &TraceError) -> bool {
    matches!(error, TraceError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

/// Adds the trace files below a directory.
pub(crate) fn collect(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), TraceError> {
    let entries = std::fs::read_dir(directory).map_err(TraceError::io("cannot read the directory", directory))?;
    for entry in entries {
        let entry = entry.map_err(TraceError::io("cannot read the directory", directory))?;
        let path = entry.path();
        // A symbolic link is not followed: it could lead in a circle.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 1 {
            collect(&path, depth.saturating_sub(1), found)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == FILE_EXTENSION) {
            found.push(path);
        }
    }
    Ok(())
}
