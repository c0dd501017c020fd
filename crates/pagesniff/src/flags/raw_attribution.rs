//! What was typed about connections that do not say whose they are.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use ipnet::IpNet;

use super::raw::RawArgs;
use super::values::network;
use crate::attribution::{Attributor, Hint, Hints};

/// The options of attribution.
#[derive(Debug, Clone, Default, Args)]
pub struct RawAttribution {
    /// Connections of this client that were open before the capture belong to that tenant and timeline; repeatable
    ///
    /// As 10.0.0.7=TENANT/TIMELINE, or 10.0.0.7:51344=TENANT/TIMELINE for a single connection. What a connection says
    /// itself goes before it, and one that contradicts it ends it.
    #[arg(long, value_name = "ADDR[:PORT]=TENANT/TIMELINE", help_heading = "Attribution")]
    pub hint: Vec<Hint>,

    /// A file of such hints, one a line
    #[arg(long, value_name = "FILE", help_heading = "Attribution")]
    pub hints: Option<PathBuf>,

    /// You assert that each client address in this network is a single compute; repeatable
    ///
    /// A connection that was open before the capture then gets the tenant of another one from its address, as soon as that
    /// has been seen to say it; with --unattributed, traces tell readers about the requests before. Where two tenants or timelines are seen on an address, nothing is concluded for it any more. Never applied to loopback.
    /// The assertion is written into the traces.
    #[arg(long, value_name = "NETWORK", value_parser = network, help_heading = "Attribution")]
    pub one_tenant_per_address: Vec<IpNet>,
}

impl RawAttribution {
    /// What was typed, put together.
    ///
    /// # Errors
    ///
    /// Hints that contradict each other, or a file that cannot be read as hints.
    pub(crate) fn attributor(self) -> Result<Attributor, clap::Error> {
        let mut hints = Hints::default();
        let wrong = |option, error| RawArgs::command().error(ErrorKind::ValueValidation, format!("{option}: {error}"));
        self.hint.into_iter().try_for_each(|hint| hints.add(hint)).map_err(|error| wrong("--hint", error))?;
        if let Some(path) = self.hints {
            hints.add_file(&path).map_err(|error| wrong("--hints", error))?;
        }
        Ok(Attributor::new(hints, self.one_tenant_per_address))
    }
}
