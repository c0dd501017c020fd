//! An interface that is captured on, also when it goes down or away and comes back.
//!
//! An interface that is down and still there keeps its packet socket: packets come again when it is up. One that is gone takes
//! its socket along, and is opened anew when there is one of that name.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::traces::wall_clock;
use crate::capture::live::{Live, LiveError, LiveOptions};
use crate::capture::{After, Source, SourceStats};
use crate::terminal::say;

/// How often it is looked whether the interface is up, and an absent one is tried: soon enough for an incident, and seldom
/// enough to cost nothing.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// An absent interface hands out nothing for so long at a time, so that orders are taken meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// `IFF_UP` of netdevice(7).
const IFF_UP: u32 = 1;

/// An interface, there or not.
pub(super) struct Interface {
    options: LiveOptions,
    stop: Arc<AtomicBool>,
    /// `None` while it is gone.
    live: Option<Live>,
    opened_again: u64,
    /// What was counted before it was opened last.
    before: SourceStats,
    /// How often it went down or away.
    interruptions: u64,
    /// Why nothing is captured at present, and since when.
    problem: Option<(String, Instant)>,
    look_at: Instant,
}

impl Interface {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// As [`Live::open_until`].
    pub(super) fn open(options: LiveOptions, stop: Arc<AtomicBool>) -> Result<Self, LiveError> {
        let live = Live::open_until(options.clone(), Arc::clone(&stop))?;
        let (before, look_at) = (SourceStats::default(), Instant::now());
        Ok(Self { options, stop, live: Some(live), opened_again: 0, before, interruptions: 0, problem: None, look_at })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.options.iface
    }

    /// Hands out the packets that are at hand, as [`Source::burst`] does. It ends only where that was asked for.
    pub(super) fn burst(&mut self, take: impl FnMut(&decode::Packet<'_>)) -> After {
        if Instant::now() >= self.look_at {
            self.look();
        }
        let Some(live) = &mut self.live else {
            if self.stop.load(Ordering::Relaxed) {
                return After::End;
            }
            thread::sleep(PAUSE);
            return After::Idle { now: wall_clock() };
        };
        live.burst(take).unwrap_or_else(|error| {
            self.before = self.statistics();
            self.live = None;
            self.interrupt(error.to_string());
            After::Idle { now: wall_clock() }
        })
    }

    /// What it has counted since it was opened first.
    pub(super) fn statistics(&self) -> SourceStats {
        let mut statistics = self.before;
        statistics.add(&self.live.as_ref().map(Source::statistics).unwrap_or_default());
        statistics
    }

    /// The open interface, and how many were opened before it.
    pub(super) fn opened(&self) -> Option<(&Live, u64)> {
        self.live.as_ref().map(|live| (live, self.opened_again))
    }

    /// How often it went down or away.
    pub(super) fn interruptions(&self) -> u64 {
        self.interruptions
    }

    /// Why nothing is captured at present.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.as_ref().map(|(problem, _)| problem.clone())
    }

    /// Looks whether it is up, or there again.
    fn look(&mut self) {
        self.look_at = Instant::now().checked_add(LOOK_INTERVAL).unwrap_or_else(Instant::now);
        if self.live.is_none() {
            return self.open_again();
        }
        match (is_up(&self.options.iface), self.problem.is_some()) {
            (Some(false), false) => self.interrupt(format!("{}: the interface is down", self.options.iface)),
            (Some(true), true) => self.go_on(),
            _ => {}
        }
    }

    fn open_again(&mut self) {
        match Live::open_until(self.options.clone(), Arc::clone(&self.stop)) {
            Ok(live) => {
                self.live = Some(live);
                self.opened_again = self.opened_again.saturating_add(1);
                self.go_on();
            }
            Err(error) => {
                let problem = match error {
                    LiveError::Permission { iface } => format!(
                        "{iface}: it was gone, and cannot be opened again: that takes the capability CAP_NET_RAW, which \
                         this daemon has given up: start the daemon anew"
                    ),
                    other => other.to_string(),
                };
                if let Some((before, _)) = &mut self.problem
                    && *before != problem
                {
                    say(format_args!("{problem}"));
                    *before = problem;
                }
            }
        }
    }

    fn interrupt(&mut self, problem: String) {
        self.interruptions = self.interruptions.saturating_add(1);
        say(format_args!("{problem}: waiting until it is back"));
        // An interface that was down may be taken away then: it has been away since it was down.
        let since = self.problem.take().map_or_else(Instant::now, |(_, since)| since);
        self.problem = Some((problem, since));
    }

    fn go_on(&mut self) {
        if let Some((_, since)) = self.problem.take() {
            let (name, away_s) = (&self.options.iface, since.elapsed().as_secs());
            say(format_args!("{name}: capturing again after {away_s} s; what passed there meanwhile is missing"));
        }
    }
}

/// Whether an interface is up; `None` where that cannot be seen, such as for `any`.
fn is_up(iface: &str) -> Option<bool> {
    let flags = fs::read_to_string(format!("/sys/class/net/{iface}/flags")).ok()?;
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok()?;
    Some(flags & IFF_UP != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_up_and_what_is_not_there_cannot_be_seen() {
        assert_eq!(is_up("lo"), Some(true));
        assert_eq!(is_up("any"), None);
    }
}
