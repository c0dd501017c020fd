//! What happens when mapped bytes of a file are gone: the program says so and ends.
//!
//! Whoever touches a mapped byte that the file has no more (it was cut meanwhile), or that the disk does not deliver, gets a
//! SIGBUS. There is no going on from there, since the decoder is in the middle of a packet of which the rest is missing;
//! what was written before is whole. Files that shrink between two windows end with an ordinary error instead.

#![allow(unsafe_code, reason = "the system has no other way to say this than a signal")]

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// More than one merge of files maps at a time; who finds no slot reads instead.
const SLOT_COUNT: usize = 16;

/// A stretch of memory for which this module answers.
struct Slot {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    message: AtomicPtr<u8>,
    message_bytes: AtomicUsize,
}

impl Slot {
    const fn free() -> Self {
        Self {
            taken: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            message: AtomicPtr::new(ptr::null_mut()),
            message_bytes: AtomicUsize::new(0),
        }
    }

    fn covers(&self, address: usize) -> bool {
        (self.start.load(Ordering::Acquire)..self.end.load(Ordering::Acquire)).contains(&address)
    }
}

static SLOTS: [Slot; SLOT_COUNT] = [const { Slot::free() }; SLOT_COUNT];

/// What was done about SIGBUS before; `None` where the handler could not be set.
static EARLIER: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Answers for the mapped stretches of one file, one at a time.
///
/// Invariant: while the slot covers anything, its message is `message`, which does not move.
pub(super) struct Watch {
    slot: &'static Slot,
    message: Box<[u8]>,
}

impl Watch {
    /// One that says `message` when bytes are gone; `None` where too many exist, or where the system allows no handler.
    pub(super) fn new(message: String) -> Option<Self> {
        EARLIER.get_or_init(install).as_ref()?;
        let slot = SLOTS.iter().find(|slot| !slot.taken.swap(true, Ordering::AcqRel))?;
        Some(Self { slot, message: message.into_bytes().into_boxed_slice() })
    }

    /// From now on it answers for these addresses, and for no others.
    pub(super) fn cover(&self, addresses: &std::ops::Range<*const u8>) {
        self.uncover();
        self.slot.message.store(self.message.as_ptr().cast_mut(), Ordering::Release);
        self.slot.message_bytes.store(self.message.len(), Ordering::Release);
        self.slot.start.store(addresses.start.addr(), Ordering::Release);
        self.slot.end.store(addresses.end.addr(), Ordering::Release);
    }

    /// It answers for nothing.
    pub(super) fn uncover(&self) {
        self.slot.end.store(0, Ordering::Release);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.uncover();
        self.slot.taken.store(false, Ordering::Release);
    }
}

/// Sets the handler; gives what there was before.
fn install() -> Option<libc::sigaction> {
    // SAFETY: all zeros are a valid `sigaction` (the default action, no flags, an empty mask), and both calls get pointers
    // to structures that live across them. The handler keeps to what is allowed in one; see there.
    unsafe {
        let mut earlier: libc::sigaction = std::mem::zeroed();
        let mut ours: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
        ours.sa_sigaction = handler as libc::sighandler_t;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut ours.sa_mask);
        (libc::sigaction(libc::SIGBUS, &ours, &mut earlier) == 0).then_some(earlier)
    }
}

/// Only loads of atomics, write(2), _exit(2) and sigaction(2) in here: all are allowed in a handler (signal-safety(7)).
extern "C" fn on_sigbus(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system hands a valid structure to a handler with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() }.addr();
    if let Some(slot) = SLOTS.iter().find(|slot| slot.covers(address)) {
        let message = slot.message.load(Ordering::Acquire);
        let length = slot.message_bytes.load(Ordering::Acquire);
        // SAFETY: by the invariant of `Watch` these are `length` bytes that live as long as the slot covers anything. The
        // thread that was stopped here is the one that owns the `Watch`, since nobody else touches the mapped bytes.
        unsafe {
            libc::write(libc::STDERR_FILENO, message.cast(), length);
            libc::_exit(1)
        }
    }
    if let Some(Some(earlier)) = EARLIER.get() {
        // Not ours. The instruction runs again on return, and meets what was there before us.
        // SAFETY: `earlier` was filled by the same call.
        unsafe { libc::sigaction(libc::SIGBUS, earlier, ptr::null_mut()) };
    }
}
