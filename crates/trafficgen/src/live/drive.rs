//! The synthetic computes: connections that ask, pipelined, and hold every answer against its request.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use record::{Kind, Protocol};
use socket2::SockRef;

use super::message::MessageReader;
use super::serve::canonical;
use super::{SharedTruth, locked, now_ns, pause};
use crate::compose::AskEncryption;
use crate::model::{Asker, PAGE_BYTES, Workload};
use crate::truth::{Asked, ConnectionFacts, Outcome};
use crate::wire::libpq;
use crate::wire::pagestream::encode_request;

/// A compute flushes its prefetches every 8 (`neon.flush_output_after`).
const FLUSH_REQUESTS: u64 = 8;

/// A compute gives up a request after 150 s (`neon.pageserver_response_disconnect_timeout`).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(150);

/// How a connection is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Leave {
    /// Terminate and FIN, as libpq leaves
    Terminate,
    /// A bare FIN
    Fin,
    /// A bare RST with requests outstanding
    Rst,
    /// The client shuts its half while requests are outstanding, and reads the answers
    HalfClose,
    /// CopyFail, Sync and FIN with requests outstanding
    CopyFail,
}

/// What drives a page service.
#[derive(Debug, Clone, clap::Args)]
pub struct DriveOptions {
    /// Where the page service is
    #[arg(long, default_value = "127.0.0.1:6400")]
    pub connect: SocketAddr,
    /// Who asks what; --requests counts where there is no --duration
    #[command(flatten)]
    pub workload: Workload,
    /// Ask for this long
    #[arg(long)]
    pub duration: Option<humantime::Duration>,
    /// Requests a second of all connections together, at most
    #[arg(long)]
    pub rate: Option<f64>,
    /// How connections are left; several take turns
    #[arg(long, value_enum, default_values = ["terminate"])]
    pub leave: Vec<Leave>,
    /// Whether encryption is asked for first; a page service of ours refuses it
    #[arg(long, value_enum, default_value = "never")]
    pub ask_encryption: AskEncryption,
}

impl DriveOptions {
    /// The default workload against a page service.
    pub fn at(connect: SocketAddr) -> Self {
        let (workload, leave) = (Workload::default(), vec![Leave::Terminate]);
        Self { connect, workload, duration: None, rate: None, leave, ask_encryption: AskEncryption::Never }
    }
}

/// What was driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Driven {
    /// Requests made.
    pub asked: u64,
    /// Requests answered, with errors too.
    pub answered: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

/// Drives a page service with all connections of a workload, and waits for the last one.
///
/// # Errors
/// A connection could not be opened or broke off, an answer did not fit its request, or the truth cannot be written.
pub fn drive(options: &DriveOptions, truth: Option<&SharedTruth>) -> Result<Driven> {
    let deadline = options.duration.map(|duration| Instant::now() + *duration);
    let driven = thread::scope(|scope| {
        let threads: Vec<_> = (0..options.workload.connections)
            .map(|number| scope.spawn(move || Connection::open(options, number, truth)?.run(deadline)))
            .collect();
        let mut driven = Driven::default();
        for thread in threads {
            let one = thread.join().map_err(|_| anyhow!("a connection's thread panicked"))??;
            driven.asked += one.asked;
            driven.answered += one.answered;
            driven.errors += one.errors;
        }
        Ok(driven)
    });
    if let Some(truth) = truth {
        locked(truth).flush().context("cannot write the truth")?;
    }
    driven
}

struct Connection<'a> {
    socket: TcpStream,
    reader: MessageReader,
    facts: ConnectionFacts,
    asker: Asker,
    truth: Option<&'a SharedTruth>,
    depth: u64,
    budget: u64,
    /// Time for one request at the wanted rate.
    request_ns: f64,
    leave: Leave,
    next_kind: Option<Kind>,
    outstanding: VecDeque<Asked>,
    driven: Driven,
    bytes: Vec<u8>,
}

impl<'a> Connection<'a> {
    fn open(options: &DriveOptions, number: u32, truth: Option<&'a SharedTruth>) -> Result<Self> {
        let workload = &options.workload;
        let socket = TcpStream::connect(options.connect)
            .with_context(|| format!("cannot connect to the page service at {}", options.connect))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let asker = Asker::new(workload, number);
        let (client, server) = (canonical(socket.local_addr()?), canonical(socket.peer_addr()?));
        let (owner, protocol) = (workload.owner_of(number), asker.protocol());
        let leaves = &options.leave;
        let mut connection = Self {
            reader: MessageReader::new(socket.try_clone()?),
            socket,
            facts: ConnectionFacts { number, client, server, owner, protocol },
            asker,
            truth,
            depth: u64::from(workload.depth),
            budget: if options.duration.is_some() { u64::MAX } else { workload.requests_of(number) },
            request_ns: options.rate.map_or(0.0, |rate| 1e9 * f64::from(workload.connections) / rate),
            leave: leaves.get(number as usize % leaves.len().max(1)).copied().unwrap_or(Leave::Terminate),
            next_kind: None,
            outstanding: VecDeque::new(),
            driven: Driven::default(),
            bytes: Vec::new(),
        };
        connection.shake_hands(options.ask_encryption).context("the handshake failed")?;
        Ok(connection)
    }

    fn shake_hands(&mut self, ask: AskEncryption) -> Result<()> {
        let requests: &[[u8; 8]] = match ask {
            AskEncryption::Never => &[],
            AskEncryption::Ssl => &[libpq::SSL_REQUEST],
            AskEncryption::Gss => &[libpq::GSSENC_REQUEST, libpq::SSL_REQUEST],
        };
        for request in requests {
            self.socket.write_all(request)?;
            if self.reader.byte()? != Some(b'N') {
                bail!("the server wants to encrypt");
            }
        }
        self.socket.write_all(&libpq::startup(self.asker.pid(), self.asker.replica()))?;
        loop {
            let message = self.reader.message()?.context("the server closed the connection")?;
            match (message.tag, message.body) {
                (b'R', [0, 0, 0, 3]) => self.socket.write_all(&libpq::password(libpq::FAKE_TOKEN))?,
                (b'R' | b'S', _) => {}
                (b'Z', _) => break,
                (tag, _) => bail!("an unexpected message {:?}", char::from(tag)),
            }
        }
        self.socket.write_all(&libpq::pagestream_query(self.facts.protocol, self.facts.owner))?;
        match self.reader.message()? {
            Some(message) if message.tag == b'W' => Ok(()),
            _ => bail!("the pagestream was refused"),
        }
    }

    fn run(mut self, deadline: Option<Instant>) -> Result<Driven> {
        let done = self.ask_and_listen(deadline);
        let unanswered = self.outstanding.drain(..);
        if let Some(truth) = self.truth {
            let mut truth = locked(truth);
            for row in unanswered {
                truth.asked(&self.facts, &row)?;
            }
        }
        done.map(|()| self.driven)
    }

    fn ask_and_listen(&mut self, deadline: Option<Instant>) -> Result<()> {
        let begun = Instant::now();
        loop {
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline) || self.driven.asked == self.budget;
            if over {
                break;
            }
            let kind = self.next_kind();
            let in_flight = self.outstanding.len() as u64;
            let other_in_flight = self.outstanding.back().is_some_and(|row| row.request.target.kind() != Kind::GetPage);
            let wanted = FLUSH_REQUESTS.min(self.depth).min(self.budget - self.driven.asked);
            let alone = kind != Kind::GetPage || other_in_flight;
            let may_ask = if alone { in_flight == 0 } else { self.depth - in_flight >= wanted };
            if may_ask {
                self.wait_for_turn(begun);
                self.flush()?;
            } else {
                self.hear()?;
            }
        }
        self.leave()
    }

    /// Holds back what would be faster than the wanted rate.
    fn wait_for_turn(&self, begun: Instant) {
        let due_ns = (self.driven.asked as f64 * self.request_ns) as u64;
        let elapsed_ns = begun.elapsed().as_nanos() as u64;
        pause(due_ns.saturating_sub(elapsed_ns));
    }

    fn next_kind(&mut self) -> Kind {
        *self.next_kind.get_or_insert_with(|| self.asker.next_kind())
    }

    /// Sends the next group: up to 8 GetPage, or one request of another kind.
    fn flush(&mut self) -> Result<()> {
        let room = FLUSH_REQUESTS.min(self.depth - self.outstanding.len() as u64).min(self.budget - self.driven.asked);
        self.bytes.clear();
        self.asker.begin_group();
        let first_of_group = self.outstanding.len();
        for place in 0..room {
            let kind = self.next_kind();
            if kind != Kind::GetPage && place > 0 {
                break;
            }
            self.next_kind = None;
            let request = self.asker.request(kind);
            encode_request(&request, self.facts.protocol, &mut self.bytes);
            self.outstanding.push_back(Asked { request, send_ns: now_ns(), flush_ns: 0, answered: None });
            self.driven.asked += 1;
            if kind != Kind::GetPage {
                break;
            }
        }
        let flush_ns = now_ns();
        for row in self.outstanding.iter_mut().skip(first_of_group) {
            row.flush_ns = flush_ns;
        }
        self.socket.write_all(&self.bytes).context("the page service hung up")
    }

    /// Waits for one answer and holds it against the oldest request.
    fn hear(&mut self) -> Result<()> {
        let message = self.reader.message().context("no answer came")?.context("the page service hung up")?;
        let received_ns = now_ns();
        if message.tag != b'd' {
            bail!("the page service ended the pagestream with a message {:?}", char::from(message.tag));
        }
        let mut asked = self.outstanding.pop_front().context("an answer to nothing")?;
        if self.facts.protocol == Protocol::V3 {
            let mut echo = Vec::new();
            encode_request(&asked.request, Protocol::V3, &mut echo);
            // Behind the framing and the tag: id and both LSNs.
            if echo.get(6..30) != message.body.get(1..25) {
                bail!("an answer that is another request's: request {} of {}", asked.request.seq, self.facts.client);
            }
        }
        let outcome = outcome_of(message.body, self.facts.protocol);
        asked.answered = Some((received_ns, outcome));
        self.driven.answered += 1;
        self.driven.errors += u64::from(outcome.tag == crate::wire::pagestream::ERROR_TAG);
        if let Some(truth) = self.truth {
            locked(truth).asked(&self.facts, &asked).context("cannot write the truth")?;
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        match self.leave {
            Leave::Terminate | Leave::Fin => {
                self.hear_all()?;
                if self.leave == Leave::Terminate {
                    self.socket.write_all(&libpq::TERMINATE)?;
                }
            }
            Leave::HalfClose => {
                self.socket.shutdown(Shutdown::Write)?;
                self.hear_all()?;
                // ReadyForQuery, then FIN.
                while self.reader.message()?.is_some() {}
            }
            Leave::CopyFail => {
                let mut bytes = libpq::copy_fail("canceled");
                bytes.extend(libpq::SYNC);
                self.socket.write_all(&bytes)?;
            }
            Leave::Rst => SockRef::from(&self.socket).set_linger(Some(Duration::ZERO))?,
        }
        Ok(())
    }

    fn hear_all(&mut self) -> Result<()> {
        while !self.outstanding.is_empty() {
            self.hear()?;
        }
        Ok(())
    }
}

/// What an answer's body says, read without looking at the request.
fn outcome_of(body: &[u8], protocol: Protocol) -> Outcome {
    let tag = body.first().copied().unwrap_or(0);
    let pages = body.last_chunk::<PAGE_BYTES>().map(|page| xxhash_rust::xxh3::xxh3_64(page));
    let last_word = body.last_chunk().map(|word| i64::from(u32::from_be_bytes(*word)));
    let (hash, value) = match tag {
        100 => (None, body.last().map(|&exists| i64::from(exists))),
        101 => (None, last_word),
        102 => (pages, None),
        104 => (None, body.last_chunk().map(|size| i64::from_be_bytes(*size))),
        105 => {
            let fixed = if protocol == Protocol::V3 { 34 } else { 5 };
            (None, Some((body.len().saturating_sub(fixed) / PAGE_BYTES) as i64))
        }
        _ => (None, None),
    };
    Outcome { tag, body_len: body.len(), hash, value }
}
