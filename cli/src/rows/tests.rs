use std::io::Write;

use super::*;

fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    (dir, path)
}

fn key(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn excerpt() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/flights.csv")
}

#[test]
fn the_excerpt_of_flights_is_a_table_without_bad_rows() {
    let table = CsvTable::inspect(&excerpt(), &key(&["time_hour", "carrier", "flight"])).unwrap();
    assert_eq!(table.rows(), 10_000);
    let types: Vec<(String, DataType)> = table
        .schema()
        .columns()
        .iter()
        .take(5)
        .map(|column| (column.name.clone(), column.data_type))
        .collect();
    let expected = [
        ("time_hour", DataType::UnixtimeMicros),
        ("carrier", DataType::String),
        ("flight", DataType::Int32),
        ("year", DataType::Int32),
        ("month", DataType::Int32),
    ];
    assert_eq!(types, expected.map(|(name, kind)| (name.to_owned(), kind)));
    let rows: Vec<Row> = table.read().unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 10_000);
    let distance = table.schema().index_of("distance").unwrap();
    assert_eq!(rows[0].values[distance], Some(Value::Int32(1400)));
    assert_eq!(rows[0].line, 2);
    let dep_time = table.schema().index_of("dep_time").unwrap();
    assert!(rows.iter().any(|row| row.values[dep_time].is_none()));
}

#[test]
fn gzip_reads_as_the_plain_file_does() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"id,name\n1,one\n2,\n").unwrap();
    let (_dir, path) = file("t.csv.gz", &packed.finish().unwrap());
    let table = CsvTable::inspect(&path, &key(&["id"])).unwrap();
    let rows: Vec<Row> = table.read().unwrap().collect::<Result<_, _>>().unwrap();
    let second = [Some(Value::Int32(2)), None];
    assert_eq!((rows.len(), &rows[1].values[..]), (2, &second[..]));
}

#[test]
fn a_bad_row_names_line_column_value_and_reason() {
    let mut text = "id,n,s\n".to_owned();
    for id in 0..SAMPLE {
        text += &format!("{id},5,x\n");
    }
    text += "10001,5.5,x\nNA,5,x\n10003,5\n10004,5,\"a\nb\"\n10005,x,x\n";
    let (_dir, path) = file("t.csv", text.as_bytes());
    let table = CsvTable::inspect(&path, &key(&["id"])).unwrap();
    assert_eq!(table.rows(), SAMPLE + 5);
    let bad: Vec<String> = table.read().unwrap().filter_map(Result::err).map(|row| row.to_string()).collect();
    let expected = [
        "line 10002, column n, value \"5.5\": not a value of type INT32, which the rows before suggest",
        "line 10003, column id, value \"NA\": null in a key column",
        "line 10004, column (row), value \"\": 2 cells, the header names 3",
        "line 10007, column n, value \"x\": not a value of type INT32, which the rows before suggest",
    ];
    assert_eq!(bad, expected);
}

#[test]
fn a_file_that_breaks_off_is_said_and_not_taken_for_the_end() {
    let text: String = (0..5000).map(|id| format!("{id},{}\n", id * 7919 % 5000)).collect();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(format!("id,n\n{text}").as_bytes()).unwrap();
    let bytes = packed.finish().unwrap();
    let (_dir, path) = file("t.csv.gz", &bytes);
    let table = CsvTable::inspect(&path, &key(&["id"])).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let rows: Vec<Result<Row, BadRow>> = table.read().unwrap().collect();
    assert!(rows.len() < 5000);
    let last = rows.last().unwrap().as_ref().unwrap_err();
    assert!(matches!(last.reason, Reason::Unreadable(_)), "{last}");
    assert!(CsvTable::inspect(&path, &key(&["id"])).is_err());
}

#[test]
fn a_row_that_is_not_utf8_is_bad_and_the_next_is_read() {
    let (_dir, path) = file("t.csv", b"id,s\n1,a\n2,\xff\xfe\n3,c\n");
    let table = CsvTable::inspect(&path, &key(&["id"])).unwrap();
    let rows: Vec<Result<Row, BadRow>> = table.read().unwrap().collect();
    assert_eq!(rows.len(), 3);
    let bad = rows[1].as_ref().unwrap_err();
    assert_eq!((bad.line, &bad.reason), (3, &Reason::NotUtf8));
    assert_eq!(rows[2].as_ref().unwrap().line, 4);
}

#[test]
fn a_key_that_is_missing_or_unknown_is_refused_with_the_columns() {
    let (_dir, path) = file("t.csv", b"id,name\n1,one\n");
    let error = CsvTable::inspect(&path, &[]).unwrap_err().to_string();
    assert!(error.contains("--key") && error.contains("id, name"), "{error}");
    let error = CsvTable::inspect(&path, &key(&["nam"])).unwrap_err().to_string();
    assert!(error.contains("\"nam\"") && error.contains("id, name"), "{error}");
    let error = CsvTable::inspect(Path::new("no/such.csv"), &key(&["id"])).unwrap_err();
    assert!(error.to_string().contains("no/such.csv"));
}

#[test]
fn bad_rows_are_counted_or_stop_the_load() {
    let bad = || BadRow::whole(7, Reason::NotUtf8);
    let mut skip = BadRows::new(true);
    for _ in 0..25 {
        skip.note(bad()).unwrap();
    }
    assert_eq!((skip.count(), skip.first().len()), (25, BadRows::SHOWN));
    assert_eq!(BadRows::new(false).note(bad()), Err(bad()));
}
