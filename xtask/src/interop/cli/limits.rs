//! Definitions at and beyond the limits: odd names are taken and listed, what is wrong is refused and not listed.

use anyhow::Result;
use serde_json::{Value, json};

use super::Session;
use super::tables::{by_hash, named};
use crate::interop::suite::Run;

impl Session<'_, '_> {
    pub(super) fn limits(&mut self) -> Result<()> {
        let m = self.target.master.clone();
        let longest = self.table(&"n".repeat(255 - self.prefix.len()));
        let odd = [
            ("a_name_of_256_characters", longest.clone()),
            ("a_name_with_blanks_and_quotes", self.table("a \"b\" 'c'  d")),
            ("a_name_with_colons", self.table("impala::db.t")),
            ("a_name_with_an_emoji", self.table("\u{1f98c}")),
        ];
        for (check, name) in &odd {
            self.check(check, &["table", "create", &m, &named(name, by_hash(2, 1))], Run::ok)?;
            self.check(&format!("{check}_is_listed"), &["table", "list", &m], |run| run.shows(&[name]))?;
        }
        self.check(
            "300_columns",
            &["table", "create", &m, &named(&self.table("300"), columns(300))],
            Run::ok,
        )?;

        let refused = [
            ("a_name_of_257_characters", named(&format!("{longest}n"), by_hash(2, 1))),
            ("an_empty_name", named("", by_hash(2, 1))),
            ("a_name_with_a_zero_byte", named(&self.table("zero\0byte"), by_hash(2, 1))),
            ("301_columns", named(&self.table("301"), columns(301))),
            (
                "minus_one_replica",
                named(&self.table("minus"), with(by_hash(2, 1), "num_replicas", json!(-1))),
            ),
            ("two_replicas", named(&self.table("two"), by_hash(2, 2))),
            ("nine_replicas", named(&self.table("nine"), by_hash(2, 9))),
            ("a_nullable_key", named(&self.table("nullable"), nullable_key())),
            ("a_key_of_no_column", named(&self.table("no key"), unknown_key())),
            ("an_empty_column_name", named(&self.table("no column"), empty_column())),
            ("one_hash_bucket", named(&self.table("one"), by_hash(1, 1))),
        ];
        let before = self.listed("")?;
        for (check, definition) in refused {
            self.check(&format!("{check}_is_refused"), &["table", "create", &m, &definition], |run| {
                run.refused("Invalid argument")
            })?;
        }
        self.check("nothing_refused_is_listed", &["table", "list", &m], |run| {
            run.ok()?;
            let after: Vec<&str> = run.out.lines().collect();
            let new = after.iter().find(|name| !before.iter().any(|old| old == *name));
            new.map_or(Ok(()), |name| Err(format!("{name:?} is listed")))
        })?;
        self.check("the_master_is_alive", &["master", "list", &m], |run| run.lines("LEADER", 1))
    }
}

fn with(mut definition: Value, field: &str, value: Value) -> Value {
    definition[field] = value;
    definition
}

fn columns(count: usize) -> Value {
    let columns: Vec<Value> =
        (0..count).map(|index| json!({"column_name": format!("c{index}"), "column_type": "INT32"})).collect();
    let schema = json!({"columns": columns, "key_column_names": ["c0"]});
    let partition = json!({"hash_partitions": [{"columns": ["c0"], "num_buckets": 2}]});
    json!({"schema": schema, "partition": partition, "num_replicas": 1})
}

fn nullable_key() -> Value {
    let mut definition = by_hash(2, 1);
    definition["schema"]["columns"][0]["is_nullable"] = json!(true);
    definition
}

fn unknown_key() -> Value {
    let mut definition = by_hash(2, 1);
    definition["schema"]["key_column_names"] = json!(["nothing"]);
    definition
}

fn empty_column() -> Value {
    let mut definition = by_hash(2, 1);
    definition["schema"]["columns"][1]["column_name"] = json!("");
    definition
}
