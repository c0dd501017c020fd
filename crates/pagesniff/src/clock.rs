//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use record::Timestamp;

/// What time it is. A clock before 1970 is a clock at 1970.
pub(crate) fn wall_clock() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX))
}
