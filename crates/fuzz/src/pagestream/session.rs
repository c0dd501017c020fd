//! What a compute and a page service say to each other, and what was meant.

use record::{Lsn, Protocol, RelTag, Target, TenantId, TenantTimeline, TimelineId};

use crate::possible::{answer_tag, request_tag, target_bytes};

/// Whose pages.
pub const OWNER: TenantTimeline = TenantTimeline { tenant: TenantId([0x3a; 16]), timeline: TimelineId([0x11; 16]) };

/// The backend, as the start-up and, in version 3, the request ids tell.
pub const BACKEND_PID: u32 = 20_001;

const PAGE_BYTES: usize = 8192;

/// A request.
#[derive(Debug)]
pub struct Asked {
    /// What it asks for.
    pub target: Target,
    /// At which version.
    pub request_lsn: Lsn,
    /// See [`record::Record::not_modified_since`].
    pub not_modified_since: Lsn,
    /// Version 3 only.
    pub reqid: Option<u64>,
    /// Offset behind its last byte in the client's stream.
    pub end: usize,
    /// Its answer, once there is one.
    pub answer: Option<Answered>,
}

/// An answer.
#[derive(Debug)]
pub struct Answered {
    /// Offset of its `d` in the server's stream.
    pub start: usize,
    /// Offset behind its last byte.
    pub end: usize,
    /// Whether it is what was asked for.
    pub is_ok: bool,
    /// The page in it.
    pub page: Option<PageTruth>,
}

/// What is to be known of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTruth {
    /// `pd_lsn`.
    pub lsn: Lsn,
    /// Whether all of it is zero.
    pub is_zero: bool,
    /// xxh3-64, seed 0.
    pub hash: u64,
}

/// Both directions' bytes, as far as they have been said.
#[derive(Debug)]
pub struct Session {
    /// The protocol's version.
    pub version: Protocol,
    /// What the client says.
    pub client: Vec<u8>,
    /// What the server says.
    pub server: Vec<u8>,
    /// Every request.
    pub asked: Vec<Asked>,
    /// How many of them are answered.
    pub answered: usize,
    lsn: u64,
}

impl Session {
    /// A session of which nothing has been said.
    pub fn new(version: Protocol) -> Self {
        Self { version, client: Vec::new(), server: Vec::new(), asked: Vec::new(), answered: 0, lsn: 0x0100_0000 }
    }

    /// The client's start-up message.
    pub fn start_up(&mut self) {
        let mut body = b"\0\x03\0\0user\0cloud_admin\0application_name\0".to_vec();
        body.extend(BACKEND_PID.to_string().into_bytes());
        body.extend(b"\0\0");
        self.client.extend((body.len() as u32 + 4).to_be_bytes());
        self.client.extend(body);
    }

    /// The server's answer to it.
    pub fn greet(&mut self) {
        message(&mut self.server, b'R', &[0; 4]);
        message(&mut self.server, b'Z', b"I");
    }

    /// The client asks for a pagestream.
    pub fn command(&mut self) {
        let name = ["pagestream", "pagestream_v2", "pagestream_v3"][usize::from(self.version.number()) - 1];
        let text = format!("{name} {} {}\0", OWNER.tenant, OWNER.timeline);
        message(&mut self.client, b'Q', text.as_bytes());
    }

    /// The server grants it.
    pub fn grant(&mut self) {
        message(&mut self.server, b'W', &[0; 3]);
    }

    /// One more request. Of `choice`, the bits say: 0 to 2 the kind, 3 and 4 the page, 5 that the LSN is the last one's, 6 that
    /// a version is asked for instead of the latest, 7 that the id is the last one's.
    pub fn ask(&mut self, choice: u8) {
        let number = u32::from(choice >> 3 & 3);
        let rel = RelTag { spcnode: 1663, dbnode: 16384, relnode: 16400 + number % 2, forknum: 0 };
        let target = match choice & 7 {
            0..=3 => Target::GetPage { rel, blkno: number },
            4 => Target::Exists { rel },
            5 => Target::Nblocks { rel },
            6 => Target::DbSize { dbnode: 16384 + number },
            _ => Target::Slru { kind: number as u8 % 3, segno: number },
        };
        self.lsn += if choice & 0x20 != 0 { 0 } else { 8 };
        let not_modified_since = Lsn(self.lsn);
        let request_lsn = match (choice & 0x40 != 0, self.version) {
            (false, _) => Lsn::MAX,
            (true, Protocol::V1) => not_modified_since,
            (true, _) => Lsn(self.lsn + 0x1000 + self.asked.len() as u64),
        };
        let last = self.asked.last().and_then(|asked| asked.reqid);
        let repeats = choice & 0x80 != 0;
        let reqid = (self.version == Protocol::V3)
            .then(|| last.filter(|_| repeats).unwrap_or(u64::from(BACKEND_PID) << 32 | (self.asked.len() as u64 + 1)));
        let mut body = vec![request_tag(&target)];
        match self.version {
            Protocol::V1 => body.push(u8::from(request_lsn == Lsn::MAX)),
            Protocol::V2 => body.extend(request_lsn.0.to_be_bytes()),
            Protocol::V3 => {
                body.extend(reqid.unwrap_or_default().to_be_bytes());
                body.extend(request_lsn.0.to_be_bytes());
            }
        }
        body.extend(not_modified_since.0.to_be_bytes());
        body.extend(target_bytes(&target));
        message(&mut self.client, b'd', &body);
        let end = self.client.len();
        self.asked.push(Asked { target, request_lsn, not_modified_since, reqid, end, answer: None });
    }

    /// The answer to the earliest request that has none. Of `choice`, the bits say: 0 and 1 (both set) an error, 2 to 4
    /// what the page is like, 5 the number of pages in an SLRU segment.
    pub fn answer(&mut self, choice: u8) {
        let Some(asked) = self.asked.get(self.answered) else { return };
        let is_ok = choice & 3 != 3;
        let mut body = vec![if is_ok { answer_tag(&asked.target) } else { 103 }];
        if let Some(reqid) = asked.reqid {
            body.extend(reqid.to_be_bytes());
            body.extend(asked.request_lsn.0.to_be_bytes());
            body.extend(asked.not_modified_since.0.to_be_bytes());
            if is_ok {
                body.extend(target_bytes(&asked.target));
            }
        }
        let mut page = None;
        match asked.target {
            _ if !is_ok => body.extend(b"could not read block\0"),
            Target::GetPage { .. } => {
                let bytes = self.page(choice >> 2 & 7);
                page = Some(page_truth(&bytes));
                body.extend(bytes);
            }
            Target::Exists { .. } => body.push(1),
            Target::Nblocks { .. } => body.extend(7_u32.to_be_bytes()),
            Target::DbSize { .. } => body.extend(81_920_u64.to_be_bytes()),
            Target::Slru { .. } => {
                let pages = usize::from(choice >> 5 & 1);
                body.extend((pages as u32).to_be_bytes());
                body.extend(std::iter::repeat_n(0x55, pages * PAGE_BYTES));
            }
        }
        let start = self.server.len();
        message(&mut self.server, b'd', &body);
        let end = self.server.len();
        if let Some(asked) = self.asked.get_mut(self.answered) {
            asked.answer = Some(Answered { start, end, is_ok, page });
        }
        self.answered += 1;
    }

    /// A page. Customers decide what is in it, answers that nobody gave included.
    fn page(&self, choice: u8) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        match choice {
            0 => return page,
            1 => page[PAGE_BYTES - 1] = 1,
            2 => fill(&mut page, &answer_alike(101, &7_u32.to_be_bytes())),
            3 => fill(&mut page, &answer_alike(102, &[])),
            4 => fill(&mut page, &self.echo_alike()),
            _ => page.iter_mut().zip(0_u32..).for_each(|(byte, at)| *byte = (at.wrapping_mul(0x9e37_79b1) >> 23) as u8),
        }
        let lsn = self.lsn - u64::from(choice);
        page[..4].copy_from_slice(&((lsn >> 32) as u32).to_le_bytes());
        page[4..8].copy_from_slice(&(lsn as u32).to_le_bytes());
        page
    }

    /// A version 3 answer to something that nobody asked.
    fn echo_alike(&self) -> Vec<u8> {
        let mut body = (u64::from(BACKEND_PID) << 32 | 0xffff).to_be_bytes().to_vec();
        body.extend(u64::MAX.to_be_bytes());
        body.extend(self.lsn.to_be_bytes());
        body.extend(target_bytes(&Target::DbSize { dbnode: 16384 }));
        body.extend(5_u64.to_be_bytes());
        answer_alike(104, &body)
    }
}

fn answer_alike(tag: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(&mut bytes, b'd', &[&[tag], rest].concat());
    bytes
}

fn fill(page: &mut [u8], pattern: &[u8]) {
    page.iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, other)| *byte = *other);
}

fn page_truth(page: &[u8]) -> PageTruth {
    let word = |at: usize| u64::from(u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]));
    PageTruth {
        lsn: Lsn(word(0) << 32 | word(4)),
        is_zero: page.iter().all(|&byte| byte == 0),
        hash: xxhash_rust::xxh3::xxh3_64(page),
    }
}

fn message(stream: &mut Vec<u8>, tag: u8, body: &[u8]) {
    stream.push(tag);
    stream.extend((body.len() as u32 + 4).to_be_bytes());
    stream.extend_from_slice(body);
}
