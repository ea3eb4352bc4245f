//! The blocking facade, in plain tests.

mod common;

use client::{FlushMode, blocking};
use common::{small_schema, unique_name};

fn connect() -> blocking::Client {
    blocking::Client::connect(common::master_address()).expect("the cluster under test is up")
}

#[test]
fn a_script_creates_writes_reads_and_deletes() {
    let client = connect();
    let name = unique_name("blocking");
    let table = client.create_table(&name, small_schema()).hash_partition(&["id"], 2).replicas(1);
    let table = client.create(table).unwrap();
    let session = client.session(|session| session.mode(FlushMode::Manual));
    for id in 0..100i64 {
        session.apply(table.insert().with("id", id).unwrap().with("value", 1).unwrap()).unwrap();
    }
    session.flush().unwrap();
    session.apply(table.insert().with("id", 1i64).unwrap().with("value", 1).unwrap()).unwrap();
    assert!(session.flush().is_err());
    assert_eq!(session.take_errors().errors.len(), 1);
    let rows: usize = client.scan(table.scan()).unwrap().map(|batch| batch.unwrap().rows()).sum();
    assert_eq!(rows, 100);
    assert!(client.list_tables(&name).unwrap().len() == 1 && client.table_exists(&name).unwrap());
    client.table_statistics(&name).unwrap();
    assert_eq!(client.open_table(&name).unwrap().id(), table.id());
    client.delete_table(&name).unwrap();
    assert!(!client.table_exists(&name).unwrap());
}

#[test]
fn it_serves_several_threads_and_outlives_its_first_handle() {
    let client = connect();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.list_tables("").unwrap().len())
        })
        .collect();
    drop(client);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn its_last_handle_may_go_on_its_own_thread() {
    let client = connect();
    let held = client.clone();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (gone, outcome) = std::sync::mpsc::channel();
    client.block_on(async move {
        // On the only thread of the client; it goes on when `block_on` is over and the handle below is dropped.
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            wait.recv().unwrap();
            drop(held);
            gone.send(()).unwrap();
        });
    });
    drop(client);
    go.send(()).unwrap();
    outcome.recv_timeout(std::time::Duration::from_secs(30)).expect("no panic");
}
