//! Where packets come from: capture files now, an interface later.
