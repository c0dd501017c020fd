//! Integers to bytes and back: little-endian of fixed size, or varints (LEB128: seven bits a byte, low bits first, the
//! top bit says that another byte follows).

/// Takes values off the front of a slice. Every step that would pass the end is `None`, and takes nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of `bytes` is still to be taken.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been taken yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A varint of at most 64 bits.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut input = *self;
        let mut value = 0u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = input.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits.leading_zeros() < shift {
                return None;
            }
            value |= bits.wrapping_shl(shift);
            if byte < 0x80 {
                *self = input;
                return Some(value);
            }
        }
        None
    }

    /// A varint of at most 32 bits.
    pub(crate) fn varint_u32(&mut self) -> Option<u32> {
        let mut input = *self;
        let value = u32::try_from(input.varint()?).ok()?;
        *self = input;
        Some(value)
    }

    /// A varint length, and that many bytes.
    pub(crate) fn counted_bytes(&mut self) -> Option<&'a [u8]> {
        let mut input = *self;
        let len = usize::try_from(input.varint()?).ok()?;
        let bytes = input.bytes(len)?;
        *self = input;
        Some(bytes)
    }
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint length, and the bytes.
pub(crate) fn put_counted_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_return_as_they_went() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut input = Input::new(&out);
            assert_eq!(input.varint(), Some(value));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn a_varint_over_64_bits_or_without_end_is_none() {
        let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(Input::new(&over).varint(), None);
        assert_eq!(Input::new(&[0x80; 20]).varint(), None);
        assert_eq!(Input::new(&[0x80]).varint(), None);
        let mut input = Input::new(&[0x80, 0x80, 0x80, 0x80, 0x10]);
        assert_eq!(input.varint_u32(), None);
        assert_eq!(input.varint(), Some(1 << 32));
    }

    #[test]
    fn what_is_too_short_takes_nothing() {
        let mut input = Input::new(&[5, 1, 2]);
        assert_eq!(input.counted_bytes(), None);
        assert_eq!(input.u64(), None);
        assert_eq!(input.rest(), [5, 1, 2]);
    }
}
