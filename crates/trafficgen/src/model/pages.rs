//! What the page service answers: a pure function of the question, so that nothing has to be stored.

use record::{Key, Lsn, Target};

use super::asker::Request;
use super::tenant::RELATION_BLOCKS;
use crate::rng::{scatter, unit};

/// Bytes of a page, `BLCKSZ` in Postgres.
pub const PAGE_BYTES: usize = 8192;

/// Each page changes once in so many bytes of write-ahead log, at a phase of its own.
const VERSION_BYTES: u64 = 16 << 20;

/// An answer, before it is encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A page as of its `pd_lsn`; `Lsn(0)` is the all-zero page past a relation's end.
    Page {
        /// Which.
        key: Key,
        /// The page's last change.
        page_lsn: Lsn,
    },
    /// Whether the relation exists.
    Exists(bool),
    /// Blocks of the relation.
    Nblocks(u32),
    /// Bytes of the database.
    DbSize(i64),
    /// A segment of so many pages.
    Slru {
        /// What its bytes are made of.
        seed: u64,
        /// 8 KiB pages.
        blocks: u32,
    },
    /// Tag 103: the message.
    Error(String),
}

/// The answer to a request, an error in `error_rate` of the cases.
pub fn answer(request: &Request, error_rate: f64) -> Answer {
    if unit(scatter(fingerprint(request) ^ 0xE44)) < error_rate {
        return Answer::Error(error_message(request));
    }
    match request.target {
        Target::GetPage { rel, blkno } => {
            let key = Key { rel, blkno };
            let past_end = blkno >= RELATION_BLOCKS;
            let page_lsn = if past_end { Lsn(0) } else { page_lsn_at(key, request.not_modified_since) };
            Answer::Page { key, page_lsn }
        }
        Target::Exists { rel } => Answer::Exists(rel.relnode % 4 != 3),
        Target::Nblocks { .. } => Answer::Nblocks(RELATION_BLOCKS),
        Target::DbSize { dbnode } => Answer::DbSize(i64::from(dbnode % 97 + 3) << 23),
        Target::Slru { kind, segno } => {
            Answer::Slru { seed: u64::from(kind) << 32 | u64::from(segno), blocks: 1 + segno % 4 }
        }
    }
}

/// The message that Neon gives for a version that is gone already.
fn error_message(request: &Request) -> String {
    let cutoff = Lsn(request.not_modified_since.0.saturating_add(0x100));
    format!(
        "tried to request a page version that was garbage collected. requested at {} gc cutoff {cutoff}",
        request.not_modified_since
    )
}

/// A number for each request, the same on both ends of a connection.
fn fingerprint(request: &Request) -> u64 {
    let target = match request.target {
        Target::GetPage { rel, blkno } => u64::from(rel.relnode) << 32 | u64::from(blkno),
        Target::Exists { rel } | Target::Nblocks { rel } => u64::from(rel.relnode),
        Target::DbSize { dbnode } => u64::from(dbnode),
        Target::Slru { kind, segno } => u64::from(kind) << 32 | u64::from(segno),
    };
    scatter(target) ^ scatter(request.not_modified_since.0) ^ request.reqid
}

/// `pd_lsn` of a page at a position of the log: its last change at or before it, a multiple of 8.
pub fn page_lsn_at(key: Key, lsn: Lsn) -> Lsn {
    let name = u64::from(key.rel.relnode) << 32 | u64::from(key.blkno) ^ u64::from(key.rel.forknum) << 60;
    let phase = (scatter(name) % VERSION_BYTES) & !7;
    Lsn(lsn.0.saturating_sub(phase) / VERSION_BYTES * VERSION_BYTES + phase)
}

/// Writes a page: `pd_lsn` as two little-endian halves, the high one first, and bytes that depend on key and version.
pub fn fill_page(key: Key, page_lsn: Lsn, page: &mut Vec<u8>) {
    let start = page.len();
    if page_lsn == Lsn(0) {
        page.resize(start + PAGE_BYTES, 0);
        return;
    }
    page.extend_from_slice(&((page_lsn.0 >> 32) as u32).to_le_bytes());
    page.extend_from_slice(&(page_lsn.0 as u32).to_le_bytes());
    let seed = scatter(u64::from(key.rel.relnode) << 32 | u64::from(key.blkno)) ^ scatter(page_lsn.0);
    fill(seed, PAGE_BYTES - 8, page);
}

/// Writes bytes, a multiple of 8, that depend on the seed alone. A multiplicative step a word: made at memory speed.
pub(crate) fn fill(seed: u64, length: usize, bytes: &mut Vec<u8>) {
    let mut word = scatter(seed);
    let start = bytes.len();
    bytes.resize(start + length, 0);
    let (_, fresh) = bytes.split_at_mut(start);
    for chunk in fresh.chunks_exact_mut(8) {
        word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        chunk.copy_from_slice(&(word ^ word >> 32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::RelTag;

    const KEY: Key = Key { rel: RelTag { spcnode: 1663, dbnode: 5, relnode: 16_402, forknum: 0 }, blkno: 7 };

    #[test]
    fn a_page_carries_its_lsn_and_changes_with_it() {
        let at = |lsn| {
            let mut page = Vec::new();
            fill_page(KEY, page_lsn_at(KEY, Lsn(lsn)), &mut page);
            page
        };
        let page = at(0x1_6E00_0000);
        assert_eq!(page.len(), PAGE_BYTES);
        assert_eq!(page[..4], 1u32.to_le_bytes());
        let version = page_lsn_at(KEY, Lsn(0x1_6E00_0000));
        assert!(version <= Lsn(0x1_6E00_0000) && version.0.is_multiple_of(8));
        assert_eq!(page, at(version.0), "its last change is the same version");
        assert_ne!(page, at(version.0 + VERSION_BYTES));
    }

    #[test]
    fn the_zero_page_is_all_zeros() {
        let mut page = vec![1];
        fill_page(KEY, Lsn(0), &mut page);
        assert_eq!(page.len(), 1 + PAGE_BYTES);
        assert!(page[1..].iter().all(|&byte| byte == 0));
    }
}
