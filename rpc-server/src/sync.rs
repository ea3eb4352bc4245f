//! The locks of what threads meet at. `loom-models` compiles those files with loom's in their place.

pub(crate) use parking_lot::{Condvar, Mutex};
