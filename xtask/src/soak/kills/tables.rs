//! Tables that come and go while masters are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::blocking::Client;

use super::writer::patient;
use super::{Result, schema};

/// What is known of each table: there, gone, or (`None`) not told.
#[derive(Debug, Default)]
pub(super) struct Tables {
    known: BTreeMap<String, Option<bool>>,
    next: u32,
}

impl Tables {
    /// Makes and drops tables until it is told to stop; how many of that was acknowledged.
    pub(super) fn change(&mut self, master: &str, stop: &AtomicBool) -> Result<u64> {
        let client = patient(|| Ok(Client::connect(master)?))?;
        let mut acknowledged = 0;
        while !stop.load(Ordering::Relaxed) {
            let here: Vec<&String> =
                self.known.iter().filter(|(_, state)| **state == Some(true)).map(|(name, _)| name).collect();
            let (name, makes) = match here[..] {
                [_, _, _, ..] => (here[fastrand::usize(..here.len())].clone(), false),
                _ => {
                    self.next += 1;
                    (format!("{PREFIX}{}", self.next), true)
                }
            };
            let done = if makes {
                let definition = client.create_table(name.as_str(), schema()).hash_partition(&["id"], 2);
                client.create(definition.replicas(1)).is_ok()
            } else {
                client.delete_table(&name).is_ok()
            };
            acknowledged += u64::from(done);
            self.known.insert(name, done.then_some(makes));
            std::thread::sleep(Duration::from_millis(fastrand::u64(0..50)));
        }
        Ok(acknowledged)
    }

    /// Compares with what the master lists, and drops nothing.
    pub(super) fn check(&mut self, client: &Client) -> Result<()> {
        let listed: BTreeSet<String> =
            client.list_tables(PREFIX)?.into_iter().map(|table| table.name).collect();
        for (name, state) in &mut self.known {
            let found = listed.contains(name);
            if state.is_some_and(|expected| expected != found) {
                let words = if found { "deleted, and is there" } else { "created, and is not there" };
                return Err(format!("the table '{name}' was {words}").into());
            }
            *state = Some(found);
        }
        self.known.retain(|_, state| *state == Some(true));
        let unknown = listed.iter().find(|name| !self.known.contains_key(*name));
        unknown.map_or(Ok(()), |name| Err(format!("nobody made the table '{name}'").into()))
    }
}

const PREFIX: &str = "comes and goes ";
