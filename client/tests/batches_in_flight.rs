//! Several batches of a session under way: who waits for whom, and in which order things are told.

mod fake;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::{FlushMode, Session, Table};
use fake::{FakeMaster, FakeServer, FakeTablet, Reply, World, write_error, written};
use prost::Message;
use proto::kudu::AppStatusPb;
use proto::kudu::tserver::write_response_pb::PerRowErrorPb;
use proto::kudu::tserver::{WriteRequestPb, WriteResponsePb};

const NOT_FOUND: i32 = 1;
const ALREADY_PRESENT: i32 = 5;
const TABLET_NOT_FOUND: i32 = 6;
/// How long the slow tablet takes.
const SLOW: Duration = Duration::from_millis(300);

/// Writes as they came: when, to which tablet, ids of the rows.
type Log = Arc<Mutex<Vec<(Instant, String, Vec<i64>)>>>;

/// A server that notes writes and answers by a script, given the tablet and how many writes it had before.
fn noting(script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> (FakeServer, Log) {
    let log = Log::default();
    let server = {
        let log = log.clone();
        FakeServer::start(move |request| {
            let request = WriteRequestPb::decode(request.body().clone()).unwrap();
            let tablet = String::from_utf8(request.tablet_id.to_vec()).unwrap();
            // Kind, two bitmaps of a byte, the id; the text is not set.
            let rows = request.row_operations.unwrap_or_default().rows.unwrap_or_default();
            let ids = rows.chunks_exact(11).map(|row| i64::from_le_bytes(row[3..].try_into().unwrap()));
            let mut log = log.lock().unwrap();
            let earlier = log.iter().filter(|(_, of, _)| *of == tablet).count();
            log.push((Instant::now(), tablet.clone(), ids.collect()));
            script(&tablet, earlier)
        })
    };
    (server, log)
}

fn world(server: &FakeServer, tablets: Vec<FakeTablet>) -> World {
    let servers = vec![("127.0.0.1".to_owned(), server.port(), None)];
    World { servers, tablets, ..World::default() }
}

/// Applies a row of each of these ids and asks for them to be sent.
async fn send(session: &Session, table: &Table, ids: &[i64]) {
    for id in ids {
        session.apply(table.insert().with("id", *id).unwrap()).await.unwrap();
    }
    let flushing = session.clone();
    tokio::spawn(async move { drop(flushing.flush().await) });
    tokio::time::sleep(Duration::from_millis(20)).await;
}

fn first_row_is_there() -> WriteResponsePb {
    let error = AppStatusPb { code: ALREADY_PRESENT, message: None, posix_code: None };
    let per_row_errors = vec![PerRowErrorPb { row_index: 0, error }];
    WriteResponsePb { per_row_errors, timestamp: Some(4096), ..Default::default() }
}

#[tokio::test]
async fn a_slow_tablet_gets_one_request_at_a_time_and_holds_up_no_other() {
    let (server, log) = noting(|tablet, _| match tablet {
        "slow" => Reply::Later(SLOW, first_row_is_there().encode_to_vec()),
        _ => Reply::message(&first_row_is_there()),
    });
    let zero = (1u64 << 63).to_be_bytes().to_vec();
    let slow = FakeTablet { end: zero.clone(), ..FakeTablet::whole("slow", 0) };
    let quick = FakeTablet { start: zero, ..FakeTablet::whole("quick", 0) };
    let master = FakeMaster::start(world(&server, vec![slow, quick]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().mode(FlushMode::Manual).build();
    for batch in 1..=3 {
        send(&session, &table, &[-batch, batch]).await;
    }
    let writes_to = |name: &str| {
        let log = log.lock().unwrap();
        log.iter().filter(|(_, tablet, _)| tablet == name).cloned().collect::<Vec<_>>()
    };
    assert_eq!((writes_to("slow").len(), writes_to("quick").len()), (1, 3));
    assert_eq!(session.pending_operations(), 6, "what comes after an unfinished batch is not told yet");

    session.flush().await.unwrap_err();
    let slow = writes_to("slow");
    assert_eq!(slow.iter().map(|(_, _, ids)| ids.clone()).collect::<Vec<_>>(), [[-1], [-2], [-3]]);
    for pair in slow.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= SLOW, "two requests at once");
    }
    let errors = session.take_errors().errors;
    let ids: Vec<_> = errors.iter().map(|failure| failure.operation().row().value(0).unwrap()).collect();
    assert_eq!(ids, [-1, 1, -2, 2, -3, 3].map(client::schema::Value::Int64), "in the order of apply");
}

#[tokio::test]
async fn rows_whose_tablet_is_gone_are_not_overtaken_by_those_behind_them() {
    let (server, log) = noting(|tablet, earlier| match (tablet, earlier) {
        ("old", 0) => written(),
        ("old", 1) => {
            let Reply::Message(gone) = write_error(TABLET_NOT_FOUND, NOT_FOUND) else { unreachable!() };
            Reply::Later(SLOW, gone)
        }
        ("old", _) => write_error(TABLET_NOT_FOUND, NOT_FOUND),
        _ => written(),
    });
    let master = FakeMaster::start(world(&server, vec![FakeTablet::whole("old", 0)]));
    let client = master.connect().await;
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().mode(FlushMode::Manual).build();
    session.apply(table.insert().with("id", 0i64).unwrap()).await.unwrap();
    session.flush().await.expect("the old tablet takes it, and is remembered");
    send(&session, &table, &[1, 2]).await;
    master.world.lock().unwrap().tablets = vec![FakeTablet::whole("new", 0)];
    send(&session, &table, &[3]).await;
    // Asked by another session in the meantime, the master names the new tablet already.
    let other = client.session().build();
    let asked =
        tokio::spawn(
            async move { other.apply(table.insert().with("id", 9i64).unwrap()).await.map(|()| table) },
        );
    let table = asked.await.unwrap().expect("the new tablet takes it");
    send(&session, &table, &[4]).await;
    session.flush().await.expect("all rows find their tablet");
    let log = log.lock().unwrap();
    let rows: Vec<i64> =
        log.iter().filter(|(_, tablet, _)| tablet == "new").flat_map(|(_, _, ids)| ids.clone()).collect();
    assert_eq!(rows.iter().copied().filter(|id| *id != 9).collect::<Vec<_>>(), [1, 2, 3, 4]);
}
