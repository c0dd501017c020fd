//! The decoder under attack, and in its steady state, with every allocation counted.
//!
//! Whatever bytes come, it does not panic, its memory stays within its limit, and the connections that are real keep
//! being recorded. On ordinary traffic it allocates nothing at all.

mod counting;
mod floods;
mod forged;
mod garbage;
mod steady;

#[path = "../loss/rng.rs"]
#[allow(dead_code, reason = "shared with the tests of loss, which use the rest")]
mod rng;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;
