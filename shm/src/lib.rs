//! Memory that the system shares: read-only maps of files, and sealed memories that processes hand to each other.
//!
//! ```
//! # let path = tempfile::NamedTempFile::new()?.into_temp_path();
//! std::fs::write(&path, "what is in the file")?;
//! let map = shm::Map::of(&std::fs::File::open(&path)?)?;
//! assert_eq!(&map[8..], b"in the file");
//!
//! // What is sent to another process is the descriptor.
//! let (descriptor, starts) = shm::sealed("numbers", &[b"header", &[7; 1000]])?;
//! let map = shm::Map::of_sealed(descriptor)?;
//! assert_eq!(map[starts[1] as usize..], [7; 1000]);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Besides the system calls of `rpc-core`'s reactor the only place with unsafe code. What it is not: it writes to no file, and
//! knows nothing of what the bytes mean.

mod map;
mod memory;

pub use map::Map;
pub use memory::{ALIGNMENT, sealed};
