//! Files of the operating system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{Append, Backend};

/// A folder of the operating system.
#[derive(Clone, Debug)]
pub struct Disk {
    root: PathBuf,
    syncs: bool,
}

impl Disk {
    /// The folder `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), syncs: true }
    }

    /// Never asks the system to write anything out (Kudu's `--never_fsync`): for tests.
    #[must_use]
    pub fn without_syncs(mut self) -> Self {
        self.syncs = false;
        self
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }
}

impl Backend for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Append>> {
        let file = OpenOptions::new().append(true).create_new(true).open(self.at(path))?;
        Ok(Box::new(DiskFile { file, syncs: self.syncs }))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(self.at(path))
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        Ok(Bytes::from_owner(shm::Map::of(&File::open(self.at(path))?)?))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names = fs::read_dir(self.at(folder))?.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn truncate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.at(path))?;
        file.set_len(bytes)?;
        if self.syncs { file.sync_all() } else { Ok(()) }
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(self.at(folder))
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir_all(self.at(folder))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if self.syncs { File::open(self.at(folder))?.sync_all() } else { Ok(()) }
    }
}

#[derive(Debug)]
struct DiskFile {
    file: File,
    syncs: bool,
}

impl Append for DiskFile {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.file.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.syncs { self.file.sync_data() } else { Ok(()) }
    }
}
