mod alter;

use std::time::Duration;

use proto::kudu::consensus::{ConsensusStatePb, RaftConfigPb};
use proto::kudu::{HostPortPb, PartitionPb, ServerRegistrationPb};

use super::tables::Definition;
use super::*;

fn catalog(servers: usize) -> (Catalog, Instant) {
    let mut catalog = Catalog::new(Limits::default(), fastrand::Rng::with_seed(7));
    let now = Instant::now();
    (0..servers).for_each(|i| register(&mut catalog, &format!("ts{i}"), 1, now).unwrap());
    (catalog, now)
}

/// A catalog of what `backend` keeps.
fn restored(backend: impl tablet::backend::Backend + 'static, now: Instant) -> Catalog {
    let storage = tablet::Storage {
        backend: std::sync::Arc::new(backend),
        folder: "".into(),
        log: tablet::LogOptions::default(),
        cache: std::sync::Arc::new(tablet::BlockCache::new(0)),
    };
    let opened = store::Store::open(storage, std::sync::Arc::default()).unwrap();
    Catalog::restore(Limits::default(), fastrand::Rng::with_seed(7), opened, "c", now).unwrap().0
}

fn register(
    catalog: &mut Catalog,
    uuid: &str,
    seqno: i64,
    now: Instant,
) -> Result<(), servers::RegisterError> {
    let rpc_addresses = vec![HostPortPb { host: format!("{uuid}.example"), port: 7050 }];
    let registration = ServerRegistrationPb { rpc_addresses, ..Default::default() };
    catalog.servers_mut().register(uuid, seqno, registration, now)
}

fn plan(name: &str, tablets: u8, replicas: i32) -> TablePlan {
    let tablet = |i| NewTablet {
        partition: PartitionPb { partition_key_start: Some(vec![i].into()), ..Default::default() },
        dimension_label: None,
    };
    let schema = schema::Schema::new(vec![schema::Column::new("k", schema::DataType::Int8)], 1).unwrap();
    let schema = schema.with_sequential_ids(0);
    let about = Definition {
        name: name.into(),
        next_column_id: schema.next_id().0,
        schema,
        partitioning: schema::PartitionSchema::default(),
        replicas,
        owner: "root".into(),
        comment: String::new(),
        extra_config: Default::default(),
        disk_size_limit: None,
        row_count_limit: None,
    };
    TablePlan { about, tablets: (0..tablets).map(tablet).collect() }
}

fn actions(catalog: &mut Catalog) -> Vec<Action> {
    std::iter::from_fn(|| catalog.poll_action()).collect()
}

fn report(id: &str, leader: &str, term: i64) -> ReportedTabletPb {
    let peer =
        RaftPeerPb { permanent_uuid: Some(copied(leader)), member_type: Some(1), ..Default::default() };
    let committed_config = RaftConfigPb { opid_index: Some(-1), peers: vec![peer], ..Default::default() };
    let consensus_state = Some(ConsensusStatePb {
        current_term: term,
        leader_uuid: Some(leader.into()),
        committed_config,
        pending_config: None,
    });
    ReportedTabletPb { tablet_id: copied(id), consensus_state, ..Default::default() }
}

#[test]
fn a_table_is_created_when_all_its_servers_have_said_so() {
    let (mut catalog, now) = catalog(3);
    let id = catalog.create_table(plan("t", 4, 1), now).unwrap();
    let sent = actions(&mut catalog);
    assert_eq!(sent.len(), 4);
    for (i, action) in sent.iter().enumerate() {
        assert!(!catalog.is_created(catalog.tables().get(&id).unwrap()), "after {i} of 4");
        let Action::Create { server, tablet } = action else { panic!("{action:?}") };
        let request = catalog.create_request(server, tablet).unwrap();
        assert_eq!((request.dest_uuid(), request.table_name.as_str()), (server.as_bytes(), "t"));
        assert_eq!(request.config.peers.len(), 1);
        assert_eq!(catalog.create_answered(server, tablet, true, now), Next::Stop);
    }
    assert!(catalog.is_created(catalog.tables().get(&id).unwrap()));
}

#[test]
fn a_report_of_the_leader_is_as_good_as_the_answer() {
    let (mut catalog, now) = catalog(1);
    let id = catalog.create_table(plan("t", 1, 1), now).unwrap();
    let tablet = catalog.tables().get(&id).unwrap().tablets[0].1.clone();
    assert_eq!(catalog.report("ts0", &report(&tablet, "ts0", 1)), None);
    assert!(catalog.is_created(catalog.tables().get(&id).unwrap()));
    assert_eq!(catalog.tablet(&tablet).unwrap().config.term, 1);
    let mut with_stats = report(&tablet, "ts0", 1);
    with_stats.stats =
        Some(proto::kudu::tablet::ReportedTabletStatsPb { on_disk_size: Some(5), live_row_count: Some(7) });
    catalog.report("ts0", &with_stats);
    let stats = catalog.statistics(catalog.tables().get(&id).unwrap());
    assert_eq!((stats.on_disk_size, stats.live_row_count), (5, 7));
}

#[test]
fn more_replicas_than_servers_are_refused_with_both_numbers() {
    let (mut catalog, now) = catalog(1);
    let refused = catalog.create_table(plan("t", 1, 3), now).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "not enough live tablet servers to create a table with the requested replication factor 3; 1 tablet servers are alive"
    );
    assert!(catalog.tables().iter().next().is_none());
    let (mut silent, _) = self::catalog(3);
    let later = now + Duration::from_secs(61);
    assert!(matches!(
        silent.create_table(plan("t", 1, 1), later),
        Err(Fault::NotEnoughServers { live: 0, .. })
    ));
}

#[test]
fn a_name_is_taken_until_its_table_is_deleted() {
    let (mut catalog, now) = catalog(1);
    let id = catalog.create_table(plan("t", 1, 1), now).unwrap();
    assert!(matches!(catalog.create_table(plan("t", 1, 1), now), Err(Fault::TableExists { .. })));
    catalog.delete_table(&id).unwrap();
    let again = catalog.create_table(plan("t", 1, 1), now).unwrap();
    assert_ne!(again, id);
}

#[test]
fn replicas_of_a_deleted_table_are_dropped_even_if_they_turn_up_late() {
    let (mut catalog, now) = catalog(2);
    let id = catalog.create_table(plan("t", 1, 1), now).unwrap();
    let tablet = catalog.tables().get(&id).unwrap().tablets[0].1.clone();
    let [Action::Create { server, .. }] = &actions(&mut catalog)[..] else { panic!("one replica") };
    catalog.delete_table(&id).unwrap();
    assert_eq!(catalog.create_request(server, &tablet), None, "no longer wanted");
    let delete = Action::Delete { server: server.clone(), tablet: tablet.clone() };
    assert_eq!(actions(&mut catalog), std::slice::from_ref(&delete));
    assert_eq!(catalog.delete_answered(server, &tablet, false, now), Next::Retry);
    assert_eq!(catalog.delete_answered(server, &tablet, true, now), Next::Stop);
    // The request to make it was still on its way and came in behind the one to drop it.
    assert_eq!(catalog.create_answered(server, &tablet, true, now), Next::Stop);
    assert_eq!(actions(&mut catalog), [delete]);
    let other = if server == "ts0" { "ts1" } else { "ts0" };
    assert!(catalog.report(other, &report(&tablet, other, 1)).is_some());
    assert_eq!(actions(&mut catalog), [Action::Delete { server: other.into(), tablet: tablet.clone() }]);
    assert_eq!(catalog.delete_answered(server, &tablet, true, now), Next::Stop);
    assert!(catalog.delete_request(other, &tablet).is_some());
    catalog.delete_answered(other, &tablet, true, now);
    assert_eq!(catalog.delete_request(other, &tablet), None);
    assert!(catalog.deleted.is_empty(), "nothing is remembered for ever");
}

#[test]
fn a_replica_whose_server_stays_away_is_placed_elsewhere() {
    let (mut catalog, now) = catalog(2);
    let id = catalog.create_table(plan("t", 1, 1), now).unwrap();
    let tablet = catalog.tables().get(&id).unwrap().tablets[0].1.clone();
    let [Action::Create { server, .. }] = &actions(&mut catalog)[..] else { panic!("one replica") };
    assert_eq!(catalog.create_answered(server, &tablet, false, now), Next::Retry);
    let later = now + Limits::default().placement_patience;
    assert_eq!(catalog.create_answered(server, &tablet, false, later), Next::Stop);
    let [Action::Create { server: second, .. }] = &actions(&mut catalog)[..] else { panic!("one replica") };
    assert_ne!(server, second);
    // The first one had made it after all.
    assert!(catalog.report(server, &report(&tablet, server, 1)).is_some());
    assert!(matches!(&actions(&mut catalog)[..], [Action::Delete { server: gone, .. }] if gone == server));
    catalog.create_answered(second, &tablet, true, later);
    assert!(catalog.is_created(catalog.tables().get(&id).unwrap()));
}

#[test]
fn an_older_start_of_a_server_cannot_register() {
    let (mut catalog, now) = catalog(0);
    register(&mut catalog, "ts", 5, now).unwrap();
    register(&mut catalog, "ts", 5, now).unwrap();
    let refused = register(&mut catalog, "ts", 4, now).unwrap_err();
    assert!(refused.to_string().contains("Already have a registration from sequence number 5"));
    assert!(catalog.servers_mut().heartbeat("ts", 5, now).is_some());
    assert!(catalog.servers_mut().heartbeat("ts", 6, now).is_none(), "a higher one has to register");
    assert!(catalog.servers_mut().heartbeat("ts", 4, now).is_none());
    assert_eq!(catalog.servers().len(), 1);
}

#[test]
fn a_change_that_the_disk_refuses_does_not_happen() {
    use tablet::backend::{Fault as DiskFault, Faulty, Memory};
    // The id of the cluster takes the first three operations: file, header, record.
    let backend = Faulty::new(Memory::new(), 4, DiskFault::Death);
    let now = Instant::now();
    let mut catalog = restored(backend, now);
    register(&mut catalog, "ts0", 1, now).unwrap();
    let id = catalog.create_table(plan("t", 1, 1), now).unwrap();
    let [Action::Create { server, tablet }] = &actions(&mut catalog)[..] else { panic!("one replica") };
    assert_eq!(catalog.create_answered(server, tablet, true, now), Next::Retry, "to be noted later");
    assert!(!catalog.is_created(catalog.tables().get(&id).unwrap()));
    assert!(matches!(catalog.create_table(plan("u", 1, 1), now), Err(Fault::Store(_))));
    assert!(matches!(catalog.delete_table(&id), Err(Fault::Store(_))));
    assert_eq!(catalog.tables().iter().map(|table| table.about.name.as_str()).collect::<Vec<_>>(), ["t"]);
    assert_eq!(actions(&mut catalog), []);
}

#[test]
fn a_table_of_one_replica_has_a_limit_of_tablets_too() {
    let mut catalog = Catalog::new(
        Limits { max_create_unreplicated_per_server: 3, ..Limits::default() },
        Default::default(),
    );
    let now = Instant::now();
    (0..2).for_each(|i| register(&mut catalog, &format!("ts{i}"), 1, now).unwrap());
    assert_eq!(catalog.create_table(plan("t", 7, 1), now), Err(Fault::TooManyTablets(6)));
    catalog.create_table(plan("t", 6, 1), now).unwrap();
}

#[test]
fn a_refusal_for_good_is_told_and_not_asked_about_again() {
    let (mut catalog, now) = catalog(1);
    let id = catalog.create_table(plan("t", 2, 1), now).unwrap();
    let [Action::Create { server, tablet }, _] = &actions(&mut catalog)[..] else { panic!("two tablets") };
    assert_eq!(catalog.refused(catalog.tables().get(&id).unwrap()), None);
    catalog.create_refused(server, tablet, "not that type");
    let told = catalog.refused(catalog.tables().get(&id).unwrap()).unwrap().to_string();
    assert!(told.contains(tablet) && told.ends_with("not that type"), "{told}");
    assert_eq!(actions(&mut catalog), []);
    catalog.delete_table(&id).unwrap();
    catalog.create_refused(server, tablet, "too late");
}

#[test]
fn what_a_dead_server_is_to_drop_waits_until_it_calls() {
    let (mut catalog, now) = catalog(1);
    let id = catalog.create_table(plan("t", 1, 1), now).unwrap();
    let [Action::Create { server, tablet }] = &actions(&mut catalog)[..] else { panic!("one replica") };
    catalog.delete_table(&id).unwrap();
    let [delete] = &actions(&mut catalog)[..] else { panic!("one replica") };
    assert_eq!(catalog.delete_answered(server, tablet, false, now), Next::Retry);
    let later = now + Duration::from_secs(61);
    assert_eq!(catalog.delete_answered(server, tablet, false, later), Next::Stop, "nobody is there");
    catalog.resume("another");
    assert_eq!(actions(&mut catalog), []);
    catalog.resume(server);
    assert_eq!(actions(&mut catalog), std::slice::from_ref(delete));
    catalog.resume(server);
    assert_eq!(actions(&mut catalog), [], "once");
    assert!(catalog.delete_request(server, tablet).is_some());
}

#[test]
fn a_server_whose_address_was_taken_is_dead_on_a_machine_that_just_started() {
    let (mut catalog, now) = catalog(0);
    let registration = ServerRegistrationPb {
        rpc_addresses: vec![HostPortPb { host: "one.example".into(), port: 7050 }],
        ..Default::default()
    };
    let servers = catalog.servers_mut();
    servers.register("old", 1, registration.clone(), now).unwrap();
    servers.register("new", 1, registration, now).unwrap();
    let live = |servers: &Servers| servers.live(now).map(|s| s.uuid.clone()).collect::<Vec<_>>();
    assert_eq!(live(servers), ["new"]);
    assert!(servers.silence_of(servers.get("old").unwrap(), now) >= Duration::from_secs(60));
    assert!(!servers.is_live("old", now) && servers.is_live("new", now) && !servers.is_live("none", now));
    servers.heartbeat("old", 1, now).unwrap();
    assert_eq!(live(servers), ["new", "old"], "it calls, so it is there");
}

#[test]
fn servers_that_hold_nothing_are_forgotten_after_a_day() {
    let (mut catalog, now) = catalog(3);
    catalog.create_table(plan("t", 1, 1), now).unwrap();
    let gone = catalog.create_table(plan("gone", 1, 1), now).unwrap();
    catalog.delete_table(&gone).unwrap();
    let later = now + servers::LONG_GONE;
    catalog.forget_servers(later - Duration::from_secs(1));
    assert_eq!(catalog.servers().len(), 3);
    catalog.forget_servers(later);
    let left: Vec<_> = catalog.servers().iter().map(|server| server.uuid.clone()).collect();
    let holds = |uuid: &String| catalog.tablets.values().any(|tablet| tablet.config.has(uuid));
    assert_eq!(left.len(), 2, "one holds a tablet and one is still to drop one");
    assert_eq!(left.iter().filter(|uuid| holds(uuid)).count(), 1);
}

#[test]
fn a_server_in_maintenance_gets_no_replicas_while_there_are_others() {
    let (mut catalog, now) = catalog(2);
    assert!(matches!(catalog.set_maintenance("nobody", true, false, 0), Err(Fault::UnknownServer(_))));
    catalog.set_maintenance("nobody", true, true, 0).unwrap();
    catalog.set_maintenance("ts0", true, false, 0).unwrap();
    catalog.create_table(plan("t", 4, 1), now).unwrap();
    let servers = |catalog: &mut Catalog| -> Vec<String> {
        let server = |action| match action {
            Action::Create { server, .. } => server,
            other => panic!("{other:?}"),
        };
        actions(catalog).into_iter().map(server).collect()
    };
    assert_eq!(servers(&mut catalog), ["ts1"; 4]);
    catalog.set_maintenance("ts1", true, false, 0).unwrap();
    catalog.create_table(plan("u", 2, 1), now).unwrap();
    assert_eq!(servers(&mut catalog).len(), 2, "better on a server in maintenance than nowhere");
    catalog.set_maintenance("ts0", false, false, 0).unwrap();
    catalog.create_table(plan("v", 3, 1), now).unwrap();
    assert_eq!(servers(&mut catalog), ["ts0"; 3]);
}

#[test]
fn maintenance_outlives_the_master() {
    let memory = tablet::backend::Memory::new();
    let open = || restored(memory.clone(), Instant::now());
    let mut catalog = open();
    for (uuid, begins) in [("a", true), ("b", true), ("a", false)] {
        catalog.set_maintenance(uuid, begins, true, 1_700_000_000).unwrap();
    }
    catalog.close();
    drop(catalog);
    let catalog = open();
    assert_eq!(["a", "b"].map(|uuid| catalog.in_maintenance(uuid)), [false, true]);
}

#[test]
fn only_the_dead_are_unregistered_unless_forced() {
    let (mut catalog, now) = catalog(2);
    assert!(matches!(catalog.unregister("nobody", true, now), Err(Fault::UnknownServer(_))));
    assert!(matches!(catalog.unregister("ts0", false, now), Err(Fault::ServerLives(_))));
    catalog.unregister("ts0", true, now).unwrap();
    catalog.unregister("ts1", false, now + Duration::from_secs(61)).unwrap();
    assert!(catalog.servers().is_empty());
}
