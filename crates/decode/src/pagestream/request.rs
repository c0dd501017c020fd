//! One request: what the compute asked for.

use record::{Kind, Lsn, Protocol, RelTag, Target};

use super::layout::{self, TAG_TEST_REQUEST};
use crate::bytes::{take_u8, take_u32, take_u64};

/// A request as it stood on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Version 3 only.
    pub(crate) reqid: Option<u64>,
    pub(crate) request_lsn: Lsn,
    pub(crate) not_modified_since: Lsn,
    pub(crate) target: Target,
}

/// What a CopyData body from the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientMessage {
    Request(Request),
    /// A Test message: it will be answered, but it names no page.
    Test,
}

/// The body is no request of this version: an unknown tag, or another length than the tag's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotARequest;

impl ClientMessage {
    /// Reads a whole request body, or for Test messages its beginning. `body_bytes` is the body's length on the wire.
    pub(crate) fn parse(version: Protocol, body: &[u8], body_bytes: u32) -> Result<Self, NotARequest> {
        let mut input = body;
        let tag = take_u8(&mut input).ok_or(NotARequest)?;
        if !layout::is_request(version, tag, body_bytes) {
            return Err(NotARequest);
        }
        if tag == TAG_TEST_REQUEST {
            return Ok(Self::Test);
        }
        let kind = layout::kind_of_request_tag(tag).ok_or(NotARequest)?;
        parse_fields(version, kind, &mut input).map(Self::Request).ok_or(NotARequest)
    }
}

fn parse_fields(version: Protocol, kind: Kind, input: &mut &[u8]) -> Option<Request> {
    let (reqid, request_lsn, not_modified_since) = match version {
        Protocol::V1 => {
            let latest = take_u8(input)? != 0;
            let lsn = Lsn(take_u64(input)?);
            // `latest` asks for the newest version, with the LSN as the promise (Neon's version 1 compatibility code).
            (None, if latest { Lsn::MAX } else { lsn }, lsn)
        }
        Protocol::V2 => (None, Lsn(take_u64(input)?), Lsn(take_u64(input)?)),
        Protocol::V3 => (Some(take_u64(input)?), Lsn(take_u64(input)?), Lsn(take_u64(input)?)),
    };
    let target = take_target(kind, input)?;
    Some(Request { reqid, request_lsn, not_modified_since, target })
}

/// Reads what is asked for; requests and version 3 answers share this layout.
pub(crate) fn take_target(kind: Kind, input: &mut &[u8]) -> Option<Target> {
    Some(match kind {
        Kind::GetPage => Target::GetPage { rel: take_rel(input)?, blkno: take_u32(input)? },
        Kind::Exists => Target::Exists { rel: take_rel(input)? },
        Kind::Nblocks => Target::Nblocks { rel: take_rel(input)? },
        Kind::DbSize => Target::DbSize { dbnode: take_u32(input)? },
        Kind::Slru => Target::Slru { kind: take_u8(input)?, segno: take_u32(input)? },
    })
}

fn take_rel(input: &mut &[u8]) -> Option<RelTag> {
    Some(RelTag {
        spcnode: take_u32(input)?,
        dbnode: take_u32(input)?,
        relnode: take_u32(input)?,
        forknum: take_u8(input)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REL: [u8; 13] = [0, 0, 6, 127, 0, 0, 64, 0, 0, 0, 64, 18, 2];

    fn rel() -> RelTag {
        RelTag { spcnode: 1663, dbnode: 16384, relnode: 16402, forknum: 2 }
    }

    #[test]
    fn version_3_carries_an_id_and_two_lsns() {
        let mut body = vec![2, 0, 0, 0x4e, 0x20, 0, 0, 0, 7];
        body.extend([0xff; 8]);
        body.extend(0x1_6EFF_3F30u64.to_be_bytes());
        body.extend(REL);
        body.extend(7u32.to_be_bytes());
        let expected = Request {
            reqid: Some(0x4e20_0000_0007),
            request_lsn: Lsn::MAX,
            not_modified_since: Lsn(0x1_6EFF_3F30),
            target: Target::GetPage { rel: rel(), blkno: 7 },
        };
        assert_eq!(ClientMessage::parse(Protocol::V3, &body, 42), Ok(ClientMessage::Request(expected)));
        for cut in 0..42 {
            assert_eq!(ClientMessage::parse(Protocol::V3, &body[..cut], 42), Err(NotARequest), "cut at {cut}");
        }
        assert_eq!(ClientMessage::parse(Protocol::V2, &body, 42), Err(NotARequest));
    }

    #[test]
    fn version_1_says_latest_with_a_flag() {
        let mut body = vec![0, 1];
        body.extend(0x16u64.to_be_bytes());
        body.extend(REL);
        let ClientMessage::Request(latest) = ClientMessage::parse(Protocol::V1, &body, 23).unwrap() else { panic!() };
        assert_eq!((latest.request_lsn, latest.not_modified_since), (Lsn::MAX, Lsn(0x16)));
        body[1] = 0;
        let ClientMessage::Request(at) = ClientMessage::parse(Protocol::V1, &body, 23).unwrap() else { panic!() };
        assert_eq!((at.request_lsn, at.not_modified_since), (Lsn(0x16), Lsn(0x16)));
        assert_eq!(at.target, Target::Exists { rel: rel() });
    }

    #[test]
    fn a_test_message_is_known_and_names_nothing() {
        assert_eq!(ClientMessage::parse(Protocol::V2, &[99; 33], 33), Ok(ClientMessage::Test));
        assert_eq!(ClientMessage::parse(Protocol::V2, &[99; 32], 32), Err(NotARequest));
    }
}
