//! The parts of the pagesniff program, as a library so that its integration tests can reach them.

pub mod capture;
