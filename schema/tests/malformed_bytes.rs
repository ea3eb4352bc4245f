//! Whatever a peer sends: an error, never a panic, and no more memory than its bytes are worth.

mod common;

use bytes::Bytes;
use common::{every_type, row};
use proptest::{collection::vec, prelude::*};
use schema::{
    Cell, Column, ColumnData, ColumnarBlock, DataType, RowOpError, Schema, Value,
    bloom::BlockBloomFilter,
    columnar::BlockError,
    key,
    partition::RangeSpec,
    row_block,
    row_ops::{Decoder, Encoder, OpKind},
};

fn small() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int16),
        Column::new("s", DataType::String).nullable(true),
        Column::new("b", DataType::Binary),
    ];
    Schema::new(columns, 1).unwrap()
}

/// Two inserts; the rows and their indirect data.
fn two_rows() -> (Bytes, Bytes) {
    let mut encoder = Encoder::new(&small());
    for k in [1i16, 2] {
        let mut row = schema::PartialRow::new(&small());
        row.set("k", k).unwrap().set("s", "text").unwrap().set("b", vec![7u8; 3]).unwrap();
        encoder.push(OpKind::Insert, &row).unwrap();
    }
    encoder.finish()
}

#[test]
fn row_operations_cut_at_any_length_are_refused_as_cut() {
    let (rows, indirect) = two_rows();
    let decoder = Decoder::new(&small(), &small()).unwrap();
    let whole = rows.len() / 2;
    for length in 0..=rows.len() {
        let count = decoder.decode(&rows[..length], &indirect).map(|ops| ops.len());
        match length % whole {
            0 => assert_eq!(count, Ok(length / whole)),
            _ => assert_eq!(count, Err(RowOpError::Cut { index: length / whole }), "at {length}"),
        }
    }
    for length in 0..indirect.len() {
        let error = decoder.decode(&rows, &indirect[..length]).unwrap_err();
        assert!(
            matches!(error, RowOpError::Indirect { .. }) && error.is_corruption(),
            "at {length}: {error}"
        );
    }
}

#[test]
fn offsets_and_lengths_that_overflow_are_refused() {
    let decoder = Decoder::new(&small(), &small()).unwrap();
    for (offset, length) in [(u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX), (0, 3), (3, 0)] {
        let mut rows = vec![1, 0b111, 0b010, 0, 0];
        rows.extend([offset.to_le_bytes(), length.to_le_bytes()].concat());
        let error = decoder.decode(&rows, b"ab").unwrap_err();
        assert_eq!(error, RowOpError::Indirect { index: 0, column: "b".into() });
    }
}

#[test]
fn many_cells_cannot_share_one_large_content() {
    let decoder = Decoder::new(&small(), &small()).unwrap();
    let content = vec![0; 60_000];
    let op =
        |length: u64| [&[1, 0b111, 0b010, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &length.to_le_bytes()].concat();
    let few = op(60_000).repeat(10);
    assert_eq!(decoder.decode(&few, &content).unwrap().len(), 10);
    let many = op(60_000).repeat(1_000);
    assert!(matches!(decoder.decode(&many, &content), Err(RowOpError::Shared { .. })));
}

#[test]
fn kinds_that_are_unknown_or_out_of_place_are_told_apart() {
    let schema = small();
    let writes = Decoder::new(&schema, &schema).unwrap();
    let bounds = Decoder::for_bounds(&schema, &schema).unwrap();
    for number in 0..=u8::MAX {
        let rows = [number, 0, 0];
        let kind = OpKind::from_number(number);
        let wrong = match kind {
            None => RowOpError::UnknownKind { index: 0, number },
            Some(kind) => RowOpError::WrongKind { index: 0, kind },
        };
        assert!(wrong.is_not_supported());
        let is_write = kind.is_some_and(OpKind::is_write);
        let expect = |accepted: bool| if accepted { Ok(1) } else { Err(wrong.clone()) };
        assert_eq!(writes.decode(&rows, &[]).map(|ops| ops.len()), expect(is_write));
        assert_eq!(bounds.decode(&rows, &[]).map(|ops| ops.len()), expect(kind.is_some() && !is_write));
    }
}

#[test]
fn indirect_contents_of_a_row_block_must_not_overlap() {
    let schema = Schema::new(vec![Column::new("s", DataType::String)], 0).unwrap();
    let cell = [0u64.to_le_bytes(), 5u64.to_le_bytes()].concat();
    assert!(row_block::decode(&schema, 1, &cell, b"hello", false).is_ok());
    let error = row_block::decode(&schema, 2, &cell.repeat(2), b"hello", false).unwrap_err();
    assert_eq!(error, BlockError::Indirect { column: "s".into() });
    let error = row_block::decode(&schema, 1, &cell, b"hell", false).unwrap_err();
    assert_eq!(error, BlockError::Indirect { column: "s".into() });
}

#[test]
fn a_row_block_has_exactly_its_rows() {
    let schema = small();
    let stride = row_block::stride(&schema, false);
    assert_eq!(stride, 2 + 16 + 16 + 1);
    for (count, length) in [(1, stride - 1), (1, stride + 1), (0, 1), (usize::MAX, 0), (usize::MAX, stride)] {
        let rows = vec![0; length];
        let result = row_block::decode(&schema, count, &rows, &[], false);
        assert!(matches!(result, Err(BlockError::RowsSize { .. })), "{count} rows in {length} bytes");
    }
    let counted = row_block::decode(&Schema::new(vec![], 0).unwrap(), 7, &[], &[], false).unwrap();
    assert_eq!((counted.rows, counted.columns.len()), (7, 0));
}

#[test]
fn each_wrong_part_of_a_columnar_block_has_its_error() {
    let schema = Schema::new(vec![Column::new("s", DataType::String).nullable(true)], 0).unwrap();
    let offsets =
        |offsets: &[u32]| Bytes::from(offsets.iter().flat_map(|o| o.to_le_bytes()).collect::<Vec<_>>());
    let check = |data: Bytes, varlen: Option<&'static str>, non_null: Option<&'static [u8]>| {
        let (varlen, non_null) = (varlen.map(Bytes::from), non_null.map(Bytes::from));
        ColumnarBlock { rows: 2, columns: vec![ColumnData { data, varlen, non_null }] }.validate(&schema)
    };
    let good = offsets(&[0, 1, 3]);
    assert_eq!(check(good.clone(), Some("abc"), Some(&[3])), Ok(()));
    let name = || "s".to_owned();
    let size = |bytes| Err(BlockError::DataSize { column: name(), rows: 2, bytes });
    assert_eq!(check(offsets(&[0, 1]), Some("abc"), Some(&[3])), size(8));
    assert_eq!(check(good.slice(1..), Some("abc"), Some(&[3])), size(11));
    assert_eq!(
        check(offsets(&[0, 2, 1]), Some("abc"), Some(&[3])),
        Err(BlockError::Offsets { column: name() })
    );
    assert_eq!(check(good.clone(), Some("ab"), Some(&[3])), Err(BlockError::Offsets { column: name() }));
    assert_eq!(check(good.clone(), None, Some(&[3])), Err(BlockError::Varlen { column: name() }));
    assert_eq!(check(good.clone(), Some("abc"), None), Err(BlockError::Bitmap { column: name() }));
    let bitmap = Err(BlockError::BitmapSize { column: name(), rows: 2, bytes: 0 });
    assert_eq!(check(good, Some("abc"), Some(&[])), bitmap);
    let empty = ColumnarBlock { rows: 0, columns: vec![] };
    assert_eq!(empty.validate(&schema), Err(BlockError::Columns { expected: 1, given: 0 }));
}

#[test]
fn keys_cut_at_any_length_are_refused() {
    let columns = vec![Column::new("s", DataType::String), Column::new("i", DataType::Int32)];
    let schema = Schema::new(columns, 2).unwrap();
    let whole = b"a\x00\x01b\x00\x00\x80\x00\x00\x07";
    assert!(key::decode_key(&schema, whole).is_ok());
    for length in 0..whole.len() {
        assert!(key::decode_key(&schema, &whole[..length]).is_err(), "at {length}");
    }
    assert!(key::decode_key(&schema, b"a\x00\x02\x00\x00\x80\x00\x00\x07").is_err());
    assert!(key::decode_key(&schema, b"\x00\x00\x80\x00\x00\x07\x00").is_err());
}

#[test]
fn bloom_filters_of_odd_sizes_are_refused() {
    for log_space_bytes in [-1, 5, 7, 63, 64, i32::MAX, i32::MIN] {
        let filter = BlockBloomFilter::from_parts(log_space_bytes, Bytes::from(vec![0xff; 64]), 0, false);
        // Two buckets are the least, so 2^5 means them too.
        assert_eq!(filter.is_ok(), log_space_bytes == 5, "{log_space_bytes}");
    }
    let never = BlockBloomFilter::from_parts(6, Bytes::from(vec![0xff; 64]), 0, true).unwrap();
    assert!(!never.may_contain(b"x"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn row_operations_go_round(rows in vec(row(&every_type()), 0..4)) {
        let schema = every_type();
        let mut encoder = Encoder::new(&schema);
        rows.iter().for_each(|row| encoder.push(OpKind::Upsert, row).unwrap());
        let (data, indirect) = encoder.finish();
        let decoder = Decoder::new(&schema, &schema).unwrap();
        let ops = decoder.decode(&data, &indirect).unwrap();
        prop_assert_eq!(ops.len(), rows.len());
        let mut cursor = ops.cursor();
        for row in &rows {
            let op = cursor.next_op().unwrap();
            prop_assert_eq!(op.fault, None);
            prop_assert_eq!(op.cells, row.cells());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        rows in vec(any::<u8>(), 0..200),
        indirect in vec(any::<u8>(), 0..50),
        count in 0..20usize,
        kind in 1..14u8,
    ) {
        for schema in [small(), every_type()] {
            let mut started = vec![kind];
            started.extend(&rows);
            for rows in [&rows, &started] {
                let decoder = Decoder::new(&schema, &schema).unwrap();
                if let Ok(ops) = decoder.decode(rows, &indirect) {
                    let mut cursor = ops.cursor();
                    let mut read = 0;
                    while let Some(op) = cursor.next_op() {
                        prop_assert_eq!(op.cells.len(), schema.len());
                        read += 1;
                    }
                    prop_assert_eq!(read, ops.len());
                }
                let _ = RangeSpec::decode(&schema, rows, &indirect);
                let _ = key::decode_key(&schema, rows);
            }
            let stride = row_block::stride(&schema, true);
            let exact: Vec<_> = rows.iter().copied().cycle().take(if rows.is_empty() { 0 } else { count * stride }).collect();
            if let Ok(block) = row_block::decode(&schema, exact.len() / stride, &exact, &indirect, true) {
                prop_assert_eq!(block.validate(&schema), Ok(()));
            }
        }
    }

    #[test]
    fn arbitrary_columns_are_refused_or_readable(
        rows in 0..10usize,
        parts in vec((vec(any::<u8>(), 0..90), any::<bool>(), any::<bool>()), 3),
    ) {
        let schema = small();
        let column = |(bytes, varlen, bitmap): (Vec<u8>, bool, bool)| {
            let bytes = Bytes::from(bytes);
            ColumnData { varlen: varlen.then(|| bytes.clone()), non_null: bitmap.then(|| bytes.clone()), data: bytes }
        };
        let block = ColumnarBlock { rows, columns: parts.into_iter().map(column).collect() };
        let valid = block.validate(&schema).is_ok();
        for row in 0..=rows {
            for index in 0..=schema.len() {
                let cell = block.cell(row, index);
                let inside = row < rows && index < schema.len();
                prop_assert!(!(valid && inside && cell == Cell::Unset));
                let _ = block.value(&schema, row, index);
            }
        }
        let _ = row_block::encode(&schema, &block, false);
    }

    #[test]
    fn keys_go_round_and_keep_their_order(rows in vec((any::<i16>(), vec(0..3u8, 0..4), any::<i8>()), 2)) {
        let columns = vec![
            Column::new("a", DataType::Int16),
            Column::new("b", DataType::Binary),
            Column::new("c", DataType::Int8),
        ];
        let schema = Schema::new(columns, 3).unwrap();
        let keys: Vec<_> = rows.iter().map(|(a, b, c)| {
            let mut row = schema::PartialRow::new(&schema);
            row.set("a", *a).unwrap().set("b", Value::from(b.clone())).unwrap().set("c", *c).unwrap();
            let key = key::encode_key(&schema, &row.cells()).unwrap();
            assert_eq!(key::decode_key(&schema, &key).unwrap(), row);
            key
        }).collect();
        prop_assert_eq!(keys[0].cmp(&keys[1]), rows[0].cmp(&rows[1]));
    }
}
