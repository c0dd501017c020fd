//! The TCP header (RFC 9293) and the options that matter here.

use super::ip::Datagram;
use super::{Segment, Skip, TcpFlags, TcpTimestamps, WireEnd};

/// The header without options.
const HEADER_LEN: usize = 20;

/// Reads the TCP header at the start of the datagram's body.
#[inline(always)]
pub(super) fn segment<'a>(datagram: &Datagram<'a>) -> Result<Segment<'a>, Skip> {
    let (header, rest) = datagram.body.header::<HEADER_LEN>()?;
    let header_len = usize::from(header[12] >> 4) << 2;
    let Some(options_len) = header_len.checked_sub(HEADER_LEN) else { return Err(Skip::Malformed) };
    let Some(payload_len) = rest.wire_len().checked_sub(options_len) else { return Err(Skip::Malformed) };
    // A cut inside the options leaves a segment of known length, none of which was captured.
    let (options, payload) = rest.captured().split_at_checked(options_len).unwrap_or((rest.captured(), &[]));
    let options = Options::read(options);
    let addresses = &datagram.addresses;
    Ok(Segment {
        source: WireEnd { addr: addresses.source(), port: u16::from_be_bytes([header[0], header[1]]) },
        destination: WireEnd { addr: addresses.destination(), port: u16::from_be_bytes([header[2], header[3]]) },
        seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        flags: TcpFlags(header[13]),
        window: u16::from_be_bytes([header[14], header[15]]),
        timestamps: options.timestamps,
        sacks: options.sacks,
        ip_id: datagram.ip_id,
        payload,
        // A packet's length is a u32, so is that of a part of it.
        payload_len: u32::try_from(payload_len).map_err(|_| Skip::Malformed)?,
    })
}

/// What is taken from the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Options {
    timestamps: Option<TcpTimestamps>,
    sacks: bool,
}

impl Options {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const SACK: u8 = 5;
    const TIMESTAMPS: u8 = 8;
    /// Kind, length and one block of two sequence numbers (RFC 2018, section 3).
    const MIN_SACK_LEN: usize = 10;

    /// Reads as far as the options make sense; a kernel keeps the segment too where they stop doing so.
    #[inline]
    fn read(options: &[u8]) -> Self {
        match options {
            [] => Self::default(),
            // What every common system sends with data (RFC 7323, appendix A).
            [Self::NOP, Self::NOP, Self::TIMESTAMPS, 10, v0, v1, v2, v3, e0, e1, e2, e3] => {
                let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
                let echo = u32::from_be_bytes([*e0, *e1, *e2, *e3]);
                Self { timestamps: Some(TcpTimestamps { value, echo }), sacks: false }
            }
            other => Self::walk(other),
        }
    }

    fn walk(options: &[u8]) -> Self {
        let mut found = Self::default();
        let mut rest = options;
        loop {
            rest = match rest {
                [] | [Self::END, ..] => return found,
                [Self::NOP, after @ ..] => after,
                [kind, len, ..] => {
                    let Some((option, after)) = rest.split_at_checked(usize::from(*len)) else { return found };
                    match (*kind, option) {
                        (_, [] | [_]) => return found,
                        (Self::TIMESTAMPS, [_, _, v0, v1, v2, v3, e0, e1, e2, e3]) => {
                            let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
                            let echo = u32::from_be_bytes([*e0, *e1, *e2, *e3]);
                            // Twice is once too often; a cut packet shows the first.
                            found.timestamps.get_or_insert(TcpTimestamps { value, echo });
                        }
                        (Self::SACK, option) if option.len() >= Self::MIN_SACK_LEN => found.sacks = true,
                        _ => {}
                    }
                    after
                }
                [_] => return found,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamps(value: u32, echo: u32) -> Option<TcpTimestamps> {
        Some(TcpTimestamps { value, echo })
    }

    #[test]
    fn timestamps_are_found_wherever_they_stand() {
        let aligned = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
        assert_eq!(Options::read(&aligned), Options { timestamps: timestamps(7, 9), sacks: false });
        let of_a_syn = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0, 1, 3, 3, 7];
        assert_eq!(Options::read(&of_a_syn), Options { timestamps: timestamps(256, 0), sacks: false });
        let at_the_end = [8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0];
        assert_eq!(Options::read(&at_the_end).timestamps, timestamps(7, 9));
    }

    #[test]
    fn a_sack_option_needs_a_block() {
        let with_block = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(Options::read(&with_block), Options { timestamps: timestamps(7, 9), sacks: true });
        assert!(!Options::read(&[5, 2, 0, 0]).sacks);
        assert!(!Options::read(&[1, 1, 4, 2]).sacks, "permission to use SACK is no SACK");
    }

    #[test]
    fn nothing_is_read_behind_the_end_or_behind_nonsense() {
        let after_the_end = [0, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 0];
        assert_eq!(Options::read(&after_the_end), Options::default());
        for nonsense in [[254, 0], [254, 1], [254, 200]] {
            let mut options = nonsense.to_vec();
            options.extend([8, 10, 0, 0, 0, 7, 0, 0, 0, 9]);
            assert_eq!(Options::read(&options), Options::default(), "{nonsense:?}");
        }
        let wrong_length = [8, 9, 0, 0, 0, 7, 0, 0, 0, 1, 1, 0];
        assert_eq!(Options::read(&wrong_length), Options::default());
    }

    #[test]
    fn options_cut_anywhere_give_only_what_is_complete() {
        let options = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        for len in 0..=options.len() {
            let read = Options::read(&options[..len]);
            assert_eq!(read.timestamps.is_some(), len >= 12, "{len}");
            assert_eq!(read.sacks, len >= 24, "{len}");
        }
    }
}
