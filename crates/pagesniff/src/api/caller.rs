//! Who asks, and what that one may have.

use std::collections::BTreeSet;
use std::time::Duration;

use record::TenantId;
use serde::{Deserialize, Serialize};

/// What can be had of a tenant. Each is a word in the file of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// Neon's page trace, and the same as JSON Lines.
    PageTrace,
    /// Captures: to begin, end, download and delete them, and their reports.
    Captures,
    /// Snapshots of the flight recorder.
    Snapshots,
    /// Live figures, once a second.
    Live,
}

impl Report {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::PageTrace, Self::Captures, Self::Snapshots, Self::Live];
}

/// The word that stands for every tenant.
pub(super) const EVERY_TENANT: &str = "*";

/// Whose things may be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tenants {
    /// Everybody's.
    All,
    /// These only; that there are others is not told.
    These(BTreeSet<TenantId>),
}

/// The most that one request may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// How long a capture or page trace may take.
    pub(super) duration: Duration,
    /// How many bytes it may have.
    pub(super) bytes: u64,
    /// How many of them may run at once.
    pub(super) running: usize,
}

/// Somebody who has shown who it is, or who did not have to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    /// What the audit log calls it: the name of a token, or the scope of a JWT. Never the token.
    pub(super) name: String,
    /// Whose things it may have.
    pub(super) tenants: Tenants,
    /// Which of them.
    pub(super) reports: BTreeSet<Report>,
    /// Whether the daemon's own figures are for it, too.
    pub(super) is_admin: bool,
    /// How much at once.
    pub(super) bounds: Bounds,
}

impl Caller {
    /// Who may everything.
    pub(super) fn admin(name: impl Into<String>, bounds: Bounds) -> Self {
        let reports = Report::ALL.into_iter().collect();
        Self { name: name.into(), tenants: Tenants::All, reports, is_admin: true, bounds }
    }

    /// Whether that tenant's things are for it.
    pub(super) fn may_see(&self, tenant: TenantId) -> bool {
        match &self.tenants {
            Tenants::All => true,
            Tenants::These(these) => these.contains(&tenant),
        }
    }

    /// Whether the things of all these are for it; of nobody in particular is of everybody.
    pub(super) fn may_see_all(&self, tenants: &[TenantId]) -> bool {
        match &self.tenants {
            Tenants::All => true,
            Tenants::These(_) => !tenants.is_empty() && tenants.iter().all(|&tenant| self.may_see(tenant)),
        }
    }
}
