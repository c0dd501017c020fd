//! Neon's page traces: what the pageserver's `page_trace` endpoint sends, 36 bytes a GetPage, without a header.
//!
//! | offset | field, little-endian |
//! |---|---|
//! | 0 | key in its compact form, 16 bytes: blkno u32, forknum u8, relnode u32, dbnode u32, spcnode u16, 0 |
//! | 16 | effective LSN, u64 |
//! | 24 | seconds since 1970, u64 |
//! | 32 | nanoseconds, u32 |

use std::net::{Ipv4Addr, SocketAddr};

use record::{Key, Lsn, Pairing, Protocol, Record, Status, Target, Timestamp};

/// Bytes of an event.
pub const EVENT_BYTES: usize = 36;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// One GetPage as the pageserver saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageTraceEvent {
    /// When the execution of its batch began.
    pub time: Timestamp,
    /// Which page.
    pub key: Key,
    /// The LSN at which it was executed.
    pub effective_lsn: Lsn,
}

/// The bytes are not those of a page trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageTraceError {
    /// The length, in bytes, is no multiple of [`EVENT_BYTES`].
    Length(u64),
    /// The event at that place, from 0, has a key that is no relation block's, or a time that is none.
    Event(u64),
}

impl std::fmt::Display for PageTraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length(bytes) => write!(f, "its {bytes} bytes are no whole number of events of {EVENT_BYTES} bytes"),
            Self::Event(place) => write!(f, "what stands at event {place} is no GetPage of a relation at a time"),
        }
    }
}

impl std::error::Error for PageTraceError {}

impl PageTraceEvent {
    /// Reads all events of a page trace, in the order of the file, which is not that of time.
    ///
    /// # Errors
    ///
    /// The bytes are something else.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, PageTraceError> {
        let (events, rest) = bytes.as_chunks::<EVENT_BYTES>();
        if !rest.is_empty() || events.is_empty() {
            return Err(PageTraceError::Length(bytes.len() as u64));
        }
        let event = |(place, event)| Self::decode(event).ok_or(PageTraceError::Event(place as u64));
        events.iter().enumerate().map(event).collect()
    }

    fn decode(bytes: &[u8; EVENT_BYTES]) -> Option<Self> {
        let (compact, rest) = bytes.split_first_chunk()?;
        let (lsn, rest) = rest.split_first_chunk()?;
        let (seconds, nanoseconds) = rest.split_first_chunk()?;
        let nanoseconds = u64::from(u32::from_le_bytes(nanoseconds.try_into().ok()?));
        if nanoseconds >= NS_PER_SECOND {
            return None;
        }
        let time = u64::from_le_bytes(*seconds).checked_mul(NS_PER_SECOND)?.checked_add(nanoseconds)?;
        Some(Self {
            time: Timestamp(time),
            key: Key::from_compact(u128::from_le_bytes(*compact))?,
            effective_lsn: Lsn(u64::from_le_bytes(*lsn)),
        })
    }

    /// The event's bytes, or `None` where its tablespace does not fit 16 bits.
    pub fn encode(&self) -> Option<[u8; EVENT_BYTES]> {
        let compact = self.key.to_compact()?.to_le_bytes();
        let seconds = self.time.0 / NS_PER_SECOND;
        let nanoseconds = (self.time.0 % NS_PER_SECOND) as u32;
        let fields = compact
            .into_iter()
            .chain(self.effective_lsn.0.to_le_bytes())
            .chain(seconds.to_le_bytes())
            .chain(nanoseconds.to_le_bytes());
        let mut bytes = [0; EVENT_BYTES];
        for (byte, field) in bytes.iter_mut().zip(fields) {
            *byte = field;
        }
        Some(bytes)
    }

    /// The event as a record. What a page trace does not tell is null, its two ends are the unspecified address, and which
    /// answer was its own is not known.
    pub fn to_record(&self) -> Record {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Record {
            time: self.time,
            latency_ns: None,
            transfer_ns: None,
            depth: None,
            owner: None,
            attribution: None,
            target: Target::GetPage { rel: self.key.rel, blkno: self.key.blkno },
            request_lsn: self.effective_lsn,
            not_modified_since: self.effective_lsn,
            status: Status::Unknown,
            page_lsn: None,
            page_zero: None,
            page_hash: None,
            client: nowhere,
            server: nowhere,
            protocol: Protocol::V3,
            reqid: None,
            backend_pid: None,
            seq: None,
            epoch: None,
            pairing: Pairing::Suspect,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use record::RelTag;

    use super::*;

    proptest! {
        #[test]
        fn an_event_is_read_as_it_is_written(
            time: u64, spcnode: u16, dbnode: u32, relnode: u32, forknum: u8, blkno: u32, lsn: u64,
        ) {
            let rel = RelTag { spcnode: spcnode.into(), dbnode, relnode, forknum };
            let event = PageTraceEvent { time: Timestamp(time), key: Key { rel, blkno }, effective_lsn: Lsn(lsn) };
            let bytes = [event.encode().unwrap(), event.encode().unwrap()].concat();
            prop_assert_eq!(PageTraceEvent::decode_all(&bytes), Ok(vec![event, event]));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PageTraceEvent::decode_all(&bytes);
        }
    }

    #[test]
    fn what_is_no_page_trace_is_refused_with_its_place() {
        let rel = RelTag { spcnode: 1663, dbnode: 5, relnode: 7, forknum: 0 };
        let event = PageTraceEvent { time: Timestamp(5), key: Key { rel, blkno: 1 }, effective_lsn: Lsn(9) };
        let good = event.encode().unwrap();
        let with = |at: usize, value: u8| {
            let mut bad = good;
            bad[at] = value;
            PageTraceEvent::decode_all(&[good, bad].concat())
        };
        assert_eq!(with(15, 1), Err(PageTraceError::Event(1)));
        assert_eq!(with(35, 0xff), Err(PageTraceError::Event(1)), "more than a second of nanoseconds");
        assert_eq!(with(31, 0xff), Err(PageTraceError::Event(1)), "a time that does not fit");
        assert_eq!(PageTraceEvent::decode_all(&good[1..]), Err(PageTraceError::Length(35)));
        assert_eq!(PageTraceEvent::decode_all(&[]), Err(PageTraceError::Length(0)));
    }
}
