//! RowOperationsPB: the rows of a write, and the split rows and range bounds of a new table.
//!
//! One operation: its kind (1 byte), a bitmap of the columns that are set, a bitmap of those that are NULL if the schema
//! has a nullable column, then the cells that are set and not NULL, without padding. A variable-length cell is offset and
//! length (u64 each) into the indirect data. Bitmaps count the columns of the client's schema.

pub use self::{
    alike::{Alike, AlikeCells, FixedCells, VarlenCells},
    decoder::Decoder,
    encoder::{EncodeError, Encoder},
    faults::{RowFault, RowOpError},
    ops::{Cursor, Op, Ops},
};

mod alike;
mod decoder;
mod encoder;
mod faults;
mod ops;

/// What an operation is to do, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A new row; an error if there is one of its key.
    Insert = 1,
    /// Sets columns of a row; an error if there is none of its key.
    Update = 2,
    /// Takes a row away; an error if there is none of its key.
    Delete = 3,
    /// Create table only.
    SplitRow = 4,
    /// Insert, or update if there is a row of its key.
    Upsert = 5,
    /// Inclusive; create and alter table only.
    RangeLowerBound = 6,
    /// Exclusive; create and alter table only.
    RangeUpperBound = 7,
    /// As [`RangeLowerBound`](Self::RangeLowerBound), exclusive.
    ExclusiveRangeLowerBound = 8,
    /// As [`RangeUpperBound`](Self::RangeUpperBound), inclusive.
    InclusiveRangeUpperBound = 9,
    /// Insert; nothing happens if there is a row of its key.
    InsertIgnore = 10,
    /// Update; a missing row, and values of immutable columns, are passed over.
    UpdateIgnore = 11,
    /// Delete; nothing happens if there is no row of its key.
    DeleteIgnore = 12,
    /// Upsert; values of immutable columns of a row that is there are passed over.
    UpsertIgnore = 13,
}

impl OpKind {
    /// The kind of this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Insert,
            2 => Self::Update,
            3 => Self::Delete,
            4 => Self::SplitRow,
            5 => Self::Upsert,
            6 => Self::RangeLowerBound,
            7 => Self::RangeUpperBound,
            8 => Self::ExclusiveRangeLowerBound,
            9 => Self::InclusiveRangeUpperBound,
            10 => Self::InsertIgnore,
            11 => Self::UpdateIgnore,
            12 => Self::DeleteIgnore,
            13 => Self::UpsertIgnore,
            _ => return None,
        })
    }

    /// False for split rows and range bounds.
    pub const fn is_write(self) -> bool {
        !matches!(
            self,
            Self::SplitRow
                | Self::RangeLowerBound
                | Self::RangeUpperBound
                | Self::ExclusiveRangeLowerBound
                | Self::InclusiveRangeUpperBound
        )
    }

    /// INSERT and INSERT_IGNORE.
    pub const fn is_insert(self) -> bool {
        matches!(self, Self::Insert | Self::InsertIgnore)
    }

    /// UPDATE and UPDATE_IGNORE.
    pub const fn is_update(self) -> bool {
        matches!(self, Self::Update | Self::UpdateIgnore)
    }

    /// DELETE and DELETE_IGNORE.
    pub const fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteIgnore)
    }

    /// UPSERT and UPSERT_IGNORE.
    pub const fn is_upsert(self) -> bool {
        matches!(self, Self::Upsert | Self::UpsertIgnore)
    }

    /// The forms that count a failure of their kind instead of reporting it.
    pub const fn is_ignore(self) -> bool {
        matches!(self, Self::InsertIgnore | Self::UpdateIgnore | Self::DeleteIgnore | Self::UpsertIgnore)
    }
}
