//! Writes: what each operation is about, what the batch does to the rows, and what comes of it.

pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod request;
pub(crate) mod summary;
