//! The program `nyala` on a cluster: what it prints, and how it ends.

use std::process::Command;

use mini_cluster::MiniCluster;
use serde_json::{Value, json};

struct Cluster {
    cluster: MiniCluster,
    folder: tempfile::TempDir,
}

struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Cluster {
    fn start() -> Cluster {
        let cluster = MiniCluster::builder().tservers(1).start_blocking().unwrap();
        Cluster { cluster, folder: tempfile::tempdir().unwrap() }
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
            .args(arguments)
            .env("NYALA_MASTER", self.cluster.master_address())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn good(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{arguments:?}");
        ended.out
    }

    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let out = self.good(&[arguments, &["--json"]].concat());
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

const PEOPLE: &str = "id,name,born,score\n1,Ada,1815-12-10,9.5\n2,\"O'Hara, Ann\",1900-01-02,\n3,NA,,-1.25\n";

#[test]
fn rows_go_in_by_csv_and_come_out_as_text_json_and_csv() {
    let cluster = Cluster::start();
    let people = cluster.file("people.csv", PEOPLE);
    let loaded = cluster.json(&["table", "load", "people", &people, "--key", "id"]);
    assert_eq!((&loaded[0]["rows"], &loaded[0]["left_out"]), (&json!(3), &json!(0)));

    let all =
        cluster.good(&["table", "scan", "people", "--where", "id <= 2 and born is not null", "--ordered"]);
    let mut lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.remove(0).split_whitespace().collect::<Vec<_>>(), ["id", "name", "born", "score"]);
    assert_eq!(lines.pop(), Some("2 rows"));
    assert!(lines.iter().any(|line| line.contains("O'Hara, Ann") && line.ends_with("NULL")), "{all}");

    let one = cluster.json(&[
        "table",
        "scan",
        "people",
        "--where",
        "name = 'O''Hara, Ann'",
        "--columns",
        "id,score",
    ]);
    assert_eq!(one, [json!({"id": 2, "score": null})]);
    assert_eq!(cluster.good(&["table", "scan", "people", "--count"]), "3\n");
    assert_eq!(
        cluster.json(&["table", "scan", "people", "--count", "--where", "score < 0"]),
        [json!({"rows": 1})]
    );

    let exported = cluster.folder.path().join("out.csv");
    let path = exported.to_str().unwrap();
    assert_eq!(cluster.good(&["table", "export", "people", "--output", path]), format!("3 rows in {path}\n"));
    let again = cluster.json(&["table", "load", "copy", path, "--key", "id"]);
    assert_eq!(again[0]["rows"], json!(3));
    let sorted = |table: &str| {
        let mut rows: Vec<String> =
            cluster.good(&["table", "export", table]).lines().map(str::to_owned).collect();
        rows.sort();
        rows
    };
    assert_eq!(sorted("copy"), sorted("people"));
}

#[test]
fn tables_are_made_described_listed_and_deleted() {
    let cluster = Cluster::start();
    let columns = "id int64, day date, price decimal(10, 2) null";
    let made = cluster.json(&[
        "table",
        "create",
        "sales",
        "--columns",
        columns,
        "--key",
        "id,day",
        "--hash",
        "id:2",
    ]);
    assert_eq!(made[0]["name"], json!("sales"));
    let sales = cluster.file("sales.csv", "id,day,price\n1,2024-02-03,12.5\n2,2024-02-04,NA\n");
    cluster.good(&["table", "load", "sales", &sales]);
    let rows = cluster.json(&["table", "scan", "sales", "--where", "price >= 12.50 and day = 2024-02-03"]);
    assert_eq!(rows, [json!({"id": 1, "day": "2024-02-03", "price": "12.50"})]);

    let described = &cluster.json(&["table", "describe", "sales"])[0];
    let types: Vec<&Value> =
        described["columns"].as_array().unwrap().iter().map(|column| &column["type"]).collect();
    assert_eq!(types, [&json!("INT64"), &json!("DATE"), &json!("DECIMAL(10, 2)")]);
    assert_eq!(described["tablets"], json!(2));
    assert!(cluster.good(&["table", "describe", "sales"]).contains("DECIMAL(10, 2)"));

    assert_eq!(cluster.json(&["table", "list"])[0]["id"], made[0]["id"]);
    assert_eq!(cluster.json(&["table", "list", "nothing"]), Vec::<Value>::new());
    assert!(cluster.good(&["cluster", "status"]).contains("1 tables"));
    cluster.good(&["table", "delete", "sales"]);
    assert_eq!(cluster.json(&["table", "list"]), Vec::<Value>::new());
}

#[test]
fn rows_that_cannot_be_loaded_are_shown_and_the_rest_is_there() {
    let cluster = Cluster::start();
    let people = cluster.file("people.csv", PEOPLE);
    cluster.good(&["table", "load", "people", &people, "--key", "id"]);
    let more = cluster.file("more.csv", "id,name,born,score\n3,again,,1\n4,new,,1\n");
    let ended = cluster.run(&["table", "load", "people", &more]);
    assert_eq!(ended.code, 1);
    assert!(ended.out.starts_with("1 rows loaded into people"), "{}", ended.out);
    assert!(ended.out.contains("value \"3\""), "{}", ended.out);
    assert_eq!(ended.err, "nyala: 1 rows were left out\n");
    cluster.good(&["table", "load", "people", &more, "--upsert"]);
    assert_eq!(cluster.json(&["table", "scan", "people", "--where", "id = 3"])[0]["name"], json!("again"));
}

#[test]
fn what_cannot_be_done_is_one_line_and_exit_code_one() {
    let cluster = Cluster::start();
    let file = cluster.file("x.csv", "id\n1\n");
    let calls: [(&[&str], &str); 5] = [
        (&["table", "scan", "nowhere"], "nowhere"),
        (&["table", "load", "nowhere", &file], "name a key"),
        (&["table", "load", "t", "no such file", "--key", "id"], "no such file"),
        (&["table", "create", "t", "--columns", "id number", "--key", "id"], "is no type"),
        (
            &["table", "create", "t", "--columns", "id int64", "--key", "id", "--hash", "id"],
            "COLUMN[+COLUMN..]:BUCKETS",
        ),
    ];
    for (arguments, said) in calls {
        let ended = cluster.run(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{arguments:?}");
        assert!(ended.err.starts_with("nyala: ") && ended.err.contains(said), "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}

#[test]
fn who_stops_reading_is_told_nothing() {
    let cluster = Cluster::start();
    let people = cluster.file("people.csv", PEOPLE);
    cluster.good(&["table", "load", "people", &people, "--key", "id"]);
    let calls: [&[&str]; 5] = [
        &["table", "list"],
        &["table", "describe", "people"],
        &["table", "scan", "people"],
        &["table", "export", "people"],
        &["cluster", "status"],
    ];
    for arguments in calls {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
            .args(arguments)
            .env("NYALA_MASTER", cluster.cluster.master_address())
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{arguments:?}");
    }
}

#[test]
fn a_cluster_of_its_own_starts_tells_where_it_is_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    for turn in 0..2 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nyala"))
            .args(["cluster", "start", "--port", "0", "--tservers", "1", "--json", "--data-dir"])
            .arg(folder.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let master = told["master"].as_str().unwrap();
        let nyala = |arguments: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
                .args(arguments)
                .args(["--master", master])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        if turn == 0 {
            nyala(&["table", "create", "kept", "--columns", "id int64", "--key", "id", "--hash", "id:2"]);
        }
        assert!(nyala(&["table", "list"]).contains("kept"));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert!(child.wait().unwrap().success());
    }
}
