//! Read-only maps of whole files.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The bytes of a file as they were when it was mapped, read by the system when they are first looked at. Shared by
/// threads. The file may be renamed or removed meanwhile: its bytes stay until the map is dropped.
///
/// The file must not be changed: maps are for files that are written once. Bytes that are written over change under the
/// reader, and if the file gets shorter (or a disk cannot read it), the system ends the process with SIGBUS.
#[derive(Debug)]
pub struct Map {
    /// Page-aligned; dangling if there are no bytes.
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is only read, and belongs to no thread.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps all bytes of `file`, which is not needed any longer afterwards.
    ///
    /// # Errors
    /// What the system says: e.g. that it is no file, or that the process has too many maps.
    pub fn of(file: &File) -> io::Result<Self> {
        Self::with(file, MapFlags::SHARED)
    }

    pub(crate) fn with(file: &File, flags: MapFlags) -> io::Result<Self> {
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if len == 0 {
            // The system maps no empty files.
            return Ok(Self { start: NonNull::dangling(), len });
        }
        // SAFETY: the system chooses the place, so no other memory of this process is touched.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` are mapped for reading until `self` is dropped, and nothing in this process can
        // write to them; files that others change are excluded by the type's contract.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the map was made by `Map::of` with this length, and no reference to it outlives `self`.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn mapped(content: &[u8]) -> Map {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        Map::of(&file).unwrap()
    }

    #[test]
    fn a_map_outlives_the_name_and_the_descriptor_of_its_file() {
        for bytes in [0, 1, 4095, 4096, 4097, 1 << 20] {
            let content: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
            let map = mapped(&content);
            assert_eq!(&*map, content, "{bytes} bytes");
            assert!(map.as_ptr().cast::<u64>().is_aligned() || map.is_empty());
        }
    }

    #[test]
    fn threads_share_a_map() {
        let map = mapped(&[7; 10_000]);
        let sum = |map: &Map| map.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        let sums: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| sum(&map))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(sums, [70_000; 4]);
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Map::of(&File::open(folder.path()).unwrap()).is_err());
    }
}
