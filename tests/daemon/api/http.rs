//! A client of HTTP/1.1 that shows everything as it came: status, headers, body, trailers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Where the API is, and who asks.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) port: u16,
    pub(crate) token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: BTreeMap<String, String>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[], b"")
    }

    pub(crate) fn post(&self, target: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/json".to_owned())];
        self.ask("POST", target, &headers, body.to_string().as_bytes())
    }

    pub(crate) fn ask(&self, method: &str, target: &str, headers: &[(&str, String)], body: &[u8]) -> Answer {
        let mut stream = self.send(method, target, headers, body);
        read(&mut BufReader::new(&mut stream))
    }

    /// Sends a request, whose answer is read elsewhere.
    pub(crate) fn send(&self, method: &str, target: &str, headers: &[(&str, String)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: t\r\nconnection: close\r\nte: trailers\r\n");
        head += &format!("content-length: {}\r\n", body.len());
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        stream
    }
}

/// Reads an answer to its end.
pub(crate) fn read(from: &mut impl BufRead) -> Answer {
    let line = line(from);
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}")).parse().unwrap();
    let headers = fields(from);
    let (mut body, mut trailers) = (Vec::new(), BTreeMap::new());
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        loop {
            let size = usize::from_str_radix(&self::line(from), 16).unwrap();
            if size == 0 {
                break;
            }
            from.take(size as u64).read_to_end(&mut body).unwrap();
            assert_eq!(self::line(from), "");
        }
        trailers = fields(from);
    } else if let Some(length) = headers.get("content-length") {
        let length: u64 = length.parse().unwrap();
        from.take(length).read_to_end(&mut body).unwrap();
        assert_eq!(body.len() as u64, length, "cut off");
    }
    Answer { status, headers, body, trailers }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn fields(from: &mut impl BufRead) -> BTreeMap<String, String> {
    let lines = std::iter::repeat_with(|| line(from)).take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| {
            line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect()
}
