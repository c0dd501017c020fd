//! A batch becomes a block.

use record::{TenantTimeline, Timestamp};

use super::batch::{Batch, Row};
use super::dictionary::Shape;
use super::packing::{Packer, zigzag};
use super::predict::{Peer, Predictor, TIME_AFTER_ANSWER, TIME_EARLIER, TIME_LATER, TIME_SAME, difference_u32};
use crate::format::Section;
use crate::format::block::{self, BlockHeader, BlockKind};
use crate::format::ledger::Ledger;

/// Captures with microsecond stamps have times and durations that are multiples of this.
const MICROSECOND_NS: u64 = 1000;

/// The differences from one way of predicting a column, and about how much they take.
#[derive(Debug, Default)]
struct Differences {
    values: Vec<u64>,
    any: u64,
    non_zero: u64,
    zigzag_bits: u64,
}

impl Differences {
    #[inline]
    fn push(&mut self, value: u64) {
        let bits = u64::BITS.wrapping_sub(zigzag(value).leading_zeros());
        self.zigzag_bits = self.zigzag_bits.wrapping_add(u64::from(bits));
        self.non_zero = self.non_zero.wrapping_add(u64::from(value != 0));
        self.any |= value;
        self.values.push(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.any = 0;
        self.non_zero = 0;
        self.zigzag_bits = 0;
    }

    /// About how many bits they take: without sign where none is negative, and without the bits that a shift saves.
    fn bits(&self) -> u64 {
        let needless = u64::from(self.any >> 63 == 0).saturating_add(u64::from(self.any.trailing_zeros()));
        self.zigzag_bits.saturating_sub(needless.saturating_mul(self.non_zero))
    }
}

/// A column that can be predicted in two ways: both are tried, the shorter one is written.
#[derive(Debug, Default)]
struct Choice {
    plain: Differences,
    alternative: Differences,
}

impl Choice {
    #[inline]
    fn push(&mut self, plain: u64, alternative: u64) {
        self.plain.push(plain);
        self.alternative.push(alternative);
    }

    fn clear(&mut self) {
        self.plain.clear();
        self.alternative.clear();
    }

    fn put(&self, packer: &mut Packer, out: &mut Vec<u8>, section: Section) {
        let is_alternative = self.alternative.bits() < self.plain.bits();
        let taken = if is_alternative { &self.alternative } else { &self.plain };
        packer.put(out, section, &taken.values, is_alternative);
    }
}

/// The differences from what was predicted, column by column.
#[derive(Debug, Default)]
struct Columns {
    connection: Vec<u64>,
    target: Vec<u64>,
    shape: Vec<u64>,
    number: Choice,
    time_mode: Vec<u64>,
    time: Vec<u64>,
    transfer: Vec<u64>,
    end: Vec<u64>,
    depth: Vec<u64>,
    request_lsn: Choice,
    not_modified_since: Choice,
    page_lsn: Choice,
    page_hash: Vec<u64>,
    reqid: Vec<u64>,
    seq: Vec<u64>,
}

impl Columns {
    fn clear(&mut self) {
        for column in [
            &mut self.connection,
            &mut self.target,
            &mut self.shape,
            &mut self.time_mode,
            &mut self.time,
            &mut self.transfer,
            &mut self.end,
            &mut self.depth,
            &mut self.page_hash,
            &mut self.reqid,
            &mut self.seq,
        ] {
            column.clear();
        }
        for column in [&mut self.number, &mut self.request_lsn, &mut self.not_modified_since, &mut self.page_lsn] {
            column.clear();
        }
    }
}

/// Turns batches into blocks. Keeps its buffers, one encoder serves every trace of a writer.
#[derive(Debug)]
pub(crate) struct BlockEncoder {
    predictor: Predictor,
    columns: Columns,
    packer: Packer,
    dictionary: Vec<u8>,
}

impl BlockEncoder {
    /// With empty buffers.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            predictor: Predictor::default(),
            columns: Columns::default(),
            packer: Packer::new()?,
            dictionary: Vec::new(),
        })
    }

    /// Appends the block of this batch to `out`. The batch may be empty: then it is a block of the ledger alone.
    pub(crate) fn encode(
        &mut self,
        batch: &Batch,
        (owner, ledger): (Option<TenantTimeline>, &Ledger),
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let times = || batch.rows().iter().map(|row| row.time_ns);
        let first_time_ns = times().min().unwrap_or(0);
        let unit = if is_in_microseconds(batch.rows()) { MICROSECOND_NS } else { 1 };
        block::begin(
            out,
            &BlockHeader {
                kind: BlockKind::Records,
                length: 0,
                records: batch.len() as u32,
                time_unit_ns: unit as u32,
                first_time: Timestamp(first_time_ns),
                last_time: Timestamp(times().max().unwrap_or(0)),
            },
        );
        block::put_identity(out, ledger, owner);
        if !batch.is_empty() {
            let base = first_time_ns.checked_div(unit).unwrap_or(0);
            self.predictor.begin(batch.connections(), batch.targets(), (batch.len(), base));
            self.columns.clear();
            if unit == 1 {
                self.fill(batch, |ns| ns);
            } else {
                self.fill(batch, |ns| ns / MICROSECOND_NS);
            }
            self.put_dictionaries(batch, out);
            self.put_columns(out);
        }
        block::seal(out.get_mut(start..).unwrap_or_default());
    }

    /// Fills the columns with all rows; `scaled` brings nanoseconds into the block's unit.
    fn fill(&mut self, batch: &Batch, scaled: impl Fn(u64) -> u64) {
        let shapes = batch.shapes();
        for row in batch.rows() {
            let shape = shapes.get(row.shape as usize).copied().unwrap_or(Shape(0));
            let mut peer = self.predictor.peer(row.connection);
            let columns = &mut self.columns;
            columns.connection.push(self.predictor.connection_symbol(row.connection));
            columns.target.push(u64::from(row.target));
            columns.shape.push(peer.shape_symbol(row.shape));
            let expected = self.predictor.number(row.target);
            columns.number.push(u64::from(row.number), difference_u32(row.number, expected));
            self.predictor.put_number(row.target, row.number);
            let times = [scaled(row.time_ns), scaled(row.latency_ns), scaled(row.transfer_ns)];
            self.push_times((shape, row.depth), &mut peer, times);
            self.push_versions(row, shape);
            let columns = &mut self.columns;
            if shape.has(Shape::REQID) {
                columns.reqid.push(row.reqid.wrapping_sub(peer.reqid));
                peer.reqid = row.reqid.wrapping_add(1);
            }
            if shape.has(Shape::SEQ) {
                columns.seq.push(row.seq.wrapping_sub(peer.seq));
                peer.seq = row.seq.wrapping_add(1);
            }
            self.predictor.put_peer(row.connection, peer);
        }
    }

    /// Time, transfer, end and depth of one row.
    #[inline]
    fn push_times(&mut self, (shape, depth): (Shape, u32), peer: &mut Peer, [time, latency, transfer]: [u64; 3]) {
        let Self { predictor, columns, .. } = self;
        let has_latency = shape.has(Shape::LATENCY);
        let reference = if has_latency { peer.end } else { predictor.unanswered_time };
        let mode = if time == peer.time && time != reference {
            TIME_SAME
        } else if time >= reference {
            columns.time.push(time.wrapping_sub(reference));
            TIME_AFTER_ANSWER
        } else if time >= peer.time {
            columns.time.push(time.wrapping_sub(peer.time));
            TIME_LATER
        } else {
            columns.time.push(peer.time.wrapping_sub(time));
            TIME_EARLIER
        };
        columns.time_mode.push(mode);
        peer.time = time;
        if shape.has(Shape::TRANSFER) {
            columns.transfer.push(transfer);
        }
        let expected_depth = predictor.depth(peer, time);
        if shape.has(Shape::DEPTH) {
            columns.depth.push(difference_u32(depth, expected_depth));
        }
        peer.end = time.wrapping_add(latency).wrapping_add(transfer);
        if has_latency {
            columns.end.push(peer.end.wrapping_sub(predictor.end));
            predictor.end = peer.end;
            predictor.answered(peer, peer.end);
        } else {
            predictor.unanswered_time = time;
        }
    }

    /// LSNs and hash of one row.
    #[inline]
    fn push_versions(&mut self, row: &Row, shape: Shape) {
        let Self { predictor, columns, .. } = self;
        let nms = row.not_modified_since;
        let slot = predictor.page_slot(row.target, row.number);
        let mut page = predictor.page(slot);
        if !shape.has(Shape::REQUEST_LSN_MAX) {
            columns
                .request_lsn
                .push(row.request_lsn.wrapping_sub(predictor.request_lsn), row.request_lsn.wrapping_sub(nms));
            predictor.request_lsn = row.request_lsn;
        }
        let last = predictor.not_modified_since;
        let page_nms = if page.not_modified_since == 0 { last } else { page.not_modified_since };
        columns.not_modified_since.push(nms.wrapping_sub(last), nms.wrapping_sub(page_nms));
        predictor.not_modified_since = nms;
        page.not_modified_since = nms;
        if shape.has(Shape::PAGE_LSN) {
            let page_lsn = if page.page_lsn == 0 { nms } else { page.page_lsn };
            columns.page_lsn.push(row.page_lsn.wrapping_sub(nms), row.page_lsn.wrapping_sub(page_lsn));
            page.page_lsn = row.page_lsn;
        }
        if shape.has(Shape::PAGE_HASH) {
            columns.page_hash.push(row.page_hash ^ page.page_hash);
            page.page_hash = row.page_hash;
        }
        predictor.put_page(slot, page);
    }

    /// Appends the three dictionaries.
    fn put_dictionaries(&mut self, batch: &Batch, out: &mut Vec<u8>) {
        self.dictionary.clear();
        for connection in batch.connections() {
            connection.encode(&mut self.dictionary);
        }
        self.packer.put_dictionary(out, Section::Connections, &self.dictionary);
        self.dictionary.clear();
        for target in batch.targets() {
            target.encode(&mut self.dictionary);
        }
        self.packer.put_dictionary(out, Section::Targets, &self.dictionary);
        self.dictionary.clear();
        for shape in batch.shapes() {
            self.dictionary.extend_from_slice(&shape.0.to_le_bytes());
        }
        self.packer.put_dictionary(out, Section::Shapes, &self.dictionary);
    }

    /// Appends the columns.
    fn put_columns(&mut self, out: &mut Vec<u8>) {
        let Self { columns, packer, .. } = self;
        packer.put(out, Section::Connection, &columns.connection, false);
        packer.put(out, Section::Target, &columns.target, false);
        packer.put(out, Section::Shape, &columns.shape, false);
        columns.number.put(packer, out, Section::Number);
        packer.put(out, Section::TimeMode, &columns.time_mode, false);
        packer.put(out, Section::Time, &columns.time, false);
        packer.put(out, Section::Transfer, &columns.transfer, false);
        packer.put(out, Section::End, &columns.end, false);
        packer.put(out, Section::Depth, &columns.depth, false);
        columns.request_lsn.put(packer, out, Section::RequestLsn);
        columns.not_modified_since.put(packer, out, Section::NotModifiedSince);
        columns.page_lsn.put(packer, out, Section::PageLsn);
        packer.put(out, Section::PageHash, &columns.page_hash, false);
        packer.put(out, Section::Reqid, &columns.reqid, false);
        packer.put(out, Section::Seq, &columns.seq, false);
    }
}

/// Whether every time and duration is a multiple of a microsecond. With nanosecond stamps the first rows say no.
fn is_in_microseconds(rows: &[Row]) -> bool {
    !rows.is_empty()
        && rows.iter().all(|row| {
            [row.time_ns, row.latency_ns, row.transfer_ns].iter().all(|ns| ns.is_multiple_of(MICROSECOND_NS))
        })
}
