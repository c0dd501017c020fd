//! One file that blocks are appended to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// What a file must be able to do; the tests have one whose disk is full.
pub(crate) trait Output {
    /// Appends all bytes, or fails having appended some of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to this length.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
}

impl Output for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// Makes a new file; one that exists is left alone.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).open(path)
}

/// Opens a file that [`create`] made. Its length must still be `bytes`: whoever changed it, its blocks are not ours to
/// append to.
pub(crate) fn reopen(path: &Path, bytes: u64) -> io::Result<File> {
    let file = OpenOptions::new().append(true).open(path)?;
    if file.metadata()?.len() == bytes {
        Ok(file)
    } else {
        Err(io::Error::other("the file has been changed by somebody else"))
    }
}

/// Appends a block to a file of `whole_bytes`: all of it or nothing.
pub(crate) fn append_whole(output: &mut impl Output, block: &[u8], whole_bytes: u64) -> io::Result<()> {
    output.append(block).inspect_err(|_| {
        // If even this fails the reader finds a cut block: it takes the whole ones and says what it left.
        let _ = output.cut(whole_bytes);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds so many bytes and no more.
    struct FullDisk {
        content: Vec<u8>,
        capacity: usize,
    }

    impl Output for FullDisk {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let fits = bytes.len().min(self.capacity - self.content.len());
            self.content.extend_from_slice(&bytes[..fits]);
            if fits == bytes.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn cut(&mut self, bytes: u64) -> io::Result<()> {
            self.content.truncate(bytes as usize);
            Ok(())
        }
    }

    #[test]
    fn a_block_that_does_not_fit_leaves_nothing_behind() {
        let mut disk = FullDisk { content: Vec::new(), capacity: 10 };
        append_whole(&mut disk, b"12345678", 0).unwrap();
        let error = append_whole(&mut disk, b"abcdef", 8).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.content, b"12345678");
        append_whole(&mut disk, b"ab", 8).unwrap();
        assert_eq!(disk.content, b"12345678ab");
    }
}
