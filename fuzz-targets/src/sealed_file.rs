//! Small files that are replaced as a whole.

use std::path::Path;

use tablet::FileError;
use tablet::backend::{Backend, Memory};
use tablet::sealed::{self, Kind, SealedError};

const KIND: Kind = Kind { magic: *b"NYALAFUZ", version: 2 };

/// As a file: read only if its checksum fits. As content: what is written is read, and no byte changes unnoticed.
pub fn run(bytes: &[u8]) {
    let (memory, path) = (Memory::new(), Path::new("file"));
    put(&memory, path, bytes);
    match sealed::read(&memory, path, KIND) {
        Ok(content) => {
            assert_eq!(&bytes[16..], content);
            assert!(bytes.starts_with(&KIND.magic));
        }
        Err(error) => assert!(matches!(
            error,
            SealedError::Corrupt { .. } | SealedError::File(FileError::NewerFormat { .. })
        )),
    }
    let written = Path::new("written");
    sealed::write(&memory, written, KIND, bytes).unwrap_or_else(|error| panic!("memory takes all: {error}"));
    assert_eq!(sealed::read(&memory, written, KIND).ok().as_deref(), Some(bytes));
    let at = bytes.first().map_or(0, |byte| usize::from(*byte)) % (bytes.len() + 16);
    assert!(memory.damage(written, at).is_ok() && sealed::read(&memory, written, KIND).is_err());
}

/// Makes a file of these bytes.
pub(crate) fn put(memory: &Memory, path: &Path, bytes: &[u8]) {
    let appended = memory.create(path).and_then(|mut file| file.append(&[bytes]));
    assert!(appended.is_ok(), "memory takes all");
}
