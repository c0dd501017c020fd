//! The operator's word about single addresses and connections.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use record::{Endpoint, TenantTimeline};

/// The form of a hint.
const FORM: &str = "a hint is given as ADDR=TENANT/TIMELINE or ADDR:PORT=TENANT/TIMELINE, such as 10.0.0.7=3aab…/11aa…";

/// No hints file has more lines: four times the connections that a pageserver holds.
const MOST_HINTS: usize = 16_384;

/// Whom a hint is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Client {
    Address(IpAddr),
    Connection(SocketAddr),
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Connection(connection) => connection.fmt(f),
        }
    }
}

/// `ADDR[:PORT]=TENANT/TIMELINE`: connections of that client which were open before belong to that tenant's timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    client: Client,
    owner: TenantTimeline,
}

impl FromStr for Hint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (client, owner) = text.split_once('=').ok_or(FORM)?;
        let (tenant, timeline) = owner.trim().split_once('/').ok_or(FORM)?;
        let (client, bare) = (client.trim(), client.trim().trim_start_matches('[').trim_end_matches(']'));
        let client = match (client.parse(), bare.parse()) {
            (Ok(connection), _) => Client::Connection(connection),
            (_, Ok(address)) => Client::Address(address),
            _ => return Err(FORM.to_owned()),
        };
        let tenant = tenant.trim().parse().map_err(|error| format!("tenant {}: {error}", tenant.trim()))?;
        let timeline = timeline.trim().parse().map_err(|error| format!("timeline {}: {error}", timeline.trim()))?;
        Ok(Self { client, owner: TenantTimeline { tenant, timeline } })
    }
}

/// A hint, and whether a connection has contradicted it.
#[derive(Debug, Clone, Copy)]
struct Held {
    owner: TenantTimeline,
    is_contradicted: bool,
}

/// All hints of a run.
#[derive(Debug, Clone, Default)]
pub struct Hints {
    held: BTreeMap<Client, Held>,
}

impl Hints {
    /// Takes one more.
    ///
    /// # Errors
    ///
    /// Another one says something else of the same client, or there are too many.
    pub fn add(&mut self, hint: Hint) -> Result<(), String> {
        let Hint { client, owner } = hint;
        if let Some(other) = self.held.get(&client).filter(|other| other.owner != owner) {
            let TenantTimeline { tenant, timeline } = other.owner;
            return Err(format!("{client} has another hint already, {tenant}/{timeline}"));
        }
        if self.held.len() >= MOST_HINTS {
            return Err(format!(
                "there are more than {MOST_HINTS} hints; one for an address serves all its connections"
            ));
        }
        self.held.insert(client, Held { owner, is_contradicted: false });
        Ok(())
    }

    /// Takes those of a file: one a line; empty lines, and lines that begin with `#`, are passed over.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line is no hint; says which.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
        let lines = text.lines().map(str::trim).enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let added = line.parse().and_then(|hint| self.add(hint));
            added.map_err(|error| format!("{}, line {}: {error}", path.display(), index.saturating_add(1)))?;
        }
        Ok(())
    }

    /// Holds what a connection said of itself against the hint for its address.
    pub(super) fn check(&mut self, client: Endpoint, owner: TenantTimeline) {
        // A hint for a connection is about the one that was open before; a new one on its ports says nothing of it.
        if let Some(held) = self.held.get_mut(&Client::Address(client.ip())) {
            held.is_contradicted |= held.owner != owner;
        }
    }

    /// Whose a connection of that client is.
    #[inline]
    pub(super) fn owner_of(&self, client: Endpoint) -> Option<TenantTimeline> {
        if self.held.is_empty() {
            return None;
        }
        let of = |client| self.held.get(&client);
        let held = of(Client::Connection(client)).or_else(|| of(Client::Address(client.ip())))?;
        (!held.is_contradicted).then_some(held.owner)
    }

    /// What was contradicted.
    pub(super) fn notes(&self) -> Vec<String> {
        let contradicted = self.held.iter().filter(|(_, held)| held.is_contradicted);
        contradicted
            .map(|(client, _)| {
                format!(
                    "the hint for {client} is wrong at least in part: another connection from there belongs to somebody \
                     else; it was not used any more from then on"
                )
            })
            .collect()
    }

    /// As words of a command line.
    pub(super) fn in_words(&self) -> impl Iterator<Item = String> + '_ {
        self.held.iter().map(|(client, held)| format!("--hint {client}={}/{}", held.owner.tenant, held.owner.timeline))
    }
}
