//! Which tablet servers get the replicas of a new tablet.

use std::collections::HashMap;

/// Counts of replicas, from which the least loaded servers are taken.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Per server: replicas of the table being placed, then of all tables.
    counts: HashMap<String, (usize, usize)>,
    /// Live servers, in an order that differs from table to table.
    servers: Vec<String>,
}

impl Load {
    /// Over these live servers. Ties go to the one named first, so rotate them to spread single-tablet tables.
    pub(crate) fn new(servers: Vec<String>) -> Self {
        Self { counts: HashMap::new(), servers }
    }

    /// Counts a replica of another table.
    pub(crate) fn add(&mut self, server: &str) {
        self.counts.entry(server.to_owned()).or_default().1 += 1;
    }

    /// The `replicas` least loaded servers, all different, each now counted with one more. Fewer, if there are fewer.
    pub(crate) fn place(&mut self, replicas: usize) -> Vec<String> {
        let mut order: Vec<usize> = (0..self.servers.len()).collect();
        let load = |i: &usize| {
            self.servers.get(*i).and_then(|name| self.counts.get(name)).copied().unwrap_or_default()
        };
        // Spreading the table's own tablets comes first: its scans and writes run on all servers at once then.
        order.sort_by_key(load);
        let chosen: Vec<String> =
            order.into_iter().take(replicas).filter_map(|i| self.servers.get(i)).cloned().collect();
        for server in &chosen {
            let count = self.counts.entry(server.clone()).or_default();
            count.0 += 1;
            count.1 += 1;
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    #[test]
    fn the_tablets_of_one_table_spread_evenly() {
        let mut load = Load::new(servers());
        (0..50).for_each(|_| load.add("a"));
        let mut counts = HashMap::<String, usize>::new();
        for _ in 0..30 {
            for server in load.place(1) {
                *counts.entry(server).or_default() += 1;
            }
        }
        assert!(counts.values().all(|count| *count == 10), "{counts:?}");
    }

    #[test]
    fn a_single_tablet_goes_to_the_least_loaded_server() {
        let mut load = Load::new(servers());
        load.add("a");
        load.add("b");
        load.add("b");
        assert_eq!(load.place(1), ["c"]);
        assert_eq!(load.place(1), ["a"], "fewer tablets in all than b");
        assert_eq!(load.place(3).len(), 3);
        assert_eq!(load.place(9).len(), 3, "no server gets two replicas of one tablet");
    }
}
