//! The Internet checksum (RFC 1071).

/// A sum of 16-bit words that is folded at the end. Every part but the last must have an even length.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Checksum {
    sum: u64,
}

impl Checksum {
    /// Adds bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let chunks = bytes.chunks_exact(4);
        let rest = chunks.remainder();
        for chunk in chunks {
            let word = <[u8; 4]>::try_from(chunk).map_or(0, u32::from_be_bytes);
            // 2^32 words of 32 bits fit; no packet has as many.
            self.sum += u64::from(word);
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.sum += u64::from(u32::from_be_bytes(last));
    }

    /// The checksum's value.
    pub(super) const fn finish(self) -> u16 {
        let mut sum = self.sum;
        while sum > 0xFFFF {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_holds() {
        let mut checksum = Checksum::default();
        checksum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(checksum.finish(), !0xddf2);
    }

    #[test]
    fn an_odd_byte_is_the_high_half_of_its_word() {
        let (mut odd, mut even) = (Checksum::default(), Checksum::default());
        odd.add(&[1, 2, 3]);
        even.add(&[1, 2, 3, 0]);
        assert_eq!(odd.finish(), even.finish());
    }
}
