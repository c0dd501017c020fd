//! A record's fields in their fixed order, written through whichever cells the format has.

use std::io::Write;

use record::{Endpoint, Lsn, Record, RelTag, Target, TenantTimeline};

use super::digits;

/// A field's name as it stands in a JSON object behind another field: `,"name":`. One copy instead of three.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    pub(super) json: &'static str,
}

/// The fields of a record in their order, as [`write_fields`] writes them.
pub const FIELD_NAMES: [&str; 31] = [
    "time_ns",
    "latency_ns",
    "transfer_ns",
    "depth",
    "tenant",
    "timeline",
    "attribution",
    "kind",
    "key",
    "rel",
    "spcnode",
    "dbnode",
    "relnode",
    "forknum",
    "blkno",
    "slru_kind",
    "segno",
    "request_lsn",
    "not_modified_since",
    "status",
    "page_lsn",
    "page_zero",
    "page_hash",
    "client",
    "server",
    "protocol",
    "reqid",
    "backend_pid",
    "seq",
    "epoch_ns",
    "pairing",
];

/// One line of a format. Every field comes exactly once, in order, known or not.
pub trait Cells {
    /// A number.
    fn number(&mut self, name: Name, value: Option<u64>);
    /// A text that needs no escaping in any format: digits, words, addresses.
    fn text(&mut self, name: Name, value: Option<&[u8]>);
    /// True or false.
    fn flag(&mut self, name: Name, value: Option<bool>);
    /// A position in the log; as Postgres writes it where the format has no better.
    fn lsn(&mut self, name: Name, value: Option<Lsn>) {
        self.text(name, value.map(digits::lsn).as_ref().map(digits::Digits::as_bytes));
    }
}

/// How many texts of a kind are kept: records of a few connections alternate.
const SLOTS: usize = 16;

/// Recent values' texts: records that follow each other share their tenant, relation and connection.
#[derive(Debug)]
struct TextCache<T> {
    slots: [(Option<T>, Vec<u8>); SLOTS],
}

impl<T> Default for TextCache<T> {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| (None, Vec::new())) }
    }
}

impl<T: Copy + PartialEq> TextCache<T> {
    /// The text of `value`, written by `write` unless it is still there. `hint` is any number that tells values apart.
    fn text(&mut self, value: T, hint: u32, write: impl FnOnce(T, &mut Vec<u8>) -> std::io::Result<()>) -> &[u8] {
        let Some((of, text)) = self.slots.get_mut(hint as usize % SLOTS) else { return b"" };
        if *of != Some(value) {
            text.clear();
            // Writing to a Vec does not fail.
            let _ = write(value, text);
            *of = Some(value);
        }
        text
    }
}

/// Texts kept from record to record.
#[derive(Debug, Default)]
pub struct TextCaches {
    owner: TextCache<TenantTimeline>,
    rel: TextCache<RelTag>,
    client: TextCache<Endpoint>,
    server: TextCache<Endpoint>,
}

macro_rules! name {
    ($name:literal) => {
        Name { json: concat!(",\"", $name, "\":") }
    };
}

/// Writes all fields of `record`.
pub fn write_fields(record: &Record, caches: &mut TextCaches, cells: &mut impl Cells) {
    timing(record, cells);
    owner(record, caches, cells);
    target(record, caches, cells);
    answer(record, cells);
    connection(record, caches, cells);
}

fn timing(record: &Record, cells: &mut impl Cells) {
    cells.number(name!("time_ns"), Some(record.time.0));
    cells.number(name!("latency_ns"), record.latency_ns);
    cells.number(name!("transfer_ns"), record.transfer_ns);
    cells.number(name!("depth"), record.depth.map(u64::from));
}

fn owner(record: &Record, caches: &mut TextCaches, cells: &mut impl Cells) {
    let ids = record.owner.map(|owner| {
        let text = caches.owner.text(owner, u128::from_be_bytes(owner.timeline.0) as u32, |owner, out| {
            write!(out, "{}{}", owner.tenant, owner.timeline)
        });
        text.split_at_checked(text.len() / 2).unwrap_or_default()
    });
    cells.text(name!("tenant"), ids.map(|(tenant, _)| tenant));
    cells.text(name!("timeline"), ids.map(|(_, timeline)| timeline));
    cells.text(name!("attribution"), record.attribution.map(|how| how.as_str().as_bytes()));
}

fn target(record: &Record, caches: &mut TextCaches, cells: &mut impl Cells) {
    let target = &record.target;
    let rel = target.rel();
    let slru = match *target {
        Target::Slru { kind, segno } => Some((kind, segno)),
        _ => None,
    };
    cells.text(name!("kind"), Some(target.kind().as_str().as_bytes()));
    cells.text(name!("key"), target.key().map(digits::key).as_ref().map(digits::Digits::as_bytes));
    cells.text(name!("rel"), rel.map(|rel| caches.rel.text(rel, rel.relnode, |rel, out| write!(out, "{rel}"))));
    cells.number(name!("spcnode"), rel.map(|rel| rel.spcnode.into()));
    cells.number(name!("dbnode"), target.dbnode().map(u64::from));
    cells.number(name!("relnode"), rel.map(|rel| rel.relnode.into()));
    cells.number(name!("forknum"), rel.map(|rel| rel.forknum.into()));
    cells.number(name!("blkno"), target.blkno().map(u64::from));
    cells.number(name!("slru_kind"), slru.map(|(kind, _)| kind.into()));
    cells.number(name!("segno"), slru.map(|(_, segno)| segno.into()));
}

fn answer(record: &Record, cells: &mut impl Cells) {
    cells.lsn(name!("request_lsn"), Some(record.request_lsn));
    cells.lsn(name!("not_modified_since"), Some(record.not_modified_since));
    cells.text(name!("status"), Some(record.status.as_str().as_bytes()));
    cells.lsn(name!("page_lsn"), record.page_lsn);
    cells.flag(name!("page_zero"), record.page_zero);
    cells.text(name!("page_hash"), record.page_hash.map(digits::hash).as_ref().map(digits::Digits::as_bytes));
}

fn connection(record: &Record, caches: &mut TextCaches, cells: &mut impl Cells) {
    cells.text(
        name!("client"),
        Some(caches.client.text(record.client, record.client.port().into(), |end, out| write!(out, "{end}"))),
    );
    cells.text(
        name!("server"),
        Some(caches.server.text(record.server, record.server.port().into(), |end, out| write!(out, "{end}"))),
    );
    cells.number(name!("protocol"), Some(record.protocol.number().into()));
    cells.number(name!("reqid"), record.reqid);
    cells.number(name!("backend_pid"), record.backend_pid.map(u64::from));
    cells.number(name!("seq"), record.seq);
    cells.number(name!("epoch_ns"), record.epoch.map(|epoch| epoch.0));
    cells.text(name!("pairing"), Some(record.pairing.as_str().as_bytes()));
}
