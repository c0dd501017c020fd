//! A block becomes records.

use record::{Lsn, Record, TenantTimeline, Timestamp};

use super::dictionary::{Connection, Shape, TargetHead};
use super::packing::{Column, Unpacker};
use super::predict::{Peer, Predictor, TIME_AFTER_ANSWER, TIME_EARLIER, TIME_LATER, TIME_SAME};
use crate::error::BlockError;
use crate::format::Section;
use crate::format::block::{self, BlockHeader, RawSection};
use crate::format::bytes::Input;

/// A shape with its words already found.
#[derive(Debug, Clone, Copy)]
struct KnownShape {
    shape: Shape,
    status: record::Status,
    pairing: record::Pairing,
    page_zero: Option<bool>,
}

impl KnownShape {
    /// Reads one.
    fn decode(input: &mut Input<'_>) -> Option<Self> {
        let shape = Shape(input.u16()?);
        let (status, pairing, page_zero) = shape.words()?;
        Some(Self { shape, status, pairing, page_zero })
    }
}

/// The columns of the block at hand.
#[derive(Debug, Default)]
struct Columns {
    connection: Column,
    target: Column,
    shape: Column,
    number: Column,
    time_mode: Column,
    time: Column,
    transfer: Column,
    end: Column,
    depth: Column,
    request_lsn: Column,
    not_modified_since: Column,
    page_lsn: Column,
    page_hash: Column,
    reqid: Column,
    seq: Column,
}

impl Columns {
    /// The column of a section with the part of the shape that says which records have a value in it.
    fn of(&mut self, section: Section) -> Option<(&mut Column, Presence)> {
        use Presence::{Always, OtherTime, With, Without};
        Some(match section {
            Section::Connection => (&mut self.connection, Always),
            Section::Target => (&mut self.target, Always),
            Section::Shape => (&mut self.shape, Always),
            Section::Number => (&mut self.number, Always),
            Section::TimeMode => (&mut self.time_mode, Always),
            Section::Time => (&mut self.time, OtherTime),
            Section::Transfer => (&mut self.transfer, With(Shape::TRANSFER)),
            Section::End => (&mut self.end, With(Shape::LATENCY)),
            Section::Depth => (&mut self.depth, With(Shape::DEPTH)),
            Section::RequestLsn => (&mut self.request_lsn, Without(Shape::REQUEST_LSN_MAX)),
            Section::NotModifiedSince => (&mut self.not_modified_since, Always),
            Section::PageLsn => (&mut self.page_lsn, With(Shape::PAGE_LSN)),
            Section::PageHash => (&mut self.page_hash, With(Shape::PAGE_HASH)),
            Section::Reqid => (&mut self.reqid, With(Shape::REQID)),
            Section::Seq => (&mut self.seq, With(Shape::SEQ)),
            _ => return None,
        })
    }

    /// Makes every column one that is missing.
    fn clear(&mut self) {
        for &section in Section::ALL {
            if let Some((column, _)) = self.of(section) {
                column.clear();
            }
        }
    }
}

/// Which records have a value in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Every one.
    Always,
    /// Those whose shape has the bit.
    With(u16),
    /// Those whose shape has it not.
    Without(u16),
    /// Those whose time is not their connection's last.
    OtherTime,
}

/// A record's places in the dictionaries.
#[derive(Debug, Clone, Copy)]
struct Positions {
    connection: u32,
    shape: u32,
}

/// Restores the records of one block after the other. Keeps its buffers.
#[derive(Debug)]
pub(crate) struct BlockDecoder {
    unpacker: Unpacker,
    predictor: Predictor,
    columns: Columns,
    connections: Vec<Connection>,
    targets: Vec<TargetHead>,
    shapes: Vec<KnownShape>,
    /// How many records of the block have each shape.
    shape_counts: Vec<u32>,
    /// Where each record's connection and shape stand in their dictionaries.
    positions: Vec<Positions>,
    /// Of each connection the shape of its last record.
    last_shapes: Vec<u32>,
    /// The record that is next.
    at: usize,
    owner: Option<TenantTimeline>,
    time_unit_ns: u64,
    left: u32,
}

impl BlockDecoder {
    /// With no block, so with no records.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            unpacker: Unpacker::new()?,
            predictor: Predictor::default(),
            columns: Columns::default(),
            connections: Vec::new(),
            targets: Vec::new(),
            shapes: Vec::new(),
            shape_counts: Vec::new(),
            positions: Vec::new(),
            last_shapes: Vec::new(),
            at: 0,
            owner: None,
            time_unit_ns: 1,
            left: 0,
        })
    }

    /// How many records of the block have not been taken yet.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Takes a block of records whose checksum is right. Whatever it says is checked here, so that [`Self::next`] cannot
    /// fail.
    pub(crate) fn load(&mut self, header: &BlockHeader, block: &[u8]) -> Result<(), BlockError> {
        self.left = 0;
        self.owner = None;
        self.columns.clear();
        self.connections.clear();
        self.targets.clear();
        self.shapes.clear();
        self.time_unit_ns = u64::from(header.time_unit_ns);
        let records = header.records as usize;
        refuse_repeated_sections(block)?;
        // Dictionaries, and the columns that say how long the others are, are read first.
        for section in block::sections(block) {
            let raw = section?;
            match raw.section {
                Some(Section::Owner) => self.owner = Some(block::decode_owner(raw.bytes)?),
                Some(Section::Connections) => {
                    load_entries(&mut self.unpacker, raw, (records, Connection::decode), &mut self.connections)?;
                }
                Some(Section::Targets) => {
                    load_entries(&mut self.unpacker, raw, (records, TargetHead::decode), &mut self.targets)?;
                }
                Some(Section::Shapes) => {
                    load_entries(&mut self.unpacker, raw, (records, KnownShape::decode), &mut self.shapes)?;
                }
                Some(section) if is_read_first(section) => self.load_column(raw, records)?,
                _ => {}
            }
        }
        self.resolve_positions(records)?;
        for section in block::sections(block) {
            let raw = section?;
            if !raw.section.is_some_and(is_read_first) {
                self.load_column(raw, records)?;
            }
        }
        self.check_targets(records)?;
        let base = header.first_time.0.checked_div(self.time_unit_ns).unwrap_or(0);
        self.predictor.begin(&self.connections, &self.targets, (records, base));
        self.left = header.records;
        Ok(())
    }

    /// The next record, `None` behind the last one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Record> {
        self.left = self.left.checked_sub(1)?;
        let Positions { connection: position, shape } = *self.positions.get(self.at)?;
        self.at = self.at.wrapping_add(1);
        let connection = *self.connections.get(position as usize)?;
        let target = self.columns.target.next() as u32;
        let head = *self.targets.get(target as usize)?;
        let KnownShape { shape, status, pairing, page_zero } = *self.shapes.get(shape as usize)?;
        let number = self.number(target);
        let mut peer = self.predictor.peer(position);
        let (time, latency, transfer, depth) = self.times(shape, &mut peer);
        let (request_lsn, not_modified_since, page_lsn, page_hash) = self.versions(shape, (target, number));
        let reqid = shape.has(Shape::REQID).then(|| {
            let reqid = peer.reqid.wrapping_add(self.columns.reqid.next());
            peer.reqid = reqid.wrapping_add(1);
            reqid
        });
        let seq = shape.has(Shape::SEQ).then(|| {
            let seq = peer.seq.wrapping_add(self.columns.seq.next());
            peer.seq = seq.wrapping_add(1);
            seq
        });
        self.predictor.put_peer(position, peer);
        let unit = self.time_unit_ns;
        Some(Record {
            time: Timestamp(time.wrapping_mul(unit)),
            latency_ns: shape.has(Shape::LATENCY).then(|| latency.wrapping_mul(unit)),
            transfer_ns: shape.has(Shape::TRANSFER).then(|| transfer.wrapping_mul(unit)),
            depth,
            owner: self.owner,
            attribution: connection.attribution,
            target: head.join(number),
            request_lsn,
            not_modified_since,
            status,
            page_lsn,
            page_zero,
            page_hash,
            client: connection.client,
            server: connection.server,
            protocol: connection.protocol,
            reqid,
            backend_pid: connection.backend_pid,
            seq,
            epoch: connection.epoch,
            pairing,
        })
    }

    /// The block or segment.
    #[inline]
    fn number(&mut self, target: u32) -> u32 {
        let expected = if self.columns.number.alternative { self.predictor.number(target) } else { 0 };
        let number = expected.wrapping_add(self.columns.number.next() as u32);
        self.predictor.put_number(target, number);
        number
    }

    /// Time, latency, transfer (in the block's unit) and depth; the inverse of the encoder's `push_times`.
    #[inline]
    fn times(&mut self, shape: Shape, peer: &mut Peer) -> (u64, u64, u64, Option<u32>) {
        let Self { predictor, columns, .. } = self;
        let has_latency = shape.has(Shape::LATENCY);
        let reference = if has_latency { peer.end } else { predictor.unanswered_time };
        let time = match columns.time_mode.next() {
            TIME_AFTER_ANSWER => reference.wrapping_add(columns.time.next()),
            TIME_LATER => peer.time.wrapping_add(columns.time.next()),
            TIME_EARLIER => peer.time.wrapping_sub(columns.time.next()),
            _ => peer.time,
        };
        peer.time = time;
        let transfer = if shape.has(Shape::TRANSFER) { columns.transfer.next() } else { 0 };
        let expected_depth = predictor.depth(peer, time);
        let depth = shape.has(Shape::DEPTH).then(|| expected_depth.wrapping_add(columns.depth.next() as u32));
        if !has_latency {
            predictor.unanswered_time = time;
            peer.end = time.wrapping_add(transfer);
            return (time, 0, transfer, depth);
        }
        let end = predictor.end.wrapping_add(columns.end.next());
        predictor.end = end;
        peer.end = end;
        predictor.answered(peer, end);
        (time, end.wrapping_sub(transfer).wrapping_sub(time), transfer, depth)
    }

    /// LSNs and hash; the inverse of the encoder's `push_versions`.
    #[inline]
    fn versions(&mut self, shape: Shape, (target, number): (u32, u32)) -> (Lsn, Lsn, Option<Lsn>, Option<u64>) {
        let Self { predictor, columns, .. } = self;
        let slot = predictor.page_slot(target, number);
        let mut page = predictor.page(slot);
        let mut nms = predictor.not_modified_since;
        if columns.not_modified_since.alternative && page.not_modified_since != 0 {
            nms = page.not_modified_since;
        }
        nms = nms.wrapping_add(columns.not_modified_since.next());
        predictor.not_modified_since = nms;
        page.not_modified_since = nms;
        let request_lsn = if shape.has(Shape::REQUEST_LSN_MAX) {
            Lsn::MAX
        } else {
            let expected = if columns.request_lsn.alternative { nms } else { predictor.request_lsn };
            predictor.request_lsn = expected.wrapping_add(columns.request_lsn.next());
            Lsn(predictor.request_lsn)
        };
        let page_lsn = shape.has(Shape::PAGE_LSN).then(|| {
            let expected = if columns.page_lsn.alternative && page.page_lsn != 0 { page.page_lsn } else { nms };
            page.page_lsn = expected.wrapping_add(columns.page_lsn.next());
            Lsn(page.page_lsn)
        });
        let page_hash = shape.has(Shape::PAGE_HASH).then(|| {
            page.page_hash ^= columns.page_hash.next();
            page.page_hash
        });
        predictor.put_page(slot, page);
        (request_lsn, Lsn(nms), page_lsn, page_hash)
    }

    /// Reads a column; sections that are none are passed over.
    fn load_column(&mut self, raw: RawSection<'_>, records: usize) -> Result<(), BlockError> {
        let Some(section) = raw.section else { return Ok(()) };
        let Some((_, presence)) = self.columns.of(section) else { return Ok(()) };
        let count = self.value_count(presence, records);
        let Some((column, _)) = self.columns.of(section) else { return Ok(()) };
        self.unpacker
            .column((raw.codec, raw.bytes), count, column)
            .map_err(|fault| BlockError::new(name_of(section), fault))
    }

    /// How many values a column has.
    fn value_count(&self, presence: Presence, records: usize) -> usize {
        let with = |has: &dyn Fn(Shape) -> bool| {
            let counts = self.shapes.iter().zip(&self.shape_counts).filter(|(known, _)| has(known.shape));
            counts.fold(0usize, |sum, (_, &count)| sum.saturating_add(count as usize))
        };
        match presence {
            Presence::Always => records,
            Presence::With(bit) => with(&|shape| shape.has(bit)),
            Presence::Without(bit) => with(&|shape| !shape.has(bit)),
            Presence::OtherTime => {
                let modes = self.columns.time_mode.values();
                records.saturating_sub(modes.iter().filter(|&&mode| mode == TIME_SAME).count())
            }
        }
    }

    /// Finds each record's connection and shape, and counts the records of each shape. Refuses those that are in no
    /// dictionary, and time modes that are none.
    fn resolve_positions(&mut self, records: usize) -> Result<(), BlockError> {
        self.at = 0;
        self.positions.clear();
        self.shape_counts.clear();
        self.shape_counts.resize(self.shapes.len(), 0);
        self.last_shapes.clear();
        self.last_shapes.resize(self.connections.len(), 0);
        // The first record names its connection: there is none before it that it could share one with.
        let mut connection = u32::MAX;
        for _ in 0..records {
            if let Some(position) = self.columns.connection.next().checked_sub(1) {
                connection = u32::try_from(position).unwrap_or(u32::MAX);
            }
            let shape = self.last_shapes.get_mut(connection as usize).ok_or(BlockError::new("connections", TOO_FEW))?;
            if let Some(position) = self.columns.shape.next().checked_sub(1) {
                *shape = u32::try_from(position).unwrap_or(u32::MAX);
            }
            let shape = *shape;
            let count = self.shape_counts.get_mut(shape as usize).ok_or(BlockError::new("shapes", TOO_FEW))?;
            *count = count.saturating_add(1);
            self.positions.push(Positions { connection, shape });
        }
        if self.columns.time_mode.values().iter().any(|&mode| mode > TIME_EARLIER) {
            return Err(BlockError::new(name_of(Section::TimeMode), "names a mode that stands for nothing"));
        }
        Ok(())
    }

    /// Refuses targets that are not in the dictionary.
    fn check_targets(&self, records: usize) -> Result<(), BlockError> {
        // Where the column is missing, every record names the first one.
        let last = self.columns.target.values().iter().max().copied().unwrap_or(0);
        if records > 0 && last >= self.targets.len() as u64 {
            return Err(BlockError::new("targets", TOO_FEW));
        }
        Ok(())
    }
}

/// Whether the lengths of other columns depend on this one.
fn is_read_first(section: Section) -> bool {
    matches!(section, Section::Connection | Section::Shape | Section::TimeMode)
}

/// What is wrong with a dictionary that misses an entry.
const TOO_FEW: &str = "are fewer than its records name";

/// No entry of a dictionary is longer: a connection of two IPv6 endpoints with flow labels and scopes takes 68 bytes.
const MAX_ENTRY_BYTES: usize = 68;

/// Reads a dictionary, which has at most as many entries as its block has records.
fn load_entries<T>(
    unpacker: &mut Unpacker,
    raw: RawSection<'_>,
    (records, decode): (usize, fn(&mut Input<'_>) -> Option<T>),
    entries: &mut Vec<T>,
) -> Result<(), BlockError> {
    let part = raw.section.map_or("dictionary", name_of);
    let fault = |fault| BlockError::new(part, fault);
    let bound = records.saturating_mul(MAX_ENTRY_BYTES);
    let mut input = Input::new(unpacker.dictionary((raw.codec, raw.bytes), bound).map_err(fault)?);
    while !input.is_empty() {
        if entries.len() >= records {
            return Err(fault("are more than its records can name"));
        }
        entries.push(decode(&mut input).ok_or(fault("are cut, or hold a word of a later version"))?);
    }
    Ok(())
}

/// A section that comes twice is forged: each costs time and memory, so many small ones must not add up.
fn refuse_repeated_sections(block: &[u8]) -> Result<(), BlockError> {
    let mut seen = 0u64;
    for section in block::sections(block) {
        let Some(section) = section?.section else { continue };
        let bit = 1u64.wrapping_shl(section as u32);
        if seen & bit != 0 {
            return Err(BlockError::new(name_of(section), "comes twice"));
        }
        seen |= bit;
    }
    Ok(())
}

/// A section's name in messages.
fn name_of(section: Section) -> &'static str {
    match section {
        Section::Connections => "connections",
        Section::Targets => "targets",
        Section::Shapes => "shapes",
        Section::Connection => "connection column",
        Section::Target => "target column",
        Section::Shape => "shape column",
        Section::Number => "number column",
        Section::TimeMode => "time_mode column",
        Section::Time => "time column",
        Section::Transfer => "transfer column",
        Section::End => "end column",
        Section::Depth => "depth column",
        Section::RequestLsn => "request_lsn column",
        Section::NotModifiedSince => "not_modified_since column",
        Section::PageLsn => "page_lsn column",
        Section::PageHash => "page_hash column",
        Section::Reqid => "reqid column",
        Section::Seq => "seq column",
        _ => "section",
    }
}
