//! The man pages and completions, from the definitions that parse the command line.

use std::io::{self, Write};
use std::path::Path;

use anyhow::anyhow;
use clap::CommandFactory;

use super::raw::{RawArgs, RawGenerate};
use crate::run::{Ended, output_outcome};

/// Writes what was asked for.
///
/// # Errors
///
/// Standard output or the directory takes nothing more.
pub fn generate(what: &RawGenerate) -> anyhow::Result<Ended> {
    let mut command = RawArgs::command();
    let mut text = Vec::new();
    // clap_complete panics where its writer fails, so all is written to memory first.
    match what {
        RawGenerate::Man { dir: Some(directory) } => return pages(command, directory),
        RawGenerate::Man { dir: None } => clap_mangen::Man::new(command).render(&mut text)?,
        RawGenerate::Completions { shell } => {
            clap_complete::generate(*shell, &mut command, "pagesniff", &mut text);
        }
    }
    output_outcome(io::stdout().lock().write_all(&text))
}

/// A page for each command.
fn pages(command: clap::Command, directory: &Path) -> anyhow::Result<Ended> {
    clap_mangen::generate_to(command, directory)
        .map_err(|error| anyhow!("--dir {}: the pages cannot be written: {error}", directory.display()))?;
    Ok(Ended::Done)
}
