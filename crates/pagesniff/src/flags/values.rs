//! Values of options that have a grammar of their own.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use analysis::render::bytes_text;
use bytesize::ByteSize;
use ipnet::IpNet;

use crate::capture::live::{LEAST_BUFFER, MOST_BUFFER};

/// Which computes `--client` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMatch {
    /// Every port of the addresses of a network, or of one address.
    Network(IpNet),
    /// One connection's end.
    Endpoint(SocketAddr),
}

impl ClientMatch {
    /// Whether that client is meant.
    pub fn matches(&self, client: SocketAddr) -> bool {
        match self {
            Self::Network(network) => network.contains(&client.ip()),
            Self::Endpoint(endpoint) => *endpoint == client,
        }
    }
}

impl fmt::Display for ClientMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(f),
            Self::Endpoint(endpoint) => endpoint.fmt(f),
        }
    }
}

/// A value that does not have its option's form; says which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseValueError(&'static str);

impl fmt::Display for ParseValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ParseValueError {}

impl FromStr for ClientMatch {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        let network = || text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let endpoint = || text.parse().ok().map(Self::Endpoint);
        network()
            .map(Self::Network)
            .or_else(endpoint)
            .ok_or(ParseValueError("a client is given as 10.0.0.7, 10.0.0.7:51344, [::1]:51344 or 10.0.0.0/8"))
    }
}

/// One key in so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRate {
    /// The N of 1/N, at least 1.
    pub one_in: u64,
}

impl FromStr for SampleRate {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        let one_in = text.strip_prefix("1/").and_then(|n| n.parse().ok()).filter(|&n| n > 0);
        one_in.map(|one_in| Self { one_in }).ok_or(ParseValueError("a sample is given as 1/N, such as 1/64"))
    }
}

/// How much may be lost before a run counts as failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaxLoss {
    /// So many packets, requests, answers, messages, connections and records together.
    Count(u64),
    /// A share of packets, or of requests, 0 to 1.
    Share(f64),
}

impl FromStr for MaxLoss {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        const FORM: ParseValueError = ParseValueError("loss is given as a count, such as 10, or a share, 0% to 100%");
        match text.strip_suffix('%') {
            None => text.parse().map(Self::Count).map_err(|_| FORM),
            Some(percent) => match percent.parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Share(percent / 100.0)),
                _ => Err(FORM),
            },
        }
    }
}

/// A network of computes: a single address is one as well, loopback is not.
pub(super) fn network(text: &str) -> Result<IpNet, &'static str> {
    let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    let network = network.ok_or("a network is given as 10.0.0.0/8, fd00::/8 or 10.0.0.7")?;
    if network.addr().to_canonical().is_loopback() {
        return Err("loopback addresses are shared by everything on a machine: they cannot be one compute");
    }
    Ok(network)
}

/// A duration with its unit, to the nanosecond.
pub(crate) fn duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

/// A size with its unit.
pub(crate) fn size(text: &str) -> Result<ByteSize, &'static str> {
    text.parse().map_err(|_| "a size is given as 32MiB, 1GiB or in bytes")
}

/// Below this not even one connection's window of missing segments fits.
const LEAST_MEMORY: u64 = 1 << 20;

/// A size with its unit, large enough for the decoder to work in.
pub(crate) fn memory(text: &str) -> Result<ByteSize, String> {
    let size = size(text)?;
    if size.0 < LEAST_MEMORY {
        return Err(format!("the decoder needs at least {}", bytes_text(LEAST_MEMORY)));
    }
    Ok(size)
}

/// The kernel's buffer, in whole bytes that libpcap takes.
pub(crate) fn buffer(text: &str) -> Result<ByteSize, String> {
    let size: Option<ByteSize> = text.parse().ok();
    size.filter(|size| (LEAST_BUFFER..=MOST_BUFFER).contains(size)).ok_or_else(|| {
        let [least, most] = [LEAST_BUFFER, MOST_BUFFER].map(|size| bytes_text(size.as_u64()));
        format!("a buffer is given as 32MiB or in bytes, from {least} to {most}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_address_an_end_or_a_network() {
        let client: SocketAddr = "10.0.0.7:51344".parse().unwrap();
        for (text, expected) in [
            ("10.0.0.7", true),
            ("10.0.0.8", false),
            ("10.0.0.7:51344", true),
            ("10.0.0.7:51345", false),
            ("10.0.0.0/8", true),
            ("::/0", false),
        ] {
            assert_eq!(text.parse::<ClientMatch>().unwrap().matches(client), expected, "{text}");
        }
        assert!("[::1]:6400".parse::<ClientMatch>().unwrap().matches("[::1]:6400".parse().unwrap()));
        for text in ["", "10.0.0", "10.0.0.0/33", "host"] {
            assert!(text.parse::<ClientMatch>().is_err(), "{text}");
        }
    }

    #[test]
    fn loss_is_a_count_or_a_share() {
        assert_eq!("0".parse(), Ok(MaxLoss::Count(0)));
        assert_eq!("0.5%".parse(), Ok(MaxLoss::Share(0.005)));
        for text in ["", "%", "-1", "100.1%", "nan%", "1.5"] {
            assert!(text.parse::<MaxLoss>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(memory("64MiB").unwrap().0, 64 << 20);
        assert_eq!(memory("1GB").unwrap().0, 1_000_000_000);
        assert_eq!(duration("1.5ms").unwrap(), Duration::from_micros(1500));
        assert_eq!("1/64".parse(), Ok(SampleRate { one_in: 64 }));
        assert!("1/0".parse::<SampleRate>().is_err());
    }
}
