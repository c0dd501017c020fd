//! A session whose every request, answer and time is chosen: trafficgen's messages in packets of the test's own.

use std::net::Ipv4Addr;

use record::{Protocol, RelTag, Target, TenantTimeline};
use trafficgen::model::{Answer, Request};
use trafficgen::wire::libpq;
use trafficgen::wire::pagestream::{copy_data, encode_answer, encode_request};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;

/// 2026-12-01T00:00:00Z.
const BEGIN_NS: u64 = 1_796_083_200_000_000_000;

/// One way over the network.
const HOP_NS: u64 = 20 * US;

const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 6400);
pub(crate) const COMPUTE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
pub(crate) const REL: RelTag = RelTag { spcnode: 1663, dbnode: 16384, relnode: 16402, forknum: 0 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
}

/// One packet before it has sequence numbers.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) time: u64,
    connection: usize,
    pub(crate) sender: Sender,
    flags: u8,
    pub(crate) bytes: Vec<u8>,
}

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;

/// A connection's place in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backend(usize);

#[derive(Debug)]
struct Connection {
    port: u16,
    pid: u32,
    requests: u64,
}

/// What a page service answers, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    /// A page of that LSN.
    Page(u64),
    /// An error (tag 103).
    Error,
}

/// All that is said.
pub(crate) struct Session {
    owner: TenantTimeline,
    connections: Vec<Connection>,
    pub(crate) said: Vec<Said>,
    pub(crate) now: u64,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self::of_tenant(0)
    }

    /// A session of another tenant. Addresses and times are the same.
    pub(crate) fn of_tenant(tenant: u32) -> Self {
        let owner = trafficgen::model::owner(tenant, 0);
        Self { owner, connections: Vec::new(), said: Vec::new(), now: BEGIN_NS }
    }

    pub(crate) fn owner(&self) -> TenantTimeline {
        self.owner
    }

    pub(crate) fn wait(&mut self, ns: u64) {
        self.now += ns;
    }

    fn say(&mut self, connection: usize, (time, sender): (u64, Sender), flags: u8, bytes: Vec<u8>) {
        self.said.push(Said { time, connection, sender, flags: flags | ACK, bytes });
    }

    fn connect(&mut self) -> usize {
        let number = self.connections.len();
        let pid = 5000 + number as u32;
        self.connections.push(Connection { port: 40_000 + number as u16, pid, requests: 0 });
        self.said.push(Said {
            time: self.now,
            connection: number,
            sender: Sender::Client,
            flags: SYN,
            bytes: Vec::new(),
        });
        self.say(number, (self.now + HOP_NS, Sender::Server), SYN, Vec::new());
        self.say(number, (self.now + 2 * HOP_NS, Sender::Client), 0, Vec::new());
        self.now += 3 * HOP_NS;
        number
    }

    fn talk(&mut self, connection: usize, steps: &[(Sender, Vec<u8>)]) {
        for (sender, bytes) in steps {
            self.say(connection, (self.now, *sender), 0, bytes.clone());
            self.now += HOP_NS;
        }
    }

    /// A backend opens its pagestream.
    pub(crate) fn open(&mut self) -> Backend {
        let number = self.connect();
        let pid = self.connections[number].pid;
        self.talk(
            number,
            &[
                (Sender::Client, libpq::startup(pid, false)),
                (Sender::Server, libpq::accepted()),
                (Sender::Client, libpq::pagestream_query(Protocol::V3, self.owner)),
                (Sender::Server, libpq::COPY_BOTH.to_vec()),
            ],
        );
        Backend(number)
    }

    /// The compute starts: it fetches a base backup, on a connection of its own.
    pub(crate) fn basebackup(&mut self) {
        let number = self.connect();
        let TenantTimeline { tenant, timeline } = self.owner;
        let mut answer = libpq::message(b'H', &[0, 0, 0]);
        copy_data(&mut answer, |body| body.extend_from_slice(&[7; 2048]));
        answer.extend_from_slice(&libpq::COPY_DONE);
        answer.extend(libpq::complete("SELECT"));
        answer.extend_from_slice(&libpq::READY);
        self.talk(
            number,
            &[
                (Sender::Client, libpq::startup(1, false)),
                (Sender::Server, libpq::accepted()),
                (Sender::Client, libpq::extended_query(&format!("basebackup {tenant} {timeline} --gzip"))),
                (Sender::Server, answer),
                (Sender::Client, libpq::TERMINATE.to_vec()),
            ],
        );
        self.say(number, (self.now, Sender::Client), FIN, Vec::new());
        self.say(number, (self.now + HOP_NS, Sender::Server), FIN, Vec::new());
        self.now += 2 * HOP_NS;
    }

    /// A backend asks for a block at `now`, and is answered after `latency_ns`. Time stays where it is.
    pub(crate) fn ask(&mut self, backend: Backend, blkno: u32, lsns: (u64, u64), reply: (Reply, u64)) {
        let connection = &mut self.connections[backend.0];
        let request = Request {
            seq: connection.requests,
            reqid: u64::from(connection.pid) << 32 | (connection.requests + 1),
            target: Target::GetPage { rel: REL, blkno },
            request_lsn: record::Lsn(lsns.0),
            not_modified_since: record::Lsn(lsns.1),
        };
        connection.requests += 1;
        let mut asked = Vec::new();
        encode_request(&request, Protocol::V3, &mut asked);
        let answer = match reply.0 {
            Reply::Page(lsn) => Answer::Page { key: record::Key { rel: REL, blkno }, page_lsn: record::Lsn(lsn) },
            Reply::Error => Answer::Error("the version is gone".to_owned()),
        };
        let mut answered = Vec::new();
        encode_answer(&request, &answer, Protocol::V3, &mut answered);
        self.say(backend.0, (self.now, Sender::Client), 0, asked);
        self.say(backend.0, (self.now + reply.1, Sender::Server), 0, answered);
    }

    /// The capture of all but what `is_missing` names by its place in time, a pcap file of raw IP with nanoseconds.
    pub(crate) fn capture(&self, is_missing: impl Fn(usize, &Said) -> bool) -> Vec<u8> {
        let mut order: Vec<&Said> = self.said.iter().collect();
        order.sort_by_key(|said| said.time);
        let mut file = Vec::new();
        for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 262_144, 101] {
            file.extend(word.to_le_bytes());
        }
        // The next sequence number of each end of each connection.
        let mut next = vec![[1000u32, 9000]; self.connections.len()];
        for (place, said) in order.into_iter().enumerate() {
            let (mine, other) = match said.sender {
                Sender::Client => (0, 1),
                Sender::Server => (1, 0),
            };
            let numbers = &mut next[said.connection];
            let packet = self.packet(said, (numbers[mine], numbers[other]));
            numbers[mine] += said.bytes.len() as u32 + u32::from(said.flags & (SYN | FIN) != 0);
            if is_missing(place, said) {
                continue;
            }
            let length = packet.len() as u32;
            for word in [(said.time / 1_000_000_000) as u32, (said.time % 1_000_000_000) as u32, length, length] {
                file.extend(word.to_le_bytes());
            }
            file.extend(packet);
        }
        file
    }

    fn packet(&self, said: &Said, (seq, ack): (u32, u32)) -> Vec<u8> {
        let client = (COMPUTE, self.connections[said.connection].port);
        let (from, to) = match said.sender {
            Sender::Client => (client, SERVER),
            Sender::Server => (SERVER, client),
        };
        let length = (40 + said.bytes.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        packet.extend(from.0.octets());
        packet.extend(to.0.octets());
        packet.extend(from.1.to_be_bytes());
        packet.extend(to.1.to_be_bytes());
        packet.extend(seq.to_be_bytes());
        packet.extend(ack.to_be_bytes());
        packet.extend([0x50, said.flags, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(&said.bytes);
        packet
    }
}
