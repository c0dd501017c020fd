//! Tags and body lengths of the messages, by version.
//!
//! A body's length together with its tag is what tells a message from chance bytes: no two versions share a pair
//! among requests.

use record::{Kind, Protocol};

/// First byte of an error answer's body, whatever was asked.
pub(crate) const TAG_ERROR: u8 = 103;
/// First byte of a Test request (test builds of Neon only).
pub(crate) const TAG_TEST_REQUEST: u8 = 99;
/// First byte of the answer to a Test request.
pub(crate) const TAG_TEST_ANSWER: u8 = 199;
/// Bytes of a page.
pub(crate) const PAGE_BYTES: u32 = 8192;

/// The most bytes of a body that are ever needed: a version 3 GetPage answer's header (25), relation (13), block (4) and
/// the page's `pd_lsn` (8).
pub(crate) const HEAD_BYTES: usize = 50;

/// Bytes of a relation on the wire: spcnode, dbnode, relnode, forknum.
const REL_BYTES: u32 = 13;

/// Bytes of a request's header, its tag included.
pub(crate) const fn request_header_bytes(version: Protocol) -> u32 {
    match version {
        Protocol::V1 => 10,
        Protocol::V2 => 17,
        Protocol::V3 => 25,
    }
}

/// Bytes of an answer's header, its tag included: version 3 echoes the request's.
pub(crate) const fn answer_header_bytes(version: Protocol) -> u32 {
    match version {
        Protocol::V1 | Protocol::V2 => 1,
        Protocol::V3 => 25,
    }
}

/// The kind that a request's tag names.
pub(crate) const fn kind_of_request_tag(tag: u8) -> Option<Kind> {
    match tag {
        0 => Some(Kind::Exists),
        1 => Some(Kind::Nblocks),
        2 => Some(Kind::GetPage),
        3 => Some(Kind::DbSize),
        4 => Some(Kind::Slru),
        _ => None,
    }
}

/// The kind that an answer's tag names; `None` for errors and unknown tags.
pub(crate) const fn kind_of_answer_tag(tag: u8) -> Option<Kind> {
    match tag {
        100..=104 if tag != TAG_ERROR => kind_of_request_tag(match tag {
            104 => 3,
            other => other.wrapping_sub(100),
        }),
        105 => Some(Kind::Slru),
        _ => None,
    }
}

/// Bytes of a request's body.
pub(crate) const fn request_body_bytes(version: Protocol, kind: Kind) -> u32 {
    let asked = match kind {
        Kind::Exists | Kind::Nblocks => REL_BYTES,
        Kind::GetPage => REL_BYTES.saturating_add(4),
        Kind::DbSize => 4,
        Kind::Slru => 5,
    };
    request_header_bytes(version).saturating_add(asked)
}

/// Bytes of an answer's body that is no error, or `None` for SLRU segments, whose length varies.
pub(crate) const fn answer_body_bytes(version: Protocol, kind: Kind) -> Option<u32> {
    let echoes = matches!(version, Protocol::V3);
    let rest = match (kind, echoes) {
        (Kind::Exists, false) => 1,
        (Kind::Exists, true) => REL_BYTES.saturating_add(1),
        (Kind::Nblocks, false) => 4,
        (Kind::Nblocks, true) => REL_BYTES.saturating_add(4),
        (Kind::GetPage, false) => PAGE_BYTES,
        (Kind::GetPage, true) => REL_BYTES.saturating_add(4).saturating_add(PAGE_BYTES),
        (Kind::DbSize, false) => 8,
        (Kind::DbSize, true) => 12,
        (Kind::Slru, _) => return None,
    };
    Some(answer_header_bytes(version).saturating_add(rest))
}

/// The most pages in an SLRU segment (`SLRU_PAGES_PER_SEGMENT` in Postgres).
const SLRU_PAGES_PER_SEGMENT: u32 = 32;

/// The longest error text that is believed. Neon's are a line or a chain of causes; this leaves room for a hundredfold.
const MAX_ERROR_BYTES: u32 = 64 * 1024;

/// The longest Test message that is believed; only test builds send them.
const MAX_TEST_BYTES: u32 = 1024 * 1024;

/// Whether a request of this version can have this tag with a body of this length.
pub(crate) fn is_request(version: Protocol, tag: u8, body_bytes: u32) -> bool {
    if tag == TAG_TEST_REQUEST && version != Protocol::V1 {
        let fixed = request_header_bytes(version).saturating_add(16);
        return (fixed..=MAX_TEST_BYTES).contains(&body_bytes);
    }
    kind_of_request_tag(tag).is_some_and(|kind| request_body_bytes(version, kind) == body_bytes)
}

/// Whether an answer of this version can have this tag with a body of this length.
pub(crate) fn is_answer(version: Protocol, tag: u8, body_bytes: u32) -> bool {
    let header = answer_header_bytes(version);
    match tag {
        // At least the text's final zero.
        TAG_ERROR => (header.saturating_add(1)..=MAX_ERROR_BYTES).contains(&body_bytes),
        TAG_TEST_ANSWER => (header.saturating_add(16)..=MAX_TEST_BYTES).contains(&body_bytes),
        _ => match kind_of_answer_tag(tag) {
            None => false,
            Some(Kind::Slru) => {
                let fixed = header.saturating_add(if version == Protocol::V3 { 9 } else { 4 });
                let data = body_bytes.wrapping_sub(fixed);
                body_bytes >= fixed
                    && data.is_multiple_of(PAGE_BYTES)
                    && data <= PAGE_BYTES.saturating_mul(SLRU_PAGES_PER_SEGMENT)
            }
            Some(kind) => answer_body_bytes(version, kind) == Some(body_bytes),
        },
    }
}

/// Where the page begins in a GetPage answer's body.
pub(crate) const fn page_offset(version: Protocol) -> u32 {
    match version {
        Protocol::V1 | Protocol::V2 => 1,
        Protocol::V3 => 42,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Protocol::{V1, V2, V3};

    #[test]
    fn lengths_are_those_of_the_protocol() {
        let requests: [(Protocol, [u32; 5]); 3] =
            [(V1, [23, 23, 27, 14, 15]), (V2, [30, 30, 34, 21, 22]), (V3, [38, 38, 42, 29, 30])];
        for (version, lengths) in requests {
            for (tag, length) in (0u8..).zip(lengths) {
                assert_eq!(request_body_bytes(version, kind_of_request_tag(tag).unwrap()), length);
                assert!(is_request(version, tag, length));
                assert!(!is_request(version, tag, length + 1));
            }
        }
        let answers = [(V1, [2, 5, 8193, 9]), (V2, [2, 5, 8193, 9]), (V3, [39, 42, 8234, 37])];
        for (version, lengths) in answers {
            for (tag, length) in [100u8, 101, 102, 104].into_iter().zip(lengths) {
                assert_eq!(answer_body_bytes(version, kind_of_answer_tag(tag).unwrap()), Some(length));
                assert!(is_answer(version, tag, length));
                assert!(!is_answer(version, tag, length - 1));
            }
        }
        assert!(is_answer(V2, 105, 5 + 8192 * 32) && is_answer(V3, 105, 34) && !is_answer(V3, 105, 35));
        assert!(!is_answer(V2, 105, 5 + 8192 * 33));
        assert!(is_answer(V2, 103, 2) && !is_answer(V2, 103, 1) && is_answer(V3, 103, 26));
        assert!(!is_answer(V3, 106, 39) && !is_request(V3, 5, 42));
    }

    #[test]
    fn no_two_versions_share_a_request_of_the_same_tag_and_length() {
        for &kind in Kind::ALL {
            let lengths = [V1, V2, V3].map(|version| request_body_bytes(version, kind));
            assert!(lengths[0] != lengths[1] && lengths[1] != lengths[2] && lengths[0] != lengths[2]);
        }
    }
}
