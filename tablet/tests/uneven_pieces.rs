//! Pieces of a tablet for readers who share a scan: no row is in none or in two of them, and they are of about one size.

mod common;

use common::storage::{reopen, row, table};
use common::{NOW, batch};
use schema::{OpKind, Timestamp};
use tablet::backend::Memory;
use tablet::{Alteration, KeyRange, ScanError, ScanSpec, SyncPolicy, Tablet};

/// Bytes of `k`, `v` and `s` of the rows here.
const ROW: u64 = 4 + 4 + 4 + 20;

fn write(tablet: &Tablet, kind: OpKind, keys: &[i32]) {
    for keys in keys.chunks(1000) {
        let text = "twenty bytes of text";
        let rows: Vec<_> = keys.iter().map(|key| row(&table(), kind, *key, Some(1), Some(text))).collect();
        assert!(batch(tablet, &rows).unwrap().row_errors.is_empty());
    }
}

fn key(key: i32) -> Vec<u8> {
    ((key as u32) ^ 1 << 31).to_be_bytes().to_vec()
}

/// The encoded keys of a range, in order.
fn keys(tablet: &Tablet, spec: &ScanSpec) -> Vec<Vec<u8>> {
    let mut scanner = tablet.scan(ScanSpec { projection: vec![0], ..spec.clone() }, NOW).unwrap();
    let mut keys = Vec::new();
    while let Some(block) = scanner.next_block(1 << 20).unwrap() {
        let cells = block.columns[0].data.as_chunks::<4>().0.iter().take(block.rows);
        keys.extend(cells.map(|cell| key(i32::from_le_bytes(*cell))));
    }
    keys.sort();
    keys
}

/// Pieces without gaps that hold all rows of the range; how many rows each has.
fn checked(tablet: &Tablet, spec: &ScanSpec, target: u64) -> Vec<(u64, KeyRange)> {
    counted(tablet, spec, target, &keys(tablet, spec))
}

/// As [`checked`], with the keys of all rows of the range.
fn counted(tablet: &Tablet, spec: &ScanSpec, target: u64, keys: &[Vec<u8>]) -> Vec<(u64, KeyRange)> {
    let pieces = tablet.split_key_range(spec, target).unwrap();
    assert_eq!(pieces.first().map(|piece| &piece.lower), Some(&spec.lower_key));
    assert_eq!(pieces.last().map(|piece| &piece.upper), Some(&spec.upper_key));
    for pair in pieces.windows(2) {
        assert!(pair[0].upper.is_some() && pair[0].upper == pair[1].lower);
    }
    let cuts: Vec<_> = pieces.windows(2).map(|pair| pair[0].upper.clone().unwrap()).collect();
    assert!(cuts.is_sorted_by(|a, b| a < b));
    assert!(cuts.iter().all(|key| schema::key::decode_key(&table(), key).is_ok()), "clients decode them");
    let below = |cut: &Vec<u8>| keys.partition_point(|key| key < cut) as u64;
    let rows = |piece: &KeyRange| {
        piece.upper.as_ref().map_or(keys.len() as u64, below) - piece.lower.as_ref().map_or(0, below)
    };
    pieces.into_iter().map(|piece| (rows(&piece), piece)).collect()
}

/// Checks pieces of a whole tablet for their sizes, which are told and real ones.
fn even(tablet: &Tablet, what: &str) {
    let spec = ScanSpec { projection: vec![0, 1, 2], ..ScanSpec::default() };
    let keys = keys(tablet, &spec);
    for target in [15_000, 50_000, 150_000] {
        for (rows, piece) in counted(tablet, &spec, target, &keys) {
            let bytes = rows * ROW;
            let sizes = [bytes, piece.bytes, target];
            assert!(bytes > target / 2 && bytes < target * 2, "{what}: {sizes:?}");
            assert!(bytes > piece.bytes / 2 && bytes < piece.bytes * 2, "{what}: {sizes:?}");
        }
    }
}

#[test]
fn pieces_hold_every_row_once_and_are_of_one_size_wherever_the_rows_are() {
    let memory = Memory::new();
    let tablet = reopen(memory.clone(), SyncPolicy::System).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut keys: Vec<i32> = (0..24_000).map(|key| key * 17 - 180_000).collect();
    random.shuffle(&mut keys);
    let (first, second) = keys.split_at(12_000);
    write(&tablet, OpKind::Insert, first);
    even(&tablet, "in memory");
    tablet.flush(Timestamp::MIN).unwrap();
    even(&tablet, "in a file");
    for part in second.chunks(2_000) {
        write(&tablet, OpKind::Insert, part);
        tablet.flush(Timestamp::MIN).unwrap();
    }
    even(&tablet, "in files of about the same keys");
    // Old versions weigh nothing, wherever they lie.
    let mut low: Vec<i32> = keys.iter().copied().filter(|key| *key < 0).collect();
    write(&tablet, OpKind::Update, &low);
    even(&tablet, "in files and in memory");
    tablet.flush(Timestamp::MIN).unwrap();
    low.retain(|key| *key < -60_000);
    write(&tablet, OpKind::Delete, &low);
    even(&tablet, "after a delete of all low keys");
    drop(tablet);
    even(&reopen(memory, SyncPolicy::System).unwrap(), "after a start");
}

#[test]
fn a_range_and_some_columns_are_cut_by_themselves() {
    let tablet = reopen(Memory::new(), SyncPolicy::System).unwrap();
    write(&tablet, OpKind::Insert, &(0..10_000).collect::<Vec<_>>());
    for place in ["memory", "a file"] {
        let (lower_key, upper_key) = (Some(key(2_000)), Some(key(6_000)));
        let spec = ScanSpec { projection: vec![1], lower_key, upper_key, ..ScanSpec::default() };
        let pieces = checked(&tablet, &spec, 4_000);
        assert_eq!(pieces.len(), 4, "{place}: 16,000 bytes of v");
        assert!(pieces.iter().all(|(rows, _)| (700..1_300).contains(rows)), "{place}: {pieces:?}");
        let whole = checked(&tablet, &spec, 1 << 30);
        assert_eq!(whole.len(), 1);
        assert!(whole[0].1.bytes.abs_diff(16_000) < 4_000, "{place}: {whole:?}");
        let none = ScanSpec { lower_key: Some(key(60_000)), ..ScanSpec::default() };
        assert_eq!(checked(&tablet, &none, 1)[0].1.bytes, 0);
        tablet.flush(Timestamp::MIN).unwrap();
    }
    // Rows do not hold columns that came later.
    let mut columns = table().columns().to_vec();
    columns.push(schema::Column::new("new", schema::DataType::Int64).nullable(true));
    let ids = [10, 11, 12, 13].map(schema::ColumnId).to_vec();
    let schema = schema::Schema::new(columns, 1).unwrap().with_ids(ids).unwrap();
    tablet
        .alter(Alteration {
            schema,
            schema_version: 1,
            table_name: "table".into(),
            history_max_age_sec: None,
        })
        .unwrap();
    let spec = ScanSpec { projection: vec![3], ..ScanSpec::default() };
    let pieces = tablet.split_key_range(&spec, 1).unwrap();
    assert_eq!(pieces, [KeyRange { lower: None, upper: None, bytes: 0 }]);
    let wrong = ScanSpec { projection: vec![4], ..ScanSpec::default() };
    assert_eq!(tablet.split_key_range(&wrong, 1), Err(ScanError::NoSuchColumn { index: 4, columns: 4 }));
}

#[test]
fn an_empty_tablet_is_one_piece_and_tiny_pieces_are_not_too_many() {
    let tablet = reopen(Memory::new(), SyncPolicy::System).unwrap();
    let spec = ScanSpec { projection: vec![0, 1, 2], ..ScanSpec::default() };
    assert_eq!(checked(&tablet, &spec, 1).len(), 1);
    write(&tablet, OpKind::Insert, &[5]);
    assert_eq!(checked(&tablet, &spec, 1).len(), 1);
    write(&tablet, OpKind::Insert, &(100..140).collect::<Vec<_>>());
    assert!(checked(&tablet, &spec, 1).len() > 20);
    write(&tablet, OpKind::Insert, &(1000..31_000).collect::<Vec<_>>());
    assert!((1000..5000).contains(&checked(&tablet, &spec, 1).len()));
}
