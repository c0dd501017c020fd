//! The daemon as a watcher: without flight recorder, and asked for traces.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::wire::{Namespace, Wire};

/// How many tenants there are on the wire, each on a connection of its own.
pub(crate) const TENANTS: u32 = 50;

/// What is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracing {
    Nothing,
    One,
    All,
}

/// The daemon's configuration and socket, beside its data.
const CONFIGURATION: &str = "daemon.toml";
const SOCKET: &str = "socket";

impl Tracing {
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::One, Self::All];

    /// Asks for the trace, and waits until it runs. It ends with the daemon.
    pub(crate) fn begin(self, program: &Path, directory: &Path, tenant: &str) -> Result<()> {
        let mut asking = Command::new(program);
        asking.args(["trace", "--duration", "1h", "--max-bytes", "256MiB", "--socket"]).arg(directory.join(SOCKET));
        match self {
            Self::Nothing => return Ok(()),
            Self::One => asking.args(["--tenant", tenant]),
            Self::All => &mut asking,
        };
        asking.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut asking = asking.spawn().context("cannot ask for a trace")?;
        let mut said = String::new();
        BufReader::new(asking.stderr.take().context("no standard error")?).read_line(&mut said)?;
        if !said.contains(" runs") {
            bail!("no trace: {}", said.trim());
        }
        // It follows its trace, which goes on without it.
        asking.kill().context("cannot leave a trace alone")?;
        asking.wait().context("cannot wait for who asked for a trace")?;
        Ok(())
    }
}

/// The daemon, to be started.
pub(crate) fn serving(program: &Path, namespace: &Namespace, directory: &Path) -> Result<Command> {
    let data = directory.join("data");
    let configuration = format!(
        "instance = \"bench\"\ninterfaces = [\"{}\"]\ndata_directory = {data:?}\ncontrol.socket = {:?}\nrecorder.enabled = false\n",
        Wire::IFACE,
        directory.join(SOCKET)
    );
    let file = directory.join(CONFIGURATION);
    // Where there is a user pagesniff it becomes that one, which has to reach its data.
    fs::set_permissions(directory, Permissions::from_mode(0o711)).context("cannot let others into the directory")?;
    fs::write(&file, configuration).with_context(|| format!("cannot write {}", file.display()))?;
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name()]).arg(program).args(["serve", "--config"]);
    command.arg(file);
    Ok(command)
}

/// What it has seen so far: packets, and those that it was not quick enough for.
pub(crate) fn status(program: &Path, directory: &Path) -> Result<(u64, u64)> {
    let mut asking = Command::new(program);
    let said = asking.args(["status", "--json", "--socket"]).arg(directory.join(SOCKET)).output()?;
    let status: serde_json::Value = serde_json::from_slice(&said.stdout).context("no status")?;
    let of = |name: &str| status["workers"][0][name].as_u64().with_context(|| format!("the status has no {name}"));
    Ok((of("packets")?, of("kernel_dropped")? + of("queue_dropped")?))
}
