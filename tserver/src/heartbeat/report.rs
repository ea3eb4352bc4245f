//! What one heartbeat says.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use proto::kudu::ServerRegistrationPb;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::master::{
    ReportedTabletPb, TabletReportPb, TabletsByRangePb, TabletsByRangePerTablePb, TsHeartbeatRequestPb,
    TsToMasterCommonPb,
};
use proto::kudu::tablet::ReportedTabletStatsPb;
use server_base::consensus::{replica_management, status};

use crate::node::Node;
use crate::tablets::Replica;

/// What one master has heard so far.
#[derive(Debug)]
pub(super) struct Heard {
    registration: bool,
    /// The newest change of the last report it took; `None` asks for a full one.
    change: Option<u64>,
    statistics: HashMap<String, ReportedTabletStatsPb>,
    sequence_number: i32,
}

/// A heartbeat and what the master will have heard once it answers.
#[derive(Debug)]
pub(super) struct Heartbeat {
    pub(super) request: TsHeartbeatRequestPb,
    pub(super) registers: bool,
    change: u64,
    /// `None` for replicas whose rows are gone.
    statistics: Vec<(String, Option<ReportedTabletStatsPb>)>,
    removed: Vec<String>,
}

impl Heard {
    pub(super) fn nothing() -> Self {
        Self { registration: false, change: None, statistics: HashMap::new(), sequence_number: 0 }
    }

    /// The next heartbeat: everything the master has not heard.
    pub(super) fn next(&mut self, node: &Node, registration: &ServerRegistrationPb) -> Heartbeat {
        let changes = node.tablets.changes(self.change);
        let changed: HashSet<&str> = changes.updated.iter().map(|replica| replica.id()).collect();
        let all = node.tablets.all();
        let mut updated = Vec::new();
        let mut statistics = Vec::new();
        for replica in &all {
            let figures = figures(replica);
            let new_figures = figures != self.statistics.get(replica.id()).copied();
            if new_figures || changed.contains(replica.id()) {
                updated.push(reported(replica, node.uuid(), figures));
                statistics.push((replica.id().to_owned(), figures));
            }
        }
        let live: Vec<_> = all.iter().filter(|replica| replica.running().is_some()).collect();
        let report = TabletReportPb {
            is_incremental: self.change.is_some(),
            updated_tablets: updated,
            removed_tablet_ids: changes.removed.iter().map(|id| Bytes::from(id.clone())).collect(),
            sequence_number: self.sequence_number,
        };
        self.sequence_number = self.sequence_number.wrapping_add(1);
        let registers = !self.registration;
        let request = TsHeartbeatRequestPb {
            common: TsToMasterCommonPb { ts_instance: node.identity.node_instance() },
            registration: registers.then(|| registration.clone()),
            replica_management_info: registers.then(replica_management),
            tablet_report: Some(report),
            num_live_tablets: Some(i32::try_from(live.len()).unwrap_or(i32::MAX)),
            num_live_tablets_by_range_per_table: by_range(&live),
            ..Default::default()
        };
        Heartbeat { request, registers, change: changes.upto, statistics, removed: changes.removed }
    }

    /// The master took the heartbeat.
    pub(super) fn taken(&mut self, heartbeat: Heartbeat) {
        self.registration |= heartbeat.registers;
        self.change = Some(heartbeat.change);
        for (id, figures) in heartbeat.statistics {
            match figures {
                Some(figures) => drop(self.statistics.insert(id, figures)),
                None => drop(self.statistics.remove(&id)),
            }
        }
        for id in &heartbeat.removed {
            self.statistics.remove(id);
        }
    }

    /// The master does not know this server.
    pub(super) fn forget_registration(&mut self) {
        self.registration = false;
    }

    /// The master wants all replicas.
    pub(super) fn forget_replicas(&mut self) {
        self.change = None;
        self.statistics.clear();
    }
}

fn figures(replica: &Replica) -> Option<ReportedTabletStatsPb> {
    let statistics = replica.running()?.statistics();
    Some(ReportedTabletStatsPb {
        on_disk_size: Some(statistics.memory_bytes + statistics.on_disk_bytes),
        live_row_count: Some(statistics.live_rows),
    })
}

fn reported(replica: &Replica, uuid: &str, stats: Option<ReportedTabletStatsPb>) -> ReportedTabletPb {
    ReportedTabletPb {
        tablet_id: replica.id().to_owned().into(),
        state: Some(replica.state().into()),
        tablet_data_state: Some(replica.data_state().into()),
        consensus_state: Some(replica.consensus_state(uuid)),
        error: replica.failure().map(|text| status(ErrorCode::Corruption, text)),
        schema_version: Some(replica.present().schema_version),
        stats,
    }
}

/// How many replicas of each range of each table are here: masters spread new ones by that.
fn by_range(live: &[&Arc<Replica>]) -> BTreeMap<String, TabletsByRangePerTablePb> {
    let mut counts: BTreeMap<(&str, &[u8]), i32> = BTreeMap::new();
    for replica in live {
        let range = (replica.about.table_id.as_str(), replica.about.partition.range_start());
        *counts.entry(range).or_default() += 1;
    }
    let mut tables: BTreeMap<String, TabletsByRangePerTablePb> = BTreeMap::new();
    for ((table, start), tablets) in counts {
        let range_start_key = Some(Bytes::copy_from_slice(start));
        let range = TabletsByRangePb { range_start_key, tablets: Some(tablets) };
        tables.entry(table.to_owned()).or_default().num_live_tablets_by_range.push(range);
    }
    tables
}
