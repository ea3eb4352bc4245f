//! What the log keeps: a write is its operations as they came, behind what is needed to read them again; an alteration is
//! all that the table is from then on.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use bytes::Bytes;
use schema::projection::ProjectionError;
use schema::row_ops::{Decoder, RowOpError};
use schema::{ColumnId, Ops, Schema, SchemaError, Timestamp};

use crate::Alteration;
use crate::binary::{Cut, Rest, put_bytes};
use crate::description::{self, NoDescription};
use crate::write::request::RequestKey;

/// An entry that is whole, but makes no sense to this tablet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum EntryError {
    #[error("it ends too early")]
    Cut,
    #[error("it is of a kind not known here ({0})")]
    Kind(u8),
    #[error("it writes a column that the tablet has not ({0})")]
    Column(u32),
    #[error("its columns do not fit the tablet's")]
    Columns,
    #[error("its operations cannot be decoded")]
    Operations,
    #[error("it ended otherwise when it was written")]
    OtherOutcome,
    #[error("it alters the table to what it cannot be")]
    Alteration,
}

/// An entry, borrowed from the log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry<'a> {
    Write(WriteEntry<'a>),
    Alteration(Alteration),
}

/// A write, borrowed from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteEntry<'a> {
    pub(crate) timestamp: Timestamp,
    /// Operations that failed.
    pub(crate) failed: u32,
    pub(crate) request: Option<RequestKey<'a>>,
    columns: Vec<u32>,
    pub(crate) rows: &'a [u8],
    pub(crate) indirect: &'a [u8],
}

const WRITE: u8 = 1;
const ALTERATION: u8 = 2;
const TIMESTAMP_AT: usize = 1;
const FAILED_AT: usize = 9;

/// An entry on its way into the log, in pieces: big ones are shared with whoever brought them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    first: Vec<u8>,
    others: Vec<Bytes>,
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.slices().fold(0, |sum, piece| sum.saturating_add(piece.len()))
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.first[..]).chain(self.others.iter().map(|piece| &piece[..]))
    }
}

impl From<Vec<u8>> for Pieces {
    fn from(first: Vec<u8>) -> Self {
        Self { first, others: Vec::new() }
    }
}

/// The entry of a write, but for what [`complete`] adds when it is known.
pub(crate) fn encode(ops: &Ops<'_>, request: Option<RequestKey<'_>>) -> Pieces {
    let (rows, indirect) = ops.raw();
    let columns = ops.client_columns();
    let content = rows.len().saturating_add(indirect.len());
    let copied = if content < UNCOPIED { content } else { 0 };
    let mut entry =
        Vec::with_capacity(columns.len().saturating_mul(4).saturating_add(128).saturating_add(copied));
    entry.push(WRITE);
    entry.extend_from_slice(&[0; 12]);
    match request {
        None => entry.push(0),
        Some(request) => {
            entry.push(1);
            put_bytes(&mut entry, request.client_id.as_bytes());
            entry.extend_from_slice(&request.seq_no.to_le_bytes());
            entry.extend_from_slice(&request.first_incomplete_seq_no.to_le_bytes());
        }
    }
    entry.extend_from_slice(&(columns.len() as u32).to_le_bytes());
    columns.for_each(|column| entry.extend_from_slice(&ops.schema().id(column).0.to_le_bytes()));
    if content < UNCOPIED {
        put_bytes(&mut entry, rows);
        put_bytes(&mut entry, indirect);
        return entry.into();
    }
    // As `put_bytes` has it.
    let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
    entry.extend_from_slice(&length(rows));
    let between = Bytes::copy_from_slice(&length(indirect));
    let (rows, indirect) = ops.bytes();
    Pieces { first: entry, others: vec![rows, between, indirect] }
}

/// Adds what is known once the write is decided.
pub(crate) fn complete(entry: &mut Pieces, timestamp: Timestamp, failed: u32) {
    put_at(&mut entry.first, TIMESTAMP_AT, &timestamp.0.to_le_bytes());
    put_at(&mut entry.first, FAILED_AT, &failed.to_le_bytes());
}

fn put_at(entry: &mut [u8], at: usize, bytes: &[u8]) {
    entry.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}

/// Smaller writes are copied: that costs less than to share them.
const UNCOPIED: usize = 4096;

/// The entry of an alteration.
pub(crate) fn encode_alteration(to: &Alteration) -> Vec<u8> {
    let mut entry = vec![ALTERATION];
    description::encode(to, &mut entry);
    entry
}

impl<'a> Entry<'a> {
    pub(crate) fn decode(entry: &'a [u8]) -> Result<Self, EntryError> {
        let mut rest = Rest(entry);
        match rest.u8()? {
            WRITE => WriteEntry::decode(rest).map(Self::Write),
            ALTERATION => Ok(Self::Alteration(description::decode(&mut rest)?)),
            other => Err(EntryError::Kind(other)),
        }
    }
}

impl<'a> WriteEntry<'a> {
    fn decode(mut rest: Rest<'a>) -> Result<Self, EntryError> {
        let timestamp = Timestamp(rest.u64()?);
        let failed = rest.u32()?;
        let request = match rest.take::<1>()? {
            [0] => None,
            _ => Some(RequestKey {
                client_id: rest.text()?,
                seq_no: rest.i64()?,
                first_incomplete_seq_no: rest.i64()?,
            }),
        };
        let count = rest.u32()? as usize;
        let ids = rest.0.get(..count.saturating_mul(4)).ok_or(EntryError::Cut)?;
        rest.0 = rest.0.get(ids.len()..).unwrap_or_default();
        let columns = ids.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
        let (rows, indirect) = (rest.bytes()?, rest.bytes()?);
        Ok(Self { timestamp, failed, request, columns, rows, indirect })
    }

    /// What reads the operations, for the tablet's schema.
    pub(crate) fn decoder(&self, schema: &Schema) -> Result<Decoder, EntryError> {
        let index = |id: &u32| schema.index_of_id(ColumnId(*id)).ok_or(EntryError::Column(*id));
        let indexes = self.columns.iter().map(index).collect::<Result<Vec<_>, _>>()?;
        let client = schema.project(&indexes)?;
        Ok(Decoder::new(&client, schema)?)
    }
}

impl From<Cut> for EntryError {
    fn from(_: Cut) -> Self {
        Self::Cut
    }
}

impl From<NoDescription> for EntryError {
    fn from(_: NoDescription) -> Self {
        Self::Alteration
    }
}

impl From<SchemaError> for EntryError {
    fn from(_: SchemaError) -> Self {
        Self::Columns
    }
}

impl From<ProjectionError> for EntryError {
    fn from(_: ProjectionError) -> Self {
        Self::Columns
    }
}

impl From<RowOpError> for EntryError {
    fn from(_: RowOpError) -> Self {
        Self::Operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::row_ops::Encoder;
    use schema::{Column, DataType, OpKind, PartialRow};

    fn table() -> Schema {
        let columns =
            vec![Column::new("k", DataType::Int32), Column::new("s", DataType::String).nullable(true)];
        Schema::new(columns, 1).unwrap().with_sequential_ids(10)
    }

    fn encoded(request: Option<RequestKey<'_>>) -> Vec<u8> {
        let table = table();
        let mut row = PartialRow::new(&table);
        row.set_at(0, 7).unwrap().set_at(1, "seven".to_owned()).unwrap();
        let mut encoder = Encoder::new(&table);
        encoder.push(OpKind::Insert, &row).unwrap();
        let (rows, indirect) = encoder.finish();
        let decoder = Decoder::new(&table, &table).unwrap();
        let mut entry = encode(&decoder.decode(&rows, &indirect).unwrap(), request);
        complete(&mut entry, Timestamp(99), 3);
        entry.slices().collect::<Vec<_>>().concat()
    }

    #[test]
    fn big_writes_are_shared_and_are_the_same_entry() {
        let table = table();
        let mut encoder = Encoder::new(&table);
        for key in 0..300 {
            let mut row = PartialRow::new(&table);
            row.set_at(0, key).unwrap().set_at(1, format!("number {key}")).unwrap();
            encoder.push(OpKind::Insert, &row).unwrap();
        }
        let (rows, indirect) = encoder.finish();
        let (rows, indirect): (Bytes, Bytes) = (rows, indirect);
        let decoder = Decoder::new(&table, &table).unwrap();
        let [shared, copied] = [decoder.decode_shared(&rows, &indirect), decoder.decode(&rows, &indirect)]
            .map(|ops| {
                let mut entry = encode(&ops.unwrap(), None);
                complete(&mut entry, Timestamp(7), 0);
                entry
            });
        assert!(shared.others.iter().any(|piece| piece.as_ptr() == rows.as_ptr()));
        let bytes = shared.slices().collect::<Vec<_>>().concat();
        assert_eq!(bytes, copied.slices().collect::<Vec<_>>().concat());
        assert_eq!(bytes.len(), shared.len());
        let Entry::Write(entry) = Entry::decode(&bytes).unwrap() else { panic!("a write") };
        assert_eq!((entry.timestamp, entry.rows, entry.indirect), (Timestamp(7), &rows[..], &indirect[..]));
    }

    #[test]
    fn a_write_comes_back_as_it_was_and_no_cut_goes_unnoticed() {
        for request in [None, Some(RequestKey { client_id: "c", seq_no: 5, first_incomplete_seq_no: -1 })] {
            let bytes = encoded(request);
            let Entry::Write(entry) = Entry::decode(&bytes).unwrap() else { panic!("a write") };
            assert_eq!((entry.timestamp, entry.failed, entry.request), (Timestamp(99), 3, request));
            let decoder = entry.decoder(&table()).unwrap();
            let ops = decoder.decode(entry.rows, entry.indirect).unwrap();
            let mut cursor = ops.cursor();
            let op = cursor.next_op().unwrap();
            assert_eq!((op.kind, op.cells[1].value()), (OpKind::Insert, Some(&b"seven"[..])));
            (0..bytes.len()).for_each(|len| assert!(Entry::decode(&bytes[..len]).is_err(), "{len}"));
        }
    }

    #[test]
    fn other_kinds_and_columns_are_refused() {
        let mut bytes = encoded(None);
        let other = Schema::new(vec![Column::new("k", DataType::Int32)], 1).unwrap().with_sequential_ids(10);
        let Entry::Write(entry) = Entry::decode(&bytes).unwrap() else { panic!("a write") };
        assert_eq!(entry.decoder(&other).unwrap_err(), EntryError::Column(11));
        bytes[0] = 9;
        assert_eq!(Entry::decode(&bytes), Err(EntryError::Kind(9)));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..100)) {
            bytes[0] = WRITE;
            let _ = Entry::decode(&bytes);
        }
    }
}
