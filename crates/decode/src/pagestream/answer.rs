//! One answer: what the pageserver sent back, and what of it names the request.

use record::{Kind, Lsn, Protocol, Target, Timestamp};

use super::layout::{self, TAG_ERROR};
use super::page::PageFacts;
use super::request::{Request, take_target};
use crate::bytes::{take_u8, take_u64};

/// What kind of answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// What was asked for.
    Ok(Kind),
    /// Tag 103.
    Error,
    /// The answer to a Test message.
    Test,
    /// Its tag fell into a gap.
    Unread,
}

/// What a version 3 answer repeats of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Echo {
    pub(crate) reqid: u64,
    pub(crate) request_lsn: Lsn,
    pub(crate) not_modified_since: Lsn,
    /// Errors repeat the header only.
    pub(crate) target: Option<Target>,
}

impl Echo {
    /// Whether everything that is echoed is this request's.
    pub(crate) fn is_of(&self, request: &Request) -> bool {
        request.reqid == Some(self.reqid)
            && request.request_lsn == self.request_lsn
            && request.not_modified_since == self.not_modified_since
            && self.target.is_none_or(|target| target == request.target)
    }
}

/// What the beginning of an answer's body says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerHead {
    pub(crate) outcome: Outcome,
    /// Version 3, where the bytes were seen.
    pub(crate) echo: Option<Echo>,
    /// Length of the whole body.
    pub(crate) body_bytes: u32,
}

/// The body is no answer of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAnAnswer;

impl AnswerHead {
    /// Reads what is there of an answer's beginning; a gap may have cut it short.
    pub(crate) fn parse(version: Protocol, body: &[u8], body_bytes: u32) -> Result<Self, NotAnAnswer> {
        let mut input = body;
        let Some(tag) = take_u8(&mut input) else {
            return Ok(Self { outcome: Outcome::Unread, echo: None, body_bytes });
        };
        if !layout::is_answer(version, tag, body_bytes) {
            return Err(NotAnAnswer);
        }
        let outcome = match layout::kind_of_answer_tag(tag) {
            Some(kind) => Outcome::Ok(kind),
            None if tag == TAG_ERROR => Outcome::Error,
            None => Outcome::Test,
        };
        let echo = if version == Protocol::V3 { parse_echo(outcome, &mut input) } else { None };
        Ok(Self { outcome, echo, body_bytes })
    }
}

fn parse_echo(outcome: Outcome, input: &mut &[u8]) -> Option<Echo> {
    let (reqid, request_lsn, not_modified_since) = (take_u64(input)?, take_u64(input)?, take_u64(input)?);
    let target = match outcome {
        Outcome::Ok(kind) => Some(take_target(kind, input)?),
        Outcome::Error | Outcome::Test | Outcome::Unread => None,
    };
    Some(Echo { reqid, request_lsn: Lsn(request_lsn), not_modified_since: Lsn(not_modified_since), target })
}

/// An answer that has passed by, whole or with holes in its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) head: AnswerHead,
    /// First arrival of its first byte; `None` where only a late copy was seen.
    pub(crate) first_at: Option<Timestamp>,
    /// First arrival of its last byte; `None` where that fell into a gap, or only a late copy was seen.
    pub(crate) last_at: Option<Timestamp>,
    pub(crate) page: PageFacts,
}

impl Answer {
    /// Whether this can be the answer to a request for `kind`, as far as its tag tells.
    pub(crate) fn fits(&self, kind: Option<Kind>) -> bool {
        match (self.head.outcome, kind) {
            (Outcome::Ok(answered), Some(asked)) => answered == asked,
            (Outcome::Ok(_), None) | (Outcome::Test, Some(_)) => false,
            (Outcome::Error | Outcome::Unread, _) | (Outcome::Test, None) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::RelTag;

    fn v3_page_head() -> Vec<u8> {
        let mut body = vec![102];
        body.extend(9u64.to_be_bytes());
        body.extend(u64::MAX.to_be_bytes());
        body.extend(5u64.to_be_bytes());
        for number in [1663u32, 16384, 16402] {
            body.extend(number.to_be_bytes());
        }
        body.push(0);
        body.extend(7u32.to_be_bytes());
        body
    }

    #[test]
    fn a_version_3_answer_names_its_request() {
        let head = AnswerHead::parse(Protocol::V3, &v3_page_head(), 8234).unwrap();
        let rel = RelTag { spcnode: 1663, dbnode: 16384, relnode: 16402, forknum: 0 };
        let target = Target::GetPage { rel, blkno: 7 };
        let request = Request { reqid: Some(9), request_lsn: Lsn::MAX, not_modified_since: Lsn(5), target };
        assert!(head.echo.unwrap().is_of(&request));
        assert!(!head.echo.unwrap().is_of(&Request { reqid: Some(8), ..request }));
        assert!(!head.echo.unwrap().is_of(&Request { target: Target::GetPage { rel, blkno: 8 }, ..request }));
    }

    #[test]
    fn a_cut_head_keeps_its_kind_and_loses_its_echo() {
        let body = v3_page_head();
        let head = AnswerHead::parse(Protocol::V3, &body[..41], 8234).unwrap();
        assert_eq!((head.outcome, head.echo), (Outcome::Ok(Kind::GetPage), None));
        let nothing = AnswerHead::parse(Protocol::V3, &[], 8234).unwrap();
        assert_eq!(nothing.outcome, Outcome::Unread);
        assert_eq!(AnswerHead::parse(Protocol::V3, &body, 8235), Err(NotAnAnswer));
    }
}
