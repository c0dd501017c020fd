//! What the daemon itself takes of the machine, and what it does about it: over its CPU budget it keeps fewer keys, over its
//! memory cap it begins no further trace.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::config::Config;
use super::control::words::LoadStatus;

/// The CPU time is taken for so long at a time: longer than a burst, short enough to act within seconds.
const WINDOW: Duration = Duration::from_secs(1);

/// So many windows in a row are over the budget before fewer keys are kept.
const WINDOWS_OVER: u32 = 2;

/// So many in a row are below it before more are kept again.
const FEWEST_WINDOWS_UNDER: u32 = 10;

/// The same where keeping more was followed by keeping fewer: twice as many each time, up to ten minutes.
const MOST_WINDOWS_UNDER: u32 = 600;

/// Below this share of the budget it is tried whether more keys fit.
const ROOM: f64 = 0.8;

/// Of what records cost, a 64th is left then. What is used beyond it goes into packets, and fewer keys do not spare it.
pub(super) const MOST_FACTOR: u64 = 64;

/// A system's page of memory, where it is not told otherwise: `statm` counts in these.
const PAGE_BYTES: u64 = 4096;

/// By how many times fewer keys are kept than are wanted, found out from what was used.
#[derive(Debug)]
struct Shedding {
    factor: u64,
    over: u32,
    under: u32,
    /// So many windows below the budget it takes to keep more.
    patience: u32,
    /// Whether the last change was to keep more.
    has_relaxed: bool,
    tightened: u64,
}

impl Shedding {
    fn new() -> Self {
        Self { factor: 1, over: 0, under: 0, patience: FEWEST_WINDOWS_UNDER, has_relaxed: false, tightened: 0 }
    }

    /// A window is over, in which so much of a core was used.
    fn window(&mut self, used: f64, budget: f64) {
        self.over = if used > budget { self.over.saturating_add(1) } else { 0 };
        self.under = if used < budget * ROOM { self.under.saturating_add(1) } else { 0 };
        if self.over >= WINDOWS_OVER && self.factor < MOST_FACTOR {
            self.patience = match self.has_relaxed {
                true => self.patience.saturating_mul(2).min(MOST_WINDOWS_UNDER),
                false => self.patience,
            };
            self.change(self.factor.saturating_mul(2), false);
            self.tightened = self.tightened.saturating_add(1);
        } else if self.under >= self.patience && self.factor > 1 {
            if self.has_relaxed {
                self.patience = FEWEST_WINDOWS_UNDER;
            }
            self.change(self.factor / 2, true);
        }
    }

    fn change(&mut self, factor: u64, relaxes: bool) {
        (self.factor, self.has_relaxed, self.over, self.under) = (factor, relaxes, 0, 0);
    }
}

/// What the daemon takes, looked at all the time.
#[derive(Debug)]
pub(super) struct Load {
    shedding: Shedding,
    since: Instant,
    cpu_time: Duration,
}

impl Load {
    /// From now on.
    pub(super) fn new() -> Self {
        Self { shedding: Shedding::new(), since: Instant::now(), cpu_time: cpu_time() }
    }

    /// By how many times fewer keys are to be kept than are wanted.
    pub(super) fn factor(&self) -> u64 {
        self.shedding.factor
    }

    /// Looks where a window is over, and says how it is then.
    pub(super) fn look(&mut self, config: &Config) -> Option<LoadStatus> {
        let elapsed = self.since.elapsed();
        if elapsed < WINDOW {
            return None;
        }
        let now = cpu_time();
        let used = now.saturating_sub(self.cpu_time).as_secs_f64() / elapsed.as_secs_f64();
        (self.since, self.cpu_time) = (Instant::now(), now);
        let budget = config.cpu_budget();
        match budget {
            Some(budget) => self.shedding.window(used, budget),
            // A budget that was taken away leaves nothing to keep.
            None => self.shedding = Shedding { tightened: self.shedding.tightened, ..Shedding::new() },
        }
        Some(LoadStatus {
            cpu_used_percent: used * 100.0,
            factor: self.shedding.factor,
            tightened: self.shedding.tightened,
            ..at_start(config)
        })
    }
}

/// How it is before the first window is over.
pub(super) fn at_start(config: &Config) -> LoadStatus {
    LoadStatus {
        cpu_budget_percent: config.cpu_budget().map(|budget| budget * 100.0),
        factor: 1,
        memory_bytes: memory_bytes(),
        memory_cap_bytes: config.memory_cap.as_u64(),
        ..LoadStatus::default()
    }
}

/// What the whole process has used.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Memory of the process's own that is in use, without what it maps of the kernel's buffers and of files (`statm` of proc(5):
/// resident less shared pages). `None` where the system does not tell.
pub(super) fn memory_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_whitespace().skip(1).map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(PAGE_BYTES);
    Some(resident.saturating_sub(shared).saturating_mul(page_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: f64 = 0.10;

    fn factors(shedding: &mut Shedding, used: &[f64]) -> Vec<u64> {
        let mut window = |&used: &f64| {
            shedding.window(used, BUDGET);
            shedding.factor
        };
        used.iter().map(&mut window).collect()
    }

    #[test]
    fn fewer_keys_are_kept_step_by_step_and_bursts_are_let_pass() {
        assert_eq!(factors(&mut Shedding::new(), &[0.2, 0.2, 0.2, 0.2]), [1, 2, 2, 4]);
        assert_eq!(factors(&mut Shedding::new(), &[0.2, 0.05, 0.2, 0.09, 0.2]), [1; 5]);
        assert_eq!(factors(&mut Shedding::new(), &[0.5; 40]).last(), Some(&MOST_FACTOR));
    }

    #[test]
    fn more_keys_are_kept_again_where_there_is_room() {
        let mut shedding = Shedding::new();
        factors(&mut shedding, &[0.2; 4]);
        assert_eq!(factors(&mut shedding, &[0.09; 100]).last(), Some(&4), "hardly below the budget");
        assert_eq!(factors(&mut shedding, &[0.05; 10]).last(), Some(&2));
        assert_eq!(factors(&mut shedding, &[0.05; 10]).last(), Some(&1));
        assert_eq!(factors(&mut shedding, &[0.05; 100]).last(), Some(&1));
    }

    #[test]
    fn keys_that_do_not_fit_are_tried_more_and_more_rarely() {
        let mut shedding = Shedding::new();
        // Half of the keys fit, all of them do not.
        let used = |shedding: &Shedding| if shedding.factor > 1 { 0.07 } else { 0.12 };
        let mut changes = 0;
        for _ in 0..3_600 {
            let (before, now) = (shedding.factor, used(&shedding));
            shedding.window(now, BUDGET);
            changes += u32::from(shedding.factor != before);
        }
        assert!((8..=24).contains(&changes), "{changes} in an hour");
    }

    #[test]
    fn what_the_process_takes_is_told() {
        let before = memory_bytes().unwrap();
        let held = std::hint::black_box(vec![1_u8; 128 << 20]);
        let with = memory_bytes().unwrap();
        assert!(with >= before + (64 << 20), "{before} {with} {}", held.len());
        let start = cpu_time();
        while cpu_time() == start {}
    }
}
