//! The bytes of libpq and pagestream, both directions. Written from Neon's sources
//! (`libs/pageserver_api/src/pagestream_api.rs`) and not from `decode`, so that what is decoded is held against a second
//! opinion.

pub mod libpq;
pub mod pagestream;
