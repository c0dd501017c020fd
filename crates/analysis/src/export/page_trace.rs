//! GetPage as events of Neon's page trace.

use record::{Kind, Lsn, Record};

use crate::page_trace::{EVENT_BYTES, PageTraceEvent};

/// A GetPage as an event of Neon's page trace, which `pagectl page-trace` reads; `None` for other kinds, and for
/// tablespaces over 16 bits, which the format cannot hold.
///
/// A page trace has the LSN at which the pageserver executed the request. That is not on the wire: written is
/// `not_modified_since` where the latest version was asked for, else the LSN that was asked for. The time is the request's
/// arrival, where the pageserver notes the start of the batch's execution.
pub fn page_trace(record: &Record) -> Option<[u8; EVENT_BYTES]> {
    if record.target.kind() != Kind::GetPage {
        return None;
    }
    let effective_lsn = match record.request_lsn {
        Lsn::MAX => record.not_modified_since,
        concrete => concrete,
    };
    PageTraceEvent { time: record.time, key: record.target.key()?, effective_lsn }.encode()
}

#[cfg(test)]
mod tests {
    use record::{RelTag, Target, Timestamp};

    use super::*;
    use crate::render::samples;

    #[test]
    fn a_getpage_takes_the_bytes_that_neon_documents() {
        let rel = RelTag { spcnode: 1663, dbnode: 0x0403_0201, relnode: 0x0807_0605, forknum: 2 };
        let record = Record {
            time: Timestamp(1_700_000_000_123_456_789),
            target: Target::GetPage { rel, blkno: 0x0d0c_0b0a },
            not_modified_since: Lsn(0x1122_3344_5566_7788),
            ..samples::getpage()
        };
        let expected = [
            &[0x0a, 0x0b, 0x0c, 0x0d, 2][..],
            &[5, 6, 7, 8, 1, 2, 3, 4, 0x7f, 0x06, 0],
            &[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11],
            &1_700_000_000u64.to_le_bytes(),
            &123_456_789u32.to_le_bytes(),
        ];
        assert_eq!(page_trace(&record).unwrap().to_vec(), expected.concat());
        let at_an_lsn = Record { request_lsn: Lsn(77), ..record.clone() };
        assert_eq!(page_trace(&at_an_lsn).unwrap()[16..24], 77u64.to_le_bytes());
        let wide = Target::GetPage { rel: RelTag { spcnode: 0x1_0000, ..rel }, blkno: 0 };
        assert_eq!(page_trace(&Record { target: wide, ..record.clone() }), None);
        assert_eq!(page_trace(&Record { target: Target::Nblocks { rel }, ..record }), None);
    }
}
