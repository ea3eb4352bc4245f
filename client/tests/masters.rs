//! Masters that are not ready, busy, silent, or not the leader.

mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, ConnectError};
use fake::{FakeMaster, FakeServer, Reply, World, follower, leader, master_error};
use proto::kudu::master::{ConnectToMasterResponsePb, ListTablesResponsePb};

const CATALOG_MANAGER_NOT_INITIALIZED: i32 = 6;
const NOT_THE_LEADER: i32 = 7;
const SERVICE_UNAVAILABLE: i32 = 13;

#[tokio::test]
async fn a_master_that_is_not_leader_yet_and_then_busy_is_waited_for() {
    let master = FakeMaster::start_with(World::default(), |method, earlier| match (method, earlier) {
        ("ConnectToMaster", 0..2) => {
            let error = Some(master_error(CATALOG_MANAGER_NOT_INITIALIZED, SERVICE_UNAVAILABLE));
            Some(Reply::message(&ConnectToMasterResponsePb { error, ..Default::default() }))
        }
        ("ConnectToMaster", 2..3) => Some(follower()),
        ("ConnectToMaster", 3..5) => Some(Reply::busy()),
        ("ListTables", 0..2) => Some(Reply::busy()),
        ("ListTables", 2..4) => {
            let error = Some(master_error(NOT_THE_LEADER, SERVICE_UNAVAILABLE));
            Some(Reply::message(&ListTablesResponsePb { error, ..Default::default() }))
        }
        _ => None,
    });
    let client = master.connect().await;
    assert_eq!(master.calls("ConnectToMaster"), 6);
    client.list_tables("").await.unwrap();
    assert_eq!(master.calls("ListTables"), 5);
}

#[tokio::test]
async fn the_leader_is_found_among_a_silent_a_following_and_a_dead_master() {
    let silent = FakeServer::start(|_| Reply::Silence);
    let following = FakeMaster::start_with(World::default(), |_, _| Some(follower()));
    let dead = FakeServer::start(|_| Reply::Silence).address;
    let leading = FakeMaster::start(World::default());
    let masters = format!("{},{},{dead},{}", silent.address, following.address(), leading.address());
    // Who waits for the silent one does not come to the end in time.
    let builder = Client::builder(masters).rpc_timeout(Duration::from_secs(24 * 3600));
    let client = builder.admin_timeout(Duration::from_secs(120)).connect().await.unwrap();
    client.list_tables("").await.unwrap();
}

#[tokio::test]
async fn a_new_leader_is_found_when_the_old_one_steps_down_or_falls_silent() {
    let first_leads = Arc::new(AtomicBool::new(true));
    let member = |leads_when: bool, is_silent_after: bool| {
        let first_leads = first_leads.clone();
        FakeMaster::start_with(World::default(), move |method, _| {
            let leads = first_leads.load(Ordering::SeqCst) == leads_when;
            match method {
                _ if !leads && is_silent_after => Some(Reply::Silence),
                "ConnectToMaster" => Some(if leads { leader() } else { follower() }),
                _ if leads => None,
                _ => {
                    let error = Some(master_error(NOT_THE_LEADER, SERVICE_UNAVAILABLE));
                    Some(Reply::message(&ListTablesResponsePb { error, ..Default::default() }))
                }
            }
        })
    };
    for is_silent_after in [false, true] {
        first_leads.store(true, Ordering::SeqCst);
        let (first, second) = (member(true, is_silent_after), member(false, false));
        let masters = format!("{},{}", first.address(), second.address());
        let client =
            Client::builder(masters).rpc_timeout(Duration::from_millis(500)).connect().await.unwrap();
        client.list_tables("").await.unwrap();
        assert_eq!((first.calls("ListTables"), second.calls("ListTables")), (1, 0));
        first_leads.store(false, Ordering::SeqCst);
        client.list_tables("").await.unwrap();
        assert_eq!(second.calls("ListTables"), 1);
    }
}

#[tokio::test]
async fn no_master_at_all_is_one_clear_error_within_the_time_given() {
    let address = FakeServer::start(|_| Reply::Silence).address;
    let builder = Client::builder(address.to_string()).admin_timeout(Duration::from_millis(400));
    let error = builder.connect().await.unwrap_err();
    assert!(error.is_timeout() && error.is_retriable());
    assert!(
        error.to_string().contains(&address.to_string()) && error.to_string().contains("refused"),
        "{error}"
    );
    let error = Client::connect("host:port:port").await.unwrap_err();
    assert!(matches!(error, ConnectError::Masters { .. }) && !error.is_retriable(), "{error}");
    assert!(matches!(Client::connect(" ").await.unwrap_err(), ConnectError::NoMasters));
}

#[tokio::test]
async fn many_calls_at_once_cause_one_search_for_the_leader() {
    let master = FakeMaster::start_with(World::default(), |method, earlier| match (method, earlier) {
        ("ListTables", 0..20) => {
            let error = Some(master_error(NOT_THE_LEADER, SERVICE_UNAVAILABLE));
            Some(Reply::message(&ListTablesResponsePb { error, ..Default::default() }))
        }
        _ => None,
    });
    let client = master.connect().await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.list_tables("").await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert!(master.calls("ConnectToMaster") < 12, "{} searches", master.calls("ConnectToMaster"));
}
