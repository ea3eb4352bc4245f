//! Arrow IPC files, written block by block so that each buffer starts at a multiple of 64 bytes.

pub(crate) mod file;
pub(crate) mod message;
