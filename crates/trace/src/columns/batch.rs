//! Records on their way to a block.

use record::Record;

use super::dictionary::{Connection, Dictionary, Shape, TargetHead};

/// One record with its repeating parts replaced by dictionary positions. Fields that are not known are 0; the shape
/// tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) time_ns: u64,
    pub(crate) latency_ns: u64,
    pub(crate) transfer_ns: u64,
    pub(crate) request_lsn: u64,
    pub(crate) not_modified_since: u64,
    pub(crate) page_lsn: u64,
    pub(crate) page_hash: u64,
    pub(crate) reqid: u64,
    pub(crate) seq: u64,
    pub(crate) depth: u32,
    pub(crate) connection: u32,
    pub(crate) target: u32,
    pub(crate) number: u32,
    pub(crate) shape: u32,
}

/// Rows of one owner until they become a block. Emptied batches keep their memory, so that filling one again allocates
/// nothing.
#[derive(Debug)]
pub(crate) struct Batch {
    rows: Vec<Row>,
    connections: Dictionary<Connection>,
    targets: Dictionary<TargetHead>,
    shapes: Dictionary<Shape>,
}

impl Batch {
    /// An empty batch.
    pub(crate) fn new() -> Self {
        Self { rows: Vec::new(), connections: Dictionary::new(), targets: Dictionary::new(), shapes: Dictionary::new() }
    }

    /// Takes a record in. Its owner is that of the trace, and not kept.
    #[inline]
    pub(crate) fn push(&mut self, record: &Record) {
        let (target, number) = TargetHead::split(record.target);
        self.rows.push(Row {
            time_ns: record.time.0,
            latency_ns: record.latency_ns.unwrap_or(0),
            transfer_ns: record.transfer_ns.unwrap_or(0),
            request_lsn: record.request_lsn.0,
            not_modified_since: record.not_modified_since.0,
            page_lsn: record.page_lsn.map_or(0, |lsn| lsn.0),
            page_hash: record.page_hash.unwrap_or(0),
            reqid: record.reqid.unwrap_or(0),
            seq: record.seq.unwrap_or(0),
            depth: record.depth.unwrap_or(0),
            connection: self.connections.position(Connection::of(record)),
            target: self.targets.position(target),
            number,
            shape: self.shapes.position(Shape::of(record)),
        });
    }

    /// How many records are in it.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows in the order of their arrival.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The connections by position.
    pub(crate) fn connections(&self) -> &[Connection] {
        self.connections.entries()
    }

    /// The targets by position.
    pub(crate) fn targets(&self) -> &[TargetHead] {
        self.targets.entries()
    }

    /// The shapes by position.
    pub(crate) fn shapes(&self) -> &[Shape] {
        self.shapes.entries()
    }

    /// Forgets the records and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.connections.clear();
        self.targets.clear();
        self.shapes.clear();
    }
}
