//! Two network namespaces joined by a virtual wire.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{self, Command};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A namespace, gone with its value.
pub(crate) struct Namespace(String);

impl Namespace {
    fn new(end: &str) -> Result<Self> {
        let name = format!("pagesniff-bench-{}-{end}", process::id());
        ip(&format!("netns add {name}"))?;
        Ok(Self(name))
    }

    /// Its name, as `ip netns` knows it.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Does something inside of it. Threads and sockets that it makes belong there.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = format!("/run/netns/{}", self.0);
        let file = File::open(&path).with_context(|| format!("cannot open {path}"))?;
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .with_context(|| format!("cannot enter {path}"))
                    .map(|()| work())
            });
            inside.join().map_err(|_| anyhow!("a thread panicked"))?
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}

/// The wire, gone with its value.
pub(crate) struct Wire {
    pub(crate) server: Namespace,
    pub(crate) client: Namespace,
}

impl Wire {
    /// The wire's end, of the same name on both sides.
    pub(crate) const IFACE: &'static str = "wire0";
    /// Where the page service listens.
    pub(crate) const SERVER: &'static str = "10.77.0.1:6400";

    /// Takes root. Without offload no packet is longer than the wire's 1500 bytes.
    pub(crate) fn new(no_offload: bool) -> Result<Self> {
        let wire = Self { server: Namespace::new("server")?, client: Namespace::new("client")? };
        let (server, client, iface) = (wire.server.name(), wire.client.name(), Self::IFACE);
        let segments = if no_offload { "gso_max_segs 1" } else { "" };
        ip(&format!(
            "link add {iface} {segments} netns {server} type veth peer name {iface} {segments} netns {client}"
        ))?;
        for (end, address) in [(server, "10.77.0.1/24"), (client, "10.77.0.2/24")] {
            ip(&format!("-n {end} addr add {address} dev {iface}"))?;
            ip(&format!("-n {end} link set {iface} up"))?;
        }
        Ok(wire)
    }
}

fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().context("cannot run ip (iproute2)")?;
    if !output.status.success() {
        bail!("ip {arguments}: {}; --live takes root", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
