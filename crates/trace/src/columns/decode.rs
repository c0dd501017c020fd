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
        // Dictionaries, and the two columns that say how long the others are, are read first.
        for section in block::sections(block) {
            let raw = section?;
            match raw.section {
                Some(Section::Owner) => self.owner = Some(block::decode_owner(raw.bytes)?),
                Some(Section::Connections) => self.load_connections(raw, records)?,
                Some(Section::Targets) => self.load_targets(raw, records)?,
                Some(Section::Shapes) => self.load_shapes(raw, records)?,
                Some(Section::Shape | Section::TimeMode) => self.load_column(raw, records)?,
                _ => {}
            }
        }
        self.count_shapes(records)?;
        for section in block::sections(block) {
            let raw = section?;
            if !matches!(raw.section, Some(Section::Shape | Section::TimeMode)) {
                self.load_column(raw, records)?;
            }
        }
        check_positions("connections", self.columns.connection.values(), self.connections.len().saturating_add(1))?;
        check_positions("targets", self.columns.target.values(), self.targets.len())?;
        self.check_first_positions(records)?;
        let base = header.first_time.0.checked_div(self.time_unit_ns).unwrap_or(0);
        self.predictor.begin(&self.connections, &self.targets, (records, base));
        self.left = header.records;
        Ok(())
    }

    /// The next record, `None` behind the last one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Record> {
        self.left = self.left.checked_sub(1)?;
        let position = self.predictor.connection_position(self.columns.connection.next());
        let connection = *self.connections.get(position as usize)?;
        let target = self.columns.target.next() as u32;
        let head = *self.targets.get(target as usize)?;
        let KnownShape { shape, status, pairing, page_zero } = *self.shapes.get(self.columns.shape.next() as usize)?;
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

    /// Reads the dictionary of connections.
    fn load_connections(&mut self, raw: RawSection<'_>, records: usize) -> Result<(), BlockError> {
        let fault = |fault| BlockError::new("connections", fault);
        let mut input =
            Input::new(self.unpacker.dictionary((raw.codec, raw.bytes), dictionary_bound(records)).map_err(fault)?);
        while !input.is_empty() {
            self.connections.push(Connection::decode(&mut input).ok_or(fault("are damaged"))?);
        }
        Ok(())
    }

    /// Reads the dictionary of targets.
    fn load_targets(&mut self, raw: RawSection<'_>, records: usize) -> Result<(), BlockError> {
        let fault = |fault| BlockError::new("targets", fault);
        let mut input =
            Input::new(self.unpacker.dictionary((raw.codec, raw.bytes), dictionary_bound(records)).map_err(fault)?);
        while !input.is_empty() {
            self.targets.push(TargetHead::decode(&mut input).ok_or(fault("are damaged"))?);
        }
        Ok(())
    }

    /// Reads the dictionary of shapes.
    fn load_shapes(&mut self, raw: RawSection<'_>, records: usize) -> Result<(), BlockError> {
        let fault = |fault| BlockError::new("shapes", fault);
        let mut input =
            Input::new(self.unpacker.dictionary((raw.codec, raw.bytes), dictionary_bound(records)).map_err(fault)?);
        while !input.is_empty() {
            let shape = Shape(input.u16().ok_or(fault("are cut"))?);
            let (status, pairing, page_zero) = shape.words().ok_or(fault("hold a word of a later version"))?;
            self.shapes.push(KnownShape { shape, status, pairing, page_zero });
        }
        Ok(())
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

    /// Counts the records of each shape, and refuses shapes and time modes that are not there.
    fn count_shapes(&mut self, records: usize) -> Result<(), BlockError> {
        self.shape_counts.clear();
        self.shape_counts.resize(self.shapes.len(), 0);
        let shapes = self.columns.shape.values();
        if let Some(count) = self.shape_counts.first_mut().filter(|_| shapes.is_empty()) {
            *count = records as u32;
        }
        for &shape in shapes {
            let count = self.shape_counts.get_mut(shape as usize);
            let count = count.ok_or(BlockError::new("shapes", "are fewer than its records name"))?;
            *count = count.saturating_add(1);
        }
        check_positions("time_mode", self.columns.time_mode.values(), (TIME_EARLIER as usize).saturating_add(1))
    }

    /// Where records lean on a first entry without naming it, that entry must be there.
    fn check_first_positions(&self, records: usize) -> Result<(), BlockError> {
        let names_connection = self.columns.connection.values().first().is_some_and(|&symbol| symbol != 0);
        if records > 0 && (!names_connection || self.targets.is_empty() || self.shapes.is_empty()) {
            return Err(BlockError::new("dictionaries", "are fewer than its records name"));
        }
        Ok(())
    }
}

/// No dictionary has more entries than its block has records, and no entry is longer than this: a connection of two
/// IPv6 endpoints with flow labels and scopes takes 68 bytes.
const MAX_ENTRY_BYTES: usize = 68;

/// The most bytes that a dictionary may have.
fn dictionary_bound(records: usize) -> usize {
    records.saturating_mul(MAX_ENTRY_BYTES)
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

/// Refuses values that are not below `bound`.
fn check_positions(part: &'static str, values: &[u64], bound: usize) -> Result<(), BlockError> {
    match values.iter().max() {
        Some(&max) if max >= bound as u64 => Err(BlockError::new(part, "are fewer than its records name")),
        _ => Ok(()),
    }
}

/// A column's name in messages.
fn name_of(section: Section) -> &'static str {
    match section {
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
