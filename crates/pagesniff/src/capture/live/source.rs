//! The packets of an interface, as a [`Source`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use analysis::render::{bytes_text, count_text};
use decode::LinkType;
use pcap::{Active, Capture};
use record::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::drops::Drops;
use super::end::Signals;
use super::error::LiveError;
use super::open::{Opened, open, reason};
use super::options::{LiveOptions, StampedBy};
use crate::capture::{After, CaptureError, Progress, Source, SourceStats};
use crate::clock::wall_clock;

/// How long the kernel keeps a block of its ring that is not full. A longer time makes no packet cheaper where there are
/// many; a shorter one wastes ring where there are few: 32 MiB are 128 blocks, and last for 6 s even at a packet a block.
pub(super) const RETIRE: Duration = Duration::from_millis(50);

/// How long it waits for a packet before it looks at the clock and at signals.
///
/// libpcap's own waiting is not used: with this kind of ring it ends when a block does, which on a silent wire is never.
pub(super) const WAIT: Duration = Duration::from_millis(100);

/// After so much silence no block can still hold a packet: the kernel's timer, and as much again for it to be late.
const GRACE: Duration = Duration::from_millis(2 * RETIRE.as_millis() as u64);

/// A capture that is to end reads what was stamped before; where that is never reached since the clock was set back, it
/// ends after this nevertheless.
const LONGEST_CLOSING: Duration = Duration::from_secs(5);

/// Looking at the clock costs as much as a packet: once in so many packets, which is a millisecond at most.
const PACKETS_PER_LOOK: u64 = 256;

/// libpcap's counters have 32 bits; at 100 million packets a second they wrap in 40 s.
const DROPS_INTERVAL: Duration = Duration::from_secs(1);

/// The system gives nanoseconds in `tv_usec` where they were asked for, which Linux always grants.
const NS_PER_FRACTION: u64 = if cfg!(target_os = "linux") { 1 } else { 1_000 };

/// An open interface.
pub struct Live {
    capture: Capture<Active>,
    link: LinkType,
    options: LiveOptions,
    signals: Signals,
    phase: Phase,
    started: Instant,
    handed_out: u64,
    packets_to_look: u64,
    /// Since when the ring has been found empty; `None` while it may hold packets.
    empty_since: Option<Instant>,
    latest: Timestamp,
    /// Why the capture broke off, until that is told.
    broken: Option<String>,
    drops: Drops,
    drops_due: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// An end was asked for at `stamp`; earlier packets may still lie in the ring.
    Closing {
        stamp: Timestamp,
        since: Instant,
    },
    Ended,
}

impl Live {
    /// Opens the interface, and catches the signals that end the capture.
    ///
    /// # Errors
    ///
    /// Whatever keeps packets from being captured; see [`LiveError`].
    pub fn open(options: LiveOptions) -> Result<Self, LiveError> {
        let opened = open(&options)?;
        let signals = Signals::catch().map_err(|source| LiveError::Signals { source })?;
        Ok(Self::from_opened(opened, options, signals))
    }

    /// Opens the interface for a capture that ends when `stop` says so. Signals are somebody else's.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_until(options: LiveOptions, stop: Arc<AtomicBool>) -> Result<Self, LiveError> {
        Ok(Self::from_opened(open(&options)?, options, Signals::of(stop)))
    }

    fn from_opened(opened: Opened, options: LiveOptions, signals: Signals) -> Self {
        let Opened { capture, link } = opened;
        let now = Instant::now();
        Self {
            capture,
            link,
            options,
            signals,
            phase: Phase::Running,
            started: now,
            handed_out: 0,
            packets_to_look: 0,
            empty_since: None,
            latest: Timestamp(0),
            broken: None,
            drops: Drops::default(),
            drops_due: now,
        }
    }

    /// What its packets begin with.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Looks at the clock, at signals and at the drop counters.
    #[cold]
    fn look(&mut self) {
        let now = Instant::now();
        if now >= self.drops_due {
            self.read_drops();
            self.drops_due = now.checked_add(DROPS_INTERVAL).unwrap_or(now);
        }
        match self.phase {
            Phase::Running if self.is_to_end(now) => {
                self.phase = Phase::Closing { stamp: wall_clock(), since: now };
            }
            Phase::Running if self.left_to_hand_out() == 0 => self.phase = Phase::Ended,
            Phase::Closing { since, .. } => {
                let closing = now.saturating_duration_since(since);
                // An adapter's clock cannot be compared with ours: what lies in the ring then counts as earlier.
                let longest = if self.options.stamped_by == StampedBy::Host { LONGEST_CLOSING } else { GRACE };
                if closing >= longest || (self.empty_since.is_some() && closing >= GRACE) {
                    self.phase = Phase::Ended;
                }
            }
            Phase::Running | Phase::Ended => {}
        }
        // The look that ends the capture by --count must not come late.
        self.packets_to_look = self.left_to_hand_out().min(PACKETS_PER_LOOK);
    }

    /// How many packets --count still allows.
    fn left_to_hand_out(&self) -> u64 {
        self.options.count.map_or(u64::MAX, |count| count.saturating_sub(self.handed_out))
    }

    fn is_to_end(&self, now: Instant) -> bool {
        let running = now.saturating_duration_since(self.started);
        self.signals.asked_to_stop() || self.options.duration.is_some_and(|duration| running >= duration)
    }

    /// Counters that cannot be read leave the last ones standing: reading packets will fail as well, and say why.
    fn read_drops(&mut self) {
        if let Ok(stat) = self.capture.stats() {
            self.drops.observe(&stat);
        }
    }

    /// Waits for a block of packets; false where none came in time.
    fn wait(&self) -> io::Result<bool> {
        let left = match self.phase {
            Phase::Running => {
                self.options.duration.map_or(WAIT, |duration| duration.saturating_sub(self.started.elapsed()).min(WAIT))
            }
            Phase::Closing { since, .. } => GRACE.saturating_sub(since.elapsed()),
            Phase::Ended => return Ok(false),
        };
        // Anything up to WAIT fits.
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::from_borrowed_fd(self.capture.as_fd(), PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            // A signal came; the clock is looked at next in any case.
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The time that it certainly is on a wire that has been silent for a while, in the clock of its packets.
    fn silent_until(&self) -> Timestamp {
        let silent = self.empty_since.map_or(Duration::ZERO, |since| since.elapsed().saturating_sub(GRACE));
        self.latest.plus(u64::try_from(silent.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nothing more is handed out.
    #[cold]
    fn ended(&mut self) -> Result<After, CaptureError> {
        self.read_drops();
        match self.broken.take() {
            Some(reason) => Err(LiveError::Broke { iface: self.options.iface.clone(), reason }.into()),
            None => Ok(After::End),
        }
    }
}

impl Live {
    /// Hands out what is at hand in the kernel's ring, at most up to the next look; gives how many were handed out.
    fn read(&mut self, mut take: impl FnMut(&decode::Packet<'_>)) -> Result<u64, pcap::Error> {
        let Self { capture, link, latest, phase, .. } = self;
        let closing_at = match phase {
            Phase::Closing { stamp, .. } if self.options.stamped_by == StampedBy::Host => Some(*stamp),
            _ => None,
        };
        let (mut handed_out, mut is_past_end) = (0_u64, false);
        let most = usize::try_from(self.packets_to_look).unwrap_or(usize::MAX);
        let read = capture.dispatch(Some(most), |packet| {
            let time = stamp(packet.header);
            is_past_end |= closing_at.is_some_and(|end| time > end);
            if is_past_end {
                return;
            }
            *latest = time.max(*latest);
            handed_out = handed_out.saturating_add(1);
            let wire_len = packet.header.len.max(packet.header.caplen);
            take(&decode::Packet { time, link: *link, data: packet.data, wire_len });
        });
        if is_past_end {
            self.phase = Phase::Ended;
        }
        self.handed_out = self.handed_out.saturating_add(handed_out);
        self.packets_to_look = self.packets_to_look.saturating_sub(handed_out);
        read.map(|_| handed_out)
    }
}

/// The packet socket, whose filter can be changed while it captures.
impl AsFd for Live {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.capture.as_fd()
    }
}

impl Source for Live {
    fn burst(&mut self, take: impl FnMut(&decode::Packet<'_>)) -> Result<After, CaptureError> {
        if self.packets_to_look == 0 || self.empty_since.is_some() {
            self.look();
        }
        if self.phase == Phase::Ended {
            return self.ended();
        }
        let mut woken = false;
        if self.empty_since.is_some() {
            match self.wait() {
                // libpcap is asked where nothing came too: an interface that it saw going down tells of its removal only so.
                Ok(ready) => woken = ready,
                Err(error) => {
                    (self.phase, self.broken) = (Phase::Ended, Some(error.to_string()));
                    return self.ended();
                }
            }
        }
        let certain = if woken { self.latest } else { self.silent_until() };
        match self.read(take) {
            Ok(0) if self.phase != Phase::Ended => {
                if woken {
                    // Woken for nothing: a pending error that libpcap ignores must not make this a busy loop.
                    thread::sleep(Duration::from_millis(1));
                }
                self.empty_since.get_or_insert_with(Instant::now);
                Ok(After::Idle { now: certain })
            }
            Ok(_) => {
                self.empty_since = None;
                Ok(After::Packets)
            }
            Err(error) => {
                (self.phase, self.broken) = (Phase::Ended, Some(reason(error)));
                Ok(After::Idle { now: self.latest })
            }
        }
    }

    fn progress(&self) -> Option<Progress> {
        None
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.handed_out == 0 {
            let LiveOptions { iface, ports, .. } = &self.options;
            let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" or ");
            notes.push(format!(
                "nothing from or to port {ports} passed {iface}; other ports are chosen with --port, and --iface any \
                 watches all interfaces"
            ));
        }
        let (kernel, interface) = (self.drops.kernel(), self.drops.interface());
        if kernel > 0 {
            notes.push(format!(
                "the kernel dropped {} packets since its buffer of {} was full: raise --buffer-size, or narrow what is \
                 captured with --bpf",
                count_text(kernel),
                bytes_text(self.options.buffer.as_u64())
            ));
        }
        if interface > 0 && self.options.netns.is_none() {
            notes.push(format!(
                "the interface dropped {} packets before the kernel saw them: its receive ring is too small (ethtool -G)",
                count_text(interface)
            ));
        }
        if self.options.netns.is_some() {
            notes.push("what the interface itself dropped is not visible across network namespaces".to_owned());
        }
        if self.options.stamped_by == StampedBy::Adapter {
            notes.push(
                "times are the adapter's where it has a clock, else the host's; it stamps incoming packets only"
                    .to_owned(),
            );
        }
        notes
    }

    fn statistics(&self) -> SourceStats {
        // libpcap reads the interface's counters in our own namespace, where the name may belong to another interface.
        let interface_dropped = if self.options.netns.is_none() { self.drops.interface() } else { 0 };
        SourceStats { kernel_dropped: self.drops.kernel(), interface_dropped, ..SourceStats::default() }
    }
}

/// When the packet was captured. A clock before 1970 is a clock at 1970.
fn stamp(header: &pcap::PacketHeader) -> Timestamp {
    let seconds = u64::try_from(header.ts.tv_sec).unwrap_or(0);
    let fraction = u64::try_from(header.ts.tv_usec).unwrap_or(0);
    Timestamp(seconds.saturating_mul(1_000_000_000)).plus(fraction.saturating_mul(NS_PER_FRACTION))
}
