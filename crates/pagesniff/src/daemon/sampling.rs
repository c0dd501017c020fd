//! Which keys are kept, and how that changes while traces are written.
//!
//! A file that says "one key in 4" has every request of those keys, and may have more: a reader of several files takes the keys
//! that all of them have. So fewer keys are said first and kept then; more are kept first, and said when everything that was
//! kept before is on its way. The recorder's queue keeps that order.

use trace::Change;

use super::hub::Hub;
use super::worker::Command;
use crate::filter::keys_of_both;

/// Which keys are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sampling {
    /// One key in so many is wanted by the flight recorder.
    pub(super) ring_one_in: u64,
    /// By so many times fewer keys are kept than are wanted, everywhere.
    pub(super) factor: u64,
}

impl Sampling {
    /// The keys that both keep.
    fn and(self, other: Self) -> Self {
        Self {
            ring_one_in: keys_of_both(self.ring_one_in, other.ring_one_in),
            factor: keys_of_both(self.factor, other.factor),
        }
    }

    /// One key in how many the flight recorder keeps.
    fn ring(self) -> u64 {
        self.ring_one_in.saturating_mul(self.factor)
    }
}

impl Hub {
    /// Keeps the keys that the configuration wants, so many times fewer of them; to be called several times a second. Where that
    /// takes a change which cannot be made now, it is made later, and every file says the truth meanwhile.
    pub(super) fn keep_wanted_keys(&self, factor: u64) {
        // Whoever makes a snapshot meanwhile may wait for the disk; nobody waits for that here.
        let Some(mut now) = self.try_keeping() else { return };
        let wanted = Sampling { ring_one_in: self.config().ring_one_in(), factor };
        if *now != wanted {
            let _ = self.resample(&mut now, wanted);
        }
    }

    /// Goes from one sampling to another, by way of the keys that both keep.
    ///
    /// # Errors
    ///
    /// A disk is too slow, or a capturing thread does not answer.
    fn resample(&self, now: &mut Sampling, wanted: Sampling) -> Result<(), String> {
        let fewer = now.and(wanted);
        if fewer != *now {
            self.say_sample(fewer)?;
            *now = fewer;
        }
        let handed_over = self.ask_all(|done| Command::Sample(wanted, done))?;
        if *now != wanted {
            if handed_over.contains(&false) {
                return Err("what was kept before is not written yet".to_owned());
            }
            self.say_sample(wanted)?;
            *now = wanted;
        }
        Ok(())
    }

    /// Lets every file that begins from now on say how many keys it has.
    fn say_sample(&self, sampling: Sampling) -> Result<(), String> {
        let change = Change { sample_one_in: Some(in_header(sampling.ring())), ..Change::default() };
        let ring_can = self.ring().as_ref().is_none_or(|ring| ring.change(change));
        let traces_can = self.asked_traces().say_sample(sampling.factor);
        if ring_can && traces_can { Ok(()) } else { Err("a disk is too slow".to_owned()) }
    }
}

/// As a trace's header has it.
pub(super) fn in_header(one_in: u64) -> u32 {
    u32::try_from(one_in).unwrap_or(u32::MAX)
}
