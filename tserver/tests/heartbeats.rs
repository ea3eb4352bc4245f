//! What a master hears, from masters that forget, refuse and go away.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{TABLET, create_request, row, start, table, write_request};
use net_addr::SockAddr;
use parking_lot::Mutex;
use proto::kudu::consensus::replica_management_info_pb::ReplacementScheme;
use proto::kudu::master::{TsHeartbeatRequestPb, TsHeartbeatResponsePb};
use proto::kudu::tablet::TabletStatePb;
use proto::methods::master_service::{Ping, TSHeartbeat};
use proto::methods::tablet_server_admin_service::{CreateTablet, DeleteTablet};
use proto::methods::tablet_server_service::Write;
use rpc_core::{Messenger, Proxy};
use rpc_server::{Server, Service};
use schema::OpKind;
use server_base::acl::process_user;
use tserver::TabletServer;

/// A master that writes down what it hears.
struct Master {
    server: Server,
    heard: Arc<Mutex<Vec<TsHeartbeatRequestPb>>>,
    /// What it asks for in its next answer.
    ask: Arc<Mutex<TsHeartbeatResponsePb>>,
}

impl Master {
    fn at(address: &str) -> Self {
        let (heard, ask) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Default::default())));
        let (log, answers) = (Arc::clone(&heard), Arc::clone(&ask));
        let service = Service::builder("kudu.master.MasterService")
            .features(&[4])
            .cheap::<Ping>(|call| call.respond(&Default::default()))
            .cheap::<TSHeartbeat>(move |call| {
                log.lock().push(call.request().clone());
                call.respond(&std::mem::take(&mut *answers.lock()));
            })
            .build();
        let address: SockAddr = address.parse().unwrap();
        let server = Server::builder().reactors(1).bind(address).service(service).start().unwrap();
        server.ready();
        Self { server, heard, ask }
    }

    fn new() -> Self {
        Self::at("127.0.0.1:0")
    }

    fn address(&self) -> String {
        self.server.bound_addresses()[0].to_string()
    }

    /// Waits for a heartbeat like this among those from the `from`th on, and gives its number.
    fn wait(&self, from: usize, like: impl Fn(&TsHeartbeatRequestPb) -> bool) -> usize {
        let give_up = Instant::now() + Duration::from_secs(10);
        loop {
            let found = self.heard.lock().iter().skip(from).position(&like);
            match found {
                Some(found) => return from + found,
                None if Instant::now() > give_up => panic!("never heard, only {:#?}", self.heard.lock()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn count(&self) -> usize {
        self.heard.lock().len()
    }

    fn get(&self, number: usize) -> TsHeartbeatRequestPb {
        self.heard.lock()[number].clone()
    }
}

fn call<M: proto::Method>(server: &TabletServer, request: &M::Request) -> M::Response {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let messenger = Messenger::builder().user(process_user()).build();
    let proxy = Proxy::new(&messenger, server.bound_addresses()[0].clone(), "127.0.0.1");
    runtime.block_on(proxy.call::<M>(request).timeout(Duration::from_secs(10)).send()).unwrap().message
}

#[test]
fn a_server_registers_with_all_that_clients_need_to_find_it() {
    let master = Master::new();
    let server = start(&[&format!("--tserver_master_addrs={}", master.address())]);
    let first = master.get(master.wait(0, |_| true));
    assert_eq!(first.common.ts_instance.permanent_uuid, server.uuid().as_bytes());
    let registration = first.registration.expect("a registration");
    let addresses: Vec<_> =
        registration.rpc_addresses.iter().map(|a| format!("{}:{}", a.host, a.port)).collect();
    assert_eq!(addresses, [server.bound_addresses()[0].to_string()]);
    assert_eq!(registration.unix_domain_socket_path(), format!("@kudu-{}", server.uuid()));
    assert_eq!(server.unix_path().as_deref(), Some(registration.unix_domain_socket_path()));
    assert!(registration.software_version().starts_with("kudu 1.18.1"));
    assert!(registration.start_time() > 1_700_000_000);
    let scheme = first.replica_management_info.unwrap().replacement_scheme();
    assert_eq!(scheme, ReplacementScheme::PrepareReplacementBeforeEviction);
    let report = first.tablet_report.unwrap();
    assert!(!report.is_incremental && report.updated_tablets.is_empty());
}

#[test]
fn news_is_told_at_once_and_only_once() {
    let master = Master::new();
    let flags = [&*format!("--tserver_master_addrs={}", master.address()), "--heartbeat_interval_ms=60000"];
    let server = start(&flags);
    master.wait(0, |_| true);
    let schema = table();
    assert_eq!(call::<CreateTablet>(&server, &create_request(&schema)).error, None);
    let created = master.wait(1, |h| !h.tablet_report.as_ref().unwrap().updated_tablets.is_empty());
    let heartbeat = master.get(created);
    assert!(heartbeat.registration.is_none(), "it is known already");
    assert_eq!(heartbeat.num_live_tablets, Some(1));
    let report = heartbeat.tablet_report.unwrap();
    assert!(report.is_incremental);
    let tablet = &report.updated_tablets[0];
    assert_eq!((&*tablet.tablet_id, tablet.state()), (TABLET.as_bytes(), TabletStatePb::Running));
    assert_eq!(tablet.consensus_state.as_ref().unwrap().leader_uuid(), server.uuid());

    let delete = proto::kudu::tserver::DeleteTabletRequestPb {
        tablet_id: TABLET.into(),
        delete_type: Some(proto::kudu::tablet::TabletDataState::TabletDataDeleted.into()),
        ..Default::default()
    };
    assert_eq!(call::<DeleteTablet>(&server, &delete).error, None);
    let deleted = master.wait(created + 1, |_| true);
    let report = master.get(deleted).tablet_report.unwrap();
    assert_eq!((report.removed_tablet_ids, report.updated_tablets.len()), (vec![TABLET.into()], 0));
}

#[test]
fn new_figures_are_told_with_the_next_heartbeat() {
    let master = Master::new();
    let flags = [&*format!("--tserver_master_addrs={}", master.address()), "--heartbeat_interval_ms=50"];
    let server = start(&flags);
    let schema = table();
    assert_eq!(call::<CreateTablet>(&server, &create_request(&schema)).error, None);
    let rows: Vec<_> = (0..5).map(|key| (OpKind::Insert, row(&schema, key))).collect();
    assert_eq!(call::<Write>(&server, &write_request(&schema, &rows)).error, None);
    let told = master.wait(0, |h| {
        let tablets = &h.tablet_report.as_ref().unwrap().updated_tablets;
        tablets.iter().any(|t| t.stats.as_ref().is_some_and(|s| s.live_row_count() == 5))
    });
    let quiet = master.wait(told + 1, |_| true);
    assert_eq!(master.get(quiet).tablet_report.unwrap().updated_tablets.len(), 0);
}

#[test]
fn a_tombstone_is_told_once() {
    let master = Master::new();
    let flags = [&*format!("--tserver_master_addrs={}", master.address()), "--heartbeat_interval_ms=30"];
    let server = start(&flags);
    assert_eq!(call::<CreateTablet>(&server, &create_request(&table())).error, None);
    let delete = proto::kudu::tserver::DeleteTabletRequestPb {
        tablet_id: TABLET.into(),
        delete_type: Some(proto::kudu::tablet::TabletDataState::TabletDataTombstoned.into()),
        ..Default::default()
    };
    // Not before its figures were told.
    master.wait(0, |h| h.tablet_report.as_ref().unwrap().updated_tablets.iter().any(|t| t.stats.is_some()));
    assert_eq!(call::<DeleteTablet>(&server, &delete).error, None);
    let told = master.wait(0, |h| {
        let tablets = &h.tablet_report.as_ref().unwrap().updated_tablets;
        tablets.iter().any(|t| t.state() == TabletStatePb::Stopped)
    });
    for number in told + 1..=told + 3 {
        let next = master.get(master.wait(number, |_| true));
        assert_eq!(next.tablet_report.unwrap().updated_tablets, []);
    }
}

#[test]
fn a_master_that_forgot_the_server_gets_everything_again() {
    let master = Master::new();
    let flags = [&*format!("--tserver_master_addrs={}", master.address()), "--heartbeat_interval_ms=50"];
    let server = start(&flags);
    assert_eq!(call::<CreateTablet>(&server, &create_request(&table())).error, None);
    let settled = master.wait(0, |h| {
        let report = h.tablet_report.as_ref().unwrap();
        report.is_incremental && report.updated_tablets.is_empty()
    });
    *master.ask.lock() = TsHeartbeatResponsePb {
        needs_reregister: Some(true),
        needs_full_tablet_report: Some(true),
        ..Default::default()
    };
    let again = master.get(master.wait(settled + 1, |h| h.registration.is_some()));
    let report = again.tablet_report.unwrap();
    assert!(!report.is_incremental);
    assert_eq!(report.updated_tablets.len(), 1);
}

#[test]
fn a_master_given_three_times_hears_each_thing_once() {
    let master = Master::new();
    let address = master.address();
    let port = address.rsplit(':').next().unwrap();
    let masters = format!("--tserver_master_addrs={address},{address},localhost:{port}");
    let _server = start(&[&masters, "--heartbeat_interval_ms=200"]);
    master.wait(0, |_| true);
    std::thread::sleep(Duration::from_millis(900));
    let heard = master.count();
    assert!((3..=6).contains(&heard), "{heard} heartbeats in 900 ms at one each 200 ms");
    assert_eq!(master.heard.lock().iter().filter(|h| h.registration.is_some()).count(), 1);
}

#[test]
fn a_master_that_comes_late_or_again_is_found() {
    let address = Master::new().address();
    let flags = [&*format!("--tserver_master_addrs={address}"), "--heartbeat_interval_ms=100"];
    let _server = start(&flags);
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..2 {
        let master = Master::at(&address);
        let first = master.get(master.wait(0, |_| true));
        assert!(first.registration.is_some() && !first.tablet_report.unwrap().is_incremental);
        master.server.shutdown();
        drop(master);
        std::thread::sleep(Duration::from_millis(250));
    }
}

#[test]
fn advertised_addresses_stand_in_for_the_bound_ones_and_hide_the_unix_socket() {
    let master = Master::new();
    let masters = format!("--tserver_master_addrs={}", master.address());
    let flags = [
        &*masters,
        "--rpc_advertised_addresses=127.0.0.3:7777",
        "--rpc_proxied_addresses=127.0.0.1:0",
        "--rpc_proxy_advertised_addresses=proxy.example:8888",
    ];
    let server = start(&flags);
    let registration = master.get(master.wait(0, |_| true)).registration.unwrap();
    let text = |list: &[proto::kudu::HostPortPb]| {
        list.iter().map(|a| format!("{}:{}", a.host, a.port)).collect::<Vec<_>>().join(",")
    };
    assert_eq!(text(&registration.rpc_addresses), "127.0.0.3:7777");
    assert_eq!(text(&registration.rpc_proxy_addresses), "proxy.example:8888");
    assert_eq!(registration.unix_domain_socket_path, None);
    assert_eq!(server.bound_addresses().len(), 1);
    assert!(server.unix_path().is_some(), "it listens there all the same");
}

#[test]
fn a_port_in_use_is_named_and_leaves_nothing_behind() {
    let first = start(&[]);
    let address = first.bound_addresses()[0].to_string();
    let flags = tserver::TserverOptions::flags();
    flags.parse([format!("--rpc_bind_addresses={address}"), "--tserver_master_addrs=".to_owned()]).unwrap();
    let options = tserver::TserverOptions::from_flags(&flags, &net_addr::SystemResolver).unwrap();
    let error = TabletServer::start(options).unwrap_err();
    assert!(error.to_string().contains(&address), "{error}");
}
