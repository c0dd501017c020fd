//! The libpq protocol as far as pagestream needs it (PostgreSQL documentation, "Frontend/Backend Protocol"): framing,
//! start-up, and the commands that tell whose connection it is. Passwords and tokens are skipped by arithmetic.

pub(crate) mod command;
pub(crate) mod frame;
pub(crate) mod startup;
