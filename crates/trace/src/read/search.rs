//! Finding the next whole block behind damage.

use memchr::memmem::Finder;

use super::TraceReader;
use crate::error::TraceError;
use crate::format::BLOCK_MAGIC;
use crate::format::block::BlockHeader;

/// The file is searched in pieces of this size.
const WINDOW_BYTES: usize = 256 << 10;

/// What looks like a block is read and summed up to see whether it is one. A forged file may hold a false beginning every
/// few bytes, each naming megabytes; after so many times the file's length the rest is left unread.
const SEARCH_EFFORT: u64 = 4;
/// On top of that, so that small files are searched to their end: eight blocks of the largest size.
const SEARCH_FLOOR_BYTES: u64 = 64 << 20;

impl TraceReader {
    /// The first whole block that begins behind `from`, and no later than `reach` bytes behind it. It is left in the
    /// buffer.
    pub(super) fn search(&mut self, from: u64, reach: u64) -> Result<Option<(u64, BlockHeader)>, TraceError> {
        let finder = Finder::new(&BLOCK_MAGIC);
        let overlap = BLOCK_MAGIC.len().saturating_sub(1);
        let end = from.saturating_add(reach);
        let budget = self.len()?.saturating_mul(SEARCH_EFFORT).saturating_add(SEARCH_FLOOR_BYTES);
        let mut window = Vec::new();
        let mut window_start = from;
        loop {
            let available = self.read_at(window_start, WINDOW_BYTES, &mut window)?;
            if available < BLOCK_MAGIC.len() {
                return Ok(None);
            }
            for place in finder.find_iter(window.get(..available).unwrap_or_default()) {
                let offset = window_start.saturating_add(place as u64);
                if offset > end || self.search_spent_bytes > budget {
                    return Ok(None);
                }
                if let Some(header) = self.block_at(offset)? {
                    return Ok(Some((offset, header)));
                }
            }
            if available < WINDOW_BYTES {
                return Ok(None);
            }
            window_start = window_start.saturating_add(WINDOW_BYTES.saturating_sub(overlap) as u64);
            if window_start > end {
                return Ok(None);
            }
        }
    }
}
