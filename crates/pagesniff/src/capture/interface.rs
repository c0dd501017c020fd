//! A pcapng interface: its link type, the unit of its time stamps, what it dropped.

use decode::LinkType;
use record::Timestamp;

use super::bytes::ByteOrder;

/// Option codes of the Interface Description Block (draft-ietf-opsawg-pcapng, section 4.2).
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
/// Option codes of the Interface Statistics Block (section 4.6).
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;
/// Option code of the Enhanced Packet Block (section 4.3).
const EPB_DROPCOUNT: u16 = 4;

/// What one Interface Description Block said, and what is counted for it.
#[derive(Debug)]
pub(super) struct Interface {
    /// Its link type as the file has it.
    pub(super) link_number: u16,
    /// The same, if it is one that pagesniff reads.
    pub(super) link: Option<LinkType>,
    unit: Unit,
    offset_seconds: i64,
    interface_dropped: u64,
    kernel_dropped: u64,
    dropped_by_packets: u64,
}

/// How ticks become nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Times this many: 10⁰ to 10⁻⁹ s.
    Multiply(u64),
    /// Over this many: finer powers of ten.
    Divide(u128),
    /// A second is 2 to this power: powers of two.
    Shift(u32),
}

impl Unit {
    /// The option's byte: the highest bit chooses the base, 2 or 10, the rest is the negative exponent.
    fn from_option(value: u8) -> Self {
        let exponent = u32::from(value & 0x7f);
        if value & 0x80 != 0 {
            return Self::Shift(exponent);
        }
        match 9_u32.checked_sub(exponent) {
            Some(up) => Self::Multiply(10_u64.saturating_pow(up)),
            // From 10⁻²⁹ on, no 64-bit count of ticks makes a nanosecond; a saturated divisor says just that.
            None => Self::Divide(10_u128.saturating_pow(exponent.saturating_sub(9))),
        }
    }

    fn nanoseconds(self, ticks: u64) -> u128 {
        let ticks = u128::from(ticks);
        match self {
            Self::Multiply(factor) => ticks.saturating_mul(u128::from(factor)),
            Self::Divide(divisor) => ticks.checked_div(divisor).unwrap_or(0),
            // 64 bits of ticks times 30 bits of nanoseconds: fits. The exponent is at most 127.
            Self::Shift(exponent) => ticks.saturating_mul(1_000_000_000).checked_shr(exponent).unwrap_or(0),
        }
    }
}

impl Interface {
    /// From the block's body (behind type and length, before the closing length); `None` where it is too short.
    pub(super) fn parse(body: &[u8], order: ByteOrder) -> Option<Self> {
        let link_number = order.u16(body, 0)?;
        let mut interface = Self {
            link_number,
            link: LinkType::from_number(u32::from(link_number)),
            // Without the option, microseconds.
            unit: Unit::Multiply(1_000),
            offset_seconds: 0,
            interface_dropped: 0,
            kernel_dropped: 0,
            dropped_by_packets: 0,
        };
        for (code, value) in Options::new(body.get(8..)?, order) {
            match (code, value) {
                (IF_TSRESOL, [resolution, ..]) => interface.unit = Unit::from_option(*resolution),
                (IF_TSOFFSET, value) => {
                    interface.offset_seconds = order.u64(value, 0).map_or(0, u64::cast_signed);
                }
                _ => {}
            }
        }
        Some(interface)
    }

    /// The moment of `ticks`, and whether it lies within what can be represented; else it is the nearest end.
    #[inline]
    pub(super) fn time(&self, ticks: u64) -> (Timestamp, bool) {
        if let (Unit::Multiply(factor), 0) = (self.unit, self.offset_seconds)
            && let Some(ns) = ticks.checked_mul(factor)
        {
            return (Timestamp(ns), true);
        }
        let ns = i128::try_from(self.unit.nanoseconds(ticks)).unwrap_or(i128::MAX);
        let moved = ns.saturating_add(i128::from(self.offset_seconds).saturating_mul(1_000_000_000));
        match u64::try_from(moved) {
            Ok(ns) => (Timestamp(ns), true),
            Err(_) => (Timestamp(if moved < 0 { 0 } else { u64::MAX }), false),
        }
    }

    /// Takes in the options of an Interface Statistics Block. The counters run since the start of the capture: the last ones hold.
    pub(super) fn take_statistics(&mut self, options: &[u8], order: ByteOrder) {
        for (code, value) in Options::new(options, order) {
            let Some(count) = order.u64(value, 0) else { continue };
            match code {
                ISB_IFDROP => self.interface_dropped = self.interface_dropped.max(count),
                ISB_OSDROP => self.kernel_dropped = self.kernel_dropped.max(count),
                _ => {}
            }
        }
    }

    /// Takes in the options of an Enhanced Packet Block: how many packets were lost just before it.
    pub(super) fn take_packet_options(&mut self, options: &[u8], order: ByteOrder) {
        for (code, value) in Options::new(options, order) {
            if code == EPB_DROPCOUNT {
                self.add_dropped(order.u64(value, 0).unwrap_or(0));
            }
        }
    }

    /// `count` packets were lost just before one that has come.
    pub(super) fn add_dropped(&mut self, count: u64) {
        self.dropped_by_packets = self.dropped_by_packets.saturating_add(count);
    }

    /// Packets that the interface dropped.
    pub(super) fn interface_dropped(&self) -> u64 {
        self.interface_dropped
    }

    /// Packets that the kernel dropped. What the packets say about losses does not say by whom, and the statistics cover
    /// the same losses: so the larger of the two counts.
    pub(super) fn kernel_dropped(&self) -> u64 {
        self.kernel_dropped.max(self.dropped_by_packets.saturating_sub(self.interface_dropped))
    }
}

/// The options at a block's end (section 3.5): code, length, value padded to four bytes. What contradicts itself ends them.
struct Options<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Options<'a> {
    fn new(rest: &'a [u8], order: ByteOrder) -> Self {
        Self { rest, order }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let code = self.order.u16(self.rest, 0).filter(|&code| code != 0)?;
        let length = usize::from(self.order.u16(self.rest, 2)?);
        let (value, behind) = self.rest.get(4..)?.split_at_checked(length)?;
        let padding = length.wrapping_neg() & 3;
        self.rest = behind.get(padding..).unwrap_or_default();
        Some((code, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(options: &[u8]) -> Interface {
        let body = [&[1, 0, 0, 0, 0, 0, 4, 0], options].concat();
        Interface::parse(&body, ByteOrder::Little).unwrap()
    }

    #[test]
    fn the_unit_of_time_is_exact_for_every_resolution() {
        let cases: [(u8, u64, u64); 10] = [
            (0, 7, 7_000_000_000),
            (3, 1_234, 1_234_000_000),
            (6, 1_796_094_784_355_667, 1_796_094_784_355_667_000),
            (9, 1_796_094_784_355_667_834, 1_796_094_784_355_667_834),
            (12, 17_960_947_843_556_678_349, 17_960_947_843_556_678),
            (28, u64::MAX, 1),
            (127, u64::MAX, 0),
            (0x80, 5, 5_000_000_000),
            // 2⁻³², as NTP counts: one and a half seconds.
            (0x80 | 32, 3 << 31, 1_500_000_000),
            (0xff, u64::MAX, 0),
        ];
        for (resolution, ticks, ns) in cases {
            let interface = interface(&[9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(interface.time(ticks), (Timestamp(ns), true), "resolution {resolution:#x}");
        }
    }

    #[test]
    fn without_a_resolution_ticks_are_microseconds() {
        assert_eq!(interface(&[]).time(1_000_001), (Timestamp(1_000_001_000), true));
    }

    #[test]
    fn the_offset_is_added_and_what_leaves_the_range_is_held_at_its_end() {
        let with_offset = |seconds: i64| {
            let option = [&[14, 0, 8, 0][..], &seconds.to_le_bytes()].concat();
            interface(&option)
        };
        assert_eq!(with_offset(100).time(5_000_000), (Timestamp(105_000_000_000), true));
        assert_eq!(with_offset(-3).time(5_000_000), (Timestamp(2_000_000_000), true));
        assert_eq!(with_offset(-6).time(5_000_000), (Timestamp(0), false));
        assert_eq!(with_offset(i64::MIN).time(0), (Timestamp(0), false));
        assert_eq!(with_offset(i64::MAX).time(u64::MAX), (Timestamp(u64::MAX), false));
    }

    #[test]
    fn dropped_packets_are_not_counted_twice() {
        let mut interface = interface(&[]);
        interface.add_dropped(5);
        interface.take_packet_options(&[4, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0], ByteOrder::Little);
        assert_eq!((interface.interface_dropped(), interface.kernel_dropped()), (0, 7));
        let statistics =
            |kernel: u8| [[5, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0], [7, 0, 8, 0, kernel, 0, 0, 0, 0, 0, 0, 0]].concat();
        interface.take_statistics(&statistics(1), ByteOrder::Little);
        assert_eq!((interface.interface_dropped(), interface.kernel_dropped()), (3, 4));
        interface.take_statistics(&statistics(9), ByteOrder::Little);
        assert_eq!((interface.interface_dropped(), interface.kernel_dropped()), (3, 9));
    }

    #[test]
    fn options_that_contradict_themselves_end() {
        let of =
            |bytes| Options::new(bytes, ByteOrder::Big).map(|(code, value)| (code, value.len())).collect::<Vec<_>>();
        assert_eq!(of(&[0, 2, 0, 3, 1, 2, 3, 0, 0, 9, 0, 1, 6, 0, 0, 0]), [(2, 3), (9, 1)]);
        assert_eq!(of(&[0, 2, 0, 3, 1, 2, 3]), [(2, 3)]);
        assert_eq!(of(&[0, 2, 0, 9, 1, 2, 3]), []);
        assert_eq!(of(&[0, 0, 0, 0, 0, 9, 0, 1]), []);
        assert_eq!(of(&[0, 2, 0]), []);
    }
}
