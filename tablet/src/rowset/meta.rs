//! What a rowset says of itself: columns, batches, and where their blocks are. FORMAT.md draws the bytes.

use schema::{ColumnId, DataType};

use super::arrow::message::Codec;
use super::bounds::Bounds;
use super::{BATCH_ROWS, MOST_BATCHES};
use crate::binary::{Cut, Rest, put_bytes};
use crate::sealed::Kind;

/// The sealed file `meta`.
pub(crate) const KIND: Kind = Kind { magic: *b"NYALAROW", version: 1 };

/// The content of `meta`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Meta {
    /// How many of the first columns are the key.
    pub(crate) key_columns: usize,
    pub(crate) columns: Vec<StoredColumn>,
    pub(crate) batches: Vec<Batch>,
    /// Bytes of `data.arrow`.
    pub(crate) data_bytes: u64,
    /// How `packed.arrow` is packed, if there is one.
    pub(crate) codec: Option<Codec>,
    /// Its bytes.
    pub(crate) packed_bytes: u64,
    /// Bytes of `index`.
    pub(crate) index_bytes: u64,
}

/// A column as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredColumn {
    pub(crate) id: ColumnId,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
    /// All cells of a STRING or VARCHAR column are valid UTF-8.
    pub(crate) text: bool,
    /// It is in `packed.arrow`.
    pub(crate) packed: bool,
}

/// What is known of a batch without reading its rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    /// 1 to [`BATCH_ROWS`].
    pub(crate) rows: u32,
    /// Rows that have not ended.
    pub(crate) alive: u32,
    /// Encoded.
    pub(crate) first_key: Box<[u8]>,
    /// Encoded.
    pub(crate) last_key: Box<[u8]>,
    /// The oldest and the newest insert.
    pub(crate) inserted: (u64, u64),
    /// The oldest and the newest end of the rows that have ended.
    pub(crate) ended: Option<(u64, u64)>,
    /// Of the keys.
    pub(crate) bloom: Section,
    /// Of every 64th key.
    pub(crate) prefixes: Section,
    /// No bytes if all rows have the same.
    pub(crate) inserts: Section,
    /// No bytes if no row has ended, or all at the same time.
    pub(crate) ends: Section,
    /// One a column.
    pub(crate) blocks: Vec<Block>,
}

/// Part of `index`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

/// The cells of one column of one batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    /// In its file.
    pub(crate) offset: u64,
    pub(crate) crc: u32,
    pub(crate) nulls: u32,
    /// Bytes of a string column's content.
    pub(crate) content: u32,
    /// Stored bytes of the buffers of a packed column: validity, cells or offsets, content.
    pub(crate) packed: [u32; 3],
    pub(crate) bounds: Option<Bounds>,
}

impl StoredColumn {
    /// Bytes of a cell; `None` for strings.
    pub(crate) fn width(&self) -> Option<usize> {
        (!self.data_type.is_varlen()).then(|| self.data_type.cell_size())
    }
}

/// Kudu's numbers of the types.
const TYPES: [(DataType, u8); 15] = [
    (DataType::Int8, 1),
    (DataType::Int16, 3),
    (DataType::Int32, 5),
    (DataType::Int64, 7),
    (DataType::String, 8),
    (DataType::Bool, 9),
    (DataType::Float, 10),
    (DataType::Double, 11),
    (DataType::Binary, 12),
    (DataType::UnixtimeMicros, 13),
    (DataType::Decimal32, 15),
    (DataType::Decimal64, 16),
    (DataType::Decimal128, 17),
    (DataType::Varchar, 19),
    (DataType::Date, 21),
];

const NULLABLE: u8 = 1;
const TEXT: u8 = 2;
const PACKED: u8 = 4;

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.batches.len() * (128 + self.columns.len() * 64));
        for bytes in [self.data_bytes, self.packed_bytes, self.index_bytes] {
            out.extend_from_slice(&bytes.to_le_bytes());
        }
        out.push(match self.codec {
            None => 0,
            Some(Codec::Lz4) => 1,
            Some(Codec::Zstd) => 2,
        });
        put(&mut out, self.key_columns as u32);
        put(&mut out, self.columns.len() as u32);
        for column in &self.columns {
            put(&mut out, column.id.0);
            let number = TYPES.iter().find(|(data_type, _)| *data_type == column.data_type);
            out.push(number.map_or(0, |(_, number)| *number));
            let flag = |set: bool, flag: u8| if set { flag } else { 0 };
            out.push(flag(column.nullable, NULLABLE) | flag(column.text, TEXT) | flag(column.packed, PACKED));
        }
        put(&mut out, self.batches.len() as u32);
        self.batches.iter().for_each(|batch| batch.encode(&self.columns, &mut out));
        out
    }

    /// The meta that [`Meta::encode`] wrote, or where in `bytes` it cannot be that.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, usize> {
        let mut rest = Rest(bytes);
        let meta = Self::read(&mut rest).ok().filter(|_| rest.0.is_empty());
        meta.ok_or(bytes.len() - rest.0.len())
    }

    fn read(input: &mut Rest<'_>) -> Result<Self, Cut> {
        let (data_bytes, packed_bytes, index_bytes) = (input.u64()?, input.u64()?, input.u64()?);
        let codec = match input.u8()? {
            0 => None,
            1 => Some(Codec::Lz4),
            2 => Some(Codec::Zstd),
            _ => return Err(Cut),
        };
        let key_columns = input.u32()? as usize;
        let mut columns = Vec::new();
        for _ in 0..input.u32()? {
            let id = ColumnId(input.u32()?);
            let (number, flags) = (input.u8()?, input.u8()?);
            let (data_type, _) = *TYPES.iter().find(|(_, known)| *known == number).ok_or(Cut)?;
            let has = |flag: u8| flags & flag != 0;
            let (nullable, text, packed) = (has(NULLABLE), has(TEXT), has(PACKED));
            columns.push(StoredColumn { id, data_type, nullable, text, packed });
        }
        if key_columns == 0 || columns.get(..key_columns).ok_or(Cut)?.iter().any(|column| column.nullable) {
            return Err(Cut);
        }
        if columns.iter().any(|column| column.packed) != codec.is_some() {
            return Err(Cut);
        }
        let count = input.u32()?;
        let batches = (0..count).map(|_| Batch::read(&columns, input)).collect::<Result<Vec<_>, _>>()?;
        // Numbers of rows have 14 bits for the batch.
        let ordered = batches.is_sorted_by(|a, b| a.last_key <= b.first_key);
        let fits = !batches.is_empty() && batches.len() <= MOST_BATCHES && ordered;
        if fits {
            Ok(Self { key_columns, columns, batches, data_bytes, codec, packed_bytes, index_bytes })
        } else {
            Err(Cut)
        }
    }
}

impl Batch {
    fn encode(&self, columns: &[StoredColumn], out: &mut Vec<u8>) {
        put(out, self.rows);
        put(out, self.alive);
        put_bytes(out, &self.first_key);
        put_bytes(out, &self.last_key);
        // An end is never at the least timestamp: before the first insert there is nothing to end.
        let (first_end, last_end) = self.ended.unwrap_or((0, 0));
        for time in [self.inserted.0, self.inserted.1, first_end, last_end] {
            out.extend_from_slice(&time.to_le_bytes());
        }
        for section in [self.bloom, self.prefixes, self.inserts, self.ends] {
            out.extend_from_slice(&section.offset.to_le_bytes());
            put(out, section.bytes);
            put(out, section.crc);
        }
        for (block, column) in self.blocks.iter().zip(columns) {
            out.extend_from_slice(&block.offset.to_le_bytes());
            [block.crc, block.nulls, block.content].into_iter().for_each(|number| put(out, number));
            if column.packed {
                block.packed.into_iter().for_each(|number| put(out, number));
            }
            match &block.bounds {
                None => out.push(0),
                Some(Bounds { least, greatest }) => {
                    out.push(1);
                    put_bytes(out, least);
                    put_bytes(out, greatest);
                }
            }
        }
    }

    fn read(columns: &[StoredColumn], input: &mut Rest<'_>) -> Result<Self, Cut> {
        let (rows, alive) = (input.u32()?, input.u32()?);
        if rows == 0 || rows as usize > BATCH_ROWS || alive > rows {
            return Err(Cut);
        }
        let (first_key, last_key): (Box<[u8]>, Box<[u8]>) = (input.bytes()?.into(), input.bytes()?.into());
        let inserted = (input.u64()?, input.u64()?);
        let ended = Some((input.u64()?, input.u64()?)).filter(|ended| *ended != (0, 0));
        let mut section = || Ok(Section { offset: input.u64()?, bytes: input.u32()?, crc: input.u32()? });
        let (bloom, prefixes, inserts, ends) = (section()?, section()?, section()?, section()?);
        let block = |column: &StoredColumn| Block::read(column, rows, input);
        let blocks = columns.iter().map(block).collect::<Result<Vec<_>, _>>()?;
        let fits = first_key <= last_key && ended.is_some() == (alive < rows);
        if fits {
            Ok(Self {
                rows,
                alive,
                first_key,
                last_key,
                inserted,
                ended,
                bloom,
                prefixes,
                inserts,
                ends,
                blocks,
            })
        } else {
            Err(Cut)
        }
    }
}

impl Block {
    fn read(column: &StoredColumn, rows: u32, input: &mut Rest<'_>) -> Result<Self, Cut> {
        let offset = input.u64()?;
        let (crc, nulls, content) = (input.u32()?, input.u32()?, input.u32()?);
        let packed = if column.packed { [input.u32()?, input.u32()?, input.u32()?] } else { [0; 3] };
        let mut bounds = None;
        if input.u8()? != 0 {
            let Bounds { least, greatest } =
                bounds.insert(Bounds { least: input.bytes()?.into(), greatest: input.bytes()?.into() });
            if !column.data_type.fits(least) || !column.data_type.fits(greatest) {
                return Err(Cut);
            }
        }
        let fits = nulls <= rows && (nulls == 0 || column.nullable);
        if fits { Ok(Self { offset, crc, nulls, content, packed, bounds }) } else { Err(Cut) }
    }
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}
