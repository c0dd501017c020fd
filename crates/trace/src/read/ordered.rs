//! The records of many files in one order.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};

use record::{Order, Record, Timestamp};

use super::files::open_all;
use super::{Damage, TraceReader};
use crate::error::TraceError;
use crate::format::block::BlockKind;
use crate::format::header::FileHeader;
use crate::format::ledger::Ledger;

/// A block's records, put in order once; those before `next` are handed out.
#[derive(Debug, Default)]
struct LoadedBlock {
    records: Vec<Record>,
    /// Times and places of `records`, in the order of the records there; the times are here as well since they decide
    /// nearly always, without a look at the record.
    sorted: Vec<(Timestamp, usize)>,
    next: usize,
}

impl LoadedBlock {
    /// Takes a block in the place of one that is used up, whose memory serves again.
    fn load(&mut self, records: impl Iterator<Item = Record>) {
        self.records.clear();
        self.records.extend(records);
        self.sorted.clear();
        self.sorted.extend(self.records.iter().enumerate().map(|(place, record)| (record.time, place)));
        let order_at = |place: usize| self.records.get(place).map(Record::order);
        // Blocks are nearly sorted, which a stable sort makes use of; equals keep their place in the file.
        self.sorted.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| order_at(one.1).cmp(&order_at(other.1))));
        self.next = 0;
    }

    fn peek(&self) -> Option<&Record> {
        self.sorted.get(self.next).and_then(|&(_, place)| self.records.get(place))
    }

    fn take(&mut self) -> Option<Record> {
        let record = self.peek().cloned();
        self.next = self.next.saturating_add(1);
        record
    }
}

/// The next record of a loaded block, compared by its order and then by when the block was read, so that the result is
/// always the same.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    order: Order,
    read: u64,
    block: usize,
}

/// A block that has not been read yet.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unread {
    first_time: Timestamp,
    file: usize,
    offset: u64,
}

/// What a file said of itself when it was gone over.
#[derive(Debug, Clone)]
pub struct FileSummary {
    /// The file.
    pub path: PathBuf,
    /// Its header, where it is whole.
    pub header: Option<FileHeader>,
    /// The sum of its blocks' ledgers.
    pub ledger: Ledger,
    /// How many records its blocks hold.
    pub records: u64,
    /// How many bytes belong to no whole block.
    pub damaged_bytes: u64,
    /// Where they are, as [`TraceReader::damage`].
    pub damage: Vec<Damage>,
    /// Whether the file has no bytes: see [`TraceReader::is_empty`].
    pub is_empty: bool,
}

/// So many files are held open at once: neighbouring blocks in time are in few files, and thousands may be merged.
const MAX_OPEN_READERS: usize = 32;

/// The records of several files by (`time`, `client`, `server`, `seq`). A block is read when its earliest record may be
/// next, so that only the blocks whose times overlap are held.
#[derive(Debug)]
pub struct OrderedRecords {
    files: Vec<FileSummary>,
    open: VecDeque<(usize, TraceReader)>,
    unread: BinaryHeap<Reverse<Unread>>,
    heads: BinaryHeap<Reverse<Head>>,
    loaded: Vec<LoadedBlock>,
    used_up: Vec<usize>,
    blocks_read: u64,
}

impl OrderedRecords {
    /// Goes once over the files to learn the times of their blocks.
    ///
    /// # Errors
    ///
    /// As [`open_all`], or a file cannot be read.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, TraceError> {
        let mut files = Vec::new();
        let mut unread = BinaryHeap::new();
        for opened in open_all(paths)? {
            let mut reader = opened?;
            let mut records = 0u64;
            while let Some(block) = reader.next_block()? {
                let header = block.header();
                if header.kind == BlockKind::Records && header.records > 0 {
                    records = records.saturating_add(u64::from(header.records));
                    let (first_time, offset) = (header.first_time, block.offset());
                    unread.push(Reverse(Unread { first_time, file: files.len(), offset }));
                }
            }
            files.push(FileSummary {
                path: reader.path().to_owned(),
                header: reader.header().cloned(),
                ledger: *reader.ledger(),
                records,
                damaged_bytes: reader.damaged_bytes(),
                damage: reader.damage().collect(),
                is_empty: reader.is_empty(),
            });
        }
        Ok(Self {
            files,
            open: VecDeque::new(),
            unread,
            heads: BinaryHeap::new(),
            loaded: Vec::new(),
            used_up: Vec::new(),
            blocks_read: 0,
        })
    }

    /// The files, with their headers, ledgers and damage.
    pub fn files(&self) -> &[FileSummary] {
        &self.files
    }

    /// Reads the block that begins earliest.
    fn read_block(&mut self, unread: &Unread) -> Result<(), TraceError> {
        let Some(summary) = self.files.get_mut(unread.file) else { return Ok(()) };
        let known = self.open.iter().position(|(file, _)| *file == unread.file);
        let (_, mut reader) = match known.and_then(|at| self.open.remove(at)) {
            Some(opened) => opened,
            None => (unread.file, TraceReader::open(&summary.path)?),
        };
        match reader.records_of_block(unread.offset)? {
            Some(records) => {
                let block = self.used_up.pop().unwrap_or(self.loaded.len());
                if block == self.loaded.len() {
                    self.loaded.push(LoadedBlock::default());
                }
                let Some(loaded) = self.loaded.get_mut(block) else { return Ok(()) };
                loaded.load(records);
                let read = self.blocks_read;
                self.blocks_read = read.wrapping_add(1);
                match loaded.peek() {
                    Some(first) => self.heads.push(Reverse(Head { order: first.order(), read, block })),
                    None => self.used_up.push(block),
                }
            }
            None => summary.damaged_bytes = summary.damaged_bytes.saturating_add(reader.damaged_bytes()),
        }
        self.open.push_back((unread.file, reader));
        if self.open.len() > MAX_OPEN_READERS {
            self.open.pop_front();
        }
        Ok(())
    }
}

impl Iterator for OrderedRecords {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(Reverse(earliest)) = self.unread.peek() {
            let is_due = self.heads.peek().is_none_or(|Reverse(head)| earliest.first_time <= head.order.0);
            if !is_due {
                break;
            }
            let Reverse(block) = self.unread.pop()?;
            if let Err(error) = self.read_block(&block) {
                return Some(Err(error));
            }
        }
        let mut head = self.heads.peek_mut()?;
        let block = self.loaded.get_mut(head.0.block)?;
        let record = block.take();
        match block.peek() {
            Some(next) => head.0.order = next.order(),
            None => self.used_up.push(PeekMut::pop(head).0.block),
        }
        record.map(Ok)
    }
}

impl TraceReader {
    /// The records of the block at an offset that [`Self::next_block`] gave, `None` where it is no longer there or does
    /// not decode; that counts as damage.
    fn records_of_block(&mut self, offset: u64) -> Result<Option<super::BlockRecords<'_>>, TraceError> {
        let Some(header) = self.block_at(offset)? else {
            self.note_damage(offset, 1);
            return Ok(None);
        };
        let bytes = self.buffer.get(..header.length as usize).unwrap_or_default();
        if self.decoder.load(&header, bytes).is_err() {
            self.note_damage(offset, u64::from(header.length));
            return Ok(None);
        }
        Ok(Some(super::BlockRecords { decoder: Some(&mut self.decoder) }))
    }
}
