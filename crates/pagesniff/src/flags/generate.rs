//! The man page and completions, from the definitions that parse the command line.

use std::io::{self, Write};

use clap::CommandFactory;

use super::raw::{RawArgs, RawGenerate};

/// Writes what was asked for.
///
/// # Errors
///
/// Whatever `out` refuses.
pub fn generate(what: &RawGenerate, out: &mut dyn Write) -> io::Result<()> {
    let mut command = RawArgs::command();
    match what {
        RawGenerate::Man => clap_mangen::Man::new(command).render(out),
        RawGenerate::Completions { shell } => {
            // clap_complete panics where its writer fails, so it writes to memory.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut command, "pagesniff", &mut script);
            out.write_all(&script)
        }
    }
}
