//! What is said on a connection outside the pagestream: the handshake before it, and the connections of other kinds.

use record::{Protocol, TenantTimeline};

use super::options::{AskEncryption, Auth, Other};
use super::segment::Side;
use crate::model::fill;
use crate::wire::libpq;
use crate::wire::pagestream::copy_data;

/// One thing said. It is said when what came before has arrived at its other end.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// By whom.
    pub(super) side: Side,
    /// The bytes.
    pub(super) bytes: Vec<u8>,
}

/// Who opens a pagestream, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    /// The backend's process id.
    pub(super) pid: u32,
    /// Whether it is a standby's.
    pub(super) replica: bool,
    /// The version.
    pub(super) protocol: Protocol,
    /// What is opened.
    pub(super) owner: TenantTimeline,
}

fn client(bytes: impl Into<Vec<u8>>) -> Step {
    Step { side: Side::Client, bytes: bytes.into() }
}

fn server(bytes: impl Into<Vec<u8>>) -> Step {
    Step { side: Side::Server, bytes: bytes.into() }
}

/// From the first byte to CopyBothResponse.
pub(super) fn handshake(opening: Opening, ask: AskEncryption, auth: Auth) -> Vec<Step> {
    let mut steps = Vec::new();
    if ask == AskEncryption::Gss {
        steps.extend([client(libpq::GSSENC_REQUEST), server(*b"N")]);
    }
    if ask != AskEncryption::Never {
        steps.extend([client(libpq::SSL_REQUEST), server(*b"N")]);
    }
    steps.push(client(libpq::startup(opening.pid, opening.replica)));
    if auth == Auth::Password {
        steps.extend([server(libpq::PASSWORD_WANTED), client(libpq::password(libpq::FAKE_TOKEN))]);
    }
    steps.extend([
        server(libpq::accepted()),
        client(libpq::pagestream_query(opening.protocol, opening.owner)),
        server(libpq::COPY_BOTH),
    ]);
    steps
}

/// The whole exchange of a connection that is no pagestream.
pub(super) fn other(kind: Other, owner: TenantTimeline) -> Vec<Step> {
    let startup = || client(libpq::startup(19_000, false));
    match kind {
        Other::Basebackup | Other::Lease | Other::Set | Other::Sql | Other::UnknownTenant => {
            let (bytes, answer) = command(kind, owner);
            vec![startup(), server(libpq::accepted()), client(bytes), server(answer), client(libpq::TERMINATE)]
        }
        Other::Tls => {
            let mut steps = vec![client(libpq::SSL_REQUEST), server(*b"S")];
            steps.extend(tls_records());
            steps
        }
        Other::DirectTls => tls_records(),
        Other::TlsRequired => {
            vec![startup(), server(libpq::error("FATAL", "08P01", "client did not connect with TLS"))]
        }
        Other::Http => vec![
            client(*b"GET /v1/status HTTP/1.1\r\nHost: pageserver\r\nAccept: */*\r\n\r\n"),
            server(*b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        ],
        Other::Grpc => {
            // The preface of RFC 9113, section 3.4, an empty SETTINGS frame from each side, and a call's HEADERS.
            let mut preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            preface.extend(SETTINGS);
            preface.extend(GRPC_CALL);
            vec![client(preface), server(SETTINGS)]
        }
        Other::Cancel => vec![client(libpq::cancel_request(20_000, 0x0102_0304))],
        Other::LoneSsl => vec![client(libpq::SSL_REQUEST), server(*b"N")],
        Other::Empty => Vec::new(),
        Other::Noise => vec![client(random(99, 5000))],
    }
}

/// What is asked in query mode, and the answer.
fn command(kind: Other, TenantTimeline { tenant, timeline }: TenantTimeline) -> (Vec<u8>, Vec<u8>) {
    match kind {
        Other::Basebackup => {
            (libpq::extended_query(&format!("basebackup {tenant} {timeline} --gzip")), basebackup_answer())
        }
        Other::Lease => {
            (libpq::query(&format!("lease lsn {tenant} {timeline} 1/6E000028")), done("SELECT 1", lease_row()))
        }
        Other::Set => (libpq::query("set statement_timeout = '5s'"), done("SET", Vec::new())),
        Other::UnknownTenant => {
            let opening = format!("pagestream_v3 {:032x} {timeline}", 0xDEAD);
            (libpq::query(&opening), refused("08006", "Tenant not found"))
        }
        _ => {
            let text = format!("SELECT 'pagestream_v3 {tenant} {timeline}'");
            (libpq::query(&text), refused("XX000", "unknown command"))
        }
    }
}

/// An HTTP/2 HEADERS frame: `POST http`, the page service's `GetPages`, and gRPC's content type in Huffman code (RFC 7541).
const GRPC_CALL: [u8; 56] =
    *b"\0\0\x2f\x01\x04\0\0\0\x01\x83\x86\x44\x1e/page_api.PageService/GetPages\x5f\x8b\x1d\x75\xd0\x62\x0d\x26\x3d\x4c\x4d\x65\x64";

/// An HTTP/2 SETTINGS frame without settings.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

fn refused(sqlstate: &str, text: &str) -> Vec<u8> {
    let mut bytes = libpq::error("ERROR", sqlstate, text);
    bytes.extend(libpq::READY);
    bytes
}

fn done(tag: &str, mut rows: Vec<u8>) -> Vec<u8> {
    rows.extend(libpq::complete(tag));
    rows.extend(libpq::READY);
    rows
}

/// RowDescription with one text column, and one DataRow.
fn lease_row() -> Vec<u8> {
    let mut description = vec![0, 1];
    description.extend_from_slice(b"valid_until\0");
    description.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    let mut bytes = libpq::message(b'T', &description);
    bytes.extend(libpq::message(b'D', b"\0\x01\0\0\0\x0a1796094784"));
    bytes
}

/// ParseComplete, BindComplete, NoData, CopyOutResponse, a compressed tar's worth of CopyData, CopyDone, the end.
fn basebackup_answer() -> Vec<u8> {
    let mut bytes = Vec::new();
    for tag in *b"12n" {
        bytes.extend(libpq::message(tag, &[]));
    }
    bytes.extend(libpq::message(b'H', &[0, 0, 0]));
    for part in 0..3 {
        copy_data(&mut bytes, |body| fill(0xBA5E + part, 2048, body));
    }
    bytes.extend(libpq::COPY_DONE);
    done("SELECT", bytes)
}

/// A ClientHello, a ServerHello and application data, as far as a passive observer can read them (RFC 8446).
fn tls_records() -> Vec<Step> {
    vec![
        client(tls_hello(1, &[0, 4, 0x13, 0x01, 0x13, 0x02, 1, 0])),
        server(tls_hello(2, &[0x13, 0x01, 0])),
        client(tls_record(0x17, &random(3, 168))),
        server(tls_record(0x17, &random(4, 1200))),
    ]
}

/// A hello: version, 32 random bytes, a session, the cipher suites offered or chosen, no extensions.
fn tls_hello(kind: u8, choice: &[u8]) -> Vec<u8> {
    let body = [&[3, 3][..], &random(u64::from(kind), 32), &[32], &random(9, 32), choice, &[0, 0]].concat();
    let header = [kind, 0, 0, body.len() as u8];
    tls_record(0x16, &[&header[..], &body].concat())
}

fn tls_record(kind: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = (body.len() as u16).to_be_bytes();
    [&[kind, 3, 3, high, low], body].concat()
}

fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    fill(seed, length, &mut bytes);
    bytes
}
