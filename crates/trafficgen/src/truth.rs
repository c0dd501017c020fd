//! The truth beside the traffic: one row a request, from the client's side (`truth.csv`) and from the server's
//! (`server_truth.csv`). Times are unix nanoseconds in the clock of the capture.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;

use record::{Kind, Lsn, Protocol, Target, TenantTimeline};

use crate::model::{Answer, Request};
use crate::wire::pagestream::{ERROR_TAG, page_of};

/// What all rows of a connection share.
#[derive(Debug, Clone)]
pub struct ConnectionFacts {
    /// The connection's number.
    pub number: u32,
    /// The compute's end.
    pub client: SocketAddr,
    /// The page service's end.
    pub server: SocketAddr,
    /// Whose pages.
    pub owner: TenantTimeline,
    /// The version spoken.
    pub protocol: Protocol,
}

/// An answer as the client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The answer's tag: 103 is an error.
    pub tag: u8,
    /// Bytes of the message's body.
    pub body_len: usize,
    /// xxh3-64 of the page, or of a segment's pages.
    pub hash: Option<u64>,
    /// What the other kinds answered.
    pub value: Option<i64>,
}

impl Outcome {
    /// Takes the facts from an answer and the message in which it is encoded, its five bytes of framing included.
    pub fn of(answer: &Answer, message: &[u8], tag: u8) -> Self {
        let hash = page_of(message, answer).map(|page| xxhash_rust::xxh3::xxh3_64(page));
        let value = match answer {
            Answer::Exists(exists) => Some(i64::from(*exists)),
            Answer::Nblocks(blocks) | Answer::Slru { blocks, .. } => Some(i64::from(*blocks)),
            Answer::DbSize(size) => Some(*size),
            Answer::Page { .. } | Answer::Error(_) => None,
        };
        Self { tag, body_len: message.len().saturating_sub(5), hash, value }
    }
}

/// A request from the client's side.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The request.
    pub request: Request,
    /// When it was made.
    pub send_ns: u64,
    /// When it was handed to TCP.
    pub flush_ns: u64,
    /// The answer and when it was there whole; `None` where there came none.
    pub answered: Option<(u64, Outcome)>,
}

/// A request from the server's side.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// The request.
    pub request: Request,
    /// When it had been read.
    pub parsed_ns: u64,
    /// When its answer began to be written.
    pub write_ns: u64,
    /// When its answer had been handed to TCP.
    pub flushed_ns: u64,
    /// Requests in its batch.
    pub batch_len: u32,
    /// The answer.
    pub outcome: Outcome,
}

/// Writes the files of one directory.
#[derive(Debug)]
pub struct TruthWriter {
    asked: Option<BufWriter<File>>,
    served: Option<BufWriter<File>>,
}

/// Whose rows are written; rows of the other side are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruthSides {
    /// The client's: `truth.csv`.
    Client,
    /// The server's: `server_truth.csv`.
    Server,
    /// Both.
    Both,
}

const ASKED_HEADER: &str = "conn_id,client,local_ip,local_port,server_ip,server_port,tenant,timeline,proto,seq,kind,\
    spcnode,dbnode,relnode,forknum,blkno,slru_kind,segno,reqid,request_lsn,request_lsn_hex,not_modified_since,\
    t_send_ns,t_flush_ns,t_recv_ns,resp_kind,resp_len,resp_value,xxh3_64,sha256";

const SERVED_HEADER: &str = "conn_no,peer_addr,peer_port,local_port,tenant,timeline,proto,kind,reqid,request_lsn,\
    not_modified_since,t_parsed_ns,t_write_ns,t_flushed_ns,batch_len,resp_tag,resp_len";

impl TruthWriter {
    /// Creates the files, and the directory where it does not exist.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(directory: &Path, sides: TruthSides) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let begin = |name: &str, header: &str| {
            let mut file = BufWriter::new(File::create(directory.join(name))?);
            writeln!(file, "{header}")?;
            io::Result::Ok(Some(file))
        };
        let asked = if sides == TruthSides::Server { None } else { begin("truth.csv", ASKED_HEADER)? };
        let served = if sides == TruthSides::Client { None } else { begin("server_truth.csv", SERVED_HEADER)? };
        Ok(Self { asked, served })
    }

    /// Writes one row of the client's.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn asked(&mut self, facts: &ConnectionFacts, row: &Asked) -> io::Result<()> {
        let Some(out) = &mut self.asked else { return Ok(()) };
        let ConnectionFacts { number, client, server, owner, protocol } = facts;
        let Request { seq, reqid, target, request_lsn, not_modified_since } = row.request;
        let (client_ip, server_ip) = (client.ip(), server.ip());
        write!(out, "{number},trafficgen,{client_ip},{},{server_ip},{},", client.port(), server.port())?;
        write!(out, "{},{},v{protocol},{seq},{},", owner.tenant, owner.timeline, asked_word(target.kind()))?;
        match target {
            Target::GetPage { rel, blkno } => {
                write!(out, "{},{},{},{},{blkno},,", rel.spcnode, rel.dbnode, rel.relnode, rel.forknum)?;
            }
            Target::Exists { rel } | Target::Nblocks { rel } => {
                write!(out, "{},{},{},{},,,", rel.spcnode, rel.dbnode, rel.relnode, rel.forknum)?;
            }
            Target::DbSize { dbnode } => write!(out, ",{dbnode},,,,,")?,
            Target::Slru { kind, segno } => write!(out, ",,,,,{kind},{segno}")?,
        }
        write!(out, ",{reqid},{request_lsn},{:#018x},{not_modified_since},", request_lsn.0)?;
        write!(out, "{},{},", row.send_ns, row.flush_ns)?;
        let Some((received_ns, outcome)) = row.answered else {
            return writeln!(out, ",none,,,,");
        };
        write!(out, "{received_ns},{},{},", answer_word(target.kind(), outcome.tag), outcome.body_len)?;
        match outcome.value {
            Some(value) => write!(out, "{value},")?,
            None => write!(out, ",")?,
        }
        match outcome.hash {
            Some(hash) => writeln!(out, "{hash:016x},"),
            None => writeln!(out, ","),
        }
    }

    /// Writes one row of the server's.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn served(&mut self, facts: &ConnectionFacts, row: &Served) -> io::Result<()> {
        let Some(out) = &mut self.served else { return Ok(()) };
        let Request { reqid, target, request_lsn: Lsn(request_lsn), not_modified_since: Lsn(promise), .. } =
            row.request;
        let ConnectionFacts { number, client, server, owner, protocol } = facts;
        write!(out, "{number},{},{},{},", client.ip(), client.port(), server.port())?;
        write!(out, "{},{},v{protocol},{},{reqid},", owner.tenant, owner.timeline, target.kind())?;
        write!(out, "{request_lsn:X},{promise:X},{},{},", row.parsed_ns, row.write_ns)?;
        writeln!(out, "{},{},{},{}", row.flushed_ns, row.batch_len, row.outcome.tag, row.outcome.body_len)
    }

    /// Hands everything to the file system.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn flush(&mut self) -> io::Result<()> {
        [&mut self.asked, &mut self.served].into_iter().flatten().try_for_each(Write::flush)
    }
}

const fn asked_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Slru => "getslrusegment",
        other => other.as_str(),
    }
}

const fn answer_word(kind: Kind, tag: u8) -> &'static str {
    match kind {
        _ if tag == ERROR_TAG => "error",
        Kind::GetPage => "page",
        other => other.as_str(),
    }
}
