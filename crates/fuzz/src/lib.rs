//! What must hold for any input: the bodies of the fuzz targets, which `cargo test` replays, too (`tests/regressions`).
//!
//! Each body takes bytes, reads them as choices ([`input`]), and panics where something does not hold. They go through the
//! public interfaces of the crates only.
//!
//! | target | input | what must hold besides coming to an end |
//! |---|---|---|
//! | [`packets`] | packets of any link type | each is counted once; a cut packet tells the same as the whole one, or less; another reader of the same headers agrees |
//! | [`frames`] | both directions of a connection, in turns | however the turns are cut into segments, the records are the same; each record's request crossed the wire |
//! | [`pagestream`] | a session, and what happens to its packets | every record is true, field by field; nothing is missing in silence |
//! | [`decoder`] | packets and segments, at any time | bounded memory, consistent counters, possible records, the same again for the same input |
//! | [`trace_reader`] | a trace file: any, forged, or damaged | what is read was written; all bytes are accounted for; a growing file reads like a whole one |
//! | [`capture_files`] | capture files | the same packets again; a file that is cut gives the first of them |

pub mod capture_files;
pub mod decoder;
pub mod evidence;
pub mod frames;
pub mod input;
pub mod packets;
pub mod pagestream;
pub mod possible;
pub mod run;
pub mod segment;
pub mod trace_reader;

/// Runs a target on one input; panics where something does not hold.
pub type Check = fn(&[u8]);

/// The targets by name.
pub const TARGETS: &[(&str, Check)] = &[
    ("packets", packets::check),
    ("frames", frames::check),
    ("pagestream", pagestream::check),
    ("decoder", decoder::check),
    ("trace_reader", trace_reader::check),
    ("capture_files", capture_files::check),
];
