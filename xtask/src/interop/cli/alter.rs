//! Tables that change: columns, ranges, names, properties; and that are deleted for a while.

use anyhow::Result;
use serde_json::json;

use super::Session;
use super::tables::named;
use crate::interop::suite::{Run, Verdict};

/// A command of `kudu table`, without the master: what is checked, the arguments, and the verdict.
type Step<'a> = (&'a str, &'a [&'a str], &'a dyn Fn(&Run) -> Verdict);

impl Session<'_, '_> {
    pub(super) fn alterations(&mut self) -> Result<()> {
        let m = self.target.master.clone();
        let table = self.table("alter");
        let t = table.as_str();
        self.check("table_create_to_alter", &["table", "create", &m, &named(t, definition())], Run::ok)?;
        let ok: &dyn Fn(&Run) -> Verdict = &Run::ok;
        self.steps(&[
            (
                "add_column",
                &["add_column", t, "a", "INT32", "-default_value=[7]", "-comment=hi", "-encoding_type=RLE"],
                ok,
            ),
            ("add_column_to_drop", &["add_column", t, "b", "STRING"], ok),
            ("add_column_again", &["add_column", t, "a", "INT32"], &refused("The column already exists: a")),
            ("delete_column", &["delete_column", t, "b"], ok),
            ("delete_key_column", &["delete_column", t, "id"], &refused("cannot remove a key column: id")),
            (
                "delete_no_column",
                &["delete_column", t, "nope"],
                &refused("Not found: The specified column does not exist: nope"),
            ),
            ("rename_column", &["rename_column", t, "s", "t"], ok),
            ("rename_column_to_another", &["rename_column", t, "t", "n"], &refused("already exists: n")),
            ("column_set_default", &["column_set_default", t, "n", "[9]"], ok),
            ("column_set_default_of_text", &["column_set_default", t, "t", "[\"x\"]"], ok),
            ("column_remove_default", &["column_remove_default", t, "t"], ok),
            ("column_set_compression", &["column_set_compression", t, "n", "ZLIB"], ok),
            ("column_set_encoding", &["column_set_encoding", t, "n", "BIT_SHUFFLE"], ok),
            (
                "column_set_encoding_of_text",
                &["column_set_encoding", t, "n", "PREFIX_ENCODING"],
                &refused("encoding PREFIX_ENCODING not supported for type INT32"),
            ),
            ("column_set_block_size", &["column_set_block_size", t, "n", "4096"], ok),
            ("column_set_comment", &["column_set_comment", t, "n", "a number"], ok),
            ("set_comment", &["set_comment", t, "an altered table"], ok),
            (
                "describe_altered_columns",
                &["describe", t, "-show_attributes", "-show_column_comment"],
                &|run| {
                    run.shows(&[
                        "t STRING NULLABLE AUTO_ENCODING DEFAULT_COMPRESSION - -,",
                        "n INT32 NOT NULL BIT_SHUFFLE ZLIB 4096 5 9 a number,",
                        "a INT32 NULLABLE RLE DEFAULT_COMPRESSION 7 7 hi,",
                        "COMMENT an altered table",
                    ])
                },
            ),
            ("clear_comment", &["clear_comment", t], ok),
            ("set_replication_factor_as_it_is", &["set_replication_factor", t, "1"], ok),
            ("set_replication_factor_even", &["set_replication_factor", t, "2"], &refused("must be odd")),
            ("set_limit", &["set_limit", "disk_size", t, "100"], &refused("--enable_table_write_limit")),
        ])?;
        self.altered_ranges(t)?;
        self.properties_and_names(t)
    }

    fn altered_ranges(&mut self, t: &str) -> Result<()> {
        let own_hash =
            "-hash_schema={\"hash_schema\": [{\"columns\": [\"id\"], \"num_buckets\": 3, \"seed\": 4}]}";
        let ok: &dyn Fn(&Run) -> Verdict = &Run::ok;
        self.steps(&[
            ("add_range_partition", &["add_range_partition", t, "[100]", "[200]"], ok),
            (
                "add_range_partition_that_overlaps",
                &["add_range_partition", t, "[150]", "[250]"],
                &refused("new range partition conflicts with existing one: 150 <= VALUES < 250"),
            ),
            (
                "add_range_partition_inclusive",
                &["add_range_partition", t, "[200]", "[299]", "-upper_bound_type=INCLUSIVE_BOUND"],
                ok,
            ),
            (
                "add_range_partition_with_hash",
                &["add_range_partition", t, "[299]", "[400]", "-lower_bound_type=EXCLUSIVE_BOUND", own_hash],
                ok,
            ),
            ("add_range_partition_unbounded", &["add_range_partition", t, "[400]", "[]"], ok),
            ("describe_altered_ranges", &["describe", t], &|run| {
                run.shows(&[
                    "PARTITION 100 <= VALUES < 200,",
                    "PARTITION 200 <= VALUES < 300,",
                    "PARTITION 300 <= VALUES < 400 HASH(id) PARTITIONS 3,",
                    "PARTITION 400 <= VALUES\n",
                ])
            }),
            ("drop_range_partition", &["drop_range_partition", t, "[100]", "[200]"], ok),
            (
                "drop_range_partition_again",
                &["drop_range_partition", t, "[100]", "[200]"],
                &refused("no range partition to drop: 100 <= VALUES < 200"),
            ),
            ("drop_range_partition_with_hash", &["drop_range_partition", t, "[300]", "[400]"], ok),
            ("list_what_is_left", &["list", "--list_tablets", &format!("--tables={t}")], &|run| {
                run.lines("  T ", 6)
            }),
        ])
    }

    fn properties_and_names(&mut self, t: &str) -> Result<()> {
        let ok: &dyn Fn(&Run) -> Verdict = &Run::ok;
        let age = "kudu.table.history_max_age_sec";
        let renamed = format!("{t}.renamed");
        let u = renamed.as_str();
        let only = format!("--tables={u}");
        let taken = self.table("hash");
        self.steps(&[
            ("set_extra_config", &["set_extra_config", t, age, "100"], ok),
            ("get_extra_configs", &["get_extra_configs", t], &|run| {
                run.shows(&["kudu.table.history_max_age_sec | 100"])
            }),
            (
                "set_extra_config_unknown",
                &["set_extra_config", t, "a.b", "1"],
                &refused("invalid extra configuration property: a.b"),
            ),
            ("set_extra_config_away", &["set_extra_config", t, age, ""], ok),
            ("extra_config_is_gone", &["get_extra_configs", t], &|run| run.lines(age, 0)),
            ("rename_table", &["rename_table", t, u], ok),
            ("rename_table_again", &["rename_table", t, u], &refused("Not found: the table does not exist")),
            ("rename_table_to_another", &["rename_table", u, &taken], &refused("already exists with id")),
            ("rename_table_to_nothing", &["rename_table", u, ""], &refused("invalid table name: empty")),
            ("statistics_of_altered_table", &["statistics", u], &|run| {
                run.shows(&["live row count:", "on disk size limit: N/A", "live row count limit: N/A"])
            }),
            ("delete_softly", &["delete", u, "-reserve_seconds=300"], ok),
            ("deleted_table_is_not_listed", &["list", &only], &|run| run.lines(u, 0)),
            ("soft_deleted_only", &["list", &only, "-soft_deleted_only"], &|run| run.lines(u, 1)),
            ("deleted_table_is_not_altered", &["set_comment", u, "x"], &|run| {
                run.refused(&format!("soft_deleted table {u} should not be altered"))
            }),
            ("delete_softly_again", &["delete", u, "-reserve_seconds=300"], &refused("soft deleted again")),
        ])?;
        let m = self.target.master.clone();
        let listed = self.kudu(&["table", "list", &m, &only, "-soft_deleted_only", "-columns=id,name"])?;
        let id = listed.out.split(|c: char| !c.is_ascii_hexdigit()).find(|word| word.len() == 32);
        let id = id.unwrap_or_default().to_owned();
        self.steps(&[
            ("recall", &["recall", &id], ok),
            ("recall_again", &["recall", &id], &refused("can't recall")),
            ("recall_nothing", &["recall", "nosuchid"], &refused("Not found: the table does not exist")),
            ("recalled_table_is_listed", &["list", &only], &|run| run.lines(u, 1)),
            ("list_in_flight", &["list_in_flight"], ok),
        ])
    }

    fn steps(&mut self, steps: &[Step<'_>]) -> Result<()> {
        let m = self.target.master.clone();
        for (name, arguments, verdict) in steps {
            let (command, rest) = arguments.split_first().unwrap_or((&"", &[]));
            // The limits have a command of their own below theirs.
            let (below, rest) = if *command == "set_limit" { rest.split_at(1) } else { rest.split_at(0) };
            let (first, master): (&[&str], &[&str]) = (&["table", command], &[&m]);
            let all = [first, below, master, rest].concat();
            self.check(name, &all, verdict)?;
        }
        Ok(())
    }
}

fn refused(text: &'static str) -> impl Fn(&Run) -> Verdict {
    move |run| run.refused(text)
}

fn definition() -> serde_json::Value {
    json!({
        "schema": {
            "columns": [
                {"column_name": "id", "column_type": "INT32"},
                {"column_name": "s", "column_type": "STRING", "is_nullable": true},
                {"column_name": "n", "column_type": "INT32", "default_value": "5"},
            ],
            "key_column_names": ["id"],
        },
        "partition": {
            "hash_partitions": [{"columns": ["id"], "num_buckets": 2}],
            "range_partition": {"columns": ["id"], "range_bounds": [{
                "lower_bound": {"bound_type": "inclusive", "bound_values": ["0"]},
                "upper_bound": {"bound_type": "exclusive", "bound_values": ["100"]},
            }]},
        },
        "num_replicas": 1,
    })
}
