//! Keys are found where they are, and nowhere else.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn as_in_a_sorted_list((schema, rows) in any_rows(300), batch_rows in 1..400usize, other in any_rows(2)) {
        let memory = Memory::new();
        write(&memory, &schema, false, &rows, batch_rows).unwrap();
        let rowset = open(&memory).unwrap();
        let number = |index: usize| row_number(index / batch_rows, index % batch_rows);
        let keys: Vec<Vec<u8>> = rows.iter().map(|row| key_of(&schema, &row.cells)).collect();

        let mut wanted = keys.clone();
        // Keys between those that are there, shorter, longer, and of another kind altogether.
        for key in &keys {
            wanted.push([&key[..], &[0]].concat());
            if let [head @ .., last] = &key[..] {
                wanted.extend([head.to_vec(), [head, &[last ^ 1]].concat()]);
            }
        }
        wanted.extend([Vec::new(), vec![0xff; 30], key_of(&other.0, &other.1[0].cells)]);
        wanted.sort();
        let expected: Vec<(usize, u32)> = wanted
            .iter()
            .enumerate()
            .filter_map(|(index, key)| Some((index, number(keys.iter().rposition(|other| other == key)?))))
            .collect();
        let mut found = Vec::new();
        rowset.find_all(&wanted, |index, row| found.push((index, row))).unwrap();
        prop_assert_eq!(&found, &expected);
    }
}

#[test]
fn most_missing_keys_are_told_by_the_bloom_filter() {
    let schema = Schema::new(vec![Column::new("k", DataType::Int64)], 1).unwrap().with_sequential_ids(0);
    let cells = |key: i64| vec![Some(key.to_le_bytes().to_vec())];
    let rows: Vec<Row> =
        (0..50_000).map(|key| Row { cells: cells(key * 2), inserted: 1, ended: ALIVE }).collect();
    let memory = Memory::new();
    write(&memory, &schema, false, &rows, 20_000).unwrap();
    let rowset = open(&memory).unwrap();
    let may_be_there = |key: i64| {
        let key = key_of(&schema, &cells(key));
        rowset.bloom(0).unwrap().may_contain(&key)
    };
    assert!((0..20_000).all(|key| may_be_there(key * 2)));
    let wrong = (0..20_000).filter(|key| may_be_there(key * 2 + 1)).count();
    assert!(wrong < 800, "{wrong} of 20000");
    assert_eq!(rowset.find(&key_of(&schema, &cells(39_998))).unwrap(), Some(19_999));
    assert_eq!(rowset.find(&key_of(&schema, &cells(40_000))).unwrap(), Some(row_number(1, 0)));
    assert_eq!(rowset.find(&key_of(&schema, &cells(40_001))).unwrap(), None);
}
