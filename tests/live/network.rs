//! Network namespaces of a test's own, joined by a pair of virtual interfaces.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, process, thread};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::harness::Dir;

/// Whether this process may capture; says it, or fails, where it may not.
pub(crate) fn may_capture() -> bool {
    let ended = Dir::new().run("--iface lo --port 1 --duration 1ms");
    assert!(ended.status == 0 || ended.stderr.contains("no permission"), "{}", ended.stderr);
    ended.status == 0 || skipped(&ended.stderr)
}

fn skipped(why: &str) -> bool {
    assert!(env::var("PAGESNIFF_REQUIRE_LIVE").as_deref() != Ok("1"), "a live test cannot run: {why}");
    eprintln!("SKIPPED, as this machine does not allow it: {why}");
    false
}

/// A namespace, gone with the test.
pub(crate) struct Namespace(String);

impl Namespace {
    fn new() -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("pagesniff-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        ip(&format!("netns add {name}"))?;
        Ok(Self(name))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }

    /// Does something inside of it. Threads and sockets that it makes belong there.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(self.path()).unwrap();
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            inside.join().unwrap()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}

/// Two namespaces, each with one end of a wire.
pub(crate) struct Pair {
    pub(crate) server: Namespace,
    pub(crate) client: Namespace,
}

impl Pair {
    /// The wire's end, of the same name on both sides.
    pub(crate) const IFACE: &'static str = "wire0";
    pub(crate) const SERVER_ADDRESS: &'static str = "10.77.0.1";

    /// `None` where this machine does not allow it.
    pub(crate) fn new() -> Option<Self> {
        if !may_capture() {
            return None;
        }
        let made = (|| {
            let pair = Self { server: Namespace::new()?, client: Namespace::new()? };
            pair.plug()?;
            Ok(pair)
        })();
        made.map_err(|why: String| skipped(&why)).ok()
    }

    /// Lays the wire, and sets it up.
    pub(crate) fn plug(&self) -> Result<(), String> {
        let (server, client, iface) = (self.server.name(), self.client.name(), Self::IFACE);
        // Replayed fragments of large packets are no larger than this.
        let mtu = 9000;
        ip(&format!("link add {iface} mtu {mtu} netns {server} type veth peer name {iface} mtu {mtu} netns {client}"))?;
        ip(&format!("-n {server} addr add {}/24 dev {iface}", Self::SERVER_ADDRESS))?;
        ip(&format!("-n {client} addr add 10.77.0.2/24 dev {iface}"))?;
        for end in [server, client] {
            ip(&format!("-n {end} link set {iface} up"))?;
        }
        Ok(())
    }

    /// Sets the captured end down, and leaves the capture the time to see that.
    pub(crate) fn set_down(&self) {
        ip(&format!("-n {} link set {} down", self.server.name(), Self::IFACE)).unwrap();
        thread::sleep(Duration::from_millis(300));
    }

    /// Takes the wire away.
    pub(crate) fn unplug(&self) {
        ip(&format!("-n {} link del {}", self.server.name(), Self::IFACE)).unwrap();
    }
}

/// Runs iproute2's `ip`.
pub(crate) fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip {arguments}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
