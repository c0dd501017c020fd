//! One process, and what the kernel says that it took.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wait4::Wait4;

/// What a process took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// From start to end.
    pub(crate) wall: Duration,
    /// On all processors, in the program and in the kernel.
    pub(crate) cpu: Duration,
    /// Peak resident memory. The kernel counts at least what the starting process had: this program keeps small.
    pub(crate) peak_bytes: u64,
}

/// Runs a command to its end; what it prints on standard output is thrown away.
///
/// # Errors
/// It cannot be started, or fails; then with its own words.
pub(crate) fn run(command: &mut Command) -> Result<Usage> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).with_context(|| format!("cannot hear {name}"))?;
    }
    let ended = child.wait4().with_context(|| format!("cannot wait for {name}"))?;
    let wall = begun.elapsed();
    if !ended.status.success() {
        bail!("{name} failed ({}): {}", ended.status, said.trim());
    }
    Ok(Usage { wall, cpu: ended.rusage.utime + ended.rusage.stime, peak_bytes: ended.rusage.maxrss })
}

/// Whether a program can be started at all.
pub(crate) fn is_installed(program: &str) -> bool {
    run(Command::new(program).arg("--version")).is_ok()
}
