//! Messages of the Postgres protocol that cross a page service's port
//! (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).

use record::{Protocol, TenantTimeline};

/// `SSLRequest`: asks whether the server speaks TLS; answered by one byte.
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// `GSSENCRequest`: asks for GSSAPI encryption; answered by one byte.
pub const GSSENC_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

/// `Terminate`: the client leaves.
pub const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];

/// `Sync`: the end of a command in the extended protocol.
pub const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];

/// `CopyDone`: this side sends no more CopyData.
pub const COPY_DONE: [u8; 5] = [b'c', 0, 0, 0, 4];

/// `ReadyForQuery`, idle.
pub const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

/// `CopyBothResponse` with no columns: the pagestream is granted.
pub const COPY_BOTH: [u8; 8] = [b'W', 0, 0, 0, 7, 0, 0, 0];

/// `AuthenticationOk`.
const AUTHENTICATION_OK: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 0];

/// `AuthenticationCleartextPassword`: how a pageserver asks for the JWT.
pub const PASSWORD_WANTED: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];

/// Obviously no token of anybody: three parts as a JWT has them.
pub const FAKE_TOKEN: &str = "eyJmYWtlIjoidG9rZW4ifQ.eyJub3QiOiJhIHNlY3JldCJ9.c2lnbmVkLWJ5LW5vYm9keQ";

/// One message: its type, the length that counts itself, the body.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5 + body.len());
    bytes.push(tag);
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// `StartupMessage` as a compute's backend sends it: its process id is the application's name.
pub fn startup(pid: u32, replica: bool) -> Vec<u8> {
    let mode = if replica { "replica" } else { "primary" };
    let mut body = vec![0, 3, 0, 0];
    for text in [
        "user",
        "cloud_admin",
        "database",
        "cloud_admin",
        "options",
        &format!("-c neon.compute_mode={mode}"),
        "application_name",
        &pid.to_string(),
        "",
    ] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    let mut bytes = (body.len() as u32 + 4).to_be_bytes().to_vec();
    bytes.append(&mut body);
    bytes
}

/// What follows once the client is accepted: AuthenticationOk, three parameters, ReadyForQuery. 92 bytes.
pub fn accepted() -> Vec<u8> {
    let mut bytes = AUTHENTICATION_OK.to_vec();
    for parameter in ["client_encoding\0UTF8\0", "integer_datetimes\0on\0", "server_version\x0014.1\0"] {
        bytes.extend(message(b'S', parameter.as_bytes()));
    }
    bytes.extend_from_slice(&READY);
    bytes
}

/// `PasswordMessage`.
pub fn password(token: &str) -> Vec<u8> {
    message(b'p', &terminated(token))
}

/// `Query`.
pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', &terminated(text))
}

/// The command that opens a pagestream.
pub fn pagestream_query(protocol: Protocol, owner: TenantTimeline) -> Vec<u8> {
    let word = match protocol {
        Protocol::V1 => "pagestream",
        Protocol::V2 => "pagestream_v2",
        Protocol::V3 => "pagestream_v3",
    };
    query(&format!("{word} {} {}", owner.tenant, owner.timeline))
}

/// A command in the extended protocol, as `compute_ctl` asks for a base backup: Parse, Bind, Describe, Execute, Sync.
pub fn extended_query(text: &str) -> Vec<u8> {
    let mut parse = vec![0];
    parse.extend(terminated(text));
    parse.extend([0, 0]);
    let mut bytes = message(b'P', &parse);
    bytes.extend(message(b'B', &[0, 0, 0, 0, 0, 0, 0, 0]));
    bytes.extend(message(b'D', b"P\0"));
    bytes.extend(message(b'E', &[0, 0, 0, 0, 0]));
    bytes.extend_from_slice(&SYNC);
    bytes
}

/// `ErrorResponse`.
pub fn error(severity: &str, sqlstate: &str, text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for (field, value) in [(b'S', severity), (b'V', severity), (b'C', sqlstate), (b'M', text)] {
        body.push(field);
        body.extend(terminated(value));
    }
    body.push(0);
    message(b'E', &body)
}

/// `CommandComplete`.
pub fn complete(text: &str) -> Vec<u8> {
    message(b'C', &terminated(text))
}

/// `CancelRequest` for a backend.
pub fn cancel_request(pid: u32, secret: u32) -> Vec<u8> {
    [16, 0x04d2_162e, pid, secret].into_iter().flat_map(u32::to_be_bytes).collect()
}

/// `CopyFail`.
pub fn copy_fail(why: &str) -> Vec<u8> {
    message(b'f', &terminated(why))
}

fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::owner;

    #[test]
    fn the_handshake_has_the_lengths_seen_on_the_wire() {
        assert_eq!(startup(20_000, false).len(), 107);
        assert_eq!(accepted().len(), 92);
        assert_eq!(pagestream_query(Protocol::V3, owner(0, 0)).len(), 85);
        assert_eq!(COPY_BOTH.len(), 8);
    }

    #[test]
    fn every_length_counts_itself() {
        let startup = startup(1, true);
        assert_eq!(u32::from_be_bytes(startup[..4].try_into().unwrap()) as usize, startup.len());
        let mut rest = &extended_query("basebackup a b")[..];
        let mut tags = Vec::new();
        while let [tag, tail @ ..] = rest {
            tags.push(*tag);
            rest = &tail[u32::from_be_bytes(tail[..4].try_into().unwrap()) as usize..];
        }
        assert_eq!(tags, b"PBDES");
    }
}
