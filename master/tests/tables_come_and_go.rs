//! Tables from their creation to their end, with tablet servers that answer and such that do not.

mod common;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Client, Tserver, column, hashed, run, start, table, until};
use prost::Message;
use proto::kudu::consensus::raft_peer_pb::Role;
use proto::kudu::master::master_error_pb::Code;
use proto::kudu::master::{
    CreateTableRequestPb, DeleteTableRequestPb, GetTableLocationsRequestPb, GetTableSchemaRequestPb,
    GetTabletLocationsRequestPb, IsCreateTableDoneRequestPb, IsCreateTableDoneResponsePb,
    ListTablesRequestPb, ListTabletServersRequestPb,
};
use proto::kudu::server::{SetFlagRequestPb, set_flag_response_pb};
use proto::methods::generic_service::SetFlag;
use proto::methods::master_service as m;
use rpc_core::RpcErrorCode;

#[test]
fn a_table_is_created_found_and_deleted() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let servers = [Tserver::start("ts-a"), Tserver::start("ts-b")];
        for server in &servers {
            assert!(!server.register(&client).await.needs_full_tablet_report());
        }
        // No waiting for a heartbeat: these servers send none of their own accord.
        let id = client.create(hashed("t", 4)).await;
        assert!(servers.iter().all(|server| server.created.lock().len() == 2), "spread evenly");

        let schema = client.call::<m::GetTableSchema>(&GetTableSchemaRequestPb { table: table("t") }).await;
        assert_eq!((schema.table_id.as_ref(), schema.num_replicas()), (Some(&id), 1));
        assert_eq!(schema.schema.unwrap().columns[1].id, Some(1));

        let request = GetTableLocationsRequestPb { table: table("t"), ..Default::default() };
        let plain = client.call::<m::GetTableLocations>(&request).await;
        assert_eq!((plain.tablet_locations.len(), plain.ttl_millis()), (4, 300_000));
        for location in &plain.tablet_locations {
            let [replica] = &location.deprecated_replicas[..] else { panic!("{location:?}") };
            assert_eq!(replica.role, Role::Leader as i32);
            let uuid = String::from_utf8_lossy(&replica.ts_info.permanent_uuid).into_owned();
            assert_eq!(replica.ts_info.unix_domain_socket_path(), format!("@kudu-{uuid}"));
        }
        let interned =
            GetTableLocationsRequestPb { intern_ts_infos_in_response: Some(true), ..request.clone() };
        let interned = client.call::<m::GetTableLocations>(&interned).await;
        assert_eq!(interned.ts_infos.len(), 2);
        assert!(interned.tablet_locations.iter().all(|location| location.interned_replicas.len() == 1));

        let tablet = plain.tablet_locations[0].tablet_id.clone();
        let request =
            GetTabletLocationsRequestPb { tablet_ids: vec![tablet, "nope".into()], ..Default::default() };
        let by_id = client.call::<m::GetTabletLocations>(&request).await;
        assert_eq!((by_id.error, by_id.tablet_locations.len()), (None, 1));
        assert_eq!(by_id.errors[0].status.message(), "Unknown tablet nope");

        let delete = DeleteTableRequestPb { table: table("t"), ..Default::default() };
        assert_eq!(client.call::<m::DeleteTable>(&delete).await.error, None);
        let gone = client.call::<m::GetTableSchema>(&GetTableSchemaRequestPb { table: table("t") }).await;
        let error = gone.error.unwrap();
        assert_eq!(error.code(), Code::TableNotFound);
        assert_eq!(error.status.message(), "the table does not exist: table_name: \"t\"");
        let deleted = || servers.iter().map(|server| server.deleted.lock().len()).sum::<usize>() == 4;
        until("replicas are dropped", deleted).await;
        assert_ne!(client.create(hashed("t", 2)).await, id, "the name is free at once");
    });
}

#[test]
fn a_first_table_waits_for_the_first_tablet_server() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let (creator, server) = (client.clone(), Tserver::start("ts"));
        let creating = tokio::spawn(async move { creator.create(hashed("t", 1)).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.register(&client).await;
        creating.await.unwrap();
        let request = CreateTableRequestPb { num_replicas: Some(3), ..hashed("u", 1) };
        // At once: who waits for more servers does it until shortly before the deadline.
        let call = client.0.call::<m::CreateTable>(&request).timeout(Duration::from_secs(24 * 3600));
        let refused = tokio::time::timeout(Duration::from_secs(120), call.send()).await.expect("at once");
        let refused = refused.unwrap().message.error.unwrap();
        assert_eq!(refused.code(), Code::ReplicationFactorTooHigh);
        let text = "not enough live tablet servers to create a table with the requested replication factor 3; 1 tablet servers are alive";
        assert_eq!(refused.status.message(), text);
    });
}

#[test]
fn without_any_tablet_server_the_refusal_comes_before_the_deadline() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let request = hashed("t", 1);
        let call = client.0.call::<m::CreateTable>(&request).timeout(Duration::from_millis(600));
        let refused = call.send().await.unwrap().message.error.unwrap();
        assert!(refused.status.message().ends_with("; 0 tablet servers are alive"), "{refused:?}");
    });
}

#[test]
fn five_hundred_tables_are_there_as_soon_as_they_are_done() {
    run(async {
        let master = start(&[]);
        let clients = [0, 1].map(|_| Client::to(&master.bound_addresses()[0]));
        let server = Tserver::start("ts");
        server.register(&clients[0]).await;
        for i in 0..500 {
            let name = format!("t{}", i % 7);
            let (one, other) = (&clients[i % 2], &clients[(i + 1) % 2]);
            one.create(hashed(&name, 2)).await;
            let request = GetTableLocationsRequestPb { table: table(&name), ..Default::default() };
            let found = other.call::<m::GetTableLocations>(&request).await;
            assert_eq!((found.error, found.tablet_locations.len()), (None, 2), "{i}");
            let delete = DeleteTableRequestPb { table: table(&name), ..Default::default() };
            assert_eq!(other.call::<m::DeleteTable>(&delete).await.error, None);
        }
    });
}

#[test]
fn a_broken_tablet_server_is_asked_again() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.broken.store(true, Ordering::SeqCst);
        server.register(&client).await;
        client.call::<m::CreateTable>(&hashed("t", 1)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let request = GetTableLocationsRequestPb { table: table("t"), ..Default::default() };
        let early = client.call::<m::GetTableLocations>(&request).await;
        assert_eq!(early.error.as_ref().map(|error| error.code()), Some(Code::TabletNotRunning));
        assert!(early.tablet_locations.is_empty());
        server.broken.store(false, Ordering::SeqCst);
        until("the replica is made", || !server.created.lock().is_empty()).await;
    });
}

#[test]
fn a_server_that_refuses_for_good_is_asked_once_and_the_client_hears_why() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        *server.refuses.lock() = Some("no such type here".into());
        server.register(&client).await;
        assert_eq!(client.call::<m::CreateTable>(&hashed("t", 1)).await.error, None);
        let request = IsCreateTableDoneRequestPb { table: table("t") };
        let begin = Instant::now();
        let error = loop {
            match client.call::<m::IsCreateTableDone>(&request).await {
                IsCreateTableDoneResponsePb { error: Some(error), .. } => break error,
                done => assert!(!done.done() && begin.elapsed() < Duration::from_secs(120), "never told"),
            }
        };
        assert!(error.status.message().ends_with("no such type here"), "{error:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(server.asked.load(Ordering::SeqCst), 1);
        let delete = DeleteTableRequestPb { table: table("t"), ..Default::default() };
        assert_eq!(client.call::<m::DeleteTable>(&delete).await.error, None);
    });
}

#[test]
fn a_server_is_found_at_the_address_that_works() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let mut server = Tserver::start("ts");
        // It listens on IPv4 only; nobody listens at the first address.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        server.hosts = vec![("127.0.0.1".into(), free.port()), ("localhost".into(), server.port())];
        server.register(&client).await;
        client.create(hashed("t", 1)).await;
    });
}

#[test]
fn flags_that_are_changed_count_at_once_or_are_refused() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.register(&client).await;
        client.create(hashed("t", 1)).await;
        let set = |flag: &str, value: &str| SetFlagRequestPb {
            flag: flag.into(),
            value: value.into(),
            ..Default::default()
        };
        let answer = client.call::<SetFlag>(&set("table_locations_ttl_ms", "123")).await;
        assert_eq!(answer.result(), set_flag_response_pb::Code::Success);
        let request = GetTableLocationsRequestPb { table: table("t"), ..Default::default() };
        assert_eq!(client.call::<m::GetTableLocations>(&request).await.ttl_millis, Some(123));
        let answer = client.call::<SetFlag>(&set("max_num_replicas", "3")).await;
        assert_eq!(answer.result(), set_flag_response_pb::Code::NotSafe);
    });
}

#[test]
fn tables_that_wait_for_the_first_server_are_bounded() {
    run(async {
        let master = start(&["--rpc_service_queue_length=2"]);
        let client = Client::to(&master.bound_addresses()[0]);
        let creators: Vec<_> = (0..5)
            .map(|i| {
                let client = client.clone();
                tokio::spawn(
                    async move { client.try_call::<m::CreateTable>(&hashed(&format!("t{i}"), 1)).await },
                )
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        Tserver::start("ts").register(&client).await;
        let (mut made, mut refused) = (0, 0);
        for creator in creators {
            match creator.await.unwrap() {
                Ok(response) => {
                    assert_eq!(response.error, None);
                    made += 1;
                }
                Err(error) => {
                    let code = error.remote().and_then(|error| error.code);
                    assert_eq!(code, Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY));
                    refused += 1;
                }
            }
        }
        assert_eq!((made, refused), (2, 3));
    });
}

#[test]
fn interned_locations_of_a_thousand_tablets_are_three_times_smaller() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let uuids = ["a", "b", "c"].map(|digit| digit.repeat(32));
        let servers = uuids.each_ref().map(|uuid| Tserver::start(uuid));
        for server in &servers {
            server.register(&client).await;
        }
        client.create(hashed("t", 1000)).await;
        let mut request = GetTableLocationsRequestPb { table: table("t"), ..Default::default() };
        let one_replica = client.call::<m::GetTableLocations>(&request).await;
        assert_eq!(one_replica.tablet_locations.len(), 1000);
        // As if each tablet had got two more replicas, which its leader reports.
        for server in &servers {
            let tablets = server.created.lock().clone();
            let beat =
                server.heartbeat_with(tablets.iter().map(|id| common::report(id, &server.uuid, &uuids)));
            client.call::<m::TSHeartbeat>(&beat).await;
        }
        let plain = client.call::<m::GetTableLocations>(&request).await;
        request.intern_ts_infos_in_response = Some(true);
        let interned = client.call::<m::GetTableLocations>(&request).await;
        assert!(plain.tablet_locations.iter().all(|location| location.deprecated_replicas.len() == 3));
        assert_eq!((interned.tablet_locations.len(), interned.ts_infos.len()), (1000, 3));
        let (plain, interned) = (plain.encoded_len(), interned.encoded_len());
        assert!(interned * 3 <= plain, "{interned} and {plain} bytes");
        request.max_returned_locations = Some(10);
        assert_eq!(client.call::<m::GetTableLocations>(&request).await.tablet_locations.len(), 10);
        request.max_returned_locations = Some(0);
        assert!(client.call::<m::GetTableLocations>(&request).await.error.is_some());
    });
}

#[test]
fn tables_beyond_the_limits_are_refused_and_not_listed() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.register(&client).await;
        let mut wide = hashed("wide", 2);
        wide.schema.columns.extend((2..301).map(|i| column(&format!("c{i}"), false)));
        let long = "x".repeat(257);
        let replicas = |count| CreateTableRequestPb { num_replicas: Some(count), ..hashed("r", 2) };
        let mut bad = vec![wide, hashed(&long, 2), hashed("", 2), hashed("a\0b", 2)];
        bad.extend([0, -1, 2, 3, 9].map(replicas));
        for request in bad {
            let refused = client.call::<m::CreateTable>(&request).await;
            assert!(refused.error.is_some() && refused.table_id.is_none(), "{:?}", request.name);
        }
        let odd = ["sp ace'q\"::😀", "a.b.c"];
        for name in odd {
            client.create(hashed(name, 2)).await;
        }
        let listed = client.call::<m::ListTables>(&ListTablesRequestPb::default()).await;
        let mut names: Vec<_> = listed.tables.iter().map(|table| table.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["a.b.c", "sp ace'q\"::😀"]);
        let filter = ListTablesRequestPb { name_filter: Some(".b".into()), ..Default::default() };
        assert_eq!(client.call::<m::ListTables>(&filter).await.tables.len(), 1);
    });
}

#[test]
fn a_server_that_registers_twice_is_listed_once() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        for _ in 0..3 {
            server.register(&client).await;
        }
        let listed = client.call::<m::ListTabletServers>(&ListTabletServersRequestPb::default()).await;
        assert_eq!(listed.servers.len(), 1);
    });
}
