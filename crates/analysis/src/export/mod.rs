//! Records in the formats of other programs.

mod oracle_general;
mod page_trace;

pub use oracle_general::{MOST_RELATIONS, ORACLE_BYTES, OraclePages, TooManyRelations, object_of, tell_next_access};
pub use page_trace::page_trace;
