//! The file header: whose trace this is, and under which circumstances it was taken.

use record::{TenantId, TenantTimeline, TimelineId, Timestamp};

use super::bytes::Input;
use super::{FILE_HEADER_FIXED_BYTES, FILE_MAGIC, FORMAT_MAJOR, FORMAT_MINOR, HeaderField, MAX_FILE_HEADER_BYTES};

/// How the trace was taken: the same for every file of one run, until it is changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Circumstances {
    /// Program and version, `pagesniff 0.1.0`.
    pub program: String,
    /// What was listened to, `interface eth0, Ethernet, snap length 262144` or the name of a capture file.
    pub link: String,
    /// Whose clock stamped the packets and how finely, `host, nanoseconds`.
    pub clock: String,
    /// The filter in words, empty where everything was wanted.
    pub filter: String,
    /// One key in so many was kept (by hash), all of its requests; 1 is all. Requests of other keys may be there too, from the
    /// moment at which fewer keys began to be kept.
    pub sample_one_in: u32,
    /// The limit of one tenant's trace, in bytes.
    pub max_bytes: Option<u64>,
    /// The limit of all traces of the directory, in bytes.
    pub max_total_bytes: Option<u64>,
    /// What the operator asserted about addresses (`--one-tenant-per-address`, hints), empty where nothing.
    pub assertion: String,
}

/// What stands at the beginning of a trace file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    /// Minor version of the format that wrote the file.
    pub minor: u16,
    /// Whose requests these are; `None` where that was not known.
    pub owner: Option<TenantTimeline>,
    /// Name of the sniffer that wrote it.
    pub instance: String,
    /// The file's number in its directory, from 1.
    pub sequence: u64,
    /// When the file was begun.
    pub started: Timestamp,
    /// How the trace was taken.
    pub circumstances: Circumstances,
}

/// Why there is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// The bytes are those of a header, as far as they go.
    Cut,
    /// The file is of a later major version, and its checksum is right.
    Newer { major: u16, minor: u16 },
    /// The beginning is not that of a trace.
    Magic,
    /// It begins as a trace, and what follows is damaged.
    Damaged,
}

/// One field: id u16, length u16, bytes. What is longer is cut: the header's bound comes first.
fn put_field(out: &mut Vec<u8>, field: HeaderField, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).unwrap_or(MAX_FIELD_BYTES).min(MAX_FIELD_BYTES);
    out.extend_from_slice(&(field as u16).to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend(bytes.iter().take(usize::from(len)));
}

/// No field is longer, so that all of them fit [`MAX_FILE_HEADER_BYTES`].
const MAX_FIELD_BYTES: u16 = 4096;

impl FileHeader {
    /// Appends the header's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = Vec::new();
        let facts = &self.circumstances;
        if let Some(owner) = self.owner {
            put_field(&mut fields, HeaderField::Tenant, &owner.tenant.0);
            put_field(&mut fields, HeaderField::Timeline, &owner.timeline.0);
        }
        put_field(&mut fields, HeaderField::Instance, self.instance.as_bytes());
        put_field(&mut fields, HeaderField::Sequence, &self.sequence.to_le_bytes());
        put_field(&mut fields, HeaderField::Started, &self.started.0.to_le_bytes());
        for (field, text) in [
            (HeaderField::Program, &facts.program),
            (HeaderField::Link, &facts.link),
            (HeaderField::Clock, &facts.clock),
            (HeaderField::Filter, &facts.filter),
            (HeaderField::Assertion, &facts.assertion),
        ] {
            if !text.is_empty() {
                put_field(&mut fields, field, text.as_bytes());
            }
        }
        put_field(&mut fields, HeaderField::SampleOneIn, &facts.sample_one_in.to_le_bytes());
        for (field, limit) in
            [(HeaderField::MaxBytes, facts.max_bytes), (HeaderField::MaxTotalBytes, facts.max_total_bytes)]
        {
            if let Some(limit) = limit {
                put_field(&mut fields, field, &limit.to_le_bytes());
            }
        }
        let length = FILE_HEADER_FIXED_BYTES.saturating_add(fields.len()) as u32;
        let mut fixed = Vec::with_capacity(FILE_HEADER_FIXED_BYTES);
        fixed.extend_from_slice(&FILE_MAGIC);
        fixed.extend_from_slice(&FORMAT_MAJOR.to_le_bytes());
        fixed.extend_from_slice(&FORMAT_MINOR.to_le_bytes());
        fixed.extend_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&fixed), &fields);
        out.extend_from_slice(&fixed);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&fields);
    }

    /// Reads a header from the first bytes of a file, and says how long it is. `bytes` holds the whole file or its first
    /// [`MAX_FILE_HEADER_BYTES`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize), HeaderFault> {
        let magic = bytes.get(..FILE_MAGIC.len()).unwrap_or(bytes);
        if !FILE_MAGIC.starts_with(magic) {
            return Err(HeaderFault::Magic);
        }
        let mut input = Input::new(bytes);
        let (Some(_), Some(major), Some(minor), Some(length), Some(crc)) =
            (input.bytes(FILE_MAGIC.len()), input.u16(), input.u16(), input.u32(), input.u32())
        else {
            return Err(HeaderFault::Cut);
        };
        let length = length as usize;
        if !(FILE_HEADER_FIXED_BYTES..=MAX_FILE_HEADER_BYTES).contains(&length) {
            return Err(HeaderFault::Damaged);
        }
        let fields = input.bytes(length.saturating_sub(FILE_HEADER_FIXED_BYTES)).ok_or(HeaderFault::Cut)?;
        let fixed = bytes.get(..FILE_HEADER_FIXED_BYTES.saturating_sub(size_of::<u32>())).unwrap_or_default();
        if crc32c::crc32c_append(crc32c::crc32c(fixed), fields) != crc {
            return Err(HeaderFault::Damaged);
        }
        if major > FORMAT_MAJOR {
            return Err(HeaderFault::Newer { major, minor });
        }
        Ok((Self::decode_fields(minor, fields).ok_or(HeaderFault::Damaged)?, length))
    }

    /// Reads the fields; those of later minor versions are passed over.
    fn decode_fields(minor: u16, fields: &[u8]) -> Option<Self> {
        let (mut tenant, mut timeline) = (None, None);
        let mut header = Self {
            minor,
            owner: None,
            instance: String::new(),
            sequence: 0,
            started: Timestamp(0),
            circumstances: Circumstances { sample_one_in: 1, ..Circumstances::default() },
        };
        let facts = &mut header.circumstances;
        let mut input = Input::new(fields);
        while !input.is_empty() {
            let id = input.u16()?;
            let len = usize::from(input.u16()?);
            let mut value = Input::new(input.bytes(len)?);
            let Some(&field) = HeaderField::ALL.iter().find(|&&field| field as u16 == id) else { continue };
            match field {
                HeaderField::Tenant => tenant = Some(TenantId(value.array()?)),
                HeaderField::Timeline => timeline = Some(TimelineId(value.array()?)),
                HeaderField::Instance => header.instance = text(value),
                HeaderField::Sequence => header.sequence = value.u64()?,
                HeaderField::Started => header.started = Timestamp(value.u64()?),
                HeaderField::Program => facts.program = text(value),
                HeaderField::Link => facts.link = text(value),
                HeaderField::Clock => facts.clock = text(value),
                HeaderField::Filter => facts.filter = text(value),
                HeaderField::SampleOneIn => facts.sample_one_in = value.u32()?,
                HeaderField::MaxBytes => facts.max_bytes = Some(value.u64()?),
                HeaderField::MaxTotalBytes => facts.max_total_bytes = Some(value.u64()?),
                HeaderField::Assertion => facts.assertion = text(value),
            }
        }
        header.owner = match (tenant, timeline) {
            (Some(tenant), Some(timeline)) => Some(TenantTimeline { tenant, timeline }),
            (None, None) => None,
            _ => return None,
        };
        Some(header)
    }
}

/// Text for people; what is no UTF-8 shows as replacement characters.
fn text(value: Input<'_>) -> String {
    String::from_utf8_lossy(value.rest()).into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A header with every field set.
    pub(crate) fn full_header() -> FileHeader {
        FileHeader {
            minor: FORMAT_MINOR,
            owner: Some(TenantTimeline { tenant: TenantId([0x3a; 16]), timeline: TimelineId([0x11; 16]) }),
            instance: "eth0".to_owned(),
            sequence: 17,
            started: Timestamp(1_796_094_784_355_667_834),
            circumstances: Circumstances {
                program: "pagesniff 0.1.0".to_owned(),
                link: "interface eth0, Ethernet".to_owned(),
                clock: "host, nanoseconds".to_owned(),
                filter: "kind getpage".to_owned(),
                sample_one_in: 10,
                max_bytes: Some(32 << 20),
                max_total_bytes: Some(1 << 30),
                assertion: "10.0.0.0/8".to_owned(),
            },
        }
    }

    #[test]
    fn a_header_is_read_as_written() {
        for owner in [full_header().owner, None] {
            let header = FileHeader { owner, ..full_header() };
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            let length = bytes.len();
            bytes.extend_from_slice(b"blocks");
            assert_eq!(FileHeader::decode(&bytes), Ok((header, length)));
        }
    }

    #[test]
    fn a_header_cut_anywhere_is_cut_and_a_flipped_bit_never_goes_unseen() {
        let mut bytes = Vec::new();
        full_header().encode(&mut bytes);
        for len in 0..bytes.len() {
            assert_eq!(FileHeader::decode(&bytes[..len]), Err(HeaderFault::Cut), "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(FileHeader::decode(&damaged).is_err(), "{bit}");
        }
    }

    #[test]
    fn a_later_major_version_is_named_and_a_later_field_is_passed_over() {
        let mut bytes = Vec::new();
        full_header().encode(&mut bytes);
        bytes.extend_from_slice(&[0xff, 0x7f, 3, 0, 1, 2, 3]);
        let seal = |bytes: &mut Vec<u8>| {
            let length = bytes.len() as u32;
            bytes[12..16].copy_from_slice(&length.to_le_bytes());
            let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[20..]);
            bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        };
        seal(&mut bytes);
        assert_eq!(FileHeader::decode(&bytes).unwrap().0, full_header());
        bytes[8] = 2;
        seal(&mut bytes);
        assert_eq!(FileHeader::decode(&bytes), Err(HeaderFault::Newer { major: 2, minor: 0 }));
    }

    #[test]
    fn text_over_the_bound_is_cut() {
        let mut header = full_header();
        header.circumstances.filter = "x".repeat(100_000);
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        let (read, _) = FileHeader::decode(&bytes).unwrap();
        assert_eq!(read.circumstances.filter.len(), usize::from(MAX_FIELD_BYTES));
    }
}
