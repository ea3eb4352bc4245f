//! A merge of rowsets is what sorting all their rows gives.

use schema::ColumnId;

use super::*;

/// Keeps rows by their insert, and notes where they went.
struct Younger {
    than: u64,
    placed: Vec<(usize, u32, u32)>,
}

impl Fate for Younger {
    fn keep(&mut self, input: usize, _: u32, inserted: u64) -> Option<(u64, u64)> {
        (inserted > self.than).then_some((inserted, 1000 + input as u64))
    }

    fn placed(&mut self, input: usize, row: u32, new: u32) {
        self.placed.push((input, row, new));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn as_all_rows_sorted(
        (schema, rows) in any_rows(200),
        choices in proptest::collection::vec(0..3usize, 200),
        batch_rows in proptest::array::uniform3(1..100usize),
        than in 0..60u64,
        dropped in any::<bool>(),
    ) {
        // The last input lacks the last column, which was added later.
        let last = schema.len() - 1;
        let added = dropped && last >= schema.key_columns();
        let columns = schema.columns()[..last].to_vec();
        let ids: Vec<ColumnId> = (0..schema.len()).map(|index| schema.id(index)).collect();
        let older = Schema::new(columns, schema.key_columns().min(last)).unwrap();
        let older = older.with_ids(ids[..last].to_vec()).unwrap();
        let default = any_default(&schema.columns()[last]);

        let mut lists = [const { Vec::new() }; 3];
        for (row, choice) in rows.iter().zip(&choices) {
            lists[*choice].push(row.clone());
        }
        let memory = Memory::new();
        let mut inputs = Vec::new();
        let mut expected = Vec::new();
        for (choice, rows) in lists.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let path = Path::new("rowsets").join(format!("input {choice}"));
            let cut = added && choice == 2;
            let stored: Vec<Row> = rows.iter().map(|row| {
                let cells = row.cells[..if cut { last } else { last + 1 }].to_vec();
                Row { cells, ..row.clone() }
            }).collect();
            write_to(&memory, &path, if cut { &older } else { &schema }, false, &stored, batch_rows[choice]).unwrap();
            for row in rows.iter().filter(|row| row.inserted > than) {
                let mut row = Row { ended: 1000 + inputs.len() as u64, ..row.clone() };
                if cut {
                    row.cells[last] = default.clone();
                }
                expected.push(row);
            }
            inputs.push(Rowset::open(&memory, &path, &Arc::new(BlockCache::new(10_000))).unwrap());
        }
        let mut lacking = vec![None; schema.len()];
        lacking[last] = default;
        let mut fate = Younger { than, placed: Vec::new() };
        let mut writer = Writer::create(&memory, folder(), &schema, &[]).unwrap();
        let all: Vec<&Rowset> = inputs.iter().collect();
        merge(&all, &schema, &lacking, &mut fate, &mut writer).unwrap();
        prop_assert_eq!(fate.placed.len(), expected.len());
        if !expected.is_empty() {
            writer.finish().unwrap();
            let merged = read(&open(&memory).unwrap()).unwrap();
            let versions = |rows: &[Row]| {
                let mut all: Vec<_> = rows
                    .iter()
                    .map(|row| (key_of(&schema, &row.cells), row.inserted, row.ended, row.cells.clone()))
                    .collect();
                let in_order = all.is_sorted_by(|a, b| (&a.0, a.1) <= (&b.0, b.1));
                all.sort();
                (in_order, all)
            };
            let merged_rows: Vec<Row> = merged.iter().map(|(_, row)| row.clone()).collect();
            let (in_order, found) = versions(&merged_rows);
            prop_assert!(in_order);
            prop_assert_eq!(found, versions(&expected).1);
            for ((number, row), (input, old, new)) in merged.iter().zip(&fate.placed) {
                prop_assert_eq!(number, new);
                let before = read(all[*input]).unwrap();
                let (_, before) = before.iter().find(|(number, _)| number == old).unwrap();
                let cells = before.cells.len();
                prop_assert_eq!(&before.cells[..], &row.cells[..cells]);
            }
        }
    }
}

fn any_default(column: &Column) -> Option<Vec<u8>> {
    let width = if column.data_type.is_varlen() { 3 } else { column.data_type.cell_size() };
    (!column.nullable).then(|| vec![0; width])
}
