//! A block's frame: its fixed header, its sections, its checksum.

use record::{TenantId, TenantTimeline, TimelineId, Timestamp};

use super::bytes::{Input, put_counted_bytes};
use super::ledger::Ledger;
use super::{BLOCK_HEADER_BYTES, BLOCK_MAGIC, MAX_BLOCK_BYTES, MAX_BLOCK_RECORDS, Section};
use crate::error::BlockError;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Records, and the ledger since the block before; also the ledger alone, with no record.
    Records,
    /// Attributions of connections.
    Attributions,
    /// Something that a later minor version defined.
    Other(u8),
}

impl BlockKind {
    /// Its byte in the file.
    pub const fn number(self) -> u8 {
        match self {
            Self::Records => 1,
            Self::Attributions => 2,
            Self::Other(number) => number,
        }
    }

    /// The kind of that byte.
    const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Records,
            2 => Self::Attributions,
            other => Self::Other(other),
        }
    }
}

/// What a block says of itself before its sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// What it holds.
    pub kind: BlockKind,
    /// Bytes of the whole block, this header included.
    pub length: u32,
    /// Records (or attributions) in it.
    pub records: u32,
    /// Times and durations in its columns are multiples of so many nanoseconds; never 0.
    pub time_unit_ns: u32,
    /// The earliest `time` of its records; 0 where it holds none.
    pub first_time: Timestamp,
    /// The latest.
    pub last_time: Timestamp,
}

/// Where the checksum stands in a block.
const CRC_OFFSET: usize = 8;
/// The first byte behind it.
const CRC_END: usize = 12;

impl BlockHeader {
    /// Reads a header and the checksum that it asks for, or `None` where these bytes cannot be one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        let mut input = Input::new(bytes);
        if input.array()? != BLOCK_MAGIC {
            return None;
        }
        let length = input.u32()?;
        let crc = input.u32()?;
        let kind = BlockKind::from_number(input.u8()?);
        input.bytes(3)?;
        let header = Self {
            kind,
            length,
            records: input.u32()?,
            time_unit_ns: input.u32()?,
            first_time: Timestamp(input.u64()?),
            last_time: Timestamp(input.u64()?),
        };
        let possible = (BLOCK_HEADER_BYTES..=MAX_BLOCK_BYTES).contains(&(length as usize))
            && header.records <= MAX_BLOCK_RECORDS
            && header.time_unit_ns != 0;
        possible.then_some((header, crc))
    }

    /// Whether `block`, which begins with this header, is whole.
    pub(crate) fn verify(block: &[u8], crc: u32) -> bool {
        checksum(block) == Some(crc)
    }
}

/// CRC-32C of all the block but the four bytes that hold it.
fn checksum(block: &[u8]) -> Option<u32> {
    let before = block.get(..CRC_OFFSET)?;
    let behind = block.get(CRC_END..)?;
    Some(crc32c::crc32c_append(crc32c::crc32c(before), behind))
}

/// Begins a block at the end of `out`, which is empty.
pub(crate) fn begin(out: &mut Vec<u8>, header: &BlockHeader) {
    out.extend_from_slice(&BLOCK_MAGIC);
    out.extend_from_slice(&[0; CRC_END - BLOCK_MAGIC.len()]);
    out.extend_from_slice(&[header.kind.number(), 0, 0, 0]);
    out.extend_from_slice(&header.records.to_le_bytes());
    out.extend_from_slice(&header.time_unit_ns.to_le_bytes());
    out.extend_from_slice(&header.first_time.0.to_le_bytes());
    out.extend_from_slice(&header.last_time.0.to_le_bytes());
}

/// Appends a section: id, codec, length, bytes.
pub(crate) fn put_section(out: &mut Vec<u8>, section: Section, codec: u8, bytes: &[u8]) {
    out.push(section as u8);
    out.push(codec);
    put_counted_bytes(out, bytes);
}

/// Appends the sections that every block has: the ledger where there is something in it, the owner where it is known.
pub(crate) fn put_identity(out: &mut Vec<u8>, ledger: &Ledger, owner: Option<TenantTimeline>) {
    if !ledger.is_empty() {
        let mut bytes = Vec::new();
        ledger.encode(&mut bytes);
        put_section(out, Section::Ledger, 0, &bytes);
    }
    if let Some(TenantTimeline { tenant, timeline }) = owner {
        let mut bytes = [0; 32];
        for (place, byte) in bytes.iter_mut().zip(tenant.0.iter().chain(&timeline.0)) {
            *place = *byte;
        }
        put_section(out, Section::Owner, 0, &bytes);
    }
}

/// Writes length and checksum into the block that [`begin`] began.
pub(crate) fn seal(block: &mut [u8]) {
    let length = (block.len() as u32).to_le_bytes();
    if let Some(place) = block.get_mut(BLOCK_MAGIC.len()..CRC_OFFSET) {
        place.copy_from_slice(&length);
    }
    let crc = checksum(block).unwrap_or_default().to_le_bytes();
    if let Some(place) = block.get_mut(CRC_OFFSET..CRC_END) {
        place.copy_from_slice(&crc);
    }
}

/// One section as it stands in the block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawSection<'a> {
    /// Which, or `None` where a later version defined it.
    pub(crate) section: Option<Section>,
    /// How it is encoded.
    pub(crate) codec: u8,
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
}

/// The sections of a whole block, in order.
pub(crate) fn sections(block: &[u8]) -> impl Iterator<Item = Result<RawSection<'_>, BlockError>> {
    let mut input = Input::new(block.get(BLOCK_HEADER_BYTES..).unwrap_or_default());
    std::iter::from_fn(move || {
        if input.is_empty() {
            return None;
        }
        match (input.u8(), input.u8(), input.counted_bytes()) {
            (Some(id), Some(codec), Some(bytes)) => {
                Some(Ok(RawSection { section: Section::from_id(id), codec, bytes }))
            }
            _ => {
                input = Input::new(&[]);
                Some(Err(BlockError::new("sections", "pass its end")))
            }
        }
    })
}

/// Reads the owner section.
pub(crate) fn decode_owner(bytes: &[u8]) -> Result<TenantTimeline, BlockError> {
    let mut input = Input::new(bytes);
    match (input.array(), input.array(), input.is_empty()) {
        (Some(tenant), Some(timeline), true) => {
            Ok(TenantTimeline { tenant: TenantId(tenant), timeline: TimelineId(timeline) })
        }
        _ => Err(BlockError::new("owner", "has not 32 bytes")),
    }
}
