//! What a session does when servers are busy, gone, moved or silent.

mod fake;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, FlushMode, Operation, Table};
use fake::{FakeMaster, FakeServer, FakeTablet, Reply, World, write_error, written};
use rpc_core::{RequestId, ServerOptions};

const NOT_FOUND: i32 = 1;
const ILLEGAL_STATE: i32 = 9;
const UNKNOWN_ERROR: i32 = 1;
const TABLET_NOT_FOUND: i32 = 6;

fn world_of(servers: &[&FakeServer], tablets: Vec<FakeTablet>) -> World {
    let servers = servers.iter().map(|server| ("127.0.0.1".to_owned(), server.port(), None)).collect();
    World { servers, tablets, ..World::default() }
}

fn row(table: &Table, id: i64) -> Operation {
    table.insert().with("id", id).unwrap()
}

/// The partition key of a row.
fn key_of(id: i64) -> Vec<u8> {
    ((id as u64) ^ (1 << 63)).to_be_bytes().to_vec()
}

/// A server that answers writes by a script, given how many came before, and keeps their request ids.
fn scripted(
    script: impl Fn(usize) -> Reply + Send + Sync + 'static,
) -> (FakeServer, Arc<Mutex<Vec<RequestId>>>) {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let server = {
        let ids = ids.clone();
        FakeServer::start(move |request| {
            assert_eq!(request.method(), "Write");
            let mut ids = ids.lock().unwrap();
            ids.push(request.request_id().expect("writes carry request ids").clone());
            script(ids.len() - 1)
        })
    };
    (server, ids)
}

#[tokio::test]
async fn a_busy_server_is_asked_again_under_the_same_request_id() {
    let (server, ids) = scripted(|earlier| if earlier < 5 { Reply::busy() } else { written() });
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("t", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    client.session().build().apply(row(&table, 1)).await.expect("busy is not for ever");
    let ids = ids.lock().unwrap();
    assert_eq!(ids.len(), 6);
    assert!(ids.iter().all(|id| id.client_id == client.client_id() && id.seq_no == ids[0].seq_no));
    assert_eq!(ids.iter().map(|id| id.attempt_no).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(master.calls("GetTableLocations"), 1, "the location was right all the time");
}

#[tokio::test]
async fn many_clients_of_a_server_with_a_full_queue_all_get_through() {
    // One worker, a queue of one: a second and a third call at the same time are refused.
    let busy = Arc::new(AtomicUsize::new(0));
    let refused = Arc::new(AtomicUsize::new(0));
    let server = {
        let (busy, refused) = (busy.clone(), refused.clone());
        FakeServer::start(move |_| {
            if busy.fetch_add(1, Ordering::SeqCst) > 1 {
                busy.fetch_sub(1, Ordering::SeqCst);
                refused.fetch_add(1, Ordering::SeqCst);
                return Reply::busy();
            }
            let busy = busy.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                busy.fetch_sub(1, Ordering::SeqCst);
            });
            let Reply::Message(message) = written() else { unreachable!() };
            Reply::Later(Duration::from_millis(20), message)
        })
    };
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("t", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let writes: Vec<_> = (0..50)
        .map(|id| {
            let (session, row) = (client.session().build(), row(&table, id));
            tokio::spawn(async move { session.apply(row).await })
        })
        .collect();
    for write in writes {
        write.await.unwrap().expect("backing off helps");
    }
    assert!(refused.load(Ordering::SeqCst) > 0, "the queue was full at times");
}

#[tokio::test]
async fn a_write_without_answer_is_tried_again_under_the_same_request_id() {
    let (server, ids) = scripted(|earlier| if earlier == 0 { Reply::Silence } else { written() });
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("t", 0)]));
    let client =
        Client::builder(master.address()).rpc_timeout(Duration::from_millis(200)).connect().await.unwrap();
    let table = client.open_table("fake").await.unwrap();
    client.session().build().apply(row(&table, 1)).await.expect("the second try is answered");
    client.session().build().apply(row(&table, 2)).await.unwrap();
    let ids = ids.lock().unwrap();
    assert_eq!((ids[0].seq_no, ids[0].attempt_no), (ids[1].seq_no, 0));
    assert_eq!((ids[1].attempt_no, ids[2].attempt_no), (1, 0));
    assert_eq!(ids[2].seq_no, ids[1].seq_no + 1);
    assert_eq!(ids[2].first_incomplete_seq_no, ids[2].seq_no, "nothing older is open");
}

#[tokio::test]
async fn calls_to_a_stopped_server_end_at_their_deadline_and_late_answers_do_no_harm() {
    let Reply::Message(late) = written() else { unreachable!() };
    let is_awake = Arc::new(AtomicBool::new(false));
    let (server, _) = {
        let is_awake = is_awake.clone();
        scripted(move |_| match is_awake.load(Ordering::SeqCst) {
            true => written(),
            false => Reply::Later(Duration::from_secs(5), late.clone()),
        })
    };
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("t", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    is_awake.store(true, Ordering::SeqCst);
    client.session().build().apply(row(&table, -1)).await.expect("connected and located");
    is_awake.store(false, Ordering::SeqCst);
    let text = "x".repeat(64 << 10);
    let writes: Vec<_> = (0..100)
        .map(|id| {
            let session = client.session().timeout(Duration::from_millis(20)).build();
            let row = row(&table, id).with("text", text.clone()).unwrap();
            tokio::spawn(async move { session.apply(row).await })
        })
        .collect();
    for write in writes {
        let error = write.await.unwrap().unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "names the host: {error}");
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    is_awake.store(true, Ordering::SeqCst);
    let connections = server.connections();
    client.session().build().apply(row(&table, 1000)).await.expect("the connection is still good");
    assert_eq!(server.connections(), connections, "and is the same one");
    assert_eq!(
        master.calls("GetTableLocations"),
        1,
        "a caller without patience says nothing about the server"
    );
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_is_replaced_without_a_word() {
    let ids = Arc::new(AtomicUsize::new(0));
    let server = {
        let ids = ids.clone();
        let options =
            ServerOptions { keepalive: Some(Duration::from_millis(200)), ..ServerOptions::default() };
        FakeServer::start_at("127.0.0.1:0".parse().unwrap(), options, move |_| {
            ids.fetch_add(1, Ordering::SeqCst);
            written()
        })
    };
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("t", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().build();
    session.apply(row(&table, 1)).await.unwrap();
    let closed = async {
        while server.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.expect("the server closes idle connections");
    session.apply(row(&table, 2)).await.expect("the user does not see the reconnect");
    assert_eq!(ids.load(Ordering::SeqCst), 2);
    assert_eq!(master.calls("GetTableLocations"), 1, "nothing was taken for failed");
}

#[tokio::test]
async fn a_follower_sends_the_writer_to_the_new_leader() {
    let (old, _) = scripted(|_| write_error(UNKNOWN_ERROR, ILLEGAL_STATE));
    let (new, ids) = scripted(|_| written());
    let both = |leader: usize| FakeTablet { servers: vec![leader, 1 - leader], ..FakeTablet::whole("t", 0) };
    let master = FakeMaster::start(world_of(&[&old, &new], vec![both(0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().build();
    let change = {
        let world = master.world.clone();
        let both = both(1);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            world.lock().unwrap().tablets = vec![both];
        })
    };
    session.apply(row(&table, 1)).await.expect("the new leader is found");
    change.await.unwrap();
    assert_eq!(ids.lock().unwrap().len(), 1);
    assert!(ids.lock().unwrap()[0].attempt_no > 0, "still the same request");
}

#[tokio::test]
async fn rows_of_a_tablet_that_is_gone_go_where_they_belong_now() {
    let (server, ids) = scripted(|earlier| match earlier {
        1 => write_error(TABLET_NOT_FOUND, NOT_FOUND),
        _ => written(),
    });
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("old", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    client.session().build().apply(row(&table, 0)).await.expect("the old tablet takes it, and is remembered");
    let session = client.session().mode(FlushMode::Manual).build();
    for id in -2..2 {
        session.apply(row(&table, id)).await.unwrap();
    }
    // One old tablet becomes two, with a gap for row 1 and above.
    let lower = FakeTablet { end: key_of(0), ..FakeTablet::whole("low", 0) };
    let upper = FakeTablet { start: key_of(0), end: key_of(1), ..FakeTablet::whole("high", 0) };
    master.world.lock().unwrap().tablets = vec![lower, upper];
    session.flush().await.unwrap_err();
    let errors = session.take_errors().errors;
    assert_eq!(errors.len(), 1);
    assert!(errors[0].to_string().contains("no range partition"), "{}", errors[0]);
    let ids = ids.lock().unwrap();
    assert_eq!(ids.len(), 4, "once to the old tablet, once to each new one");
    assert!(ids[2].seq_no != ids[1].seq_no && ids[3].seq_no != ids[1].seq_no);
    assert!(master.calls("GetTableLocations") < 10);
}

#[tokio::test]
async fn a_range_that_is_dropped_and_added_again_is_found_through_the_old_handle() {
    let is_dropped = Arc::new(AtomicBool::new(false));
    let (server, _) = {
        let is_dropped = is_dropped.clone();
        scripted(move |_| match is_dropped.load(Ordering::SeqCst) {
            true => write_error(TABLET_NOT_FOUND, NOT_FOUND),
            false => written(),
        })
    };
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("first", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().build();
    session.apply(row(&table, 1)).await.unwrap();
    is_dropped.store(true, Ordering::SeqCst);
    master.world.lock().unwrap().tablets.clear();
    for _ in 0..100 {
        let error = session.apply(row(&table, 2)).await.unwrap_err();
        assert!(error.to_string().contains("no range partition"), "{error}");
    }
    assert_eq!(table.scan().start().unwrap().count().await.unwrap(), 0, "a gap has no rows");
    is_dropped.store(false, Ordering::SeqCst);
    master.world.lock().unwrap().tablets = vec![FakeTablet::whole("second", 0)];
    tokio::time::sleep(Duration::from_millis(1100)).await;
    session.apply(row(&table, 2)).await.expect("the new range is found");
    assert!(master.calls("GetTableLocations") < 10, "{} look-ups", master.calls("GetTableLocations"));
}

#[tokio::test]
async fn a_tablet_that_stays_lost_is_not_looked_up_for_ever() {
    let (server, ids) = scripted(|_| write_error(TABLET_NOT_FOUND, NOT_FOUND));
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("lost", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().timeout(Duration::from_millis(1500)).build();
    let error = session.apply(row(&table, 1)).await.unwrap_err();
    let text = error.to_string();
    // The deadline may pass while the master is asked once more: then it is the one to be named.
    let names_master = text.contains("GetTableLocations") && text.contains(&master.address());
    assert!(error.is_timeout() && (text.contains("lost") || names_master), "{text}");
    assert!(master.calls("GetTableLocations") < 50 && ids.lock().unwrap().len() < 50);
}

#[tokio::test]
async fn locations_that_may_not_be_believed_for_any_time_serve_the_call_they_were_asked_for() {
    let (server, ids) = scripted(|_| written());
    let tablet = FakeTablet { start: key_of(0), ..FakeTablet::whole("t", 0) };
    let master = FakeMaster::start(World { ttl_millis: Some(0), ..world_of(&[&server], vec![tablet]) });
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().build();
    for id in 0..3 {
        session.apply(row(&table, id)).await.expect("the tablet is found");
    }
    let error = session.apply(row(&table, -1)).await.unwrap_err();
    assert!(error.to_string().contains("no range partition"), "{error}");
    assert_eq!(ids.lock().unwrap().len(), 3);
    assert_eq!(master.calls("GetTableLocations"), 4, "one look-up each");
}

#[tokio::test]
async fn an_endless_flush_interval_leaves_rows_to_a_flush() {
    let (server, ids) = scripted(|_| written());
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("t", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().mode(FlushMode::AutoBackground).flush_interval(Duration::MAX).build();
    session.apply(row(&table, 1)).await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(ids.lock().unwrap().len(), 0);
    session.flush().await.expect("the session still runs");
    assert_eq!(ids.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_dead_unix_socket_gives_way_to_tcp_within_the_same_try() {
    let (server, ids) = scripted(|_| written());
    let servers = vec![("127.0.0.1".to_owned(), server.port(), Some("@kudu-nobody-listens-here".to_owned()))];
    let master =
        FakeMaster::start(World { servers, tablets: vec![FakeTablet::whole("t", 0)], ..World::default() });
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().build();
    for id in 0..3 {
        session.apply(row(&table, id)).await.expect("TCP stands in");
    }
    let stats = client.location_stats();
    assert_eq!((stats.unix_fallbacks, stats.unix_chosen, stats.tcp_chosen), (1, 1, 3), "{stats:?}");
    assert_eq!(ids.lock().unwrap().len(), 3);
    assert_eq!(master.calls("GetTableLocations"), 1, "the replica did not count as failed");
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    let port = FakeServer::start(|_| written()).port();
    let servers = vec![("127.0.0.1".to_owned(), port, None)];
    let master =
        FakeMaster::start(World { servers, tablets: vec![FakeTablet::whole("t", 0)], ..World::default() });
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        FakeServer::start_at(address, ServerOptions::default(), |_| written())
    });
    client.session().build().apply(row(&table, 1)).await.expect("it comes up within the deadline");
    late.join().unwrap().stop();
}

#[tokio::test]
async fn nothing_more_is_asked_of_a_server_that_refuses_for_good() {
    const MISMATCHED_SCHEMA: i32 = 5;
    const INVALID_ARGUMENT: i32 = 4;
    let (server, ids) = scripted(|_| write_error(MISMATCHED_SCHEMA, INVALID_ARGUMENT));
    let master = FakeMaster::start(world_of(&[&server], vec![FakeTablet::whole("t", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().mode(FlushMode::Manual).build();
    for id in 0..3 {
        session.apply(row(&table, id)).await.unwrap();
    }
    session.flush().await.unwrap_err();
    let errors = session.take_errors().errors;
    assert_eq!(errors.len(), 3, "each row of the request failed");
    for (id, failure) in errors.iter().enumerate() {
        assert_eq!(failure.operation().row().value(0), Some((id as i64).into()));
        let text = failure.to_string();
        assert!(
            text.contains("MISMATCHED_SCHEMA") && text.contains("127.0.0.1") && text.contains("fake"),
            "{text}"
        );
    }
    assert_eq!(ids.lock().unwrap().len(), 1);
}
