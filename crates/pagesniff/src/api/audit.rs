//! The audit log: a line for each request, once its answer has gone out.
//!
//! Tokens come in a header, and of headers nothing is written; of what stands in the address, only values that the API knows.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Instant, SystemTime};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};
use serde::Serialize;

use crate::terminal::say;

/// A file of the log; with the one before it, some 400,000 requests.
const MOST_FILE_BYTES: u64 = 64 << 20;

/// The file of the log, and the one before it.
pub(super) struct AuditLog {
    path: PathBuf,
    file: Mutex<(File, u64)>,
}

impl AuditLog {
    /// Opens it, to be written behind what is there.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file: Mutex::new((file, length)) })
    }

    /// Writes a line. What the disk does not take goes to standard error, and so to the system's log.
    fn write(&self, entry: &Entry) {
        let Ok(mut line) = serde_json::to_vec(entry) else { return };
        line.push(b'\n');
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, length) = &mut *guard;
        let written = self.make_room(file, length).and_then(|()| file.write_all(&line));
        match written {
            Ok(()) => *length = length.saturating_add(line.len() as u64),
            Err(error) => say(format_args!("audit: {error}: {}", String::from_utf8_lossy(&line).trim_end())),
        }
    }

    /// Begins another file where this one is long enough.
    fn make_room(&self, file: &mut File, length: &mut u64) -> io::Result<()> {
        if *length < MOST_FILE_BYTES {
            return Ok(());
        }
        fs::rename(&self.path, self.path.with_extension("jsonl.1"))?;
        (*file, *length) = (append_to(&self.path)?, 0);
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// A line of the log.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Entry {
    /// When the request came: RFC 3339, UTC, milliseconds.
    pub(super) time: String,
    /// Who sent it: the name of a token, the scope of a JWT; none where that is not known.
    pub(super) who: Option<String>,
    /// From where.
    pub(super) from: String,
    /// What was asked for: the method and the route.
    pub(super) what: String,
    /// With which parameters.
    pub(super) parameters: BTreeMap<String, String>,
    /// What was asked for in the body, where it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wanted: Option<serde_json::Value>,
    /// The status of the answer.
    pub(super) outcome: u16,
    /// Whether all of the answer went out.
    pub(super) complete: bool,
    /// Bytes of the answer's body that went out.
    pub(super) bytes: u64,
    /// From the request's coming to the answer's end.
    pub(super) duration_ms: u64,
    /// Requests that a page trace lacks since its reader was too slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lost_requests: Option<u64>,
    /// Requests that a page trace lacks since the daemon kept a sample of the keys only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sampled_out_requests: Option<u64>,
}

/// The line of a request that is being answered.
pub(super) struct Begun {
    entry: Entry,
    at: Instant,
    log: Arc<AuditLog>,
}

impl Begun {
    /// A request that has just come.
    pub(super) fn new(log: &Arc<AuditLog>, from: SocketAddr, what: String) -> Self {
        let entry = Entry {
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            who: None,
            from: from.to_string(),
            what,
            parameters: BTreeMap::new(),
            wanted: None,
            outcome: 0,
            complete: false,
            bytes: 0,
            duration_ms: 0,
            lost_requests: None,
            sampled_out_requests: None,
        };
        Self { entry, at: Instant::now(), log: Arc::clone(log) }
    }

    /// The line, to be added to.
    pub(super) fn entry(&mut self) -> &mut Entry {
        &mut self.entry
    }

    /// The answer, which writes the line at its end, whichever it is.
    pub(super) fn answered(mut self, status: StatusCode, body: Body) -> Body {
        self.entry.outcome = status.as_u16();
        Body::new(Audited { body, begun: self })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.entry.duration_ms = u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.log.write(&self.entry);
    }
}

/// A trailer of a page trace: how many requests it lacks since its reader was too slow.
pub(super) const LOST_REQUESTS: &str = "pagesniff-lost-requests";

/// Another one: how many since the daemon kept a sample of the keys only.
pub(super) const SAMPLED_OUT_REQUESTS: &str = "pagesniff-sampled-out-requests";

/// An answer's body whose bytes are counted.
struct Audited {
    body: Body,
    begun: Begun,
}

impl HttpBody for Audited {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let entry = self.begun.entry();
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                entry.bytes = entry.bytes.saturating_add(bytes as u64);
                if let Some(trailers) = frame.trailers_ref() {
                    let count = |name| trailers.get(name).and_then(|count| count.to_str().ok()?.parse().ok());
                    (entry.lost_requests, entry.sampled_out_requests) =
                        (count(LOST_REQUESTS), count(SAMPLED_OUT_REQUESTS));
                    entry.complete = true;
                }
            }
            Some(Err(_)) => {}
            None => entry.complete = true,
        }
        if self.body.is_end_stream() {
            self.begun.entry().complete = true;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
