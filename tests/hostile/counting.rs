//! An allocator that counts, for each thread: tests run side by side.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

pub(crate) struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
    if bytes > 0 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: every call goes to the system's allocator unchanged; the counters take no memory from it.
#[allow(unsafe_code, reason = "an allocator cannot be written without it")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Bytes that this thread's allocations hold.
pub(crate) fn live_bytes() -> isize {
    LIVE_BYTES.get()
}

/// The most bytes that they have held since the last call of [`reset_peak`].
pub(crate) fn peak_bytes() -> isize {
    PEAK_BYTES.get()
}

pub(crate) fn reset_peak() {
    PEAK_BYTES.set(LIVE_BYTES.get());
}

/// Allocations of this thread up to now.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}
