//! Writes a rowset: batch by batch into a folder of another name, which gets its own name when everything is synced.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use schema::bloom::BlockBloomFilter;
use schema::key::encode_component;
use schema::{ColumnData, ColumnSlice, Compression, DataType, Schema};

use super::arrow::file::{ArrowFile, Body, padding};
use super::arrow::message::{Codec, Field};
use super::meta::{self, Batch, Block, Meta, Section, StoredColumn};
use super::{
    BATCH_ROWS, Bounds, DATA, INDEX, INDEX_ROWS, META, MOST_BATCHES, PACKED, RowsetError, draft_of, find,
    packed, times,
};
use crate::backend::{Append, Backend};
use crate::file_error::FileError;
use crate::memory::tombstones::ALIVE;
use crate::sealed;

/// A rowset in the making. If it is dropped, a folder is left that the next one of its name replaces, and that a start
/// removes.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    backend: &'a dyn Backend,
    folder: PathBuf,
    draft: PathBuf,
    schema: Schema,
    data: ArrowFile,
    packed: Option<(ArrowFile, Codec)>,
    index: IndexFile,
    meta: Meta,
    rows: u64,
    /// The key of the last row, and when it was inserted.
    last: Option<(Vec<u8>, u64)>,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Row versions.
    pub(crate) rows: u64,
    /// Bytes of all files.
    pub(crate) bytes: u64,
}

/// The file `index` in the making.
#[derive(Debug)]
struct IndexFile {
    file: Box<dyn Append>,
    path: PathBuf,
    offset: u64,
}

/// What a pass over the keys of a batch finds.
struct Keys {
    first: Vec<u8>,
    last: Vec<u8>,
    bloom: Vec<u8>,
    prefixes: Vec<u8>,
}

/// Whether all cells of a column of strings are valid UTF-8.
pub(crate) fn is_text(cells: ColumnSlice<'_>) -> bool {
    cells.varlen.is_none_or(<[u8]>::is_ascii)
        || (0..cells.rows)
            .all(|row| cells.cell(row).value().is_none_or(|cell| std::str::from_utf8(cell).is_ok()))
}

impl<'a> Writer<'a> {
    /// Starts the rowset that will be at `folder`. `text[i]` claims that all cells of column `i` are valid UTF-8, if it is a
    /// STRING or VARCHAR column.
    ///
    /// # Errors
    /// [`RowsetError::File`].
    pub(crate) fn create(
        backend: &'a dyn Backend,
        folder: &Path,
        schema: &Schema,
        text: &[bool],
    ) -> Result<Self, RowsetError> {
        let draft = draft_of(folder);
        match backend.remove_folder(&draft) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(FileError::io("remove", &draft)(error).into());
            }
            _ => backend.create_folder(&draft).map_err(FileError::io("create", &draft))?,
        }
        let stored = |(index, column): (usize, &schema::Column)| StoredColumn {
            id: schema.id(index),
            data_type: column.data_type,
            nullable: column.nullable,
            text: matches!(column.data_type, DataType::String | DataType::Varchar)
                && text.get(index).copied().unwrap_or(false),
            packed: codec_of(column.compression).is_some(),
        };
        let columns: Vec<StoredColumn> = schema.columns().iter().enumerate().map(stored).collect();
        let field = |(column, stored): (&schema::Column, &StoredColumn)| Field {
            column: column.clone(),
            id: stored.id,
            text: stored.text,
        };
        let fields = |packed: bool| {
            let all = schema.columns().iter().zip(&columns);
            all.filter(|(_, stored)| stored.packed == packed).map(field).collect()
        };
        let data = ArrowFile::create(backend, &draft.join(DATA), fields(false))?;
        let codec = schema.columns().iter().filter_map(|column| codec_of(column.compression)).max();
        let packed = match codec {
            Some(codec) => Some((ArrowFile::create(backend, &draft.join(PACKED), fields(true))?, codec)),
            None => None,
        };
        let path = draft.join(INDEX);
        let file = backend.create(&path).map_err(FileError::io("create", &path))?;
        Ok(Self {
            backend,
            folder: folder.to_owned(),
            draft,
            schema: schema.clone(),
            data,
            packed,
            index: IndexFile { file, path, offset: 0 },
            meta: Meta { key_columns: schema.key_columns(), columns, codec, ..Meta::default() },
            rows: 0,
            last: None,
        })
    }

    /// Appends a batch of 1 to [`BATCH_ROWS`] rows: a column each of the schema, all rows in the order of their keys and, of
    /// one key, of their inserts; when each was inserted; when each ended ([`ALIVE`] if it did not; no entries: none did).
    ///
    /// # Errors
    /// [`RowsetError::Rows`] if the rows are not like that, [`RowsetError::File`].
    pub(crate) fn push(
        &mut self,
        rows: usize,
        columns: &[ColumnData],
        inserted: &[u64],
        ended: &[u64],
    ) -> Result<(), RowsetError> {
        let folder = self.folder.clone();
        let problem = |problem| RowsetError::Rows { folder, problem };
        if rows == 0 || rows > BATCH_ROWS || self.meta.batches.len() == MOST_BATCHES {
            return Err(problem("too many or no rows in a batch, or too many batches"));
        }
        let counted = inserted.len() == rows && (ended.is_empty() || ended.len() == rows);
        if !counted || columns.len() != self.meta.columns.len() {
            return Err(problem("columns and times for another number of rows"));
        }
        if let Some(problem_of_cells) =
            columns.iter().zip(&self.meta.columns).find_map(|(data, stored)| misfit(rows, data, stored))
        {
            return Err(problem(problem_of_cells));
        }
        let Some(keys) = self.keys(rows, columns, inserted) else {
            return Err(problem("the rows are not in the order of their keys"));
        };

        let mut blocks = Vec::with_capacity(columns.len());
        let mut buffers = Vec::with_capacity(columns.len());
        for (data, stored) in columns.iter().zip(&self.meta.columns) {
            let nulls = nulls(rows, data);
            let validity = data.non_null.as_deref().filter(|_| nulls > 0).unwrap_or_default();
            let validity = &validity[..validity.len().min(rows.div_ceil(8))];
            let content = data.varlen.as_deref();
            let all = [validity, &data.data].into_iter().chain(content);
            buffers.push(match self.meta.codec.filter(|_| stored.packed) {
                None => all.map(Cow::Borrowed).collect::<Vec<_>>(),
                Some(codec) => all.map(|buffer| Cow::Owned(packed::pack(codec, buffer))).collect(),
            });
            blocks.push(Block {
                offset: 0,
                crc: 0,
                nulls: nulls as u32,
                content: content.map_or(0, <[u8]>::len) as u32,
                packed: [0; 3],
                bounds: Bounds::of(stored.data_type, data.as_slice(rows)),
            });
        }
        for packed in [false, true] {
            let (file, codec) = match (packed, &mut self.packed) {
                (false, _) => (&mut self.data, None),
                (true, Some((file, codec))) => (file, Some(*codec)),
                (true, None) => break,
            };
            let mut body = Body::new(rows, codec);
            let here = || self.meta.columns.iter().enumerate().filter(|(_, stored)| stored.packed == packed);
            for (index, _) in here() {
                let block = &mut blocks[index];
                let placed = body.push(block.nulls as usize, &buffers[index]);
                (block.offset, block.crc) = (placed.offset, placed.crc);
                if packed {
                    block.packed.iter_mut().zip(&buffers[index]).for_each(|(len, b)| *len = b.len() as u32);
                }
            }
            let start = file.push(&body)?;
            here().for_each(|(index, _)| blocks[index].offset += start);
        }
        self.note(rows, keys, inserted, ended, blocks)
    }

    /// Batches so far.
    pub(crate) fn batches(&self) -> usize {
        self.meta.batches.len()
    }

    /// Syncs everything and gives the folder its name.
    ///
    /// # Errors
    /// [`RowsetError::Rows`] if there are no rows, [`RowsetError::File`].
    pub(crate) fn finish(self) -> Result<Written, RowsetError> {
        let Self { backend, folder, draft, data, packed, index, mut meta, rows, .. } = self;
        if rows == 0 {
            return Err(RowsetError::Rows { folder, problem: "there are none" });
        }
        meta.data_bytes = data.finish()?;
        if let Some((packed, _)) = packed {
            meta.packed_bytes = packed.finish()?;
        }
        meta.index_bytes = index.finish()?;
        let content = meta.encode();
        // This syncs the folder, too.
        sealed::write(backend, &draft.join(META), meta::KIND, &content)?;
        backend.rename(&draft, &folder).map_err(FileError::io("rename to", &folder))?;
        let parent = folder.parent().unwrap_or(Path::new(""));
        backend.sync_folder(parent).map_err(FileError::io("sync", parent))?;
        let bytes = meta.data_bytes + meta.packed_bytes + meta.index_bytes + content.len() as u64 + 16;
        Ok(Written { rows, bytes })
    }

    /// Writes what finds the rows of a batch, and notes where everything is.
    fn note(
        &mut self,
        rows: usize,
        keys: Keys,
        inserted: &[u64],
        ended: &[u64],
        blocks: Vec<Block>,
    ) -> Result<(), RowsetError> {
        let mut encoded = Vec::new();
        times::encode(inserted, &mut encoded);
        let bloom = self.index.push(&keys.bloom)?;
        let prefixes = self.index.push(&keys.prefixes)?;
        let inserts = self.index.push(&encoded)?;
        encoded.clear();
        times::encode(ended, &mut encoded);
        let ends = self.index.push(&encoded)?;
        let range = |times: &mut dyn Iterator<Item = u64>| {
            times.fold(None, |range: Option<(u64, u64)>, time| {
                let (least, greatest) = range.unwrap_or((time, time));
                Some((least.min(time), greatest.max(time)))
            })
        };
        let ends_set = || ended.iter().copied().filter(|end| *end != ALIVE);
        self.meta.batches.push(Batch {
            rows: rows as u32,
            alive: (rows - ends_set().count()) as u32,
            first_key: keys.first.into(),
            last_key: keys.last.into(),
            inserted: range(&mut inserted.iter().copied()).unwrap_or_default(),
            ended: range(&mut ends_set()),
            bloom,
            prefixes,
            inserts,
            ends,
            blocks,
        });
        self.rows += rows as u64;
        Ok(())
    }

    /// Encodes all keys; `None` if they are not in order.
    fn keys(&mut self, rows: usize, columns: &[ColumnData], inserted: &[u64]) -> Option<Keys> {
        let count = self.schema.key_columns();
        let slices: Vec<(DataType, ColumnSlice<'_>)> = columns[..count]
            .iter()
            .zip(&self.meta.columns)
            .map(|(data, stored)| (stored.data_type, data.as_slice(rows)))
            .collect();
        let encode = |row: usize, key: &mut Vec<u8>| {
            key.clear();
            for (index, (data_type, cells)) in slices.iter().enumerate() {
                encode_component(
                    *data_type,
                    cells.cell(row).value().unwrap_or_default(),
                    index + 1 == count,
                    key,
                );
            }
        };
        let (mut first, mut last) = (Vec::new(), Vec::new());
        encode(0, &mut first);
        encode(rows - 1, &mut last);
        let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        let mut bloom = BlockBloomFilter::builder(rows.next_power_of_two().ilog2(), find::BLOOM_SEED);
        let mut prefixes = (common as u64).to_le_bytes().to_vec();
        let (mut before, mut before_inserted, mut any) = match self.last.take() {
            Some((key, inserted)) => (key, inserted, true),
            None => (Vec::new(), 0, false),
        };
        let mut key = Vec::new();
        for (row, &inserted) in inserted.iter().enumerate() {
            encode(row, &mut key);
            match key.cmp(&before) {
                std::cmp::Ordering::Less if any => return None,
                std::cmp::Ordering::Equal if any && inserted < before_inserted => return None,
                _ => {}
            }
            if !any || row == 0 || key != before {
                bloom.insert(&key);
            }
            if row.is_multiple_of(INDEX_ROWS) {
                prefixes.extend_from_slice(&find::prefix(&key, common).to_le_bytes());
            }
            std::mem::swap(&mut key, &mut before);
            (before_inserted, any) = (inserted, true);
        }
        self.last = Some((before, before_inserted));
        Some(Keys { first, last, bloom: bloom.build().data().to_vec(), prefixes })
    }
}

impl IndexFile {
    fn push(&mut self, bytes: &[u8]) -> Result<Section, RowsetError> {
        let section = Section { offset: self.offset, bytes: bytes.len() as u32, crc: crc32c::crc32c(bytes) };
        let filler = [0; 64];
        let parts = [bytes, &filler[..padding(bytes.len())]];
        self.file.append(&parts).map_err(FileError::io("write to", &self.path))?;
        self.offset += (parts[0].len() + parts[1].len()) as u64;
        Ok(section)
    }

    fn finish(mut self) -> Result<u64, RowsetError> {
        self.file.sync().map_err(FileError::io("sync", &self.path))?;
        Ok(self.offset)
    }
}

/// How cells of a column are to be packed. A file has one codec: if a column asks for the stronger one, all packed ones get it.
fn codec_of(compression: Compression) -> Option<Codec> {
    match compression {
        Compression::Default | Compression::None => None,
        Compression::Snappy | Compression::Lz4 => Some(Codec::Lz4),
        Compression::Zlib => Some(Codec::Zstd),
    }
}

fn nulls(rows: usize, data: &ColumnData) -> usize {
    let Some(bitmap) = &data.non_null else { return 0 };
    let (whole, rest) = (rows / 8, rows % 8);
    let ones: u32 = bitmap[..whole].iter().map(|byte| byte.count_ones()).sum();
    let last = if rest > 0 { (bitmap[whole] & ((1 << rest) - 1)).count_ones() } else { 0 };
    rows - (ones + last) as usize
}

/// What is wrong with the cells of a column, if something is.
fn misfit(rows: usize, data: &ColumnData, stored: &StoredColumn) -> Option<&'static str> {
    if data.non_null.is_some() != stored.nullable {
        return Some("a bitmap for a column that is not nullable, or none for one that is");
    }
    if data.non_null.as_ref().is_some_and(|bitmap| bitmap.len() < rows.div_ceil(8)) {
        return Some("a bitmap that is too short");
    }
    match (stored.width(), &data.varlen) {
        (Some(width), None) => (data.data.len() != rows * width).then_some("cells of another width"),
        (None, Some(content)) => {
            if !super::reader::offsets_fit(&data.data, rows, content.len()) {
                return Some(
                    "offsets of strings that do not rise from 0 to the end of the content, or 2 GiB of it",
                );
            }
            (stored.text && !is_text(data.as_slice(rows))).then_some("text that is not UTF-8")
        }
        _ => Some("strings for a column of another type, or the other way round"),
    }
}
