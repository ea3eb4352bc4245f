//! An Arrow IPC file in the making.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::message::{self, BatchPlace, Codec, Field, Shape};
use crate::backend::{Append, Backend};
use crate::file_error::FileError;
use crate::rowset::RowsetError;

/// Where buffers start.
pub(crate) const ALIGNMENT: usize = 64;

const MAGIC: &[u8; 6] = b"ARROW1";
const CONTINUATION: [u8; 4] = [0xff; 4];
const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// Bytes up to the next multiple of [`ALIGNMENT`].
pub(crate) const fn padding(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT) - len
}

/// A file that grows by record batches.
#[derive(Debug)]
pub(crate) struct ArrowFile {
    file: Box<dyn Append>,
    path: PathBuf,
    fields: Vec<Field>,
    offset: u64,
    batches: Vec<BatchPlace>,
}

/// The columns of a record batch, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Body<'a> {
    shape: Shape,
    parts: Vec<&'a [u8]>,
    len: usize,
}

/// A column in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// From the start of the body.
    pub(crate) offset: u64,
    /// CRC-32C of all its buffers with what fills them up.
    pub(crate) crc: u32,
}

impl<'a> Body<'a> {
    pub(crate) fn new(rows: usize, codec: Option<Codec>) -> Self {
        let shape = Shape { rows: rows as u64, codec, ..Shape::default() };
        Self { shape, ..Self::default() }
    }

    /// Adds the buffers of a column: validity, then cells, or offsets and content.
    pub(crate) fn push(&mut self, nulls: usize, buffers: &'a [Cow<'_, [u8]>]) -> Placed {
        let mut placed = Placed { offset: self.len as u64, crc: 0 };
        self.shape.nodes.push([self.shape.rows, nulls as u64]);
        for buffer in buffers {
            self.shape.buffers.push([self.len as u64, buffer.len() as u64]);
            let filler = &ZEROS[..padding(buffer.len())];
            placed.crc = crc32c::crc32c_append(crc32c::crc32c_append(placed.crc, buffer), filler);
            self.parts.extend([&**buffer, filler]);
            self.len += buffer.len() + filler.len();
        }
        placed
    }
}

impl ArrowFile {
    pub(crate) fn create(
        backend: &dyn Backend,
        path: &Path,
        fields: Vec<Field>,
    ) -> Result<Self, RowsetError> {
        let file = backend.create(path).map_err(FileError::io("create", path))?;
        let mut arrow = Self { file, path: path.to_owned(), offset: 0, batches: Vec::new(), fields };
        arrow.append(&[MAGIC, &[0, 0]])?;
        arrow.message(&message::schema(&arrow.fields), &[])?;
        Ok(arrow)
    }

    /// Appends a record batch; where its body starts.
    pub(crate) fn push(&mut self, body: &Body<'_>) -> Result<u64, RowsetError> {
        let offset = self.offset;
        let message = message::record_batch(&body.shape, body.len as u64);
        let head = self.message(&message, &body.parts)?;
        self.batches.push(BatchPlace { offset, head, body: body.len as u64 });
        Ok(offset + u64::from(head))
    }

    /// Ends the file and syncs it; its length.
    pub(crate) fn finish(mut self) -> Result<u64, RowsetError> {
        let footer = message::footer(&self.fields, &self.batches);
        let len = (footer.len() as i32).to_le_bytes();
        self.append(&[&CONTINUATION, &[0; 4], &footer, &len, MAGIC])?;
        self.file.sync().map_err(FileError::io("sync", &self.path))?;
        Ok(self.offset)
    }

    /// Appends a message, filled up so that what follows it is aligned; the bytes before its body.
    fn message(&mut self, message: &[u8], body: &[&[u8]]) -> Result<u32, RowsetError> {
        let filler = padding(self.offset as usize + 8 + message.len());
        let len = message.len() + filler;
        let mut parts: Vec<&[u8]> = Vec::with_capacity(4 + body.len());
        let bytes = (len as i32).to_le_bytes();
        parts.extend([&CONTINUATION[..], &bytes, message, &ZEROS[..filler]]);
        parts.extend_from_slice(body);
        self.append(&parts)?;
        Ok(8 + len as u32)
    }

    fn append(&mut self, parts: &[&[u8]]) -> Result<(), RowsetError> {
        self.file.append(parts).map_err(FileError::io("write to", &self.path))?;
        self.offset += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }
}
