//! The control socket: a Unix socket that takes [`words::Request`]s from whoever its permissions let in.

pub(super) mod client;
pub mod words;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::umask;
use serde::Serialize;

use super::hub::Hub;
use words::{Reply, Request};

/// So many are served at once: people and scripts of one node.
const MOST_CLIENTS: usize = 16;

/// The longest request: a thousand relations.
const MOST_REQUEST_BYTES: u64 = 64 << 10;

/// Who says nothing for so long, or takes nothing, is let go.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where accepting fails, such as for want of file descriptors, it is tried again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// The socket, bound. Its file goes with it.
pub(super) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Binds the socket with these permission bits. What a daemon that was killed has left is taken away.
    ///
    /// To be called while the program has a single thread: the permissions come from the process's umask.
    ///
    /// # Errors
    ///
    /// One line: another daemon is there, or the system does not allow it.
    pub(super) fn bind(path: &Path, mode: u32) -> Result<Self, String> {
        let at = path.display();
        let failed = |error: io::Error| {
            format!("control.socket {at}: {error}: choose another path, or make its directory writable")
        };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
            fs::create_dir(parent).map_err(failed)?;
        }
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return Err(format!("control.socket {at}: something else is there, which is left alone"));
            }
            match UnixStream::connect(path) {
                Ok(_) => {
                    return Err(format!(
                        "control.socket {at}: another daemon answers there: end it, or choose another path"
                    ));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                // It may be another user's, and alive.
                Err(error) => return Err(failed(error)),
            }
            fs::remove_file(path).map_err(failed)?;
        }
        let allowed = Mode::from_bits_truncate(mode);
        let before = umask(Mode::from_bits_truncate(0o777).difference(allowed));
        let bound = UnixListener::bind(path);
        umask(before);
        Ok(Self { listener: bound.map_err(failed)?, path: path.to_owned() })
    }

    /// Serves it on threads of its own.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub(super) fn serve(&self, hub: Arc<Hub>) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        thread::Builder::new().name("control".into()).spawn(move || accept(&listener, &hub))?;
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, hub: &Arc<Hub>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            thread::sleep(PAUSE);
            continue;
        };
        if clients.load(Ordering::Relaxed) >= MOST_CLIENTS {
            let _ = say(&stream, &Reply::Error(format!("{MOST_CLIENTS} clients are served already: try again later")));
            continue;
        }
        clients.fetch_add(1, Ordering::Relaxed);
        let (hub, counted) = (Arc::clone(hub), Arc::clone(&clients));
        let serving = move || {
            // That a client has left is its own affair.
            let _ = converse(&stream, &hub);
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("client".into()).spawn(serving).is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers one client until it leaves.
fn converse(stream: &UnixStream, hub: &Hub) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        reader.by_ref().take(MOST_REQUEST_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && line.len() as u64 >= MOST_REQUEST_BYTES {
            return say(stream, &Reply::Error(format!("a request is longer than {MOST_REQUEST_BYTES} bytes")));
        }
        let reply = match serde_json::from_slice(&line) {
            Ok(request) => answer(request, hub),
            Err(error) => Err(format!("this is no request: {error}")),
        };
        say(stream, &reply.map_or_else(Reply::Error, Reply::Ok))?;
    }
}

fn say(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn answer(request: Request, hub: &Hub) -> Result<serde_json::Value, String> {
    match request {
        Request::Status => value(hub.status()?),
        Request::Tenants => value(hub.tenants()?),
        Request::Connections => value(hub.connections()?),
        Request::Traces => value(hub.traces()),
        Request::Trace(wanted) => value(hub.begin_trace(&wanted)?),
        Request::Stop { id } => value(hub.end_trace(&id)?),
        Request::Snapshot { tenant, last_ms } => value(hub.snapshot(&tenant, Duration::from_millis(last_ms))?),
    }
}

fn value(what: impl Serialize) -> Result<serde_json::Value, String> {
    serde_json::to_value(what).map_err(|error| error.to_string())
}
