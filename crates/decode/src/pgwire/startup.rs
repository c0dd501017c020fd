//! The first message of a connection: what it asks for, and which backend sends it.

use crate::bytes::take_u32;

/// Codes in place of a protocol version (`src/include/libpq/pqcomm.h` in Postgres).
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;

/// First byte of a TLS record that holds a handshake, a ClientHello here (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Asks for encryption; the answer is one byte.
    EncryptionRequest,
    /// Cancels a query of another connection.
    Cancel,
    /// StartupMessage of protocol 3; the process id is what the compute gives as its `application_name`.
    Startup { backend_pid: Option<u32> },
    /// Nothing that Postgres begins with.
    Foreign,
}

impl Opening {
    /// Reads the body of a start-up message, as much of it as is there.
    pub(crate) fn parse(body: &[u8], body_bytes: u32) -> Self {
        let mut input = body;
        let Some(code) = take_u32(&mut input) else { return Self::Foreign };
        match (code, body_bytes) {
            (SSL_REQUEST | GSSENC_REQUEST, 4) => Self::EncryptionRequest,
            (CANCEL_REQUEST, 12..) => Self::Cancel,
            // Protocol 3.0, or a later minor version.
            (0x0003_0000..=0x0003_FFFF, _) => Self::Startup { backend_pid: application_pid(input) },
            _ => Self::Foreign,
        }
    }
}

/// The `application_name` among the parameters, where it is a number.
fn application_pid(parameters: &[u8]) -> Option<u32> {
    let mut words = parameters.split(|&byte| byte == 0);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        if name == b"application_name" {
            return std::str::from_utf8(value).ok()?.parse().ok();
        }
        if name.is_empty() {
            return None;
        }
    }
    None
}

/// What a connection is that does not begin like Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    Tls,
    Http,
    /// HTTP/2 with prior knowledge: what gRPC begins with.
    Http2,
    Unknown,
}

impl Foreign {
    /// Guesses by the first bytes. Only notes rest on it.
    pub(crate) fn of(first: &[u8]) -> Self {
        const METHODS: [&[u8]; 7] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC"];
        let start = first.get(..4).unwrap_or(first);
        match start {
            [TLS_HANDSHAKE, 3, ..] => Self::Tls,
            b"PRI " => Self::Http2,
            _ if METHODS.contains(&start) => Self::Http,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compute_says_which_backend_it_is() {
        let body = b"\0\x03\0\0user\0cloud_admin\0database\0postgres\0application_name\x0020001\0options\0-c x=y\0\0";
        assert_eq!(Opening::parse(body, body.len() as u32), Opening::Startup { backend_pid: Some(20001) });
        let psql = b"\0\x03\0\0user\0x\0application_name\0psql\0\0";
        assert_eq!(Opening::parse(psql, psql.len() as u32), Opening::Startup { backend_pid: None });
        assert_eq!(Opening::parse(b"\0\x03\0\0user\0x\0appl", 40), Opening::Startup { backend_pid: None });
    }

    #[test]
    fn requests_for_encryption_are_told_from_start_ups() {
        assert_eq!(Opening::parse(&80_877_103u32.to_be_bytes(), 4), Opening::EncryptionRequest);
        assert_eq!(Opening::parse(&80_877_104u32.to_be_bytes(), 4), Opening::EncryptionRequest);
        assert_eq!(Opening::parse(&[4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 2], 12), Opening::Cancel);
        assert_eq!(Opening::parse(b"GET ", 4), Opening::Foreign);
        assert_eq!(Opening::parse(b"", 0), Opening::Foreign);
    }

    #[test]
    fn what_is_foreign_is_named() {
        assert_eq!(Foreign::of(&[0x16, 3, 1, 2]), Foreign::Tls);
        assert_eq!(Foreign::of(b"GET / HTTP/1.1"), Foreign::Http);
        assert_eq!(Foreign::of(b"PRI * HTTP/2.0"), Foreign::Http2);
        assert_eq!(Foreign::of(b"\0\0"), Foreign::Unknown);
    }
}
