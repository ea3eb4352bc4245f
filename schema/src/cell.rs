//! A borrowed cell.

/// One cell of a row, borrowed from wherever the row lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cell<'a> {
    /// The row says nothing about this column.
    #[default]
    Unset,
    /// NULL.
    Null,
    /// Raw bytes: little endian of exactly [`DataType::cell_size`](crate::DataType::cell_size) bytes, or the
    /// content of a variable-length cell.
    Value(&'a [u8]),
}

impl<'a> Cell<'a> {
    /// The raw bytes, unless unset or NULL.
    pub const fn value(self) -> Option<&'a [u8]> {
        match self {
            Self::Value(raw) => Some(raw),
            Self::Unset | Self::Null => None,
        }
    }

    /// False for [`Cell::Unset`] only.
    pub const fn is_set(self) -> bool {
        !matches!(self, Self::Unset)
    }
}
