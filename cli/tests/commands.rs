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
fn a_table_changes_in_several_steps_at_once_or_not_at_all() {
    let cluster = Cluster::start();
    cluster.good(&[
        "table",
        "create",
        "sales",
        "--columns",
        "id int64, day date, price double null comment 'before tax'",
        "--key",
        "id,day",
        "--hash",
        "id:2",
        "--range-columns",
        "day",
        "--range",
        "[2023-01-01, 2024-01-01)",
        "--range",
        "[2024-01-01, 2025-01-01) hash id:3",
    ]);
    let sales = cluster.file("sales.csv", "id,day,price\n1,2023-02-03,12.5\n2,2024-02-04,NA\n");
    cluster.good(&["table", "load", "sales", &sales]);
    let altered = cluster.json(&[
        "table",
        "alter",
        "sales",
        "add column stars int8 default 3 comment 'out of 5'",
        "rename column price to cost",
        "alter column stars set default 4",
        "alter column cost set compression lz4",
        "drop range [2023-01-01, 2024-01-01)",
        "add range [2025-01-01, )",
        "set owner ann",
        "set comment what was sold",
        "set config kudu.table.history_max_age_sec 3600",
        "rename to sold",
    ]);
    assert_eq!((&altered[0]["name"], &altered[0]["steps"]), (&json!("sold"), &json!(10)));
    let rows = cluster.json(&["table", "scan", "sold"]);
    assert_eq!(rows, [json!({"id": 2, "day": "2024-02-04", "cost": null, "stars": 3})]);
    let more = cluster.file("more.csv", "id,day,cost\n3,2030-02-04,1.5\n");
    cluster.good(&["table", "load", "sold", &more]);
    assert_eq!(cluster.json(&["table", "scan", "sold", "--where", "id = 3"])[0]["stars"], json!(4));
    let before = cluster.json(&["table", "describe", "sold"]);
    let columns: Vec<_> = before[0]["columns"].as_array().unwrap().iter().collect();
    assert_eq!((&columns[2]["name"], &columns[2]["comment"]), (&json!("cost"), &json!("before tax")));
    assert_eq!(
        (&columns[3]["default"], &before[0]["owner"], &before[0]["comment"], &before[0]["tablets"]),
        (&json!(4), &json!("ann"), &json!("what was sold"), &json!(5))
    );

    let wrong: [(&[&str], &str); 4] = [
        (&["add column never int8 null", "drop column nope"], "does not exist: nope"),
        (&["add column never int8 null", "alter column cost set default dear"], "\"dear\" is no value"),
        (
            &["add column never int8 null", "add range [2024-06-01, 2024-07-01)"],
            "conflicts with existing one",
        ),
        (&["frobnicate"], "step \"frobnicate\": expected add, drop, rename"),
    ];
    for (steps, said) in wrong {
        let ended = cluster.run(&[&["table", "alter", "sold"], steps].concat());
        assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{steps:?}");
        assert!(ended.err.contains(said) && ended.err.lines().count() == 1, "{}", ended.err);
        assert_eq!(ended.err.matches(said).count(), 1, "once: {}", ended.err);
    }
    let after = cluster.json(&["table", "describe", "sold"]);
    assert_eq!(after[0]["columns"], before[0]["columns"], "a refused alteration leaves nothing behind");
    let help = cluster.good(&["table", "alter", "--help"]);
    assert!(help.contains("add range [LOWER, UPPER)"), "{help}");
}

#[test]
fn a_benchmark_tells_of_each_pass_and_leaves_nothing() {
    let cluster = Cluster::start();
    let call = ["bench", "--rows", "3001", "--clients", "3", "--scans", "2", "--text-bytes", "5"];
    let passes = cluster.json(&call);
    let told: Vec<_> =
        passes.iter().map(|pass| (pass["pass"].as_str().unwrap(), pass["rows"].as_u64())).collect();
    assert_eq!(told, [("load", Some(3001)), ("scan 1", Some(3001)), ("scan 2", Some(3001))]);
    assert!(passes.iter().all(|pass| pass["rows_per_second"].as_f64().unwrap() > 0.0), "{passes:?}");
    assert_eq!(cluster.json(&["table", "list"]), Vec::<Value>::new());
    let text = cluster.good(&[&call[..], &["--keep", "--table", "kept"]].concat());
    assert!(text.contains("rows/s") && text.contains("the table is kept"), "{text}");
    assert_eq!(cluster.good(&["table", "scan", "kept", "--count"]), "3,001\n");
    let again = cluster.run(&["bench", "--table", "kept", "--rows", "1"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("already exists"), "{}", again.err);
    assert_eq!(
        cluster.good(&["table", "scan", "kept", "--count"]),
        "3,001\n",
        "another's table is left alone"
    );
}

#[test]
fn ctrl_c_ends_a_benchmark_and_an_export_without_leavings() {
    let cluster = Cluster::start();
    let interrupted = |arguments: &[&str], ready: &dyn Fn() -> bool| {
        let child = Command::new(env!("CARGO_BIN_EXE_nyala"))
            .args(arguments)
            .env("NYALA_MASTER", cluster.cluster.master_address())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        while !ready() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let is_there = || cluster.good(&["table", "list"]).contains("nyala_bench");
    let ended = interrupted(&["bench", "--rows", "1000000000"], &is_there);
    assert_eq!(ended, (Some(130), "nyala: interrupted\n".to_owned()));
    assert_eq!(cluster.json(&["table", "list"]), Vec::<Value>::new());

    cluster.good(&["bench", "--rows", "200000", "--scans", "0", "--keep", "--table", "big"]);
    let file = cluster.folder.path().join("big.csv");
    let part = cluster.folder.path().join("big.csv.part");
    let has_begun = || part.exists();
    let ended = interrupted(&["table", "export", "big", "--output", file.to_str().unwrap()], &has_begun);
    assert_eq!(ended, (Some(130), "nyala: interrupted\n".to_owned()));
    assert!(!file.exists() && !part.exists(), "half a file is left");
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
        (&["table", "create", "t", "--columns", "id int64", "--key", "id", "--hash", "id"], "expected :"),
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

const START: &[&str] = &["cluster", "start", "--port", "0", "--tservers", "1", "--json"];

/// A cluster that tells as JSON where it is, and its master's address.
fn started(command: &mut Command) -> (std::process::Child, String) {
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    (child, told["master"].as_str().unwrap().to_owned())
}

#[test]
fn a_cluster_of_its_own_starts_tells_where_it_is_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    std::fs::create_dir(&notes).unwrap();
    let data = folder.path().join("data");
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &notes).env_remove("NYALA_MASTER");
        command
    };
    let nyala = |arguments: &[&str]| {
        let output = program(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, _, error) = nyala(&["cluster", "stop"]);
    assert_eq!(code, 1);
    assert!(error.starts_with("nyala: no cluster runs that `nyala cluster start` has started"), "{error}");
    for turn in 0..4 {
        let (mut child, master) = started(program(START).arg("--data-dir").arg(&data));
        let master = master.as_str();
        if turn == 0 {
            let columns = ["--columns", "id int64", "--key", "id", "--hash", "id:2"];
            let made = nyala(&[&["table", "create", "kept", "--master", master], &columns[..]].concat());
            assert_eq!(made.0, 0, "{made:?}");
        }
        assert!(nyala(&["table", "list", "--master", master]).1.contains("kept"));
        let pid = child.id().to_string();
        let (code, out, error) = match turn {
            0 => {
                assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
                (0, pid, String::new())
            }
            1 => nyala(&["cluster", "stop", "--master", master]),
            // The only one there is.
            2 => nyala(&["cluster", "stop"]),
            _ => nyala(&["cluster", "stop", "--json", "--data-dir", data.to_str().unwrap()]),
        };
        assert_eq!((code, error.as_str()), (0, ""));
        assert!(out.contains(&child.id().to_string()), "{out}");
        assert!(child.wait().unwrap().success());
        let (code, _, error) = nyala(&["cluster", "stop", "--master", master]);
        assert_eq!(code, 1, "{error}");
        assert_eq!(std::fs::read_dir(notes.join("nyala")).unwrap().count(), 0);
    }
}

#[test]
fn of_several_clusters_the_one_to_stop_has_to_be_named() {
    let notes = tempfile::tempdir().unwrap();
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
        // What somebody has in their environment must not name one.
        command.args(arguments).env("XDG_RUNTIME_DIR", notes.path()).env_remove("NYALA_MASTER");
        command
    };
    let start = || started(&mut program(START));
    let mut clusters = [start(), start()];
    let refused = program(&["cluster", "stop"]).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(error.starts_with("nyala: 2 clusters run; say which to stop: --master "), "{error}");
    assert!(clusters.iter().all(|(_, master)| error.contains(master.as_str())), "{error}");
    let named = program(&["cluster", "stop", "--master", &clusters[0].1]).status().unwrap();
    assert!(named.success() && clusters[0].0.wait().unwrap().success());
    let the_other = program(&["cluster", "stop"]).status().unwrap();
    assert!(the_other.success() && clusters[1].0.wait().unwrap().success());
}
