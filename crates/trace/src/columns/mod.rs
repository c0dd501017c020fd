//! Records as columns: collected in a [`batch::Batch`], written by [`encode`], restored by [`decode`].

pub(crate) mod batch;
mod classes;
pub(crate) mod decode;
pub(crate) mod dictionary;
pub(crate) mod encode;
pub(crate) mod packing;
pub(crate) mod predict;
mod table;

#[cfg(test)]
mod tests;
