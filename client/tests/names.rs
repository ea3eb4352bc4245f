//! Host names that move, are slow, or do not resolve.

mod fake;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::{Client, FlushMode};
use fake::{FakeMaster, FakeResolver, FakeServer, FakeTablet, World, written};
use rpc_core::ServerOptions;

fn ip(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

fn named(servers: &[(&str, u16)], tablets: Vec<FakeTablet>) -> World {
    let servers = servers.iter().map(|(host, port)| ((*host).to_owned(), *port, None)).collect();
    World { servers, tablets, ..World::default() }
}

#[tokio::test]
async fn a_name_that_does_not_resolve_gives_an_error_for_every_row_within_the_deadline() {
    let master = FakeMaster::start(named(&[("ts.example", 7050)], vec![FakeTablet::whole("t", 0)]));
    let resolver = FakeResolver {
        look_ups: Arc::default(),
        resolve: |host: &str| Err(io::Error::new(io::ErrorKind::NotFound, format!("no such host: {host}"))),
    };
    let client = Client::builder(master.address()).resolver(resolver).connect().await.unwrap();
    let table = client.open_table("fake").await.unwrap();
    let session =
        client.session().mode(FlushMode::AutoBackground).timeout(Duration::from_millis(1500)).build();
    let started = Instant::now();
    for id in 0..10i64 {
        session.apply(table.insert().with("id", id).unwrap()).await.unwrap();
    }
    session.flush().await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(120), "took {:?}", started.elapsed());
    let errors = session.take_errors().errors;
    assert_eq!(errors.len(), 10);
    for (id, failure) in errors.iter().enumerate() {
        assert_eq!(failure.operation().row().value(0), Some((id as i64).into()));
        let text = failure.to_string();
        assert!(text.contains("ts.example:7050") && text.contains("no such host"), "{text}");
        assert!(failure.error().is_timeout() && failure.error().is_retriable());
    }
}

#[tokio::test]
async fn a_server_that_comes_back_under_another_address_is_found() {
    let (first, second) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = |counter: &Arc<AtomicUsize>| {
        let counter = counter.clone();
        move |_: &rpc_core::Request| {
            counter.fetch_add(1, Ordering::SeqCst);
            written()
        }
    };
    let server = FakeServer::start(count(&first));
    let port = server.port();
    let master = FakeMaster::start(named(&[("ts.local", port)], vec![FakeTablet::whole("t", 0)]));
    let moved = Arc::new(AtomicUsize::new(1));
    let resolver = {
        let moved = moved.clone();
        FakeResolver {
            look_ups: Arc::default(),
            resolve: move |_: &str| Ok(vec![ip(moved.load(Ordering::SeqCst) as u8)]),
        }
    };
    let client = Client::builder(master.address())
        .resolver(resolver)
        .resolver_ttl(Duration::from_secs(3600))
        .connect()
        .await
        .unwrap();
    let table = client.open_table("fake").await.unwrap();
    let session = client.session().build();
    session.apply(table.insert().with("id", 1i64).unwrap()).await.unwrap();
    server.stop();
    moved.store(2, Ordering::SeqCst);
    let there = format!("127.0.0.2:{port}").parse().unwrap();
    let _server = FakeServer::start_at(there, ServerOptions::default(), count(&second));
    session.apply(table.insert().with("id", 2i64).unwrap()).await.expect("the name is looked up again");
    assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_slow_name_is_looked_up_once_and_holds_up_nobody_else() {
    let server = FakeServer::start(|_| written());
    let key = |id: i64| ((id as u64) ^ (1 << 63)).to_be_bytes().to_vec();
    let tablets = vec![
        FakeTablet { end: key(0), ..FakeTablet::whole("slow", 0) },
        FakeTablet { start: key(0), ..FakeTablet::whole("fast", 1) },
    ];
    let master = FakeMaster::start(named(
        &[("slow.example", server.port()), ("fast.example", server.port())],
        tablets,
    ));
    let look_ups = Arc::new(AtomicUsize::new(0));
    let resolver = FakeResolver {
        look_ups: look_ups.clone(),
        resolve: |host: &str| {
            if host.starts_with("slow") {
                std::thread::sleep(Duration::from_millis(1500));
            }
            Ok(vec![ip(1)])
        },
    };
    let client = Client::builder(master.address()).resolver(resolver).connect().await.unwrap();
    let table = client.open_table("fake").await.unwrap();
    let started = Instant::now();
    let writes: Vec<_> = (-50..50i64)
        .map(|id| {
            let session = client.session().timeout(Duration::from_secs(10)).build();
            let row = table.insert().with("id", id).unwrap();
            tokio::spawn(async move {
                session.apply(row).await.expect("both servers are up");
                (id, started.elapsed())
            })
        })
        .collect();
    for write in writes {
        let (id, took) = write.await.unwrap();
        assert_eq!(took > Duration::from_millis(1000), id < 0, "row {id} took {took:?}");
    }
    assert_eq!(look_ups.load(Ordering::SeqCst), 2, "one look-up a name");
}

#[tokio::test]
async fn localhost_works_though_its_first_address_is_v6() {
    let master = FakeMaster::start(World::default());
    let resolver =
        FakeResolver { look_ups: Arc::default(), resolve: |_: &str| Ok(vec!["::1".parse().unwrap(), ip(1)]) };
    let port = master.server.port();
    let client = Client::builder(format!("localhost:{port}")).resolver(resolver).connect().await.unwrap();
    client.list_tables("").await.unwrap();
}

#[tokio::test]
async fn an_address_that_does_not_answer_gives_way_to_the_names_next_one() {
    let master = FakeMaster::start(World::default());
    let resolver = FakeResolver { look_ups: Arc::default(), resolve: |_: &str| Ok(vec![ip(9), ip(1)]) };
    let port = master.server.port();
    let client =
        Client::builder(format!("master.example:{port}")).resolver(resolver).connect().await.unwrap();
    client.list_tables("").await.unwrap();
}
