//! Arrow IPC and Parquet files, out of a table and into one.
#![cfg(feature = "files")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, LargeStringArray, RecordBatch, TimestampNanosecondArray,
    UInt32Array,
};
use cli::files::{BatchFile, BatchWriter, Format};
use mini_cluster::MiniCluster;
use serde_json::{Value, json};

struct Rig {
    cluster: MiniCluster,
    folder: tempfile::TempDir,
}

impl Rig {
    fn start() -> Rig {
        let cluster = MiniCluster::builder().tservers(1).start_blocking().unwrap();
        Rig { cluster, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("NYALA_MASTER", self.cluster.master_address())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn good(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.run(arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        out
    }

    fn rows(&self, table: &str) -> Vec<Value> {
        let out = self.good(&["table", "scan", table, "--json", "--limit", "0"]);
        let mut rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.sort_by_key(|row| row["id"].as_i64());
        rows
    }
}

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = BatchWriter::begin(file, Format::of(path), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

#[test]
fn every_type_comes_back_from_a_file_as_it_went_in() {
    let rig = Rig::start();
    let columns = "id int64, a int8 null, b int16 null, c int32 null, d bool null, e float null, f double null, \
                   g string null, h varchar(5) null, i unixtime_micros null, j date null, k decimal(5, 2) null, \
                   l decimal(15, 4) null, m decimal(38, 10) null, n binary null";
    rig.good(&["table", "create", "all", "--columns", columns, "--key", "id", "--hash", "id:3"]);
    let header = "id,a,b,c,d,e,f,g,h,i,j,k,l,m,n";
    let full = "1,-128,300,70000,true,0.5,1e300,\"x, 'y'\",é,2024-02-29T01:02:03.000004Z,1969-12-31,-1.25,99999.0001,\
                1234567890.0123456789,raw";
    let mut text = format!("{header}\n{full}\n2,,,,,,,,,,,,,,\n");
    for id in 3..3000 {
        text += &format!("{id},1,2,3,false,1,1,t{id},v,2024-01-01T00:00:00Z,2024-01-01,1,1,1,b\n");
    }
    std::fs::write(rig.path("all.csv"), text).unwrap();
    rig.good(&["table", "load", "all", "all.csv"]);
    let rows = rig.rows("all");
    assert_eq!((rows.len(), &rows[0]["k"], &rows[1]["g"]), (2999, &json!("-1.25"), &Value::Null));

    for file in ["all.parquet", "all.arrow"] {
        assert_eq!(rig.good(&["table", "export", "all", "-o", file]), format!("2,999 rows in {file}\n"));
        let copy = file.replace('.', "_");
        let made = ["table", "create", &copy, "--columns", columns, "--key", "id", "--hash", "id:2"];
        rig.good(&made);
        let loaded = rig.good(&["table", "load", &copy, file]);
        assert!(loaded.starts_with("2,999 rows loaded"), "{loaded}");
        assert_eq!(rig.rows(&copy), rows, "{file}");
        // Without a table one is made after the file.
        let new = format!("new_{copy}");
        rig.good(&["table", "load", &new, file, "--key", "id"]);
        let described = rig.good(&["table", "describe", &new, "--json"]);
        let described: Value = serde_json::from_str(&described).unwrap();
        assert_eq!(described["columns"][11]["type"], json!("DECIMAL(5, 2)"));
        assert_eq!(rig.rows(&new).len(), 2999);
    }
    let part = ["table", "export", "all", "--where", "id <= 2", "--columns", "id,g", "-o", "part.arrow"];
    rig.good(&part);
    let batches: Vec<_> =
        BatchFile::open(&rig.path("part.arrow"), Format::Arrow).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    assert!(batches.iter().all(|batch| batch.num_columns() == 2));
    let (code, _, _) = rig.run(&["table", "export", "all", "--format", "parquet", "-o", "odd.name"]);
    assert_eq!(code, 0);
    assert_eq!(BatchFile::open(&rig.path("odd.name"), Format::Parquet).unwrap().rows(), 2999);
}

#[test]
fn other_types_of_files_are_converted_to_those_of_the_table() {
    let rig = Rig::start();
    let words: DictionaryArray<Int8Type> = vec![Some("one"), None, Some("three")].into_iter().collect();
    let columns = |ids: Vec<u32>| -> Vec<(&str, ArrayRef)> {
        vec![
            ("word", Arc::new(words.clone())),
            ("id", Arc::new(UInt32Array::from(ids))),
            ("at", Arc::new(TimestampNanosecondArray::from(vec![Some(1_000), None, Some(-2_000)]))),
            ("text", Arc::new(LargeStringArray::from(vec!["a", "b", "c"]))),
        ]
    };
    write(&rig.path("other.parquet"), columns(vec![1, 2, 3]));
    rig.good(&["table", "load", "other", "other.parquet", "--key", "id"]);
    let expected = [
        json!({"id": 1, "word": "one", "at": "1970-01-01T00:00:00.000001Z", "text": "a"}),
        json!({"id": 2, "word": null, "at": null, "text": "b"}),
        json!({"id": 3, "word": "three", "at": "1969-12-31T23:59:59.999998Z", "text": "c"}),
    ];
    assert_eq!(rig.rows("other"), expected);
    // The same keys again, one new.
    write(&rig.path("more.arrow"), columns(vec![3, 4, 1]));
    let (code, out, err) = rig.run(&["table", "load", "other", "more.arrow"]);
    assert_eq!((code, err.as_str()), (1, "nyala: 2 rows were left out\n"), "{out}");
    assert!(out.starts_with("1 rows loaded"), "{out}");
    rig.good(&["table", "load", "other", "more.arrow", "--upsert"]);
    assert_eq!(rig.rows("other").len(), 4);
}

#[test]
fn what_a_table_cannot_take_is_named() {
    let rig = Rig::start();
    rig.good(&[
        "table",
        "create",
        "t",
        "--columns",
        "id int8, n varchar(2) null",
        "--key",
        "id",
        "--hash",
        "id:2",
    ]);
    let ids = |ids: Vec<Option<i32>>| -> (&str, ArrayRef) { ("id", Arc::new(Int32Array::from(ids))) };
    let texts = |texts: Vec<&str>| -> (&str, ArrayRef) { ("n", Arc::new(LargeStringArray::from(texts))) };
    write(&rig.path("wide.parquet"), vec![ids(vec![Some(300)])]);
    write(&rig.path("more.parquet"), vec![ids(vec![Some(1)]), ("x", texts(vec!["a"]).1)]);
    write(&rig.path("nulls.arrow"), vec![ids(vec![Some(1), None, Some(3)]), texts(vec!["a", "b", "c"])]);
    std::fs::write(rig.path("no.parquet"), "text").unwrap();
    std::fs::write(rig.path("no.arrow"), "text").unwrap();
    for (file, said) in [
        ("wide.parquet", "column \"id\""),
        ("more.parquet", "the file has a column \"x\""),
        ("no.parquet", "no.parquet: "),
        ("no.arrow", "no.arrow: "),
        ("absent.arrow", "absent.arrow"),
    ] {
        let (code, out, err) = rig.run(&["table", "load", "t", file]);
        assert_eq!((code, out.as_str()), (1, ""), "{file}");
        assert!(
            err.starts_with("nyala: ") && err.contains(said) && err.lines().count() == 1,
            "{file}: {err}"
        );
    }
    let (code, out, _) = rig.run(&["table", "load", "t", "nulls.arrow"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("2 rows loaded") && out.contains("line 2"), "{out}");
    assert_eq!(rig.rows("t"), [json!({"id": 1, "n": "a"}), json!({"id": 3, "n": "c"})]);
    let (code, _, err) = rig.run(&["table", "load", "new", "nulls.arrow", "--key", "nope"]);
    assert_eq!(code, 1);
    assert!(err.contains("not all columns of the key"), "{err}");
}
