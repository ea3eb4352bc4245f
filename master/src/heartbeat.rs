//! What the master makes of a tablet server's heartbeat.

use std::collections::HashSet;
use std::time::Instant;

use proto::kudu::NodeInstancePb;
use proto::kudu::consensus::replica_management_info_pb::ReplacementScheme;
use proto::kudu::master::{
    ReportedTabletUpdatesPb, TabletReportPb, TabletReportUpdatesPb, TsHeartbeatRequestPb,
    TsHeartbeatResponsePb,
};

use crate::catalog::Catalog;
use crate::catalog::servers::RegisterError;
use crate::fault::Fault;

/// Why a heartbeat is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// In a response.
    Fault(Fault),
    /// As an RPC error.
    Register(RegisterError),
}

/// Notes the heartbeat that came from `peer` and says what the server is to do.
pub(crate) fn receive(
    catalog: &mut Catalog,
    request: TsHeartbeatRequestPb,
    master: &NodeInstancePb,
    peer: &dyn std::fmt::Display,
    now: Instant,
) -> Result<TsHeartbeatResponsePb, Refused> {
    let instance = request.common.ts_instance;
    let uuid = String::from_utf8_lossy(&instance.permanent_uuid).into_owned();
    let mut response = TsHeartbeatResponsePb {
        master_instance: Some(master.clone()),
        leader_master: Some(true),
        ..Default::default()
    };
    if let Some(registration) = request.registration {
        let scheme = request
            .replica_management_info
            .map(|info| info.replacement_scheme())
            .unwrap_or(ReplacementScheme::Unknown);
        if scheme != ReplacementScheme::PrepareReplacementBeforeEviction {
            let theirs = scheme.as_str_name();
            return Err(Refused::Fault(Fault::ReplacementScheme { theirs, uuid, peer: peer.to_string() }));
        }
        catalog.forget_servers(now);
        let known = catalog.servers().get(&uuid).is_some();
        catalog
            .servers_mut()
            .register(&uuid, instance.instance_seqno, registration, now)
            .map_err(Refused::Register)?;
        tracing::info!(%uuid, seqno = instance.instance_seqno, %peer, again = known, "a tablet server has registered");
    }
    let Some(server) = catalog.servers_mut().heartbeat(&uuid, instance.instance_seqno, now) else {
        tracing::info!(%uuid, %peer, "heartbeat of an unknown tablet server; it is asked to register");
        response.needs_reregister = Some(true);
        response.needs_full_tablet_report = Some(true);
        return Ok(response);
    };
    let wants_full_report = server.wants_full_report;
    server.wants_full_report &= request.tablet_report.as_ref().is_none_or(|report| report.is_incremental);
    catalog.resume(&uuid);
    match request.tablet_report {
        Some(report) if report.is_incremental && wants_full_report => {
            response.needs_full_tablet_report = Some(true);
            response.tablet_report = Some(reported(catalog, &uuid, &report));
        }
        Some(report) => {
            if !report.is_incremental {
                look_for_lost(catalog, &uuid, &report);
            }
            response.tablet_report = Some(reported(catalog, &uuid, &report));
        }
        None if wants_full_report => response.needs_full_tablet_report = Some(true),
        None => {}
    }
    Ok(response)
}

/// All reported tablets are listed in the answer, known or not.
fn reported(catalog: &mut Catalog, uuid: &str, report: &TabletReportPb) -> TabletReportUpdatesPb {
    let update = |tablet: &proto::kudu::master::ReportedTabletPb| ReportedTabletUpdatesPb {
        tablet_id: tablet.tablet_id.clone(),
        state_msg: catalog.report(uuid, tablet).map(str::to_owned),
    };
    TabletReportUpdatesPb { tablets: report.updated_tablets.iter().map(update).collect() }
}

fn look_for_lost(catalog: &Catalog, uuid: &str, report: &TabletReportPb) {
    let reported: HashSet<&[u8]> =
        report.updated_tablets.iter().map(|tablet| &tablet.tablet_id[..]).collect();
    let lost = catalog.missing_from(uuid, &reported).count();
    if lost > 0 {
        tracing::error!(%uuid, lost, "a tablet server came back without tablets it had: their rows are lost");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use proto::kudu::consensus::ReplicaManagementInfoPb;
    use proto::kudu::master::{ReportedTabletPb, TsToMasterCommonPb};
    use proto::kudu::{HostPortPb, ServerRegistrationPb};

    use super::*;
    use crate::options::Limits;

    fn instance(seqno: i64) -> NodeInstancePb {
        NodeInstancePb { permanent_uuid: Bytes::from_static(b"ts"), instance_seqno: seqno }
    }

    fn beat(seqno: i64) -> TsHeartbeatRequestPb {
        TsHeartbeatRequestPb {
            common: TsToMasterCommonPb { ts_instance: instance(seqno) },
            ..Default::default()
        }
    }

    fn registering(seqno: i64) -> TsHeartbeatRequestPb {
        let rpc_addresses = vec![HostPortPb { host: "127.0.0.1".into(), port: 7050 }];
        let scheme = ReplacementScheme::PrepareReplacementBeforeEviction as i32;
        TsHeartbeatRequestPb {
            registration: Some(ServerRegistrationPb { rpc_addresses, ..Default::default() }),
            replica_management_info: Some(ReplicaManagementInfoPb { replacement_scheme: Some(scheme) }),
            ..beat(seqno)
        }
    }

    fn report(incremental: bool, ids: &[&'static str]) -> Option<TabletReportPb> {
        let tablet = |id: &&'static str| ReportedTabletPb {
            tablet_id: Bytes::from_static(id.as_bytes()),
            ..Default::default()
        };
        let updated_tablets = ids.iter().map(tablet).collect();
        Some(TabletReportPb { is_incremental: incremental, updated_tablets, ..Default::default() })
    }

    fn catalog() -> Catalog {
        Catalog::new(Limits::default(), fastrand::Rng::with_seed(1))
    }

    fn receive_at(
        catalog: &mut Catalog,
        request: TsHeartbeatRequestPb,
    ) -> Result<TsHeartbeatResponsePb, Refused> {
        receive(catalog, request, &instance(0), &"127.0.0.1:1", Instant::now())
    }

    #[test]
    fn a_server_registers_and_then_reports() {
        let mut catalog = catalog();
        let unknown = receive_at(&mut catalog, beat(5)).unwrap();
        assert!(unknown.needs_reregister() && unknown.needs_full_tablet_report() && unknown.leader_master());
        let first = receive_at(&mut catalog, registering(5)).unwrap();
        assert!(!first.needs_reregister() && first.needs_full_tablet_report());
        let incremental =
            receive_at(&mut catalog, TsHeartbeatRequestPb { tablet_report: report(true, &[]), ..beat(5) });
        assert!(incremental.unwrap().needs_full_tablet_report(), "not yet a full one");
        let full = TsHeartbeatRequestPb { tablet_report: report(false, &["a", "b"]), ..beat(5) };
        let full = receive_at(&mut catalog, full).unwrap();
        assert!(!full.needs_full_tablet_report());
        assert_eq!(full.tablet_report.unwrap().tablets.len(), 2, "unknown tablets are listed too");
        assert!(!receive_at(&mut catalog, beat(5)).unwrap().needs_full_tablet_report());
    }

    #[test]
    fn other_starts_of_a_server_have_to_register() {
        let mut catalog = catalog();
        receive_at(&mut catalog, registering(5)).unwrap();
        assert!(receive_at(&mut catalog, beat(6)).unwrap().needs_reregister());
        assert!(receive_at(&mut catalog, beat(4)).unwrap().needs_reregister());
        assert!(matches!(receive_at(&mut catalog, registering(4)), Err(Refused::Register(_))));
        receive_at(&mut catalog, registering(6)).unwrap();
        assert_eq!(catalog.servers().len(), 1);
    }

    #[test]
    fn a_server_of_another_replacement_scheme_is_refused() {
        let mut catalog = catalog();
        let mut request = registering(1);
        request.replica_management_info = None;
        let Err(Refused::Fault(fault)) = receive_at(&mut catalog, request) else { panic!("taken") };
        assert_eq!(fault.codes().0.as_str_name(), "INCOMPATIBLE_REPLICA_MANAGEMENT");
        assert!(catalog.servers().is_empty());
    }

    #[test]
    fn a_silent_server_is_dead_until_it_calls_again() {
        let mut catalog = catalog();
        let start = Instant::now();
        receive(&mut catalog, registering(1), &instance(0), &"peer", start).unwrap();
        let later = start + Duration::from_secs(61);
        assert_eq!(catalog.servers().live(later).count(), 0);
        receive(&mut catalog, beat(1), &instance(0), &"peer", later).unwrap();
        assert_eq!(catalog.servers().live(later).count(), 1);
    }

    #[test]
    fn a_server_whose_address_was_taken_is_dead_until_it_calls_again() {
        let mut catalog = catalog();
        let start = Instant::now();
        receive(&mut catalog, registering(1), &instance(0), &"peer", start).unwrap();
        let mut other = registering(2);
        other.common.ts_instance.permanent_uuid = Bytes::from_static(b"other");
        receive(&mut catalog, other, &instance(0), &"peer", start).unwrap();
        let live =
            |catalog: &Catalog| catalog.servers().live(start).map(|ts| ts.uuid.clone()).collect::<Vec<_>>();
        assert_eq!(live(&catalog), ["other"]);
        receive(&mut catalog, beat(1), &instance(0), &"peer", start).unwrap();
        assert_eq!(live(&catalog), ["other", "ts"]);
    }
}
