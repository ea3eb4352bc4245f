//! The lock of what threads meet at. `loom-models` compiles those files with loom's in its place.

pub(crate) use parking_lot::Mutex;
