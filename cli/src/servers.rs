//! The servers of a cluster as a table for terminals.

use mini_cluster::MiniCluster;

use crate::report;

/// The master and the tablet servers of a cluster: addresses and unix sockets, one line each.
pub fn table(cluster: &MiniCluster) -> String {
    let mut rows = vec![vec!["master".to_owned(), cluster.master_address(), String::new()]];
    for tserver in cluster.tservers() {
        let socket = tserver.unix_path.unwrap_or_default();
        rows.push(vec!["tablet server".to_owned(), tserver.address, socket]);
    }
    report::table(&["server", "address", "unix socket"], &rows)
}
