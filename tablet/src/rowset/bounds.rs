//! The least and the greatest cell of a block, so that scans can pass it over.

use schema::{Cell, ColumnSlice, DataType};

/// Longer strings are cut: bounds need not be exact.
const MOST_BYTES: usize = 32;

/// Raw cells: no cell that is not NULL is below `least` or above `greatest`, in the order of the column's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) least: Box<[u8]>,
    pub(crate) greatest: Box<[u8]>,
}

impl Bounds {
    /// The bounds of a column's cells. `None` if all are NULL, if a float is not a number, or if there is no short string
    /// above them.
    pub(crate) fn of(data_type: DataType, cells: ColumnSlice<'_>) -> Option<Self> {
        match data_type {
            DataType::Int8 => fixed(cells, i8::from_le_bytes, i8::to_le_bytes),
            DataType::Bool | DataType::IsDeleted => fixed(cells, u8::from_le_bytes, u8::to_le_bytes),
            DataType::Int16 => fixed(cells, i16::from_le_bytes, i16::to_le_bytes),
            DataType::Int32 | DataType::Date | DataType::Decimal32 => {
                fixed(cells, i32::from_le_bytes, i32::to_le_bytes)
            }
            DataType::Int64 | DataType::UnixtimeMicros | DataType::Decimal64 => {
                fixed(cells, i64::from_le_bytes, i64::to_le_bytes)
            }
            DataType::Decimal128 => fixed(cells, i128::from_le_bytes, i128::to_le_bytes),
            DataType::Float => fixed(cells, f32::from_le_bytes, f32::to_le_bytes),
            DataType::Double => fixed(cells, f64::from_le_bytes, f64::to_le_bytes),
            DataType::String | DataType::Binary | DataType::Varchar => strings(cells),
        }
    }
}

#[allow(clippy::eq_op)]
fn fixed<const N: usize, T: Copy + PartialOrd>(
    cells: ColumnSlice<'_>,
    read: fn([u8; N]) -> T,
    write: fn(T) -> [u8; N],
) -> Option<Bounds> {
    let all = cells.data.as_chunks::<N>().0.iter().map(|cell| read(*cell));
    let (least, greatest) = match cells.non_null {
        None => extremes(all),
        Some(bitmap) => {
            let is_value = |row: usize| bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1);
            extremes(all.enumerate().filter(|(row, _)| is_value(*row)).map(|(_, cell)| cell))
        }
    }?;
    Some(Bounds { least: write(least).into(), greatest: write(greatest).into() })
}

/// `None` if there is no value, or one that does not equal itself.
#[allow(clippy::eq_op)]
fn extremes<T: Copy + PartialOrd>(mut values: impl Iterator<Item = T>) -> Option<(T, T)> {
    let first = values.next()?;
    let start = (first, first, first == first);
    let (least, greatest, ordered) = values.fold(start, |(least, greatest, ordered), value| {
        let least = if value < least { value } else { least };
        let greatest = if value > greatest { value } else { greatest };
        (least, greatest, ordered & (value == value))
    });
    ordered.then_some((least, greatest))
}

fn strings(cells: ColumnSlice<'_>) -> Option<Bounds> {
    let mut values = (0..cells.rows).filter_map(|row| match cells.cell(row) {
        Cell::Value(value) => Some(value),
        Cell::Null | Cell::Unset => None,
    });
    let first = values.next()?;
    let (least, greatest) = values.fold((first, first), |(least, greatest), value| {
        if value < least {
            (value, greatest)
        } else if value > greatest {
            (least, value)
        } else {
            (least, greatest)
        }
    });
    Some(Bounds { least: least[..least.len().min(MOST_BYTES)].into(), greatest: above(greatest)? })
}

/// A short string that is not below `value`.
fn above(value: &[u8]) -> Option<Box<[u8]>> {
    if value.len() <= MOST_BYTES {
        return Some(value.into());
    }
    let last = value[..MOST_BYTES].iter().rposition(|byte| *byte < 0xff)?;
    let mut cut = value[..=last].to_vec();
    cut[last] += 1;
    Some(cut.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(cells: &[f64], non_null: Option<&[u8]>) -> Option<(f64, f64)> {
        let data: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        let slice = ColumnSlice { rows: cells.len(), data: &data, varlen: None, non_null };
        let bounds = Bounds::of(DataType::Double, slice)?;
        let read = |cell: &[u8]| f64::from_le_bytes(cell.try_into().unwrap());
        Some((read(&bounds.least), read(&bounds.greatest)))
    }

    #[test]
    fn nulls_do_not_count_and_what_is_not_a_number_has_no_bounds() {
        assert_eq!(numbers(&[3.0, -7.0, 5.0], None), Some((-7.0, 5.0)));
        assert_eq!(numbers(&[3.0, -7.0, 5.0], Some(&[0b101])), Some((3.0, 5.0)));
        assert_eq!(numbers(&[3.0], Some(&[0])), None);
        assert_eq!(numbers(&[f64::NAN, 1.0], None), None);
        assert_eq!(numbers(&[1.0, f64::NAN], None), None);
        assert_eq!(numbers(&[1.0, f64::NAN], Some(&[0b01])), Some((1.0, 1.0)));
    }

    #[test]
    fn long_strings_are_cut_and_the_upper_bound_is_raised() {
        let long = [b'x'; 40];
        assert_eq!(above(&long).unwrap().len(), MOST_BYTES);
        assert!(*above(&long).unwrap() > long[..]);
        assert_eq!(above(&[0xff; 40]), None);
        assert_eq!(above(b"short").as_deref(), Some(&b"short"[..]));
    }

    proptest! {
        #[test]
        fn no_string_is_outside_of_its_bounds(
            cells in proptest::collection::vec(proptest::collection::vec(250..=255u8, 0..40), 1..20),
        ) {
            let mut offsets = vec![0; 4];
            let mut varlen = Vec::new();
            for cell in &cells {
                varlen.extend_from_slice(cell);
                offsets.extend_from_slice(&(varlen.len() as u32).to_le_bytes());
            }
            let slice = ColumnSlice { rows: cells.len(), data: &offsets, varlen: Some(&varlen), non_null: None };
            if let Some(bounds) = Bounds::of(DataType::Binary, slice) {
                prop_assert!(cells.iter().all(|cell| *bounds.least <= cell[..] && cell[..] <= *bounds.greatest));
                prop_assert!(bounds.least.len() <= MOST_BYTES && bounds.greatest.len() <= MOST_BYTES);
            }
        }
    }
}
