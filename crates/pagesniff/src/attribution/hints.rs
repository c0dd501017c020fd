//! The operator's word about single addresses and connections.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use analysis::render::bytes_text;
use record::{Endpoint, TenantTimeline};

/// The form of a hint.
const FORM: &str = "a hint is given as ADDR=TENANT/TIMELINE or ADDR:PORT=TENANT/TIMELINE, such as 10.0.0.7=3aab…/11aa…";

/// No hints file has more lines: four times the connections that a pageserver holds.
const MOST_HINTS: usize = 16_384;

/// So many hints of the longest kind, with a comment as long as each; a device that never ends is no hints file.
const MOST_FILE_BYTES: u64 = 4 << 20;

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
    /// Whether a request got its owner from it.
    is_used: bool,
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
        self.held.insert(client, Held { owner, is_contradicted: false, is_used: false });
        Ok(())
    }

    /// Takes those of a file: one a line; empty lines, and lines that begin with `#`, are passed over.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line is no hint; says which.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        let name = path.display();
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MOST_FILE_BYTES).read_to_string(&mut text));
        read.map_err(|error| format!("{name}: cannot be read: {error}"))?;
        if text.len() as u64 >= MOST_FILE_BYTES {
            return Err(format!("{name}: a hints file has less than {}", bytes_text(MOST_FILE_BYTES)));
        }
        let lines = text.lines().map(str::trim).enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let added = line.parse().and_then(|hint| self.add(hint));
            added.map_err(|error| format!("{name}, line {}: {error}", index.saturating_add(1)))?;
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
    pub(super) fn owner_of(&mut self, client: Endpoint) -> Option<TenantTimeline> {
        if self.held.is_empty() {
            return None;
        }
        let connection = Client::Connection(client);
        let named = if self.held.contains_key(&connection) { connection } else { Client::Address(client.ip()) };
        let held = self.held.get_mut(&named).filter(|held| !held.is_contradicted)?;
        held.is_used = true;
        Some(held.owner)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// What was contradicted, and what no request needed.
    pub(super) fn notes(&self) -> Vec<String> {
        let contradicted: Vec<_> = self.held.iter().filter(|(_, held)| held.is_contradicted).collect();
        let unused: Vec<_> = self.held.iter().filter(|(_, held)| !held.is_contradicted && !held.is_used).collect();
        let mut notes: Vec<String> = contradicted
            .iter()
            .take(MOST_NOTES)
            .map(|(client, _)| {
                format!(
                    "the hint for {client} is wrong at least in part: another connection from there belongs to somebody \
                     else; it was not used any more from then on"
                )
            })
            .collect();
        if contradicted.len() > MOST_NOTES {
            notes.push(format!("so it is with {} more hints", contradicted.len().saturating_sub(MOST_NOTES)));
        }
        if let [(client, _), others @ ..] = unused.as_slice() {
            let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            notes.push(format!(
                "no request needed the hint for {client}{others}: none came from there, or its connection said itself whose \
                 it is"
            ));
        }
        notes
    }

    /// As words of a command line.
    pub(super) fn in_words(&self) -> impl Iterator<Item = String> + '_ {
        self.held.iter().map(|(client, held)| format!("--hint {client}={}/{}", held.owner.tenant, held.owner.timeline))
    }
}

/// Enough to see that the hints do not hold.
const MOST_NOTES: usize = 3;
