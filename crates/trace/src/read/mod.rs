//! Reading trace files.
//!
//! Blocks are read into a buffer, one call each, rather than mapped: a live file may be cut by its writer (a full disk) or
//! by anyone else, and a mapping would turn that into a fatal signal. The copy costs a few percent of the decoding.

pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod ordered;
mod search;
pub(crate) mod written;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use record::{Record, TenantTimeline};

use crate::columns::decode::BlockDecoder;
use crate::error::{BlockError, TraceError};
use crate::format::attribution::{self, ConnectionOwner};
use crate::format::block::{self, BlockHeader, BlockKind};
use crate::format::header::{FileHeader, HeaderFault};
use crate::format::ledger::Ledger;
use crate::format::{BLOCK_HEADER_BYTES, MAX_FILE_HEADER_BYTES, Section};

/// Bytes of a file that belong to no whole block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub bytes: u64,
}

/// No more pieces are remembered one by one; a forged file may have millions.
const MAX_DAMAGE_ENTRIES: usize = 1024;

/// Reads one trace file, block by block or record by record. Damage does not stop it: every whole block is found, and
/// [`Self::damage`] says what was left. At the end of a live file, calling again later goes on with what has come.
#[derive(Debug)]
pub struct TraceReader {
    file: File,
    path: PathBuf,
    header: Option<FileHeader>,
    offset: u64,
    buffer: Vec<u8>,
    decoder: BlockDecoder,
    ledger: Ledger,
    damage: Vec<Damage>,
    damaged_bytes: u64,
    tail: Option<Damage>,
    search_spent_bytes: u64,
}

impl TraceReader {
    /// Opens a trace file. A damaged or missing header is no error as long as blocks follow: see [`Self::header`].
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no trace, or is of a later major version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref().to_owned();
        let file = File::open(&path).map_err(TraceError::io("cannot open", &path))?;
        let decoder = BlockDecoder::new().map_err(TraceError::io("cannot prepare zstd for", &path))?;
        let mut reader = Self {
            file,
            path,
            header: None,
            offset: 0,
            buffer: Vec::new(),
            decoder,
            ledger: Ledger::default(),
            damage: Vec::new(),
            damaged_bytes: 0,
            tail: None,
            search_spent_bytes: 0,
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says of itself; `None` where those bytes are damaged or were never written. Blocks name their owner
    /// themselves, so that their records are right all the same.
    pub fn header(&self) -> Option<&FileHeader> {
        self.header.as_ref()
    }

    /// The sum of the ledgers of all blocks read so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What belongs to no whole block, as far as the file has been read: pieces in the middle, and after the last block
    /// what is behind it. Only the first 1,024 pieces; [`Self::damaged_bytes`] has them all.
    pub fn damage(&self) -> impl Iterator<Item = Damage> + '_ {
        self.damage.iter().chain(&self.tail).copied()
    }

    /// The bytes of all of [`Self::damage`].
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes.saturating_add(self.tail.map_or(0, |tail| tail.bytes))
    }

    /// Whether the file has no bytes, so far. Its writer, or the machine, came to an end before the first were on the disk.
    pub fn is_empty(&self) -> bool {
        self.header.is_none() && self.offset == 0 && self.damaged_bytes() == 0
    }

    /// The next whole block, `None` at the end (for now, where the file is live).
    ///
    /// # Errors
    ///
    /// The file cannot be read any more.
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>, TraceError> {
        let Some((offset, header)) = self.advance()? else { return Ok(None) };
        let bytes = self.buffer.get(..header.length as usize).unwrap_or_default();
        Ok(Some(Block { header, offset, bytes, decoder: &mut self.decoder }))
    }

    /// The records of all blocks, in the order in which they were written.
    pub fn records(&mut self) -> Records<'_> {
        Records { reader: self }
    }

    /// Reads the file header, or finds that there is none.
    fn read_header(&mut self) -> Result<(), TraceError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let available = self.read_at(0, MAX_FILE_HEADER_BYTES, &mut buffer)?;
        let decoded = FileHeader::decode(buffer.get(..available).unwrap_or_default());
        self.buffer = buffer;
        match decoded {
            Ok((header, length)) => {
                self.header = Some(header);
                self.offset = length as u64;
            }
            Err(HeaderFault::Newer { major, minor }) => {
                return Err(TraceError::Newer { path: self.path.clone(), major, minor });
            }
            Err(HeaderFault::Magic) => {
                // A trace whose first bytes were hit has blocks; what has none is something else.
                if self.search(0, MAX_FILE_HEADER_BYTES as u64)?.is_none() {
                    return Err(TraceError::Foreign { path: self.path.clone() });
                }
            }
            Err(HeaderFault::Cut | HeaderFault::Damaged) => {}
        }
        Ok(())
    }

    /// Brings the next whole block into the buffer and goes behind it.
    fn advance(&mut self) -> Result<Option<(u64, BlockHeader)>, TraceError> {
        self.tail = None;
        let found = match self.block_at(self.offset)? {
            Some(header) => Some((self.offset, header)),
            None => self.search(self.offset, u64::MAX)?,
        };
        let Some((offset, header)) = found else {
            let bytes = self.len()?.saturating_sub(self.offset);
            self.tail = (bytes > 0).then_some(Damage { offset: self.offset, bytes });
            return Ok(None);
        };
        self.note_damage(self.offset, offset.saturating_sub(self.offset));
        self.offset = offset.saturating_add(u64::from(header.length));
        match self.block_ledger(&header) {
            Ok(ledger) => self.ledger.merge(&ledger),
            Err(_) => self.note_damage(offset, u64::from(header.length)),
        }
        Ok(Some((offset, header)))
    }

    /// The ledger of the block in the buffer.
    fn block_ledger(&self, header: &BlockHeader) -> Result<Ledger, BlockError> {
        ledger_of(self.buffer.get(..header.length as usize).unwrap_or_default())
    }

    /// Brings the block at `offset` into the buffer, if a whole one begins there.
    fn block_at(&mut self, offset: u64) -> Result<Option<BlockHeader>, TraceError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read_block(offset, &mut buffer);
        self.buffer = buffer;
        read
    }

    /// The work of [`Self::block_at`].
    fn read_block(&mut self, offset: u64, buffer: &mut Vec<u8>) -> Result<Option<BlockHeader>, TraceError> {
        let available = self.read_at(offset, BLOCK_HEADER_BYTES, buffer)?;
        let Some((header, crc)) = BlockHeader::decode(buffer.get(..available).unwrap_or_default()) else {
            return Ok(None);
        };
        // A forged length takes no memory that the file does not fill.
        if offset.saturating_add(u64::from(header.length)) > self.len()? {
            return Ok(None);
        }
        let length = header.length as usize;
        let available = self.read_at(offset, length, buffer)?;
        let Some(block) = buffer.get(..length).filter(|_| available == length) else { return Ok(None) };
        if BlockHeader::verify(block, crc) {
            return Ok(Some(header));
        }
        self.search_spent_bytes = self.search_spent_bytes.saturating_add(u64::from(header.length));
        Ok(None)
    }

    /// Reads up to `len` bytes, fewer at the end of the file.
    fn read_at(&self, offset: u64, len: usize, buffer: &mut Vec<u8>) -> Result<usize, TraceError> {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let mut filled = 0usize;
        while let Some(space) = buffer.get_mut(filled..len).filter(|space| !space.is_empty()) {
            match self.file.read_at(space, offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(count) => filled = filled.saturating_add(count),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::io("cannot read", &self.path)(error)),
            }
        }
        Ok(filled)
    }

    /// How long the file is now.
    fn len(&self) -> Result<u64, TraceError> {
        Ok(self.file.metadata().map_err(TraceError::io("cannot read", &self.path))?.len())
    }

    /// These bytes belong to no whole block.
    fn note_damage(&mut self, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.damaged_bytes = self.damaged_bytes.saturating_add(bytes);
        if self.damage.len() < MAX_DAMAGE_ENTRIES {
            self.damage.push(Damage { offset, bytes });
        }
    }
}

/// The ledger of a whole block.
fn ledger_of(block: &[u8]) -> Result<Ledger, BlockError> {
    for section in block::sections(block) {
        let raw = section?;
        if raw.section == Some(Section::Ledger) {
            return Ledger::decode(raw.bytes);
        }
    }
    Ok(Ledger::default())
}

/// One whole block: its checksum is right.
#[derive(Debug)]
pub struct Block<'a> {
    header: BlockHeader,
    offset: u64,
    bytes: &'a [u8],
    decoder: &'a mut BlockDecoder,
}

impl<'a> Block<'a> {
    /// Kind, counts, times.
    pub fn header(&self) -> &BlockHeader {
        &self.header
    }

    /// Where it begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// All of it, as it stands in the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// What was lost since the block before.
    ///
    /// # Errors
    ///
    /// The section is forged.
    pub fn ledger(&self) -> Result<Ledger, BlockError> {
        ledger_of(self.bytes)
    }

    /// Whose requests these are.
    ///
    /// # Errors
    ///
    /// The section is forged.
    pub fn owner(&self) -> Result<Option<TenantTimeline>, BlockError> {
        for section in block::sections(self.bytes) {
            let raw = section?;
            if raw.section == Some(Section::Owner) {
                return block::decode_owner(raw.bytes).map(Some);
            }
        }
        Ok(None)
    }

    /// The attributions of a block of that kind; of another none.
    ///
    /// # Errors
    ///
    /// The section is forged.
    pub fn attributions(&self) -> Result<Vec<ConnectionOwner>, BlockError> {
        for section in block::sections(self.bytes) {
            let raw = section?;
            if raw.section == Some(Section::Attributions) && self.header.kind == BlockKind::Attributions {
                return attribution::decode(raw, self.header.records);
            }
        }
        Ok(Vec::new())
    }

    /// The records of a block of that kind; of another none.
    ///
    /// # Errors
    ///
    /// The columns are forged, or of a later version.
    pub fn records(self) -> Result<BlockRecords<'a>, BlockError> {
        let Self { header, bytes, decoder, .. } = self;
        let is_taken = header.kind == BlockKind::Records;
        if is_taken {
            decoder.load(&header, bytes)?;
        }
        Ok(BlockRecords { decoder: is_taken.then_some(decoder) })
    }
}

/// The records of one block, in the order in which they were written.
#[derive(Debug)]
pub struct BlockRecords<'a> {
    decoder: Option<&'a mut BlockDecoder>,
}

impl Iterator for BlockRecords<'_> {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        self.decoder.as_mut()?.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.decoder.as_ref().map_or(0, |decoder| decoder.left() as usize);
        (left, Some(left))
    }
}

/// The records of one file. Blocks whose columns do not decode count as damage.
#[derive(Debug)]
pub struct Records<'a> {
    reader: &'a mut TraceReader,
}

impl Iterator for Records<'_> {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.reader.decoder.next() {
                return Some(Ok(record));
            }
            match self.reader.load_next() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl TraceReader {
    /// Brings the next block of records into the decoder; false at the end.
    fn load_next(&mut self) -> Result<bool, TraceError> {
        while let Some((offset, header)) = self.advance()? {
            if header.kind != BlockKind::Records || header.records == 0 {
                continue;
            }
            let bytes = self.buffer.get(..header.length as usize).unwrap_or_default();
            if self.decoder.load(&header, bytes).is_ok() {
                return Ok(true);
            }
            // One whose ledger is forged, too, has been noted already.
            if self.block_ledger(&header).is_ok() {
                self.note_damage(offset, u64::from(header.length));
            }
        }
        Ok(false)
    }
}
