//! Many rows: load, scan, count, copy.

use anyhow::Result;

use super::{Session, Way};

impl Session<'_, '_> {
    /// Loads `rows` rows by two threads and reads them in several ways.
    pub(super) fn rows(&mut self, rows: u64) -> Result<()> {
        let m = self.target.master.clone();
        let per_thread = format!("--num_rows_per_thread={}", rows / 2);
        let rows = rows / 2 * 2;
        let database = format!("--auto_database={}", self.prefix);
        let mut load =
            vec!["perf", "loadgen", &m, &per_thread, "--num_threads=2", "--keep_auto_table", &database];
        if self.way == Way::Unix {
            load.push("--use_upsert");
        }
        let total = format!("rows total: {rows}");
        self.check_way("perf_loadgen", &load, |run| run.shows(&[&total]))?;
        let loaded = format!("{}.loadgen", self.prefix);
        let tables = self.listed(&loaded)?;
        // Without it the checks below would fail one by one for the same reason.
        let Some(table) = tables.first().map(String::as_str) else {
            return Ok(());
        };
        self.check_way("perf_table_scan", &["perf", "table_scan", &m, table], |run| run.counted(rows))?;
        let count = ["table", "scan", &m, table, "--row_count_only"];
        self.check_way("table_scan_row_count_only", &count, |run| run.counted(rows))?;
        self.predicates(table)?;

        let copy = self.table("copy");
        let into = format!("--dst_table={copy}");
        let arguments = ["table", "copy", &m, table, &m, &into, "--write_type=upsert"];
        self.check_way("table_copy", &arguments, |run| run.counted(rows))?;
        self.check_way("perf_table_scan_of_the_copy", &["perf", "table_scan", &m, &copy], |run| {
            run.counted(rows)
        })?;
        let many = ["perf", "loadgen", &m, "--num_rows_per_thread=2000", "--num_threads=16"];
        self.check_way("perf_loadgen_by_16_threads", &many, |run| {
            run.shows(&["rows total: 32000"])?;
            if run.out.contains("rows failed") { Err("rows failed".to_owned()) } else { Ok(()) }
        })?;
        let verified =
            [&many[..], &["--run_scan", "--use_random_pk", "--use_upsert", "--string_len=200"]].concat();
        self.check_way("perf_loadgen_with_random_keys_and_a_scan", &verified, |run| {
            run.shows(&["rows total: 32000"])
        })
    }

    fn predicates(&mut self, table: &str) -> Result<()> {
        let m = self.target.master.clone();
        // The generator writes the keys 0, 1, 2, ... and no nulls.
        let cases = [
            ("below", r#"["AND", ["<", "key", 50]]"#, 50),
            ("a_range", r#"["AND", [">=", "key", 100], ["<", "key", 1100]]"#, 1000),
            ("equal", r#"["AND", ["=", "key", 77]]"#, 1),
            ("in_a_list", r#"["AND", ["IN", "key", [5, 3, 3, -1, 9, 100000000]]]"#, 3),
            ("in_a_list_and_above", r#"["AND", ["IN", "key", [5, 3, 9]], [">", "key", 4]]"#, 2),
            ("not_null", r#"["AND", ["<", "key", 50], ["NOTNULL", "string_val"]]"#, 50),
            ("null", r#"["AND", ["NULL", "int_val"]]"#, 0),
            ("a_string", r#"["AND", ["<", "key", 10], [">=", "string_val", "0"]]"#, 10),
            ("nothing", r#"["AND", ["<", "key", 0]]"#, 0),
        ];
        for (name, predicates, rows) in cases {
            let predicates = format!("--predicates={predicates}");
            let arguments = ["table", "scan", &m, table, "--columns=key", &predicates];
            self.check(&format!("table_scan_{name}"), &arguments, |run| {
                run.counted(rows)?;
                run.lines("(int64 key=", usize::try_from(rows).unwrap_or(usize::MAX))
            })?;
        }
        let arguments = ["table", "scan", &m, table, "--columns=string_val,key", "--fault_tolerant"];
        let one = [&arguments[..], &[r#"--predicates=["AND", ["=", "key", 0]]"#]].concat();
        self.check_way("table_scan_columns_in_another_order", &one, |run| {
            run.counted(1)?;
            run.shows(&["(string string_val=\"", ", int64 key=0)"])
        })
    }
}
