//! A daemon's figures, as it sends them: on a thread of their own, which finds the daemon again when it was away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use analysis::live::{Snapshot, Wanted};
use anyhow::anyhow;

use super::snapshots::{Heard, Hears};
use crate::back_off;
use crate::client::{Asked, Daemon, Events, Failed};

/// Each event says all: two are more than a terminal can be behind.
const MOST_EVENTS: usize = 2;

/// Two tries lie at most so far apart.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What the thread says.
enum Said {
    Figures(Box<Snapshot>),
    Trouble(String),
    End(Failed),
}

/// Figures from a daemon.
pub(super) struct Remote {
    said: Receiver<Said>,
    stop: Arc<AtomicBool>,
    latest: Snapshot,
    /// Why it is over, where nobody asked for that.
    pub(super) problem: Option<Failed>,
}

impl Remote {
    /// Asks for them.
    ///
    /// # Errors
    ///
    /// The daemon does not answer, or refuses.
    pub(super) fn open(daemon: Daemon, asked: Asked, stop: &Arc<AtomicBool>) -> anyhow::Result<Self> {
        let events = Events::of(&daemon, &asked)?;
        let (to, said) = sync_channel(MOST_EVENTS);
        let follow = move || follow(events, (&daemon, &asked), &to);
        let thread = thread::Builder::new().name("events".into()).spawn(follow);
        thread.map_err(|error| anyhow!("cannot start a thread: {error}"))?;
        Ok(Self { said, stop: Arc::clone(stop), latest: Snapshot::default(), problem: None })
    }
}

/// Until nobody listens any more, or the daemon refuses.
fn follow(mut events: Events, (daemon, asked): (&Daemon, &Asked), to: &SyncSender<Said>) {
    loop {
        let Some(ended) = hand_on(&mut events, to) else { return };
        match again(ended, (daemon, asked), to) {
            Some(again) => events = again,
            None => return,
        }
    }
}

/// Hands figures on until they end, and gives why; nothing where nobody listens any more.
fn hand_on(events: &mut Events, to: &SyncSender<Said>) -> Option<Failed> {
    loop {
        match events.next() {
            Ok(Some(snapshot)) => to.send(Said::Figures(Box::new(snapshot))).ok()?,
            Ok(None) => return Some(Failed::Lost("the daemon has ended them".to_owned())),
            Err(failed) => return Some(failed),
        }
    }
}

/// Asks until there are figures again; nothing where the daemon refuses, or nobody listens any more.
fn again(mut failed: Failed, (daemon, asked): (&Daemon, &Asked), to: &SyncSender<Said>) -> Option<Events> {
    let mut failures = 0;
    loop {
        if !failed.may_pass() {
            let _ = to.send(Said::End(failed));
            return None;
        }
        let pause = back_off::pause(failures, LONGEST_PAUSE);
        failures = failures.saturating_add(1);
        let seconds = pause.as_secs();
        let words = format!("THESE FIGURES ARE OLD: {failed}; the next try is {seconds} s after this one");
        to.send(Said::Trouble(words)).ok()?;
        thread::sleep(pause);
        match Events::of(daemon, asked) {
            Ok(events) => return Some(events),
            Err(next) => failed = next,
        }
    }
}

impl Hears for Remote {
    /// What is wanted was said when they were asked for.
    fn hear(&mut self, _: Wanted<'_>, within: Duration) -> Heard {
        if self.stop.load(Ordering::Relaxed) {
            return Heard::Gone;
        }
        match self.said.recv_timeout(within) {
            Ok(Said::Figures(snapshot)) => {
                self.latest.clone_from(&snapshot);
                Heard::Tick(snapshot)
            }
            Ok(Said::Trouble(words)) => {
                self.latest.notes = vec![words];
                Heard::Trouble(Box::new(self.latest.clone()))
            }
            Ok(Said::End(failed)) => {
                self.problem = Some(failed);
                Heard::Gone
            }
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::Gone,
        }
    }
}
