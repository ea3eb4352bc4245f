//! A rowset as it is read: its description in memory, its blocks mapped.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use schema::bloom::BlockBloomFilter;
use schema::{ColumnData, ColumnId};

use super::arrow::file::padding;
use super::meta::{self, Batch, Meta, Section, StoredColumn};
use super::{
    BATCH_ROWS, BlockCache, Bounds, DATA, INDEX, INDEX_ROWS, META, PACKED, RowsetError, Times, find, packed,
    times,
};
use crate::backend::Backend;
use crate::file_error::FileError;
use crate::memory::tombstones::ALIVE;
use crate::sealed;

/// Immutable rows, shared by threads. Nothing but its description is read before it is asked for; each block is compared
/// with its checksum once.
#[derive(Debug)]
pub(crate) struct Rowset {
    folder: PathBuf,
    meta: Meta,
    meta_bytes: u64,
    data: Bytes,
    packed: Bytes,
    index: Bytes,
    cache: Arc<BlockCache>,
    /// Whose blocks in the cache are those of this rowset.
    owner: u64,
    /// What was looked at, by batch.
    loaded: Box<[Loaded]>,
}

#[derive(Debug)]
struct Loaded {
    columns: Box<[OnceLock<ColumnData>]>,
    bloom: OnceLock<BlockBloomFilter>,
    prefixes: OnceLock<Bytes>,
    inserted: OnceLock<Times>,
    ended: OnceLock<Times>,
}

/// The bitmap of a block without NULL.
static ALL_ONES: [u8; BATCH_ROWS / 8] = [0xff; BATCH_ROWS / 8];

impl Rowset {
    /// Opens the rowset in `folder`. What is packed is kept in `cache` once it was unpacked.
    ///
    /// # Errors
    /// [`RowsetError`] says what is missing, damaged or of a later version.
    pub(crate) fn open(
        backend: &dyn Backend,
        folder: &Path,
        cache: &Arc<BlockCache>,
    ) -> Result<Self, RowsetError> {
        let path = folder.join(META);
        let content = sealed::read(backend, &path, meta::KIND)?;
        let meta = Meta::decode(&content).map_err(|at| RowsetError::Corrupt {
            file: path,
            offset: at as u64 + 16,
            problem: "it is no description of a rowset",
        })?;
        let map = |name: &str, bytes: u64| {
            let file = folder.join(name);
            let map = backend.map(&file).map_err(FileError::io("map", &file))?;
            if map.len() as u64 == bytes {
                return Ok(map);
            }
            let offset = bytes.min(map.len() as u64);
            Err(RowsetError::Corrupt { file, offset, problem: "it is not as long as it was" })
        };
        let data = map(DATA, meta.data_bytes)?;
        let packed = if meta.codec.is_some() { map(PACKED, meta.packed_bytes)? } else { Bytes::new() };
        let index = map(INDEX, meta.index_bytes)?;
        let loaded = |_: &Batch| Loaded {
            columns: meta.columns.iter().map(|_| OnceLock::new()).collect(),
            bloom: OnceLock::new(),
            prefixes: OnceLock::new(),
            inserted: OnceLock::new(),
            ended: OnceLock::new(),
        };
        let loaded = meta.batches.iter().map(loaded).collect();
        Ok(Self {
            folder: folder.to_owned(),
            meta_bytes: content.len() as u64 + 16,
            data,
            packed,
            index,
            cache: Arc::clone(cache),
            owner: cache.owner(),
            loaded,
            meta,
        })
    }

    /// Where it is, below the root of its backend.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Row versions.
    pub(crate) fn rows(&self) -> u64 {
        self.meta.batches.iter().map(|batch| u64::from(batch.rows)).sum()
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.meta.data_bytes + self.meta.packed_bytes + self.meta.index_bytes + self.meta_bytes
    }

    /// What is known of the batches; at least one.
    pub(crate) fn batches(&self) -> &[Batch] {
        &self.meta.batches
    }

    /// The stored columns, the key first.
    pub(crate) fn columns(&self) -> &[StoredColumn] {
        &self.meta.columns
    }

    /// How many of the first columns are the key.
    pub(crate) fn key_columns(&self) -> usize {
        self.meta.key_columns
    }

    /// Where in [`Rowset::columns`] a column is; `None` if it was added to the table later.
    pub(crate) fn position(&self, id: ColumnId) -> Option<usize> {
        self.meta.columns.iter().position(|column| column.id == id)
    }

    /// The bounds of a block, if there are any.
    pub(crate) fn bounds(&self, batch: usize, column: usize) -> Option<&Bounds> {
        self.meta.batches[batch].blocks[column].bounds.as_ref()
    }

    /// How many cells of a block are NULL.
    pub(crate) fn nulls(&self, batch: usize, column: usize) -> u32 {
        self.meta.batches[batch].blocks[column].nulls
    }

    /// What the cells of a block take in memory, in bytes.
    pub(crate) fn cell_bytes(&self, batch: usize, column: usize) -> u64 {
        let Batch { rows, blocks, .. } = &self.meta.batches[batch];
        let width = self.meta.columns[column].width().unwrap_or(4) as u64;
        u64::from(*rows) * width + u64::from(blocks[column].content)
    }

    /// Whether a block was read already and is kept.
    pub(crate) fn is_at_hand(&self, batch: usize, column: usize) -> bool {
        match self.meta.columns[column].packed {
            true => self.cache.has((self.owner, batch as u32, column as u32)),
            false => self.loaded[batch].columns[column].get().is_some(),
        }
    }

    /// The cells of a column of a batch, shared with the map or with the cache.
    ///
    /// # Errors
    /// [`RowsetError::Corrupt`] if the block does not fit its checksum.
    ///
    /// # Panics
    /// If there is no such batch or column.
    pub(crate) fn column(&self, batch: usize, column: usize) -> Result<ColumnData, RowsetError> {
        self.block(batch, column).map(Cow::into_owned)
    }

    /// As [`Rowset::column`], without counting references.
    pub(super) fn block(&self, batch: usize, column: usize) -> Result<Cow<'_, ColumnData>, RowsetError> {
        let loaded = &self.loaded[batch].columns[column];
        if let Some(cells) = loaded.get() {
            return Ok(Cow::Borrowed(cells));
        }
        if !self.meta.columns[column].packed {
            let cells = self.load(batch, column)?;
            return Ok(Cow::Borrowed(loaded.get_or_init(|| cells)));
        }
        let key = (self.owner, batch as u32, column as u32);
        if let Some(cells) = self.cache.get(key) {
            return Ok(Cow::Owned(cells));
        }
        let cells = self.load(batch, column)?;
        self.cache.insert(key, cells.clone());
        Ok(Cow::Owned(cells))
    }

    /// When the rows of a batch were inserted.
    ///
    /// # Errors
    /// [`RowsetError::Corrupt`].
    pub(crate) fn inserted(&self, batch: usize) -> Result<Times, RowsetError> {
        let Batch { inserts, inserted, rows, .. } = &self.meta.batches[batch];
        self.times(&self.loaded[batch].inserted, inserts, *rows, *inserted, false)
    }

    /// When the rows of a batch ended ([`ALIVE`](crate::memory::tombstones::ALIVE): not yet); `None` if none has.
    ///
    /// # Errors
    /// [`RowsetError::Corrupt`].
    pub(crate) fn ended(&self, batch: usize) -> Result<Option<Times>, RowsetError> {
        let Batch { ends, ended, rows, .. } = &self.meta.batches[batch];
        let Some(bounds) = ended else { return Ok(None) };
        self.times(&self.loaded[batch].ended, ends, *rows, *bounds, true).map(Some)
    }

    /// The bloom filter of a batch's keys.
    pub(super) fn bloom(&self, batch: usize) -> Result<&BlockBloomFilter, RowsetError> {
        let loaded = &self.loaded[batch].bloom;
        if let Some(bloom) = loaded.get() {
            return Ok(bloom);
        }
        let section = &self.meta.batches[batch].bloom;
        let (bytes, log) = (self.section(section)?, section.bytes.max(1).ilog2() as i32);
        let bloom = BlockBloomFilter::from_parts(log, bytes, find::BLOOM_SEED, false);
        let bloom = bloom.map_err(|_| self.corrupt(INDEX, section.offset, "it is no bloom filter"))?;
        Ok(loaded.get_or_init(|| bloom))
    }

    /// Prefixes of every 64th key of a batch: how many first bytes all keys share, then the eight that follow those.
    pub(super) fn prefixes(&self, batch: usize) -> Result<&[[u8; 8]], RowsetError> {
        let loaded = &self.loaded[batch].prefixes;
        let prefixes = match loaded.get() {
            Some(prefixes) => prefixes,
            None => {
                let Batch { prefixes: section, rows, .. } = &self.meta.batches[batch];
                let bytes = self.section(section)?;
                if bytes.len() != 8 * (1 + (*rows as usize).div_ceil(INDEX_ROWS)) {
                    return Err(self.corrupt(INDEX, section.offset, "it is no index of keys"));
                }
                loaded.get_or_init(|| bytes)
            }
        };
        Ok(prefixes.as_chunks().0)
    }

    fn times(
        &self,
        loaded: &OnceLock<Times>,
        section: &Section,
        rows: u32,
        bounds: (u64, u64),
        some_live: bool,
    ) -> Result<Times, RowsetError> {
        if section.bytes == 0 {
            return Ok(Times::One(bounds.0));
        }
        if let Some(times) = loaded.get() {
            return Ok(times.clone());
        }
        let times = times::decode(self.section(section)?, rows as usize);
        let is_known = |time: u64| (bounds.0..=bounds.1).contains(&time) || (some_live && time == ALIVE);
        let times = times.filter(|times| times.all(is_known));
        let times = times.ok_or_else(|| self.corrupt(INDEX, section.offset, "these are no times"))?;
        Ok(loaded.get_or_init(|| times).clone())
    }

    fn section(&self, section: &Section) -> Result<Bytes, RowsetError> {
        let bytes = slice(&self.index, section.offset, section.bytes as usize);
        bytes
            .filter(|bytes| crc32c::crc32c(bytes) == section.crc)
            .ok_or_else(|| self.corrupt(INDEX, section.offset, "a section does not fit its checksum"))
    }

    fn load(&self, batch: usize, column: usize) -> Result<ColumnData, RowsetError> {
        let (stored, Batch { rows, blocks, .. }) = (&self.meta.columns[column], &self.meta.batches[batch]);
        let (rows, block) = (*rows as usize, &blocks[column]);
        let (name, file) = if stored.packed { (PACKED, &self.packed) } else { (DATA, &self.data) };
        let corrupt = |problem| self.corrupt(name, block.offset, problem);
        let validity = if block.nulls > 0 { rows.div_ceil(8) } else { 0 };
        let data = stored.width().map_or((rows + 1) * 4, |width| rows * width);
        let content = if stored.width().is_none() { block.content as usize } else { 0 };
        let lens = [validity, data, content];
        let padded = |bytes: usize| bytes + padding(bytes);
        let stored_lens = if stored.packed { block.packed.map(|len| len as usize) } else { lens };
        let mut bytes = slice(file, block.offset, stored_lens.iter().map(|len| padded(*len)).sum())
            .filter(|bytes| crc32c::crc32c(bytes) == block.crc)
            .ok_or_else(|| corrupt("a block does not fit its checksum"))?;
        let mut buffers = stored_lens.map(|len| bytes.split_to(padded(len)).slice(..len));
        if let Some(codec) = self.meta.codec.filter(|_| stored.packed) {
            for (buffer, len) in buffers.iter_mut().zip(lens) {
                let unpacked = packed::unpack(codec, std::mem::take(buffer), len);
                *buffer = unpacked.ok_or_else(|| corrupt("a block cannot be unpacked"))?;
            }
        }
        let [validity, data, content] = buffers;
        let is_varlen = stored.width().is_none();
        if is_varlen && !offsets_fit(&data, rows, content.len()) {
            return Err(corrupt("offsets of strings that do not fit the content"));
        }
        let non_null = match (stored.nullable, block.nulls) {
            (false, _) => None,
            (true, 0) => Some(Bytes::from_static(&ALL_ONES[..rows.div_ceil(8)])),
            (true, _) => Some(validity),
        };
        Ok(ColumnData { data, varlen: is_varlen.then_some(content), non_null })
    }

    pub(super) fn corrupt(&self, file: &str, offset: u64, problem: &'static str) -> RowsetError {
        RowsetError::Corrupt { file: self.folder.join(file), offset, problem }
    }
}

impl Drop for Rowset {
    fn drop(&mut self) {
        if self.meta.codec.is_some() {
            self.cache.remove(self.owner);
        }
    }
}

fn slice(bytes: &Bytes, offset: u64, len: usize) -> Option<Bytes> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(len)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}

/// Whether `offsets` are those of `rows` strings in `content` bytes: from 0 to the end, never falling, 31 bits.
pub(super) fn offsets_fit(offsets: &[u8], rows: usize, content: usize) -> bool {
    let (all, rest) = offsets.as_chunks::<4>();
    let at = |offset: Option<&[u8; 4]>| offset.map(|bytes| u32::from_le_bytes(*bytes) as usize);
    all.len() == rows + 1
        && rest.is_empty()
        && at(all.first()) == Some(0)
        && at(all.last()) == Some(content)
        && content <= i32::MAX as usize
        && all.is_sorted_by(|a, b| u32::from_le_bytes(*a) <= u32::from_le_bytes(*b))
}
