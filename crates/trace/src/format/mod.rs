//! The bytes of a trace file. `docs/trace-format.md` says the same in tables; a test holds the two together.

pub(crate) mod attribution;
pub(crate) mod block;
pub(crate) mod bytes;
pub(crate) mod header;
pub(crate) mod ledger;

/// The first bytes of every trace file. As in PNG, a byte over 127 and both line ends show what text tools destroy.
pub const FILE_MAGIC: [u8; 8] = [0x89, b'P', b'G', b'T', 0x0d, 0x0a, 0x1a, 0x0a];

/// The first bytes of every block; the last of them is the major version, so that blocks found by searching say it too.
pub const BLOCK_MAGIC: [u8; 4] = [b'P', b'G', b'B', FORMAT_MAJOR as u8];

/// Readers refuse files of a larger major version.
pub const FORMAT_MAJOR: u16 = 1;

/// Counts additions that older readers may pass over: header fields, sections, counters.
pub const FORMAT_MINOR: u16 = 0;

/// Bytes of the file header before its fields.
pub const FILE_HEADER_FIXED_BYTES: usize = 20;

/// A file header is never longer. Filters and assertions are lines of text; this is a hundred times what they take.
pub const MAX_FILE_HEADER_BYTES: usize = 64 << 10;

/// Bytes of a block before its sections.
pub const BLOCK_HEADER_BYTES: usize = 40;

/// A block is never longer. The writer's blocks take 200 KB; records of the worst kind would take 4 MB.
pub const MAX_BLOCK_BYTES: usize = 8 << 20;

/// A block never holds more records: with the column widths this bounds what a reader allocates, whatever a file says.
pub const MAX_BLOCK_RECORDS: u32 = 1 << 16;

/// Ids of the file header's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[expect(missing_docs, reason = "docs/trace-format.md has the table, and a test compares them")]
pub enum HeaderField {
    Tenant = 1,
    Timeline = 2,
    Instance = 3,
    Sequence = 4,
    Started = 5,
    Program = 6,
    Link = 7,
    Clock = 8,
    Filter = 9,
    SampleOneIn = 10,
    MaxBytes = 11,
    MaxTotalBytes = 12,
    Assertion = 13,
}

impl HeaderField {
    /// Every one of them, in order.
    pub const ALL: &'static [Self] = &[
        Self::Tenant,
        Self::Timeline,
        Self::Instance,
        Self::Sequence,
        Self::Started,
        Self::Program,
        Self::Link,
        Self::Clock,
        Self::Filter,
        Self::SampleOneIn,
        Self::MaxBytes,
        Self::MaxTotalBytes,
        Self::Assertion,
    ];
}

/// Ids of a block's sections: below 16 what describes the block, from 16 dictionaries, from 32 columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "docs/trace-format.md has the table, and a test compares them")]
pub enum Section {
    Ledger = 1,
    Owner = 2,
    Attributions = 3,
    Connections = 16,
    Targets = 17,
    Shapes = 18,
    Connection = 32,
    Target = 33,
    Shape = 34,
    Number = 35,
    TimeMode = 36,
    Time = 37,
    Transfer = 38,
    End = 39,
    Depth = 40,
    RequestLsn = 41,
    NotModifiedSince = 42,
    PageLsn = 43,
    PageHash = 44,
    Reqid = 45,
    Seq = 46,
}

impl Section {
    /// Every one of them, in order.
    pub const ALL: &'static [Self] = &[
        Self::Ledger,
        Self::Owner,
        Self::Attributions,
        Self::Connections,
        Self::Targets,
        Self::Shapes,
        Self::Connection,
        Self::Target,
        Self::Shape,
        Self::Number,
        Self::TimeMode,
        Self::Time,
        Self::Transfer,
        Self::End,
        Self::Depth,
        Self::RequestLsn,
        Self::NotModifiedSince,
        Self::PageLsn,
        Self::PageHash,
        Self::Reqid,
        Self::Seq,
    ];

    /// The section of that id, or `None` where a later minor version defined it.
    pub(crate) fn from_id(id: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|&section| section as u8 == id)
    }
}
