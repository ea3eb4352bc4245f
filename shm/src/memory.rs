//! Memory that is filled once, and then can be changed by nobody.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::mm::MapFlags;

use crate::Map;

/// Makes a memory of `parts` one behind the other, each on a boundary of [`ALIGNMENT`] bytes with zeros in between, and seals
/// it: it keeps its length and content for as long as anybody has it, whatever they try. `name` shows in the system's lists.
///
/// Returns its descriptor, to be sent to others, and where each part begins.
///
/// # Errors
/// What the system says: no more descriptors, or no more memory.
pub fn sealed(name: &str, parts: &[&[u8]]) -> io::Result<(OwnedFd, Vec<u64>)> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    let mut starts = Vec::with_capacity(parts.len());
    let mut end = 0u64;
    for part in parts {
        let start = end.next_multiple_of(ALIGNMENT);
        // Written, not mapped and copied: the system then need not clear the pages first.
        file.write_all_at(part, start)?;
        starts.push(start);
        end = start + part.len() as u64;
    }
    fcntl_add_seals(&file, SEALS)?;
    Ok((file.into(), starts))
}

impl Map {
    /// Maps a memory that somebody else has made, if it is sealed as those of [`sealed`] are: it cannot change under the
    /// reader.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if it is not sealed, or no memory at all; else what the system says.
    pub fn of_sealed(memory: OwnedFd) -> io::Result<Self> {
        let invalid = |text| io::Error::new(io::ErrorKind::InvalidData, text);
        let seals = fcntl_get_seals(memory.as_fd()).map_err(|_| invalid("a descriptor of no memory"))?;
        if !seals.contains(SEALS) {
            return Err(invalid("a memory that is not sealed"));
        }
        // Private, since older systems take "shared" for "perhaps to be written one day"; all of it at once, which is cheaper
        // than page by page.
        Self::with(&File::from(memory), MapFlags::PRIVATE | MapFlags::POPULATE)
    }
}

/// Parts begin at multiples of it, as a reader of columns likes them.
pub const ALIGNMENT: u64 = 64;

const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn parts_lie_on_boundaries_and_are_read_as_written() {
        let parts = [&b"header"[..], &[7; 5000], &[], &[8; 64], b"end"];
        let (memory, starts) = sealed("test", &parts).unwrap();
        let map = Map::of_sealed(memory).unwrap();
        for (part, start) in parts.iter().zip(&starts) {
            assert_eq!(start % ALIGNMENT, 0);
            assert_eq!(&map[*start as usize..][..part.len()], *part);
        }
        assert_eq!(map.len() as u64, starts[4] + 3);
    }

    #[test]
    fn a_sealed_memory_cannot_be_written_made_longer_or_shorter_nor_opened_for_writing() {
        let (memory, _) = sealed("test", &[b"what was written"]).unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let mut own = File::from(memory.try_clone().unwrap());
        let mut tries = vec![own.write_at(b"x", 0).map(drop), own.set_len(1), own.set_len(1 << 20)];
        own.seek(io::SeekFrom::End(0)).unwrap();
        tries.push(own.write(b"x").map(drop));
        // Opening may be allowed, writing is not.
        match OpenOptions::new().write(true).open(&path) {
            Ok(again) => tries.push(again.write_at(b"x", 0).map(drop)),
            Err(error) => tries.push(Err(error)),
        }
        tries.push(fcntl_add_seals(&memory, SealFlags::FUTURE_WRITE).map_err(Into::into));
        for tried in tries {
            assert!(tried.is_err(), "{tried:?}");
        }
        assert_eq!(&*Map::of_sealed(memory).unwrap(), b"what was written");
    }

    #[test]
    fn what_is_not_sealed_or_no_memory_is_refused() {
        let open = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        File::from(open.try_clone().unwrap()).write_all(b"content").unwrap();
        fcntl_add_seals(&open, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        let file = tempfile::tempfile().unwrap();
        let (pipe, _end) = io::pipe().unwrap();
        for descriptor in [open, file.into(), pipe.into()] {
            let error = Map::of_sealed(descriptor).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        }
    }
}
