//! The pagestream messages: encoding for both ends, and parsing for the live ones.

use std::fmt;

use record::{Kind, Lsn, Protocol, RelTag, Target};

use crate::model::{Answer, PAGE_BYTES, Request, fill_page};

/// Tag of an error answer.
pub const ERROR_TAG: u8 = 103;

const fn tag_of(kind: Kind) -> u8 {
    match kind {
        Kind::Exists => 0,
        Kind::Nblocks => 1,
        Kind::GetPage => 2,
        Kind::DbSize => 3,
        Kind::Slru => 4,
    }
}

/// 103 is the error's, so the two kinds behind it are one off.
const fn answer_tag_of(kind: Kind) -> u8 {
    match kind {
        Kind::Exists => 100,
        Kind::Nblocks => 101,
        Kind::GetPage => 102,
        Kind::DbSize => 104,
        Kind::Slru => 105,
    }
}

/// Appends a request as one CopyData message.
pub fn encode_request(request: &Request, protocol: Protocol, bytes: &mut Vec<u8>) {
    copy_data(bytes, |body| {
        put_header(tag_of(request.target.kind()), request, protocol, body);
        put_target(&request.target, body);
    });
}

/// Appends an answer as one CopyData message and returns its tag.
pub fn encode_answer(request: &Request, answer: &Answer, protocol: Protocol, bytes: &mut Vec<u8>) -> u8 {
    let tag = match answer {
        Answer::Error(_) => ERROR_TAG,
        _ => answer_tag_of(request.target.kind()),
    };
    copy_data(bytes, |body| {
        if protocol == Protocol::V3 {
            put_header(tag, request, protocol, body);
            if tag != ERROR_TAG {
                put_target(&request.target, body);
            }
        } else {
            body.push(tag);
        }
        put_answer(answer, body);
    });
    tag
}

/// Wraps what `put_body` appends into `d` and the length that counts itself.
pub fn copy_data(bytes: &mut Vec<u8>, put_body: impl FnOnce(&mut Vec<u8>)) {
    bytes.push(b'd');
    let at = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    put_body(bytes);
    let length = (bytes.len() - at) as u32;
    if let Some(slot) = bytes.get_mut(at..at + 4) {
        slot.copy_from_slice(&length.to_be_bytes());
    }
}

fn put_header(tag: u8, request: &Request, protocol: Protocol, body: &mut Vec<u8>) {
    body.push(tag);
    match protocol {
        Protocol::V1 => {
            body.push(u8::from(request.request_lsn == Lsn::MAX));
            put_u64(request.not_modified_since.0, body);
            return;
        }
        Protocol::V2 => {}
        Protocol::V3 => put_u64(request.reqid, body),
    }
    put_u64(request.request_lsn.0, body);
    put_u64(request.not_modified_since.0, body);
}

fn put_target(target: &Target, body: &mut Vec<u8>) {
    match *target {
        Target::GetPage { rel, blkno } => {
            put_rel(rel, body);
            put_u32(blkno, body);
        }
        Target::Exists { rel } | Target::Nblocks { rel } => put_rel(rel, body),
        Target::DbSize { dbnode } => put_u32(dbnode, body),
        Target::Slru { kind, segno } => {
            body.push(kind);
            put_u32(segno, body);
        }
    }
}

fn put_answer(answer: &Answer, body: &mut Vec<u8>) {
    match answer {
        Answer::Page { key, page_lsn } => fill_page(*key, *page_lsn, body),
        Answer::Exists(exists) => body.push(u8::from(*exists)),
        Answer::Nblocks(blocks) => put_u32(*blocks, body),
        Answer::DbSize(size) => body.extend_from_slice(&size.to_be_bytes()),
        Answer::Slru { seed, blocks } => {
            put_u32(*blocks, body);
            crate::model::fill(*seed, *blocks as usize * PAGE_BYTES, body);
        }
        Answer::Error(message) => {
            body.extend_from_slice(message.as_bytes());
            body.push(0);
        }
    }
}

fn put_rel(rel: RelTag, body: &mut Vec<u8>) {
    put_u32(rel.spcnode, body);
    put_u32(rel.dbnode, body);
    put_u32(rel.relnode, body);
    body.push(rel.forknum);
}

fn put_u32(value: u32, body: &mut Vec<u8>) {
    body.extend_from_slice(&value.to_be_bytes());
}

fn put_u64(value: u64, body: &mut Vec<u8>) {
    body.extend_from_slice(&value.to_be_bytes());
}

/// A message that is no request of that version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedRequest;

impl fmt::Display for MalformedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message is no pagestream request of this version")
    }
}

impl std::error::Error for MalformedRequest {}

/// Reads a request's body, which must be of its exact length; `seq` is its ordinal.
pub fn parse_request(body: &[u8], protocol: Protocol, seq: u64) -> Result<Request, MalformedRequest> {
    let mut rest = Fields(body);
    let tag = rest.byte()?;
    let (reqid, request_lsn, not_modified_since) = match protocol {
        Protocol::V1 => {
            let latest = rest.byte()? != 0;
            let lsn = Lsn(rest.long()?);
            (0, if latest { Lsn::MAX } else { lsn }, lsn)
        }
        Protocol::V2 => (0, Lsn(rest.long()?), Lsn(rest.long()?)),
        Protocol::V3 => (rest.long()?, Lsn(rest.long()?), Lsn(rest.long()?)),
    };
    let target = match tag {
        0 => Target::Exists { rel: rest.rel()? },
        1 => Target::Nblocks { rel: rest.rel()? },
        2 => Target::GetPage { rel: rest.rel()?, blkno: rest.word()? },
        3 => Target::DbSize { dbnode: rest.word()? },
        4 => Target::Slru { kind: rest.byte()?, segno: rest.word()? },
        _ => return Err(MalformedRequest),
    };
    if rest.0.is_empty() {
        Ok(Request { seq, reqid, target, request_lsn, not_modified_since })
    } else {
        Err(MalformedRequest)
    }
}

/// Big-endian fields, taken from the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], MalformedRequest> {
        let (field, rest) = self.0.split_first_chunk().ok_or(MalformedRequest)?;
        self.0 = rest;
        Ok(*field)
    }

    fn byte(&mut self) -> Result<u8, MalformedRequest> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn word(&mut self) -> Result<u32, MalformedRequest> {
        self.take().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Result<u64, MalformedRequest> {
        self.take().map(u64::from_be_bytes)
    }

    fn rel(&mut self) -> Result<RelTag, MalformedRequest> {
        Ok(RelTag { spcnode: self.word()?, dbnode: self.word()?, relnode: self.word()?, forknum: self.byte()? })
    }
}

/// The page in an encoded answer: its last 8,192 bytes. `None` for the other kinds and for errors.
pub fn page_of<'a>(message: &'a [u8], answer: &Answer) -> Option<&'a [u8; PAGE_BYTES]> {
    match answer {
        Answer::Page { .. } => message.last_chunk(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Asker, Workload, answer};

    /// Body lengths: request kind, then those of versions 1, 2 and 3.
    const REQUESTS: [(Kind, [usize; 3]); 5] = [
        (Kind::Exists, [23, 30, 38]),
        (Kind::Nblocks, [23, 30, 38]),
        (Kind::GetPage, [27, 34, 42]),
        (Kind::DbSize, [14, 21, 29]),
        (Kind::Slru, [15, 22, 30]),
    ];

    /// Tags and body lengths of answers, of versions 1 and 2, and of 3; of segments without their pages.
    const ANSWERS: [(Kind, u8, [usize; 2]); 5] = [
        (Kind::Exists, 100, [2, 39]),
        (Kind::Nblocks, 101, [5, 42]),
        (Kind::GetPage, 102, [8193, 8234]),
        (Kind::DbSize, 104, [9, 37]),
        (Kind::Slru, 105, [5, 34]),
    ];

    fn versions() -> [Protocol; 3] {
        [Protocol::V1, Protocol::V2, Protocol::V3]
    }

    #[test]
    fn requests_have_the_lengths_of_the_protocol_and_are_read_back() {
        for (at, protocol) in versions().into_iter().enumerate() {
            let workload = Workload { protocol: crate::model::ProtocolMix::Only(protocol), ..Workload::default() };
            for (kind, lengths) in REQUESTS {
                let request = Asker::new(&workload, 0).request(kind);
                let mut bytes = Vec::new();
                encode_request(&request, protocol, &mut bytes);
                assert_eq!(bytes.len(), 5 + lengths[at], "{kind} of version {protocol}");
                assert_eq!(bytes[..5], [b'd', 0, 0, 0, 4 + lengths[at] as u8]);
                assert_eq!(parse_request(&bytes[5..], protocol, 0), Ok(request));
                assert_eq!(parse_request(&bytes[5..bytes.len() - 1], protocol, 0), Err(MalformedRequest));
            }
        }
    }

    #[test]
    fn answers_have_the_lengths_of_the_protocol() {
        for protocol in versions() {
            for (kind, expected_tag, lengths) in ANSWERS {
                let request = Asker::new(&Workload::default(), 0).request(kind);
                let answer = answer(&request, 0.0);
                let mut bytes = Vec::new();
                let tag = encode_answer(&request, &answer, protocol, &mut bytes);
                let pages = if let Answer::Slru { blocks, .. } = answer { blocks as usize * PAGE_BYTES } else { 0 };
                let length = lengths[usize::from(protocol == Protocol::V3)] + pages;
                assert_eq!(bytes.len(), 5 + length, "{kind} of version {protocol}");
                assert_eq!(bytes[1..5], (4 + length as u32).to_be_bytes());
                assert_eq!((bytes[5], tag), (expected_tag, expected_tag));
            }
        }
    }

    #[test]
    fn an_error_echoes_the_header_alone() {
        let request = Asker::new(&Workload::default(), 0).request(Kind::GetPage);
        for (protocol, header) in [(Protocol::V2, 1), (Protocol::V3, 25)] {
            let mut bytes = Vec::new();
            let tag = encode_answer(&request, &Answer::Error("gone".into()), protocol, &mut bytes);
            assert_eq!((tag, bytes.len()), (103, 5 + header + 5));
            assert!(bytes.ends_with(b"gone\0"));
        }
    }
}
