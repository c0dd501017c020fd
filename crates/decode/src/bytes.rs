//! Reading big-endian numbers from the front of a slice, without a way to panic.

/// Takes the first byte, or `None` where nothing is left.
pub(crate) fn take_u8(input: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = input.split_first()?;
    *input = rest;
    Some(first)
}

/// Takes the first four bytes as a big-endian number, or `None` where fewer are left.
pub(crate) fn take_u32(input: &mut &[u8]) -> Option<u32> {
    let (&first, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u32::from_be_bytes(first))
}

/// Takes the first eight bytes as a big-endian number, or `None` where fewer are left.
pub(crate) fn take_u64(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u64::from_be_bytes(first))
}
