//! Memory that the system shares: read-only maps of files.
//!
//! ```
//! # let path = tempfile::NamedTempFile::new()?.into_temp_path();
//! std::fs::write(&path, "what is in the file")?;
//! let map = shm::Map::of(&std::fs::File::open(&path)?)?;
//! assert_eq!(&map[8..], b"in the file");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Besides the system calls of `rpc-core`'s reactor the only place with unsafe code. What it is not: it writes nothing, and
//! knows nothing of what the bytes mean.

mod map;

pub use map::Map;
