//! Predicates by type, in loops over 64 rows a turn.
// Kudu compares by `<` alone, so "at least" is "not less", which differs for floats that are not numbers.
#![allow(clippy::neg_cmp_op_on_partial_ord)]

use bytes::Bytes;

use super::{Predicate, PredicateError};
use crate::{ColumnSlice, DataType, Schema, Selection, bloom::BlockBloomFilter};

/// A checked predicate, its values decoded and its list sorted.
#[derive(Clone, Debug)]
pub struct Prepared {
    column: usize,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Null,
    NotNull,
    I8(Condition<i8>),
    I16(Condition<i16>),
    I32(Condition<i32>),
    I64(Condition<i64>),
    I128(Condition<i128>),
    U8(Condition<u8>),
    F32(Condition<f32>),
    F64(Condition<f64>),
    Content(Condition<Bytes>),
    Bloom { filters: Vec<BlockBloomFilter>, size: Option<usize>, bounds: Option<Box<Test>> },
}

#[derive(Clone, Debug)]
enum Condition<T> {
    Range(Option<T>, Option<T>),
    Equal(T),
    /// Sorted and without duplicates.
    In(Vec<T>),
    /// A list with a float that is not a number, which equals everything.
    Any,
}

impl Prepared {
    pub(super) fn new(predicate: &Predicate, schema: &Schema) -> Result<Self, PredicateError> {
        let index = predicate.column();
        let missing = PredicateError::NoSuchIndex { column: index, columns: schema.len() };
        let column = schema.columns().get(index).ok_or(missing)?;
        for value in predicate.values() {
            if !column.data_type.fits(value) {
                return Err(PredicateError::Width {
                    column: column.name.clone(),
                    bytes: value.len(),
                    expected: column.data_type.cell_size(),
                });
            }
        }
        let name = || column.name.clone();
        let test = match predicate {
            Predicate::IsNull { .. } => Test::Null,
            Predicate::IsNotNull { .. } => Test::NotNull,
            Predicate::Range { lower: None, upper: None, .. } => {
                return Err(PredicateError::NoBounds { column: name() });
            }
            Predicate::InBloomFilter { filters, .. } if filters.is_empty() => {
                return Err(PredicateError::NoFilters { column: name() });
            }
            Predicate::InBloomFilter { filters, lower, upper, .. } => {
                let bounded = lower.is_some() || upper.is_some();
                let range = Predicate::Range { column: index, lower: lower.clone(), upper: upper.clone() };
                let size = (!column.data_type.is_varlen()).then(|| column.data_type.cell_size());
                let bounds = bounded.then(|| Box::new(typed(&range, column.data_type)));
                Test::Bloom { filters: filters.clone(), size, bounds }
            }
            _ => typed(predicate, column.data_type),
        };
        Ok(Self { column: index, test })
    }

    /// Index of the column in the table's schema.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Deselects the rows that do not match. The selection must be over the slice's rows; rows that the slice
    /// does not hold are deselected.
    pub fn evaluate(&self, slice: ColumnSlice<'_>, selection: &mut Selection) {
        match (&self.test, slice.non_null) {
            (Test::Null, None) => return selection.clear_all(),
            (Test::Null, Some(bitmap)) => return selection.and_bitmap(bitmap, false),
            (_, Some(bitmap)) => selection.and_bitmap(bitmap, true),
            (_, None) => {}
        }
        evaluate(&self.test, slice, selection);
    }

    /// Whether one raw cell that is not NULL matches; for tests and for key look-ups.
    pub fn matches(&self, raw: &[u8]) -> bool {
        let offsets = (raw.len() as u64).wrapping_shl(32).to_le_bytes();
        let varlen = matches!(self.test, Test::Content(_) | Test::Bloom { size: None, .. }).then_some(raw);
        let data = if varlen.is_some() { &offsets } else { raw };
        let mut selection = Selection::all(1);
        self.evaluate(ColumnSlice { rows: 1, data, varlen, non_null: None }, &mut selection);
        !selection.is_none()
    }
}

fn evaluate(test: &Test, slice: ColumnSlice<'_>, selection: &mut Selection) {
    match test {
        Test::Null | Test::NotNull => {}
        Test::I8(condition) => condition.evaluate(slice.data, i8::from_le_bytes, selection),
        Test::I16(condition) => condition.evaluate(slice.data, i16::from_le_bytes, selection),
        Test::I32(condition) => condition.evaluate(slice.data, i32::from_le_bytes, selection),
        Test::I64(condition) => condition.evaluate(slice.data, i64::from_le_bytes, selection),
        Test::I128(condition) => condition.evaluate(slice.data, i128::from_le_bytes, selection),
        Test::U8(condition) => condition.evaluate(slice.data, u8::from_le_bytes, selection),
        Test::F32(condition) => condition.evaluate(slice.data, f32::from_le_bytes, selection),
        Test::F64(condition) => condition.evaluate(slice.data, f64::from_le_bytes, selection),
        Test::Content(condition) => condition.evaluate_contents(slice, selection),
        Test::Bloom { filters, size, bounds } => {
            if let Some(bounds) = bounds {
                evaluate(bounds, slice, selection);
            }
            let hit = |raw: &[u8]| filters.iter().all(|filter| filter.may_contain(raw));
            match size {
                Some(size) => keep(selection, slice.data.chunks_exact((*size).max(1)), hit),
                None => keep(selection, slice.contents(), hit),
            }
        }
    }
}

/// Keeps the rows whose item passes; asks only for those that are still selected.
fn keep<T: Copy>(selection: &mut Selection, items: impl Iterator<Item = T>, test: impl Fn(T) -> bool) {
    let mut items = items;
    for word in selection.words_mut() {
        let mut mask = 0u64;
        for bit in 0..64u32 {
            let place = 1u64.wrapping_shl(bit);
            match items.next() {
                None => break,
                Some(item) if *word & place != 0 && test(item) => mask |= place,
                Some(_) => {}
            }
        }
        *word &= mask;
    }
}

impl<T: Number> Condition<T> {
    fn evaluate<const N: usize>(&self, data: &[u8], read: fn([u8; N]) -> T, selection: &mut Selection) {
        match self {
            Self::Any => {}
            Self::Range(Some(lower), None) => keep_cells(data, read, selection, |v| !(v < *lower)),
            Self::Range(None, Some(upper)) => keep_cells(data, read, selection, |v| v < *upper),
            Self::Range(Some(lower), Some(upper)) => {
                keep_cells(data, read, selection, |v| !(v < *lower) & (v < *upper));
            }
            Self::Range(None, None) => {}
            Self::Equal(value) => keep_cells(data, read, selection, |v| !(v < *value) & !(*value < v)),
            Self::In(values) => keep_cells(data, read, selection, |v| {
                let found = values.get(values.partition_point(|other| *other < v));
                found.is_some_and(|other| !(v < *other))
            }),
        }
    }
}

/// The 64 results are computed without a branch and stored as bytes, which the compiler turns into vector code for plain
/// comparisons.
#[inline]
fn keep_cells<T, const N: usize>(
    data: &[u8],
    read: fn([u8; N]) -> T,
    selection: &mut Selection,
    test: impl Fn(T) -> bool,
) {
    let (cells, _) = data.as_chunks::<N>();
    let mut chunks = cells.chunks(64);
    for word in selection.words_mut() {
        let chunk = chunks.next().unwrap_or_default();
        if *word == 0 {
            continue;
        }
        let mut hits = [0u8; 64];
        for (hit, cell) in hits.iter_mut().zip(chunk) {
            *hit = u8::from(test(read(*cell)));
        }
        *word &= pack(&hits);
    }
}

/// 64 bytes of 0 or 1 to bits, the first lowest: the product moves byte i of eight to bit 56 + i.
fn pack(hits: &[u8; 64]) -> u64 {
    let (eights, _) = hits.as_chunks::<8>();
    let byte =
        |hits: &[u8; 8]| u64::from_le_bytes(*hits).wrapping_mul(0x0102_0408_1020_4080).wrapping_shr(56);
    eights.iter().rev().fold(0, |bits, hits| bits.wrapping_shl(8) | byte(hits))
}

impl Condition<Bytes> {
    fn evaluate_contents(&self, slice: ColumnSlice<'_>, selection: &mut Selection) {
        let items = slice.contents();
        match self {
            Self::Any => {}
            Self::Range(lower, upper) => keep(selection, items, |v| {
                lower.as_ref().is_none_or(|lower| v >= &lower[..])
                    && upper.as_ref().is_none_or(|upper| v < &upper[..])
            }),
            Self::Equal(value) => keep(selection, items, |v| v == value),
            Self::In(values) => {
                keep(selection, items, |v| values.binary_search_by(|other| other[..].cmp(v)).is_ok());
            }
        }
    }
}

/// A number as a cell holds it.
trait Number: Copy + PartialOrd {
    fn is_nan(self) -> bool {
        false
    }
}

impl Number for i8 {}
impl Number for i16 {}
impl Number for i32 {}
impl Number for i64 {}
impl Number for i128 {}
impl Number for u8 {}
impl Number for f32 {
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}
impl Number for f64 {
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

fn typed(predicate: &Predicate, data_type: DataType) -> Test {
    match data_type {
        DataType::Int8 => Test::I8(numbers(predicate, i8::from_le_bytes)),
        DataType::Int16 => Test::I16(numbers(predicate, i16::from_le_bytes)),
        DataType::Int32 | DataType::Date | DataType::Decimal32 => {
            Test::I32(numbers(predicate, i32::from_le_bytes))
        }
        DataType::Int64 | DataType::UnixtimeMicros | DataType::Decimal64 => {
            Test::I64(numbers(predicate, i64::from_le_bytes))
        }
        DataType::Decimal128 => Test::I128(numbers(predicate, i128::from_le_bytes)),
        DataType::Bool | DataType::IsDeleted => Test::U8(numbers(predicate, u8::from_le_bytes)),
        DataType::Float => Test::F32(numbers(predicate, f32::from_le_bytes)),
        DataType::Double => Test::F64(numbers(predicate, f64::from_le_bytes)),
        DataType::String | DataType::Binary | DataType::Varchar => Test::Content(contents(predicate)),
    }
}

fn numbers<T: Number, const N: usize>(predicate: &Predicate, read: fn([u8; N]) -> T) -> Condition<T> {
    // Widths were checked; a cell of another width would read as zero.
    let read = |raw: &Bytes| read(raw.first_chunk().copied().unwrap_or([0; N]));
    match predicate {
        Predicate::Range { lower, upper, .. } => {
            Condition::Range(lower.as_ref().map(read), upper.as_ref().map(read))
        }
        Predicate::Equality { value, .. } => Condition::Equal(read(value)),
        _ => {
            let mut values: Vec<T> = predicate.values().map(read).collect();
            if values.iter().any(|value| value.is_nan()) {
                return Condition::Any;
            }
            values.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
            values.dedup_by(|a, b| a == b);
            Condition::In(values)
        }
    }
}

fn contents(predicate: &Predicate) -> Condition<Bytes> {
    match predicate {
        Predicate::Range { lower, upper, .. } => Condition::Range(lower.clone(), upper.clone()),
        Predicate::Equality { value, .. } => Condition::Equal(value.clone()),
        _ => {
            let mut values: Vec<Bytes> = predicate.values().cloned().collect();
            values.sort_unstable();
            values.dedup();
            Condition::In(values)
        }
    }
}
