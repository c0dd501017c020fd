//! The pagesniff that is measured.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::flags::Arguments;

/// The directory that this program was built into.
pub(crate) fn directory() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where this program lies")?;
    own.parent().map(PathBuf::from).context("this program lies nowhere")
}

/// The pagesniff that is to be measured: the one that was named, or the workspace's own, built anew.
pub(crate) fn pagesniff(arguments: &Arguments) -> Result<PathBuf> {
    if let Some(path) = &arguments.pagesniff {
        return Ok(path.clone());
    }
    if cfg!(debug_assertions) {
        bail!("figures of a debug build mean nothing: cargo run --release -p pagesniff-bench");
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "-p", "pagesniff", "--manifest-path", manifest])
        .status()
        .context("cannot run cargo; name a built pagesniff with --pagesniff")?;
    if !status.success() {
        bail!("pagesniff does not build");
    }
    Ok(directory()?.join("pagesniff"))
}
