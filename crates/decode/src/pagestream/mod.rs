//! The pagestream protocol (Neon's `libs/pageserver_api/src/pagestream_api.rs`): requests, answers, pairing.
//!
//! | word | meaning |
//! |---|---|
//! | request | one CopyData body from the compute: tag, header, what is asked for |
//! | answer | one CopyData body from the pageserver; answers come in the order of the requests, one for each |
//! | echo | what a version 3 answer repeats of its request |
//! | page facts | `pd_lsn`, whether all zero, hash: all that is kept of a page |

pub(crate) mod answer;
pub(crate) mod emit;
pub(crate) mod layout;
pub(crate) mod page;
pub(crate) mod pairing;
pub(crate) mod request;
pub(crate) mod scan;
