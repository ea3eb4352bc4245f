//! Where the tablet of a key is: from the cache, or from the master.

use std::sync::Arc;
use std::time::{Duration, Instant};

use meta_cache::{
    Answer, Known, Lookup, Reach, ReplicaAnswer, Request, Role, ServerAnswer, Tablet, TabletAnswer,
    WaitOutcome,
};
use net_addr::HostPort;
use proto::kudu::consensus::raft_peer_pb::Role as WireRole;
use proto::kudu::master::{
    GetTableLocationsRequestPb, GetTableLocationsResponsePb, TabletLocationsPb, TsInfoPb,
};
use proto::methods::master_service::GetTableLocations;

use crate::client::{Shared, by_id, host_port, text};
use crate::error::{AttemptError, MasterError};
use crate::retry::{Backoff, Deadline};
use crate::table::Table;

/// What is at a partition key.
pub(crate) enum Place {
    Tablet(Arc<Tablet>),
    /// Nothing, up to this key (exclusive, empty = without end).
    Gap {
        end: Vec<u8>,
    },
}

impl Shared {
    /// Finds the tablet of a key, asking the master when the cache does not know.
    pub(crate) async fn locate(
        &self,
        table: &Table,
        partition_key: &[u8],
        reach: Reach,
        deadline: &Deadline,
    ) -> Result<Place, MasterError> {
        let mut backoff = Backoff::default();
        loop {
            match self.cache.lookup(table.id(), partition_key, reach, Instant::now()) {
                Lookup::Hit(tablet) => return Ok(Place::Tablet(tablet)),
                Lookup::NonCovered { end, .. } => return Ok(Place::Gap { end }),
                Lookup::Wait(waiting) => {
                    let outcome = tokio::time::timeout_at(deadline.at().into(), waiting).await;
                    let again = match outcome {
                        Ok(WaitOutcome::Answered) => true,
                        Ok(WaitOutcome::GivenUp) => deadline.pause(backoff.next()).await,
                        Err(_) => false,
                    };
                    if !again {
                        return Err(self.locations_timed_out(table, deadline, None));
                    }
                }
                Lookup::Ask(asking) => {
                    let answer = self.ask_locations(table, asking.request(), deadline).await?;
                    let master = self.leader_host();
                    let known = match read_answer(answer, &master) {
                        Ok(answer) => self
                            .cache
                            .insert(asking, answer, Instant::now())
                            .map_err(|source| AttemptError::BadLocations { host: master, source }),
                        Err(error) => Err(error),
                    };
                    match known {
                        Ok(Known::Tablet(tablet)) => return Ok(Place::Tablet(tablet)),
                        Ok(Known::Gap { end, .. }) => return Ok(Place::Gap { end }),
                        Err(error) if !deadline.pause(backoff.next()).await => {
                            return Err(self.locations_timed_out(table, deadline, Some(error)));
                        }
                        Err(_) => {}
                    }
                }
            }
        }
    }

    async fn ask_locations(
        &self,
        table: &Table,
        request: &Request,
        deadline: &Deadline,
    ) -> Result<GetTableLocationsResponsePb, MasterError> {
        let max = u32::try_from(request.max_tablets).unwrap_or(u32::MAX);
        let message = GetTableLocationsRequestPb {
            table: by_id(table.id()),
            partition_key_start: (!request.start.is_empty()).then(|| request.start.clone().into()),
            max_returned_locations: Some(max),
            intern_ts_infos_in_response: Some(true),
            ..Default::default()
        };
        let answer = self.ask_master::<GetTableLocations>(&message, &[], table.name(), deadline).await;
        if let Err(error) = &answer
            && error.is_table_not_found()
        {
            self.cache.forget_table(table.id());
        }
        answer
    }

    fn locations_timed_out(
        &self,
        table: &Table,
        deadline: &Deadline,
        last: Option<AttemptError>,
    ) -> MasterError {
        MasterError::TimedOut {
            method: "GetTableLocations",
            about: table.name().to_owned(),
            masters: self.masters.to_string(),
            after: deadline.given(),
            last: last.map(Box::new),
        }
    }
}

/// Translates an answer. Everything is copied: the message would pin its whole frame.
fn read_answer(answer: GetTableLocationsResponsePb, master: &HostPort) -> Result<Answer, AttemptError> {
    let ttl = Duration::from_millis(answer.ttl_millis().into());
    let mut servers: Vec<ServerAnswer> = answer.ts_infos.iter().map(read_server).collect();
    let mut tablets = Vec::with_capacity(answer.tablet_locations.len());
    for tablet in &answer.tablet_locations {
        tablets.push(read_tablet(tablet, &mut servers, master)?);
    }
    Ok(Answer { ttl, servers, tablets })
}

fn read_server(info: &TsInfoPb) -> ServerAnswer {
    ServerAnswer {
        uuid: text(&info.permanent_uuid),
        addresses: info.rpc_addresses.iter().map(host_port).collect(),
        unix_path: info.unix_domain_socket_path.clone(),
        location: info.location().to_owned(),
    }
}

fn read_tablet(
    tablet: &TabletLocationsPb,
    servers: &mut Vec<ServerAnswer>,
    master: &HostPort,
) -> Result<TabletAnswer, AttemptError> {
    let missing =
        |field| AttemptError::BadAnswer { host: master.clone(), method: "GetTableLocations", field };
    let partition = tablet.partition.as_ref().ok_or_else(|| missing("tablet_locations.partition"))?;
    let mut replicas = Vec::new();
    for replica in &tablet.interned_replicas {
        let server = usize::try_from(replica.ts_info_idx).unwrap_or(usize::MAX);
        replicas.push(ReplicaAnswer { server, role: read_role(replica.role()) });
    }
    // Masters before 1.12 do not intern.
    for replica in &tablet.deprecated_replicas {
        replicas.push(ReplicaAnswer { server: servers.len(), role: read_role(replica.role()) });
        servers.push(read_server(&replica.ts_info));
    }
    Ok(TabletAnswer {
        id: text(&tablet.tablet_id),
        start: partition.partition_key_start().to_vec(),
        end: partition.partition_key_end().to_vec(),
        replicas,
    })
}

pub(crate) fn read_role(role: WireRole) -> Role {
    match role {
        WireRole::Leader => Role::Leader,
        WireRole::Follower => Role::Follower,
        _ => Role::Other,
    }
}
