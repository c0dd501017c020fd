//! What systemd is told (sd_notify(3)); nothing happens where it did not start the daemon.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use super::hub::Hub;

/// systemd's end.
pub(super) struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl Notify {
    /// From the environment.
    pub(super) fn from_environment() -> Self {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|path| {
            let address = match path.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
                _ => SocketAddr::from_pathname(&path),
            };
            Some((UnixDatagram::unbound().ok()?, address.ok()?))
        });
        Self { socket }
    }

    /// Sends a state. That systemd is not there to hear it is no reason to end.
    pub(super) fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

/// systemd's watchdog, which ends a daemon that does not tell it in time that all is well.
pub(super) struct Watchdog<'a> {
    hub: &'a Hub,
    notify: &'a Notify,
    /// `None` where it does not watch.
    interval: Option<Duration>,
    fed: Instant,
    /// How far each capturing thread had come when it was fed.
    looks: Vec<u64>,
}

impl<'a> Watchdog<'a> {
    /// As the environment says: `WATCHDOG_USEC`, for the process `WATCHDOG_PID` where that is given.
    pub(super) fn new(hub: &'a Hub, notify: &'a Notify) -> Self {
        let said = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = said("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let interval = said("WATCHDOG_USEC").filter(|&us| is_ours && us > 0).map(Duration::from_micros);
        Self { hub, notify, interval, fed: Instant::now(), looks: hub.looks() }
    }

    /// Feeds it twice in its time, but only while every capturing thread goes on.
    pub(super) fn feed_where_all_go_on(&mut self) {
        let Some(interval) = self.interval else { return };
        if self.fed.elapsed() < interval / 2 {
            return;
        }
        let looks = self.hub.looks();
        if looks.iter().zip(&self.looks).all(|(now, before)| now != before) {
            self.notify.tell("WATCHDOG=1");
            (self.fed, self.looks) = (Instant::now(), looks);
        }
    }
}
