//! libpcap's drop counters, widened.

use pcap::Stat;

/// A 32-bit counter that wraps, followed often enough to see each wrap.
#[derive(Debug, Default, Clone, Copy)]
struct Widened {
    last: u32,
    total: u64,
}

impl Widened {
    /// Takes the counter's present value. One that went back was set anew by somebody: it counts on from there.
    fn observe(&mut self, value: u32) {
        let grown = value.wrapping_sub(self.last);
        if grown <= u32::MAX / 2 {
            self.total = self.total.saturating_add(grown.into());
        }
        self.last = value;
    }
}

/// What was dropped since the capture began.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Drops {
    kernel: Widened,
    interface: Widened,
}

impl Drops {
    /// Takes the present counters.
    pub(super) fn observe(&mut self, stat: &Stat) {
        self.kernel.observe(stat.dropped);
        self.interface.observe(stat.if_dropped);
    }

    /// Packets that found the kernel's buffer full.
    pub(super) fn kernel(&self) -> u64 {
        self.kernel.total
    }

    /// Packets that the interface had no room for.
    pub(super) fn interface(&self) -> u64 {
        self.interface.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_wraps_goes_on_and_one_that_is_reset_begins_anew() {
        let mut counter = Widened::default();
        for (value, expected) in [
            (0, 0),
            (1 << 30, 1 << 30),
            (2 << 30, 2 << 30),
            (3 << 30, 3 << 30),
            (u32::MAX, u64::from(u32::MAX)),
            (4, (1 << 32) + 4),
            (4, (1 << 32) + 4),
            (0, (1 << 32) + 4),
            (6, (1 << 32) + 10),
        ] {
            counter.observe(value);
            assert_eq!(counter.total, expected, "{value}");
        }
    }
}
