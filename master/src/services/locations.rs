//! Where tablets are.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use proto::kudu::consensus::raft_peer_pb::Role;
use proto::kudu::master::PartitionKeyPb;
use proto::kudu::master::get_tablet_locations_response_pb::Error as TabletError;
use proto::kudu::master::tablet_locations_pb::{DeprecatedReplicaPb, InternedReplicaPb};
use proto::kudu::master::{
    GetTableLocationsRequestPb, GetTableLocationsResponsePb, GetTabletLocationsResponsePb, ReplicaTypeFilter,
    TabletLocationsPb, TsInfoPb,
};
use proto::methods::master_service as m;
use rpc_core::ConnectionInfo;
use rpc_server::Call;

use super::{Context, now};
use crate::catalog::Catalog;
use crate::catalog::tablets::Tablet;
use crate::fault::Fault;

pub(super) fn of_table(context: &Arc<Context>, call: Call<m::GetTableLocations>) {
    let ttl_millis = u32::try_from(context.options.flags.int("table_locations_ttl_ms")).ok();
    let found = {
        let catalog = context.catalog.lock();
        find(context, &catalog, call.connection(), call.request())
    };
    let response = match found {
        Ok((tablet_locations, ts_infos)) => {
            GetTableLocationsResponsePb { tablet_locations, ts_infos, ttl_millis, error: None }
        }
        Err(fault) => {
            GetTableLocationsResponsePb { error: Some(fault.into()), ttl_millis, ..Default::default() }
        }
    };
    call.respond(&response);
}

fn find(
    context: &Context,
    catalog: &Catalog,
    connection: &ConnectionInfo,
    request: &GetTableLocationsRequestPb,
) -> Result<(Vec<TabletLocationsPb>, Vec<TsInfoPb>), Fault> {
    if request.max_returned_locations == Some(0) {
        return Err(Fault::NoLocationsWanted);
    }
    let table = catalog.tables().find(&request.table)?;
    let start = key(request.key_start.as_ref(), request.partition_key_start.as_ref());
    let end = key(request.key_end.as_ref(), request.partition_key_end.as_ref());
    let most =
        request.max_returned_locations.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let mut answer = Answer::new(context, catalog, connection, request.intern_ts_infos_in_response());
    let filter = filter(request.replica_type_filter)?;
    for (_, id) in table.lookup(&start, &end)?.iter().take(most) {
        let tablet = catalog.tablet(id).filter(|tablet| tablet.running).ok_or(Fault::TabletNotRunning)?;
        answer.add(tablet, filter)?;
    }
    Ok((answer.tablets, answer.servers))
}

/// The structured form goes before the flat one.
fn key(structured: Option<&PartitionKeyPb>, flat: Option<&Bytes>) -> Vec<u8> {
    match structured {
        Some(key) => [key.hash_key(), key.range_key()].concat(),
        None => flat.map(|flat| flat.to_vec()).unwrap_or_default(),
    }
}

fn filter(number: Option<i32>) -> Result<ReplicaTypeFilter, Fault> {
    let Some(number) = number else { return Ok(ReplicaTypeFilter::VoterReplica) };
    match ReplicaTypeFilter::try_from(number) {
        Ok(filter @ (ReplicaTypeFilter::AnyReplica | ReplicaTypeFilter::VoterReplica)) => Ok(filter),
        _ => Err(Fault::UnknownReplicaFilter(number)),
    }
}

pub(super) fn of_tablets(context: &Arc<Context>, call: Call<m::GetTabletLocations>) {
    let request = call.request();
    let filter = match filter(request.replica_type_filter) {
        Ok(filter) => filter,
        Err(fault) => {
            let response = GetTabletLocationsResponsePb { error: Some(fault.into()), ..Default::default() };
            return call.respond(&response);
        }
    };
    let mut response = GetTabletLocationsResponsePb::default();
    {
        let catalog = context.catalog.lock();
        let mut answer =
            Answer::new(context, &catalog, call.connection(), request.intern_ts_infos_in_response());
        for id in &request.tablet_ids {
            let name = String::from_utf8_lossy(id);
            let found = match catalog.tablet(&name) {
                Some(tablet) if tablet.running => answer.add(tablet, filter),
                Some(_) => Err(Fault::TabletNotRunning),
                None => Err(Fault::UnknownTablet(name.into_owned())),
            };
            if let Err(fault) = found {
                response.errors.push(TabletError { tablet_id: id.clone(), status: fault.status() });
            }
        }
        (response.tablet_locations, response.ts_infos) = (answer.tablets, answer.servers);
    }
    call.respond(&response);
}

/// Locations as they are gathered; interned, each server is described only once.
struct Answer<'a> {
    context: &'a Context,
    catalog: &'a Catalog,
    connection: &'a ConnectionInfo,
    interned: bool,
    numbers: HashMap<&'a str, u32>,
    servers: Vec<TsInfoPb>,
    tablets: Vec<TabletLocationsPb>,
}

impl<'a> Answer<'a> {
    fn new(
        context: &'a Context,
        catalog: &'a Catalog,
        connection: &'a ConnectionInfo,
        interned: bool,
    ) -> Self {
        let (numbers, servers, tablets) = (HashMap::new(), Vec::new(), Vec::new());
        Self { context, catalog, connection, interned, numbers, servers, tablets }
    }

    fn add(&mut self, tablet: &'a Tablet, filter: ReplicaTypeFilter) -> Result<(), Fault> {
        // After a start of the master the servers call one after the other; the client comes again.
        let leader = tablet.config.leader.as_ref();
        let waits = now().saturating_duration_since(tablet.placed) < self.catalog.limits().tserver_silence;
        if waits && leader.is_some_and(|uuid| self.catalog.servers().get(uuid).is_none()) {
            return Err(Fault::TabletNotRunning);
        }
        let mut location = TabletLocationsPb {
            tablet_id: Bytes::copy_from_slice(tablet.id.as_bytes()),
            partition: Some(tablet.partition.clone()),
            deprecated_stale: Some(false),
            ..Default::default()
        };
        let voters = tablet.config.voters.iter().map(|uuid| (uuid, Role::Follower));
        let others = tablet.config.others.iter().map(|uuid| (uuid, Role::Learner));
        for (uuid, role) in voters.chain(others) {
            let role = if tablet.config.leader.as_ref() == Some(uuid) { Role::Leader } else { role } as i32;
            if filter == ReplicaTypeFilter::VoterReplica && role == Role::Learner as i32 {
                continue;
            }
            let dimension_label = tablet.dimension_label.clone();
            if self.interned {
                let ts_info_idx = self.number(uuid)?;
                location.interned_replicas.push(InternedReplicaPb { ts_info_idx, role, dimension_label });
            } else {
                let ts_info = self.describe(uuid)?;
                location.deprecated_replicas.push(DeprecatedReplicaPb { ts_info, role, dimension_label });
            }
        }
        self.tablets.push(location);
        Ok(())
    }

    fn number(&mut self, uuid: &'a str) -> Result<u32, Fault> {
        if let Some(number) = self.numbers.get(uuid) {
            return Ok(*number);
        }
        let number = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        self.servers.push(self.describe(uuid)?);
        self.numbers.insert(uuid, number);
        Ok(number)
    }

    fn describe(&self, uuid: &str) -> Result<TsInfoPb, Fault> {
        // A replica may be on a server that this master has not heard of yet: then only its id can be told.
        let known = self.catalog.servers().get(uuid);
        let registration = match known {
            Some(server) => self.context.seen_from(self.connection, &server.registration),
            None => Some(Default::default()),
        };
        let registration = registration.ok_or_else(|| Fault::NoProxyAddress(uuid.to_owned()))?;
        Ok(TsInfoPb {
            permanent_uuid: Bytes::copy_from_slice(uuid.as_bytes()),
            rpc_addresses: registration.rpc_addresses,
            location: None,
            unix_domain_socket_path: registration.unix_domain_socket_path,
        })
    }
}
