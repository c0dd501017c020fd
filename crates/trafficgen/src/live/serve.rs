//! The page service's listener, and its side of the handshake.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use record::{Protocol, TenantTimeline};

use super::message::MessageReader;
use super::stream::{PageStream, StreamEnd};
use super::{SharedTruth, locked};
use crate::compose::Auth;
use crate::model::{Latency, Workload, parse_share};
use crate::truth::ConnectionFacts;
use crate::wire::libpq;

/// How a page service answers.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Page service")]
pub struct ServeOptions {
    /// Where to listen; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:6400")]
    pub listen: SocketAddr,
    /// How long a batch takes: fixed:TIME, exponential:MEAN or lognormal:MEDIAN:SIGMA
    #[arg(long, default_value_t = Workload::default().latency)]
    pub latency: Latency,
    /// Share of the requests that are answered with an error (tag 103)
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub error_rate: f64,
    /// How clients must prove who they are; any token will do
    #[arg(long, value_enum, default_value = "trust")]
    pub auth: Auth,
    /// The latencies are drawn from this number
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Default for ServeOptions {
    /// Any free port of loopback.
    fn default() -> Self {
        let Workload { latency, error_rate, seed, .. } = Workload::default();
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 0)), latency, error_rate, auth: Auth::Trust, seed }
    }
}

/// A running page service.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    options: ServeOptions,
    truth: Option<SharedTruth>,
    stopping: AtomicBool,
    /// Open sockets by connection: a handle kept longer would keep the socket from closing.
    sockets: Mutex<HashMap<u32, TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    opened: AtomicU32,
    open: AtomicU32,
    answered: AtomicU64,
}

impl Server {
    /// Listens, and serves each connection on a thread of its own until [`Self::stop`].
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(options: &ServeOptions, truth: Option<SharedTruth>) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            options: options.clone(),
            truth,
            stopping: AtomicBool::new(false),
            sockets: Mutex::new(HashMap::new()),
            threads: Mutex::new(Vec::new()),
            opened: AtomicU32::new(0),
            open: AtomicU32::new(0),
            answered: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        let listener = thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { shared, address, listener })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests answered so far.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Waits until at least one connection was opened and all are closed again.
    pub fn wait_until_idle(&self) {
        // Connections of one workload open within milliseconds of each other: a pause between two of them is no end.
        const POLL: Duration = Duration::from_millis(50);
        let mut idle_polls = 0;
        while idle_polls < 4 {
            thread::sleep(POLL);
            let idle = self.shared.opened.load(Ordering::SeqCst) > 0 && self.shared.open.load(Ordering::SeqCst) == 0;
            idle_polls = if idle { idle_polls + 1 } else { 0 };
        }
    }

    /// Closes every connection and ends.
    pub fn stop(self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener, which has no time-out. If it cannot be reached any more, it has ended.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        let _ = self.listener.join();
        for socket in held(&self.shared.sockets).values() {
            // Already closed is as good.
            let _ = socket.shutdown(Shutdown::Both);
        }
        let threads = std::mem::take(&mut *held(&self.shared.threads));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// A thread that panicked leaves the others their connections.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = socket else { continue };
        let Ok(handle) = socket.try_clone() else { continue };
        let number = shared.opened.fetch_add(1, Ordering::SeqCst);
        shared.open.fetch_add(1, Ordering::SeqCst);
        held(&shared.sockets).insert(number, handle);
        let serving = Arc::clone(shared);
        let thread = thread::spawn(move || {
            // A client that breaks off is its own affair; what it was told is in the truth.
            let _ = serve(socket, number, &serving);
            if let Some(truth) = &serving.truth {
                let _ = locked(truth).flush();
            }
            held(&serving.sockets).remove(&number);
            serving.open.fetch_sub(1, Ordering::SeqCst);
        });
        let mut threads = held(&shared.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }
}

/// One connection, from its first byte to its last.
fn serve(mut socket: TcpStream, number: u32, shared: &Shared) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = MessageReader::new(socket.try_clone()?);
    if !greet(&mut reader, &mut socket, shared.options.auth)? {
        return Ok(());
    }
    while let Some(message) = reader.message()? {
        match (message.tag, command(message.body)) {
            (b'Q', Some(Command::Pagestream(protocol, owner))) => {
                socket.write_all(&libpq::COPY_BOTH)?;
                let (client, server) = (canonical(socket.peer_addr()?), canonical(socket.local_addr()?));
                let facts = ConnectionFacts { number, client, server, owner, protocol };
                let mut stream = PageStream::new(facts, &shared.options, shared.truth.as_ref());
                let end = stream.run(&mut reader, &mut socket, &shared.answered)?;
                if end == StreamEnd::Closed {
                    return socket.write_all(&libpq::READY);
                }
                let mut refusal = libpq::error("ERROR", "XX000", end.reason());
                refusal.extend(libpq::READY);
                socket.write_all(&refusal)?;
            }
            (b'Q', Some(Command::Set)) => {
                let mut answer = libpq::complete("SET");
                answer.extend(libpq::READY);
                socket.write_all(&answer)?;
            }
            (b'X', _) => return Ok(()),
            // Sync after a CopyFail asks for nothing more.
            (b'S', _) => {}
            _ => {
                let mut refusal = libpq::error("ERROR", "XX000", "unknown command");
                refusal.extend(libpq::READY);
                socket.write_all(&refusal)?;
            }
        }
    }
    Ok(())
}

/// The handshake. False where the client left, or wanted something that ends the connection.
fn greet(reader: &mut MessageReader, socket: &mut TcpStream, auth: Auth) -> io::Result<bool> {
    loop {
        let Some(packet) = reader.startup()? else { return Ok(false) };
        match packet.body.first_chunk() {
            Some([0, 3, 0, 0]) => break,
            // SSLRequest and GSSENCRequest.
            Some([0x04, 0xd2, 0x16, 0x2f | 0x30]) => socket.write_all(b"N")?,
            _ => return Ok(false),
        }
    }
    if auth == Auth::Password {
        socket.write_all(&libpq::PASSWORD_WANTED)?;
        if reader.message()?.is_none_or(|message| message.tag != b'p') {
            return Ok(false);
        }
    }
    socket.write_all(&libpq::accepted())?;
    Ok(true)
}

/// What a Query asks for.
enum Command {
    Pagestream(Protocol, TenantTimeline),
    Set,
}

fn command(body: &[u8]) -> Option<Command> {
    let text = std::str::from_utf8(body.strip_suffix(b"\0")?).ok()?;
    let mut words = text.split_ascii_whitespace();
    let protocol = match words.next()?.to_ascii_lowercase().as_str() {
        "pagestream" => Protocol::V1,
        "pagestream_v2" => Protocol::V2,
        "pagestream_v3" => Protocol::V3,
        "set" => return Some(Command::Set),
        _ => return None,
    };
    let (tenant, timeline) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Command::Pagestream(protocol, TenantTimeline { tenant, timeline }))
}

/// IPv4 as such, on dual-stack sockets too.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
