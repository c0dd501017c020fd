//! The file that holds the table of connections: a header, the connections, and a CRC-32C of all before it, little-endian.
//!
//! ```text
//! magic 8 | version u16 | written_ns u64 | count u32 | count × connection | crc32c u32
//! connection: interface (u8 length, bytes) | client | server | tenant 16 | timeline 16 | attribution u8 | protocol u8 |
//!             backend pid (u8 known, u32) | client_seq u32 | known_at_ns u64
//! client, server: u8 4 or 6 | address 16 | port u16
//! ```

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use decode::OpenConnection;
use record::{Attribution, Protocol, TenantId, TenantTimeline, TimelineId, Timestamp};

const MAGIC: [u8; 8] = *b"\x89PGCONN\n";

/// Another layout is another version.
const VERSION: u16 = 1;

/// As many as a decoder remembers.
pub(super) const MOST_CONNECTIONS: usize = 16_384;

/// No table of [`MOST_CONNECTIONS`] is longer, with the longest interface names.
const MOST_BYTES: u64 = 4 << 20;

/// Interfaces' names have 15 bytes on Linux.
const MOST_NAME_BYTES: usize = 32;

/// A connection whose tenant is known, and the interface that it was seen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) interface: String,
    pub(super) connection: OpenConnection,
}

/// The whole table, as it was then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) written_at: Timestamp,
    pub(super) connections: Vec<Known>,
}

impl Table {
    /// The file's bytes. Connections of unknown tenant, and those beyond the most, are left out.
    pub(super) fn encode(&self) -> Vec<u8> {
        let owned = self.connections.iter().filter_map(|known| Some((known, known.connection.owner?)));
        let owned: Vec<_> = owned.take(MOST_CONNECTIONS).collect();
        let mut out = Vec::with_capacity(owned.len().saturating_mul(128));
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.written_at.0.to_le_bytes());
        out.extend(u32::try_from(owned.len()).unwrap_or(u32::MAX).to_le_bytes());
        for (Known { interface, connection }, owner) in owned {
            let name = interface.as_bytes();
            let name = name.get(..name.len().min(MOST_NAME_BYTES)).unwrap_or_default();
            out.push(u8::try_from(name.len()).unwrap_or(0));
            out.extend(name);
            put_endpoint(&mut out, connection.client);
            put_endpoint(&mut out, connection.server);
            out.extend(owner.tenant.0);
            out.extend(owner.timeline.0);
            out.push(match connection.attribution {
                None => 0,
                Some(Attribution::Handshake) => 1,
                Some(Attribution::Hint) => 2,
                Some(Attribution::Address) => 3,
            });
            out.push(connection.protocol.number());
            out.push(u8::from(connection.backend_pid.is_some()));
            out.extend(connection.backend_pid.unwrap_or(0).to_le_bytes());
            out.extend(connection.client_seq.to_le_bytes());
            out.extend(connection.known_at.0.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out);
        out.extend(crc.to_le_bytes());
        out
    }

    /// Reads what [`Self::encode`] made; anything else is refused.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut input = Input(bytes.strip_prefix(&MAGIC).ok_or("it is no table of connections")?);
        let damaged = || "it is damaged".to_owned();
        let version = u16::from_le_bytes(input.take().ok_or_else(damaged)?);
        if version != VERSION {
            return Err(format!("it has version {version}, this pagesniff reads {VERSION}"));
        }
        let (whole, crc) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if crc32c::crc32c(whole) != u32::from_le_bytes(*crc) {
            return Err(damaged());
        }
        input.0 = input.0.strip_suffix(crc).ok_or_else(damaged)?;
        input.table().filter(|_| input.0.is_empty()).ok_or_else(damaged)
    }
}

fn put_endpoint(out: &mut Vec<u8>, endpoint: SocketAddr) {
    let (family, address) = match endpoint.ip() {
        IpAddr::V4(address) => (4, address.to_ipv6_mapped()),
        IpAddr::V6(address) => (6, address),
    };
    out.push(family);
    out.extend(address.octets());
    out.extend(endpoint.port().to_le_bytes());
}

/// What has not been read yet.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn table(&mut self) -> Option<Table> {
        let written_at = Timestamp(u64::from_le_bytes(self.take()?));
        let count =
            usize::try_from(u32::from_le_bytes(self.take()?)).ok().filter(|&count| count <= MOST_CONNECTIONS)?;
        let connections = (0..count).map(|_| self.known()).collect::<Option<Vec<_>>>()?;
        Some(Table { written_at, connections })
    }

    fn known(&mut self) -> Option<Known> {
        let length = usize::from(self.byte()?);
        let (name, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        let interface = str::from_utf8(name).ok()?.to_owned();
        let (client, server) = (self.endpoint()?, self.endpoint()?);
        let owner = TenantTimeline { tenant: TenantId(self.take()?), timeline: TimelineId(self.take()?) };
        let attribution = match self.byte()? {
            0 => None,
            1 => Some(Attribution::Handshake),
            2 => Some(Attribution::Hint),
            3 => Some(Attribution::Address),
            _ => return None,
        };
        let protocol = match self.byte()? {
            1 => Protocol::V1,
            2 => Protocol::V2,
            3 => Protocol::V3,
            _ => return None,
        };
        let knows_pid = self.byte()? == 1;
        let backend_pid = Some(u32::from_le_bytes(self.take()?)).filter(|_| knows_pid);
        let client_seq = u32::from_le_bytes(self.take()?);
        let known_at = Timestamp(u64::from_le_bytes(self.take()?));
        let owner = Some(owner);
        let connection =
            OpenConnection { client, server, owner, attribution, protocol, backend_pid, client_seq, known_at };
        Some(Known { interface, connection })
    }

    fn endpoint(&mut self) -> Option<SocketAddr> {
        let family = self.byte()?;
        let address = Ipv6Addr::from(self.take::<16>()?);
        let address = match family {
            4 => IpAddr::V4(address.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED)),
            6 => IpAddr::V6(address),
            _ => return None,
        };
        Some((address, u16::from_le_bytes(self.take()?)).into())
    }
}

/// Reads a file; `None` where there is none.
///
/// # Errors
///
/// One line without the path: it cannot be read, or is not whole.
pub(super) fn read(path: &Path) -> Result<Option<Table>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Table::decode(&bytes).map(Some)
}

/// Writes a file as a whole: whoever reads it, at whatever moment and after whatever crash, finds the one before or this.
pub(in crate::daemon) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let beside = directory.join(format!(".{}.new", name.to_string_lossy()));
    let written = (|| {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(if directory.as_os_str().is_empty() { Path::new(".") } else { &directory })?.sync_all()
    })();
    written.inspect_err(|_| {
        // Half a file only takes up room; where it cannot be removed, the next one takes its place.
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let connection = OpenConnection {
            client: ([10, 0, 0, 7], 51344).into(),
            server: "[2001:db8::1]:6400".parse().unwrap(),
            owner: Some(TenantTimeline { tenant: TenantId([3; 16]), timeline: TimelineId([9; 16]) }),
            attribution: Some(Attribution::Handshake),
            protocol: Protocol::V3,
            backend_pid: Some(4711),
            client_seq: u32::MAX,
            known_at: Timestamp(1_000_000_000),
        };
        let other = OpenConnection { attribution: None, protocol: Protocol::V2, backend_pid: None, ..connection };
        let connections = vec![
            Known { interface: "eth0".to_owned(), connection },
            Known { interface: "any".to_owned(), connection: other },
        ];
        Table { written_at: Timestamp(7), connections }
    }

    #[test]
    fn a_table_comes_back_as_it_was_without_unknown_tenants() {
        let mut with_unknown = table();
        let unknown = OpenConnection { owner: None, ..with_unknown.connections[0].connection };
        with_unknown.connections.push(Known { interface: "eth0".to_owned(), connection: unknown });
        assert_eq!(Table::decode(&with_unknown.encode()), Ok(table()));
        assert_eq!(Table::decode(&Table::default().encode()), Ok(Table::default()));
    }

    #[test]
    fn every_damage_is_refused() {
        let bytes = table().encode();
        for length in 0..bytes.len() {
            assert!(Table::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Table::decode(&damaged).is_err(), "changed at {at}");
        }
        assert!(Table::decode(&[&bytes[..], b"x"].concat()).is_err());
    }

    #[test]
    fn contents_that_no_table_has_are_refused_with_a_right_checksum_too() {
        let bytes = table().encode();
        let whole = bytes.len() - 4;
        // The count, and the attribution and protocol of the first connection.
        for at in [18, 19, 20, 21, 22 + 5, 22 + 5 + 38 + 32, 22 + 5 + 38 + 33] {
            let mut wrong = bytes[..whole].to_vec();
            wrong[at] = 0xee;
            let crc = crc32c::crc32c(&wrong);
            wrong.extend(crc.to_le_bytes());
            assert!(Table::decode(&wrong).is_err(), "{at}");
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_one_that_is_not_there_is_no_fault() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("connections");
        assert_eq!(read(&path), Ok(None));
        for table in [Table::default(), table()] {
            write(&path, &table.encode()).unwrap();
            assert_eq!(read(&path), Ok(Some(table)));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(&path, b"nonsense").unwrap();
        assert_eq!(read(&path), Err("it is no table of connections".to_owned()));
    }
}
