//! The HTTP API over real sockets, held against what the computes know.

mod captures;
mod described;
#[cfg(feature = "client")]
mod fetch;
mod http;
mod page;
mod page_trace;
mod who;

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::asked::Traffic;
use crate::harness::Dir;
use crate::sniffer::Sniffer;
use http::Client;

/// The token that [`TOKENS`] has for everything, and one for a single tenant.
const ADMIN: &str = "an-admin's-token";
const ONE_TENANT: &str = "a-token-for-one-tenant";
const EXPIRED: &str = "a-token-of-last-year";

/// `printf %s TOKEN | sha256sum` of the three.
const ADMIN_SHA256: &str = "9bdbdda56109f1f40d5fc1001f8cf58a968f0cf6b1ca1d53b792735a2d4df7ef";
const ONE_TENANT_SHA256: &str = "cc7e54c4bdbce34b9f05cbf4dd5ba38222e8cb416e87b8a86a69aee65478f2a1";
const EXPIRED_SHA256: &str = "9e65b2ae64363cfdb9ae86c6102e388a6ef830e00804ebfb91acd0c8bd4c998e";

/// A daemon with an API that asks for tokens.
struct Served {
    dir: Dir,
    daemon: Sniffer,
    port: u16,
    traffic: Traffic,
    tenant: String,
    timeline: String,
}

impl Served {
    /// The tenant of the token for one is the fourth of the traffic's.
    fn start(more: &str) -> Self {
        let (traffic, dir) = (Traffic::listen(), Dir::new());
        let owner = traffic.options.workload.owner_of(3);
        let (tenant, timeline) = (owner.tenant.to_string(), owner.timeline.to_string());
        let token =
            |name: &str, hash: &str, more: &str| format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{more}\n");
        let one = format!("tenants = [\"{tenant}\"]\nmax_duration_secs = 30\nmax_running = 2");
        let every = "tenants = [\"*\"]";
        let tokens = token("admin", ADMIN_SHA256, &format!("{every}\nadmin = true"))
            + &token("one", ONE_TENANT_SHA256, &one)
            + &token("old", EXPIRED_SHA256, &format!("{every}\nexpires = \"2025-12-31T00:00:00Z\""));
        dir.write("tokens.toml", tokens.as_bytes());
        let port = free_port();
        let api = format!("[api]\nlisten = \"127.0.0.1:{port}\"\n[authentication]\ntokens = \"tokens.toml\"\n");
        let daemon = traffic.daemon(&dir, &format!("{more}{api}"));
        Self { dir, daemon, port, traffic, tenant, timeline }
    }

    fn client(&self, token: &str) -> Client {
        Client { port: self.port, token: Some(token.to_owned()) }
    }

    /// The lines of the audit log, as soon as there are so many.
    fn audit(&self, least: usize) -> Vec<Value> {
        let since = Instant::now();
        loop {
            let text = fs::read_to_string(self.dir.path("data/audit.jsonl")).unwrap();
            if text.lines().count() >= least || since.elapsed() > Duration::from_secs(5) {
                return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
