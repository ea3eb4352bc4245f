//! Small files that are replaced as a whole: either the old content or the new one is there, and damage is noticed.

use std::io;
use std::path::{Path, PathBuf};

use crate::backend::Backend;
use crate::file_error::FileError;

/// What kind of file it is and which format its content has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The first bytes of the file.
    pub magic: [u8; 8],
    /// The format that is written, and the newest that is read.
    pub version: u32,
}

/// A file that cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealedError {
    /// It cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file was damaged, or is something else.
    #[error("{} is corrupt: it does not fit its checksum", .file.display())]
    Corrupt {
        /// The file, below the root of its backend.
        file: PathBuf,
    },
}

impl SealedError {
    /// True if the system refused something that it may allow later.
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::File(error) if error.is_retriable())
    }

    /// True if there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::File(FileError::Io { kind: io::ErrorKind::NotFound, .. }))
    }
}

/// Replaces the file at `path` by one with this content, and makes it last.
///
/// # Errors
/// [`SealedError::File`]; the old file is still there then.
pub fn write(backend: &dyn Backend, path: &Path, kind: Kind, content: &[u8]) -> Result<(), SealedError> {
    let draft = path.with_extension("draft");
    match backend.remove(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(FileError::io("remove", &draft)(error).into());
        }
        _ => {}
    }
    let version = kind.version.to_le_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[&kind.magic[..], &version].concat()), content);
    let mut file = backend.create(&draft).map_err(FileError::io("create", &draft))?;
    file.append(&[&kind.magic, &version, &crc.to_le_bytes(), content])
        .map_err(FileError::io("write to", &draft))?;
    file.sync().map_err(FileError::io("sync", &draft))?;
    backend.rename(&draft, path).map_err(FileError::io("replace", path))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    Ok(backend.sync_folder(folder).map_err(FileError::io("sync", folder))?)
}

/// The content of the file at `path`.
///
/// # Errors
/// [`SealedError`] says whether it is not there, damaged, or of a later version.
pub fn read(backend: &dyn Backend, path: &Path, kind: Kind) -> Result<Vec<u8>, SealedError> {
    let mut bytes = backend.read(path).map_err(FileError::io("read", path))?;
    let corrupt = || SealedError::Corrupt { file: path.to_owned() };
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(corrupt)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
    let (crc, content) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
    let found = u32::from_le_bytes(*version);
    if *magic == kind.magic && found > kind.version {
        return Err(FileError::NewerFormat { file: path.to_owned(), found, known: kind.version }.into());
    }
    let expected = crc32c::crc32c_append(crc32c::crc32c(&[&magic[..], version].concat()), content);
    if *magic != kind.magic || expected.to_le_bytes() != *crc {
        return Err(corrupt());
    }
    Ok(bytes.split_off(16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Fault, Faulty, Memory};

    const KIND: Kind = Kind { magic: *b"NYALATST", version: 3 };

    fn path() -> &'static Path {
        Path::new("folder/file")
    }

    fn written(content: &[u8]) -> Memory {
        let memory = Memory::new();
        memory.create_folder(Path::new("folder")).unwrap();
        write(&memory, path(), KIND, content).unwrap();
        memory
    }

    #[test]
    fn every_damaged_bit_is_noticed_and_a_newer_format_is_named() {
        let memory = written(b"content");
        assert_eq!(read(&memory, path(), KIND).unwrap(), b"content");
        for offset in 0..23 {
            memory.damage(path(), offset).unwrap();
            assert!(read(&memory, path(), KIND).is_err(), "byte {offset}");
            memory.damage(path(), offset).unwrap();
        }
        let older = Kind { version: 2, ..KIND };
        let error = read(&memory, path(), older).unwrap_err().to_string();
        assert_eq!(error, "folder/file has format 3, this program reads up to 2: use the newer program");
    }

    #[test]
    fn whatever_fails_either_the_old_content_or_the_new_one_is_there() {
        for fault in [Fault::Error, Fault::Death, Fault::Torn(100)] {
            for at in 0..6 {
                let memory = written(b"old");
                let faulty = Faulty::new(memory.clone(), at, fault);
                let done = write(&faulty, path(), KIND, b"new");
                let found = read(&memory.after_power_cut(|most| most / 2), path(), KIND).unwrap();
                assert!(found == b"new" || done.is_err() && found == b"old", "{fault:?} at {at}: {done:?}");
            }
        }
    }
}
