//! What is kept of a page: its LSN, whether it is all zero, a hash. Page bytes are customer data and are never stored.

use record::Lsn;
use xxhash_rust::xxh3::Xxh3;

use super::layout::PAGE_BYTES;

/// Bytes of `pd_lsn` at the beginning of a page.
const PD_LSN_BYTES: u64 = 8;

/// What is known of a page that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageFacts {
    pub(crate) lsn: Option<Lsn>,
    pub(crate) zero: Option<bool>,
    pub(crate) hash: Option<u64>,
}

/// Watches one page pass by.
#[derive(Default)]
pub(crate) struct PageWatch {
    facts: PageFacts,
    /// Where the page lies in the stream; empty where no page is being watched.
    start: u64,
    end: u64,
    /// Bytes of it that were seen, all from its beginning unless there was a hole.
    seen_bytes: u64,
    /// The first eight bytes, while they come in pieces.
    pd_lsn: [u8; PD_LSN_BYTES as usize],
    hasher: Option<Box<Xxh3>>,
}

impl std::fmt::Debug for PageWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageWatch").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl PageWatch {
    /// A watch that hashes the pages where `hashes` says so.
    pub(crate) fn new(hashes: bool) -> Self {
        Self { hasher: hashes.then(|| Box::new(Xxh3::new())), ..Self::default() }
    }

    /// A page begins at this stream offset.
    pub(crate) fn begin(&mut self, start: u64) {
        self.facts = PageFacts::default();
        (self.start, self.end, self.seen_bytes) = (start, start.saturating_add(u64::from(PAGE_BYTES)), 0);
        if let Some(hasher) = &mut self.hasher {
            hasher.reset();
        }
    }

    /// Bytes of the stream from `at` on; what is not the page's is passed over.
    pub(crate) fn bytes(&mut self, at: u64, bytes: &[u8]) {
        if self.hasher.is_none() && self.is_settled() {
            return;
        }
        let skip = self.start.saturating_sub(at) as usize;
        let keep = self.end.saturating_sub(at).min(bytes.len() as u64) as usize;
        let Some(part) = bytes.get(skip..keep).filter(|part| !part.is_empty()) else { return };
        let in_page = at.saturating_add(skip as u64).saturating_sub(self.start);
        self.note_lsn(in_page, part);
        if self.facts.zero.is_none() && part.iter().any(|&byte| byte != 0) {
            self.facts.zero = Some(false);
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(part);
        }
        self.seen_bytes = self.seen_bytes.saturating_add(part.len() as u64);
    }

    /// The page has passed; what was found out about it.
    pub(crate) fn finish(&mut self) -> PageFacts {
        let mut facts = self.facts;
        if self.end > self.start && self.seen_bytes == u64::from(PAGE_BYTES) {
            facts.zero = facts.zero.or(Some(true));
            facts.hash = self.hasher.as_ref().map(|hasher| hasher.digest());
        }
        (self.start, self.end) = (0, 0);
        facts
    }

    /// Whether more bytes of this page tell nothing new.
    fn is_settled(&self) -> bool {
        self.facts.zero.is_some() && self.facts.lsn.is_some()
    }

    /// Collects `pd_lsn`: two u32 in the server's byte order, which is little-endian on every platform of Neon's, high
    /// half first (`PageXLogRecPtr` in Postgres).
    fn note_lsn(&mut self, in_page: u64, part: &[u8]) {
        if in_page >= PD_LSN_BYTES || in_page != self.seen_bytes {
            return;
        }
        for (place, byte) in self.pd_lsn.iter_mut().skip(in_page as usize).zip(part) {
            *place = *byte;
        }
        if in_page.saturating_add(part.len() as u64) >= PD_LSN_BYTES {
            let [h0, h1, h2, h3, l0, l1, l2, l3] = self.pd_lsn;
            let (high, low) = (u32::from_le_bytes([h0, h1, h2, h3]), u32::from_le_bytes([l0, l1, l2, l3]));
            self.facts.lsn = Some(Lsn(u64::from(high) << 32 | u64::from(low)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page() -> Vec<u8> {
        let mut page: Vec<u8> = (0..8192u32).map(|n| ((n * 31) >> 3) as u8).collect();
        page[..8].copy_from_slice(&[1, 0, 0, 0, 0x30, 0x3F, 0xFF, 0x6E]);
        page
    }

    #[test]
    fn a_zero_page_is_known_only_when_all_of_it_was_seen() {
        let mut watch = PageWatch::new(true);
        watch.begin(100);
        watch.bytes(90, &[7; 10]);
        watch.bytes(100, &[0; 8192]);
        let facts = watch.finish();
        assert_eq!((facts.lsn, facts.zero), (Some(Lsn(0)), Some(true)));
        watch.begin(100);
        watch.bytes(100, &[0; 8191]);
        assert_eq!(watch.finish(), PageFacts { lsn: Some(Lsn(0)), zero: None, hash: None });
    }

    proptest! {
        #[test]
        fn pieces_tell_the_same_as_the_whole(mut cuts in proptest::collection::vec(0usize..8300, 0..6)) {
            let mut stream = vec![0xAA; 50];
            stream.extend(page());
            stream.extend([0xBB; 60]);
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let mut watch = PageWatch::new(true);
            watch.begin(1050);
            for pair in cuts.windows(2) {
                watch.bytes(1000 + pair[0] as u64, &stream[pair[0]..pair[1]]);
            }
            let hash = xxhash_rust::xxh3::xxh3_64(&page());
            prop_assert_eq!(watch.finish(), PageFacts { lsn: Some(Lsn(0x1_6EFF_3F30)), zero: Some(false), hash: Some(hash) });
        }
    }
}
