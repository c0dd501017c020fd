//! Attribution blocks: whose connection it was, found out after its records were written.

use record::{Attribution, Endpoint, TenantId, TenantTimeline, TimelineId, Timestamp};

use super::block::{self, BlockHeader, BlockKind, RawSection};
use super::bytes::Input;
use super::ledger::Ledger;
use super::{MAX_BLOCK_RECORDS, Section};
use crate::columns::dictionary::{attribution_code, attribution_of_code, endpoint, put_endpoint};
use crate::error::BlockError;

/// Says whose an earlier connection was. Readers join it to the records of (`client`, `server`) from `connected` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionOwner {
    /// The compute's end.
    pub client: Endpoint,
    /// The pageserver's end.
    pub server: Endpoint,
    /// When the connection began, or was first seen.
    pub connected: Timestamp,
    /// Whose it was.
    pub owner: TenantTimeline,
    /// How that is known.
    pub attribution: Attribution,
}

/// Encodes a whole block of them. At most [`MAX_BLOCK_RECORDS`] are taken; the caller hands over fewer.
pub(crate) fn encode(connections: &[ConnectionOwner], owner: Option<TenantTimeline>, out: &mut Vec<u8>) {
    let connections = connections.get(..MAX_BLOCK_RECORDS as usize).unwrap_or(connections);
    let mut bytes = Vec::new();
    for connection in connections {
        put_endpoint(&mut bytes, connection.client);
        put_endpoint(&mut bytes, connection.server);
        bytes.extend_from_slice(&connection.connected.0.to_le_bytes());
        bytes.extend_from_slice(&connection.owner.tenant.0);
        bytes.extend_from_slice(&connection.owner.timeline.0);
        bytes.push(attribution_code(Some(connection.attribution)));
    }
    let times = || connections.iter().map(|connection| connection.connected);
    out.clear();
    block::begin(
        out,
        &BlockHeader {
            kind: BlockKind::Attributions,
            length: 0,
            records: connections.len() as u32,
            time_unit_ns: 1,
            first_time: times().min().unwrap_or_default(),
            last_time: times().max().unwrap_or_default(),
        },
    );
    block::put_identity(out, &Ledger::default(), owner);
    block::put_section(out, Section::Attributions, 0, &bytes);
    block::seal(out);
}

/// Reads the section of a block with `count` attributions.
pub(crate) fn decode(raw: RawSection<'_>, count: u32) -> Result<Vec<ConnectionOwner>, BlockError> {
    let fault = BlockError::new("attributions", "are damaged");
    let mut input = Input::new(raw.bytes);
    let mut connections = Vec::new();
    for _ in 0..count {
        connections.push(decode_one(&mut input).ok_or(fault)?);
    }
    if input.is_empty() { Ok(connections) } else { Err(fault) }
}

/// Reads one entry.
fn decode_one(input: &mut Input<'_>) -> Option<ConnectionOwner> {
    Some(ConnectionOwner {
        client: endpoint(input)?,
        server: endpoint(input)?,
        connected: Timestamp(input.u64()?),
        owner: TenantTimeline { tenant: TenantId(input.array()?), timeline: TimelineId(input.array()?) },
        attribution: attribution_of_code(input.u8()?)??,
    })
}
