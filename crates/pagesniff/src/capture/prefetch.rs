//! Bytes that will be wanted, asked for in advance.

/// The usual length of a cache line; where it is longer, some are asked for twice.
const LINE_BYTES: usize = 64;

/// Asks the processor to bring these bytes into its caches. Nothing waits for it, and nothing else depends on it.
#[inline]
pub(super) fn prefetch(bytes: &[u8]) {
    bytes.chunks(LINE_BYTES).for_each(line);
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the instruction takes a pointer")]
#[inline]
fn line(bytes: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is part of every x86-64, takes any address and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast()) }
}

/// Elsewhere the processor's own foresight has to do: the language has a stable name for this on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn line(_bytes: &[u8]) {}
