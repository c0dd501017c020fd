//! What systemd is told (sd_notify(3)); nothing happens where it did not start the daemon.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

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
