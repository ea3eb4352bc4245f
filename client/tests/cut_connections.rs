//! Connections that break after the server has done its work: what is tried twice happens once.

mod common;
mod fake;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use client::{Client, Operation, Table};
use common::{master_address, small_table};
use fake::{FakeServer, Reply};
use prost::Message;
use proto::methods::master_service::{ConnectToMaster, GetTableLocations, GetTableSchema};
use rpc_core::{Messenger, Method, Proxy};

/// Passes bytes on to a tablet server. Once armed, it drops the next bytes that come back, and the connection with them.
struct Forwarder {
    address: SocketAddr,
    is_armed: Arc<AtomicBool>,
    cuts: Arc<AtomicUsize>,
}

impl Forwarder {
    fn start(target: SocketAddr) -> Forwarder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (is_armed, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let forwarder = Forwarder { address, is_armed: is_armed.clone(), cuts: cuts.clone() };
        // Lives as long as the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(target).unwrap());
                let (to, from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, || false));
                let (is_armed, cuts) = (is_armed.clone(), cuts.clone());
                std::thread::spawn(move || {
                    pass(server, client, || {
                        let cut = is_armed.swap(false, Ordering::SeqCst);
                        cuts.fetch_add(usize::from(cut), Ordering::SeqCst);
                        cut
                    });
                });
            }
        });
        forwarder
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, cut: impl Fn() -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if cut() || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}

/// Asks the master under test by a thread of its own; the body goes through as it is.
fn ask<M: Method>(master: SocketAddr, body: &[u8]) -> M::Response {
    let request = M::Request::decode(body).unwrap();
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let proxy = Proxy::new(&Messenger::builder().build(), master.into(), "master");
        let call = proxy.call::<M>(&request).timeout(std::time::Duration::from_secs(10));
        sender.send(runtime.block_on(call.send()).unwrap().message).unwrap();
    });
    answer.recv().unwrap()
}

/// A master that names the forwarder in the place of the one tablet server that holds the table.
fn master_that_names(forwarder: SocketAddr) -> FakeServer {
    let master: SocketAddr = master_address().parse().unwrap();
    FakeServer::start(move |request| match request.method() {
        "ConnectToMaster" => Reply::message(&ask::<ConnectToMaster>(master, request.body())),
        "GetTableSchema" => Reply::message(&ask::<GetTableSchema>(master, request.body())),
        "GetTableLocations" => {
            let mut answer = ask::<GetTableLocations>(master, request.body());
            for server in &mut answer.ts_infos {
                // The other servers hold nothing of this table.
                server.unix_domain_socket_path = None;
                server.rpc_addresses.truncate(1);
                server.rpc_addresses[0].host = forwarder.ip().to_string();
                server.rpc_addresses[0].port = forwarder.port().into();
            }
            Reply::message(&answer)
        }
        other => panic!("{other} is not needed here"),
    })
}

/// The one tablet server of a table with one tablet.
async fn server_of(table: &Table) -> SocketAddr {
    let tablets = table.tablets().await.unwrap();
    tablets[0].replicas[0].address.to_string().parse().unwrap()
}

fn row(table: &Table, id: i64) -> Operation {
    table.insert().with("id", id).unwrap().with("value", 1).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_whose_answer_got_lost_is_not_inserted_twice_nor_called_a_duplicate() {
    let test = small_table("cut", 1).await;
    let forwarder = Forwarder::start(server_of(&test.table).await);
    let master = master_that_names(forwarder.address);
    let client = Client::connect(master.address.to_string()).await.unwrap();
    let table = client.open_table(test.table.name()).await.unwrap();
    let session = client.session().build();
    for id in 0..20 {
        session.apply(row(&table, 2 * id)).await.expect("through the forwarder");
        forwarder.is_armed.store(true, Ordering::SeqCst);
        session.apply(row(&table, 2 * id + 1)).await.expect("the same write, tried again");
    }
    assert_eq!(forwarder.cuts.load(Ordering::SeqCst), 20);
    let error = session.apply(row(&table, 1)).await.unwrap_err();
    assert!(error.row().unwrap().is_already_present(), "a real duplicate is still one: {error}");
    assert_eq!(test.table.scan().project(&[]).start().unwrap().count().await.unwrap(), 40);
    test.delete().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_whose_batch_got_lost_is_an_error_and_a_fault_tolerant_one_goes_on() {
    let test = small_table("cut_scan", 1).await;
    common::fill(&test.client.session().mode(client::FlushMode::Manual).build(), &test.table, 1000).await;
    let forwarder = Forwarder::start(server_of(&test.table).await);
    let master = master_that_names(forwarder.address);
    let client = Client::connect(master.address.to_string()).await.unwrap();
    let table = client.open_table(test.table.name()).await.unwrap();
    for is_fault_tolerant in [false, true] {
        let scan = table.scan().project(&["id"]).batch_bytes(1).fault_tolerant(is_fault_tolerant);
        let mut scan = scan.start().unwrap();
        let (mut ids, mut error) = (Vec::new(), None);
        while let Some(batch) = scan.next().await {
            match batch {
                Ok(batch) => ids.extend(batch.fixed::<i64>("id").unwrap().values()),
                Err(failed) => error = Some(failed),
            }
            if ids.len() < 300 {
                forwarder.is_armed.store(true, Ordering::SeqCst);
            }
        }
        if is_fault_tolerant {
            assert!(error.is_none(), "{error:?}");
            assert_eq!(ids, (0..1000).collect::<Vec<_>>(), "each row once, in order");
        } else {
            assert!(error.is_some() && ids.len() < 1000, "{} rows without an error", ids.len());
        }
    }
    assert!(forwarder.cuts.load(Ordering::SeqCst) >= 2);
    test.delete().await;
}
