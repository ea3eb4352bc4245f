//! What is read is what was written.

use super::*;

fn numbers(rows: &[Row], batch_rows: usize) -> Vec<(u32, Row)> {
    let number =
        |(index, row): (usize, &Row)| (row_number(index / batch_rows, index % batch_rows), row.clone());
    rows.iter().enumerate().map(number).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn all_types_nulls_versions_and_ends((schema, rows) in any_rows(150), batch_rows in 1..160usize) {
        let memory = Memory::new();
        let written = write(&memory, &schema, false, &rows, batch_rows).unwrap();
        let rowset = open(&memory).unwrap();
        prop_assert_eq!(written, Written { rows: rows.len() as u64, bytes: rowset.bytes() });
        prop_assert_eq!(rowset.rows(), written.rows);
        prop_assert_eq!(read(&rowset).unwrap(), numbers(&rows, batch_rows));

        for (batch, rows) in rowset.batches().iter().zip(rows.chunks(batch_rows)) {
            let inserted = || rows.iter().map(|row| row.inserted);
            let ended = || rows.iter().map(|row| row.ended).filter(|end| *end != ALIVE);
            prop_assert_eq!(batch.inserted, (inserted().min().unwrap(), inserted().max().unwrap()));
            prop_assert_eq!(batch.ended, ended().min().zip(ended().max()));
            prop_assert_eq!(batch.alive as usize, rows.len() - ended().count());
        }
        for (number, batch) in rows.chunks(batch_rows).enumerate() {
            for column in 0..schema.len() {
                let nulls = batch.iter().filter(|row| row.cells[column].is_none()).count();
                prop_assert_eq!(rowset.nulls(number, column) as usize, nulls);
                let is_no_number = |row: &Row| match (schema.columns()[column].data_type, &row.cells[column]) {
                    (DataType::Float, Some(cell)) => f32::from_le_bytes(cell[..].try_into().unwrap()).is_nan(),
                    (DataType::Double, Some(cell)) => f64::from_le_bytes(cell[..].try_into().unwrap()).is_nan(),
                    _ => false,
                };
                let unknown = nulls == batch.len() || batch.iter().any(is_no_number);
                prop_assert_eq!(rowset.bounds(number, column).is_none(), unknown);
            }
        }
    }
}

fn one_column(column: Column) -> Schema {
    let columns = vec![Column::new("k", DataType::Int32), Column { name: "v".into(), ..column }];
    Schema::new(columns, 1).unwrap().with_ids(vec![schema::ColumnId(30), schema::ColumnId(20)]).unwrap()
}

fn rows_of(cells: impl IntoIterator<Item = Option<Vec<u8>>>) -> Vec<Row> {
    let row = |(key, cell): (i32, Option<Vec<u8>>)| Row {
        cells: vec![Some(key.to_le_bytes().to_vec()), cell],
        inserted: 5,
        ended: ALIVE,
    };
    (0..).zip(cells).map(row).collect()
}

#[test]
fn columns_are_found_by_their_ids_and_text_stays_text() {
    let memory = Memory::new();
    let schema = one_column(Column::new("", DataType::String).nullable(true));
    let rows = rows_of([Some("käse".into()), None, Some("".into())]);
    write(&memory, &schema, true, &rows, 10).unwrap();
    let rowset = open(&memory).unwrap();
    assert_eq!(rowset.position(schema::ColumnId(20)), Some(1));
    assert_eq!(rowset.position(schema::ColumnId(21)), None);
    assert_eq!((rowset.columns()[0].text, rowset.columns()[1].text), (false, true));
    assert_eq!(rowset.inserted(0).unwrap(), Times::One(5));
    assert_eq!(rowset.ended(0).unwrap(), None);
}

#[test]
fn a_nullable_block_without_null_has_a_bitmap_of_ones_and_blocks_are_aligned() {
    let memory = Memory::new();
    let schema = one_column(Column::new("", DataType::Int64).nullable(true));
    let rows = rows_of((0..100i64).map(|value| Some(value.to_le_bytes().to_vec())));
    write(&memory, &schema, false, &rows, 70).unwrap();
    let rowset = open(&memory).unwrap();
    for (batch, rows) in [(0, 70usize), (1, 30)] {
        let column = rowset.column(batch, 1).unwrap();
        assert_eq!(column.non_null.as_deref(), Some(&vec![0xff; rows.div_ceil(8)][..]));
        assert_eq!(rowset.batches()[batch].blocks[1].offset % 64, 0);
    }
}

#[test]
fn strings_of_64_kib_are_kept() {
    let memory = Memory::new();
    let schema = one_column(Column::new("", DataType::Binary));
    let rows = rows_of((0..40).map(|i| Some(vec![i as u8; if i % 2 == 0 { 65_536 } else { i }])));
    write(&memory, &schema, false, &rows, 16).unwrap();
    let rowset = open(&memory).unwrap();
    assert_eq!(read(&rowset).unwrap(), numbers(&rows, 16));
}

#[test]
fn what_no_rowset_can_hold_is_refused() {
    let memory = Memory::new();
    let schema = one_column(Column::new("", DataType::String));
    let problem = |text: bool, rows: &[Row]| write(&memory, &schema, text, rows, 10).unwrap_err().to_string();
    assert_eq!(problem(true, &rows_of([Some(vec![0xff])])), "cannot write rowsets/7: text that is not UTF-8");
    assert_eq!(problem(true, &[]), "cannot write rowsets/7: there are none");
    let mut rows = rows_of([Some(vec![]), Some(vec![])]);
    rows.reverse();
    assert!(problem(true, &rows).ends_with("the rows are not in the order of their keys"));
    let mut writer = Writer::create(&memory, folder(), &schema, &[]).unwrap();
    let rows = rows_of([Some(vec![])]);
    let good = gather(&schema, &rows);
    assert!(writer.push(2, &good, &[5, 5], &[]).is_err());
    assert!(writer.push(1, &good, &[], &[]).is_err());
    assert!(writer.push(1, &good[..1], &[5], &[]).is_err());
    writer.push(1, &good, &[5], &[]).unwrap();
    // Versions of one key: an older one may not follow.
    assert!(writer.push(1, &good, &[4], &[]).is_err());
}
