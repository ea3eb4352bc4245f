//! Definitions: create, list, describe, statistics, locate, delete.

use anyhow::Result;
use serde_json::{Value, json};

use super::Session;
use crate::interop::suite::{Run, Verdict};

impl Session<'_, '_> {
    pub(super) fn definitions(&mut self) -> Result<()> {
        let m = self.target.master.clone();
        let hash = self.table("hash");
        self.create("hash", "table_create_hash", &by_hash(3, 1))?;
        self.create("range", "table_create_range", &by_range())?;
        self.create("custom", "table_create_custom_hash_per_range", &by_custom_hash())?;
        self.check("table_create_again", &["table", "create", &m, &named(&hash, by_hash(3, 1))], |run| {
            run.refused("already exists")
        })?;
        let alive = self.target.tservers.len();
        let many = if alive < 3 { 3 } else { 2 * (alive / 2) + 3 };
        let greedy = named(&self.table("greedy"), by_hash(2, many));
        self.check("more_replicas_than_tservers", &["table", "create", &m, &greedy], |run| {
            run.refused("Invalid argument")?;
            // Above 7 the number itself is refused first.
            if many > 7 {
                return Ok(());
            }
            run.refused(&format!("replication factor {many}; {alive} tablet servers are alive"))
        })?;

        let tables = ["hash", "range", "custom"].map(|name| self.table(name));
        let prefix = self.prefix.clone();
        self.check("table_list", &["table", "list", &m], |run| {
            run.lines(&prefix, 3)?;
            tables.iter().try_for_each(|table| run.shows(&[table]))
        })?;
        for (name, tablets) in [("hash", 3), ("range", 3), ("custom", 7)] {
            let only = format!("--tables={}", self.table(name));
            self.check("table_list_tablets", &["table", "list", &m, "--list_tablets", &only], |run| {
                run.lines("  T ", tablets)?;
                run.lines("    L ", tablets)
            })?;
        }
        self.check("table_describe_hash", &["table", "describe", &m, &hash], |run| {
            run.shows(&[
                "id INT32 NOT NULL,",
                "s STRING NULLABLE,",
                "PRIMARY KEY (id)",
                "HASH (id) PARTITIONS 3",
                "REPLICAS 1",
                "a table of the interop run",
            ])
        })?;
        self.check("table_describe_range", &["table", "describe", &m, &self.table("range")], |run| {
            run.shows(&[
                "RANGE (city, day) (",
                "PARTITION VALUES < (\"m\", 10)",
                "(\"m\", 10) <= VALUES < (\"s\", 0)",
                "(\"s\", 0) <= VALUES",
            ])
        })?;
        self.check("table_describe_custom", &["table", "describe", &m, &self.table("custom")], |run| {
            run.shows(&[
                "HASH (id) PARTITIONS 2,",
                "PARTITION 0 <= VALUES < 100,",
                "PARTITION 100 <= VALUES < 200 HASH(id) PARTITIONS 5",
            ])
        })?;
        self.check("table_statistics", &["table", "statistics", &m, &hash], |run| {
            run.shows(&[&hash, "on disk size:", "live row count:"])
        })?;
        self.check("table_locate_row", &["table", "locate_row", &m, &hash, "[5]"], one_tablet_id)?;
        let custom = self.table("custom");
        self.check("table_locate_row_custom", &["table", "locate_row", &m, &custom, "[150]"], one_tablet_id)?;
        self.check("locate_row_in_a_gap", &["table", "locate_row", &m, &custom, "[500]"], |run| {
            run.refused("Not found")
        })?;
        self.check("locate_row_of_no_table", &["table", "locate_row", &m, "no such table", "[5]"], |run| {
            run.refused("Not found")
        })?;
        self.check("table_delete_of_no_table", &["table", "delete", &m, "no such table"], |run| {
            run.refused("Not found")
        })
    }

    /// A table with a column of every type, as the tool that writes it and the one that reads it show it.
    pub(super) fn every_type(&mut self) -> Result<()> {
        let m = self.target.master.clone();
        let table = self.table("types");
        self.create("types", "table_create_with_every_type", &every_type())?;
        self.check("table_describe_every_type", &["table", "describe", &m, &table], |run| {
            run.shows(&[
                "i8 INT8 NOT NULL,",
                "f FLOAT NOT NULL,",
                "bin BINARY NOT NULL,",
                "t UNIXTIME_MICROS NOT NULL,",
                "dt DATE NOT NULL,",
                "vc VARCHAR(20) NOT NULL,",
                "d32 DECIMAL(9, 2) NOT NULL,",
                "d64 DECIMAL(18, 2) NOT NULL,",
                "d128 DECIMAL(38, 2) NOT NULL,",
            ])
        })?;
        let into = format!("--table_name={table}");
        let load = ["perf", "loadgen", &m, &into, "--num_rows_per_thread=5", "--num_threads=1"];
        self.check_way("loadgen_with_every_type", &load, |run| run.shows(&["rows total: 5"]))?;
        self.check_way("table_scan_with_every_type", &["table", "scan", &m, &table], |run| {
            run.counted(5)?;
            run.shows(&[
                "(int64 k=1, int8 i8=14, int16 i16=15, int32 i32=16, bool b=true, float f=18, double d=19",
                "string s=\"20.xxxx",
                "binary bin=\"21.xxxx",
                "unixtime_micros t=1970-01-01T00:00:00.000022Z, date dt=1970-01-24",
                "varchar vc=\"24.xxxxxxxxxxxxxxxxx\"",
                "decimal d32=25_D32, decimal d64=26_D64, decimal d128=",
            ])
        })
    }

    fn create(&mut self, table: &str, check: &str, definition: &Value) -> Result<()> {
        let m = self.target.master.clone();
        let text = named(&self.table(table), definition.clone());
        self.check(check, &["table", "create", &m, &text], Run::ok)
    }
}

/// The definition of a table as `kudu table create` takes it.
pub(super) fn named(name: &str, mut definition: Value) -> String {
    definition["table_name"] = json!(name);
    definition.to_string()
}

pub(super) fn by_hash(buckets: u32, replicas: usize) -> Value {
    json!({
        "schema": {
            "columns": [
                {"column_name": "id", "column_type": "INT32"},
                {"column_name": "s", "column_type": "STRING", "is_nullable": true},
            ],
            "key_column_names": ["id"],
        },
        "partition": {"hash_partitions": [{"columns": ["id"], "num_buckets": buckets}]},
        "comment": "a table of the interop run",
        "num_replicas": replicas,
    })
}

fn by_range() -> Value {
    let split = json!(["m", "10"]);
    let next = json!(["s", "0"]);
    json!({
        "schema": {
            "columns": [
                {"column_name": "city", "column_type": "STRING"},
                {"column_name": "day", "column_type": "INT32"},
                {"column_name": "x", "column_type": "DOUBLE", "is_nullable": true},
            ],
            "key_column_names": ["city", "day"],
        },
        "partition": {"range_partition": {
            "columns": ["city", "day"],
            "range_bounds": [
                {"upper_bound": {"bound_type": "exclusive", "bound_values": split}},
                {"lower_bound": {"bound_type": "inclusive", "bound_values": split},
                 "upper_bound": {"bound_type": "exclusive", "bound_values": next}},
                {"lower_bound": {"bound_type": "inclusive", "bound_values": next}},
            ],
        }},
        "num_replicas": 1,
    })
}

fn by_custom_hash() -> Value {
    let bounds = |lower: &str, upper: &str| {
        json!({
            "lower_bound": {"bound_type": "inclusive", "bound_values": [lower]},
            "upper_bound": {"bound_type": "exclusive", "bound_values": [upper]},
        })
    };
    json!({
        "schema": {
            "columns": [
                {"column_name": "id", "column_type": "INT32"},
                {"column_name": "v", "column_type": "INT64", "is_nullable": true},
            ],
            "key_column_names": ["id"],
        },
        "partition": {
            "hash_partitions": [{"columns": ["id"], "num_buckets": 2}],
            "range_partition": {
                "columns": ["id"],
                "range_bounds": [bounds("0", "100")],
                "custom_hash_schema_ranges": [{
                    "range_bounds": bounds("100", "200"),
                    "hash_schema": [{"columns": ["id"], "num_buckets": 5, "seed": 3}],
                }],
            },
        },
        "num_replicas": 1,
    })
}

fn every_type() -> Value {
    let column = |name: &str, kind: &str| json!({"column_name": name, "column_type": kind});
    let sized = |name: &str, kind: &str, attributes: Value| json!({"column_name": name, "column_type": kind, "type_attributes": attributes});
    json!({
        "schema": {
            "columns": [
                column("k", "INT64"),
                column("i8", "INT8"),
                column("i16", "INT16"),
                column("i32", "INT32"),
                column("b", "BOOL"),
                column("f", "FLOAT"),
                column("d", "DOUBLE"),
                column("s", "STRING"),
                column("bin", "BINARY"),
                column("t", "UNIXTIME_MICROS"),
                column("dt", "DATE"),
                sized("vc", "VARCHAR", json!({"length": 20})),
                sized("d32", "DECIMAL", json!({"precision": 9, "scale": 2})),
                sized("d64", "DECIMAL", json!({"precision": 18, "scale": 2})),
                sized("d128", "DECIMAL", json!({"precision": 38, "scale": 2})),
            ],
            "key_column_names": ["k"],
        },
        "partition": {"hash_partitions": [{"columns": ["k"], "num_buckets": 2}]},
        "num_replicas": 1,
    })
}

fn one_tablet_id(run: &Run) -> Verdict {
    run.ok()?;
    let id = run.out.trim();
    if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(())
    } else {
        Err(format!("{id:?} is no tablet id"))
    }
}
