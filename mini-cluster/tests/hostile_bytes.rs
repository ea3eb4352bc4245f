//! Bytes that are no calls, sent to the sockets of a whole cluster: they cost little, and the next client is served.

mod common;

use std::io::Write;

use common::raw::{self, Stream, hex};
use common::{a_good_client_is_served, master, memory, run, start};
use mini_cluster::MiniCluster;
use net_addr::SockAddr;

/// The master's address, then the tablet server's by TCP and by unix socket.
fn addresses(cluster: &MiniCluster) -> Vec<SockAddr> {
    let server = cluster.tservers().remove(0);
    let unix = server.unix_path.expect("our servers listen on unix sockets");
    vec![master(cluster), server.address.parse().unwrap(), unix.parse().unwrap()]
}

/// All that a client says before its first call.
fn greeting() -> Vec<u8> {
    [raw::PREFACE, raw::NEGOTIATE, raw::INITIATE_ROOT, raw::CONTEXT_ROOT].into_iter().flat_map(hex).collect()
}

/// Reads the server's next frame, which must come.
fn read_frame(stream: &mut dyn Stream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("the server answers");
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).expect("the server answers to the end");
    frame
}

/// The server has closed the connection, by an end or by a reset; what it said before does not matter.
fn is_closed(stream: &mut dyn Stream) -> bool {
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Both ends of all connections are in this process, which may hold 1024 files by default on many machines.
fn many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(8192, |most| most.min(8192));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        setrlimit(Resource::Nofile, limit).unwrap();
    }
}

#[test]
fn strangers_are_dropped_at_once_on_every_socket() {
    // Who is dropped was not waited for.
    let patient = "--rpc_negotiation_timeout_ms=3600000";
    let cluster = start(MiniCluster::builder().master_flag(patient).tserver_flag(patient));
    let strangers: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hrpc\x08\x00\x00",
        b"hrpc\x0a\x00\x00",
        b"HRPC\x09\x00\x00",
        &[0; 7],
    ];
    for address in addresses(&cluster) {
        for bytes in strangers {
            let mut stream = raw::connect(&address);
            stream.write_all(bytes).unwrap();
            assert!(is_closed(&mut *stream), "{bytes:?} at {address}");
        }
        run(a_good_client_is_served(&cluster));
    }
}

#[test]
fn random_bytes_at_any_stage_end_no_server() {
    let cluster = start(MiniCluster::builder());
    let mut random = fastrand::Rng::with_seed(5);
    let greeting = greeting();
    // How much of the greeting is sent, and how many frames the server answers it with.
    let stages =
        [(0, 0), (7, 0), (hex(raw::PREFACE).len() + hex(raw::NEGOTIATE).len(), 1), (greeting.len(), 2)];
    for address in addresses(&cluster) {
        for round in 0..160 {
            let (sent, answers) = stages[round % stages.len()];
            let mut stream = raw::connect(&address);
            stream.write_all(&greeting[..sent]).unwrap();
            for _ in 0..answers {
                assert!(!read_frame(&mut *stream).is_empty());
            }
            let mut bytes = Vec::new();
            let mut noise: Vec<u8> = (0..random.usize(1..400)).map(|_| random.u8(..)).collect();
            if round % 3 == 0 {
                // A length that is right, so that the noise is taken for a frame.
                bytes.extend((noise.len() as u32).to_be_bytes());
                // A header of 0 to 31 bytes.
                noise[0] &= 31;
            }
            bytes.extend(noise);
            // The server may hang up before it has all.
            let _ = stream.write_all(&bytes);
        }
        run(a_good_client_is_served(&cluster));
    }
}

#[test]
fn lengths_that_are_only_claimed_cost_no_memory() {
    many_files();
    let cluster = start(MiniCluster::builder());
    run(a_good_client_is_served(&cluster));
    let (resident, asked) = memory();
    let mut peers = Vec::new();
    for address in addresses(&cluster) {
        for round in 0..60 {
            let mut stream = raw::connect(&address);
            stream.write_all(&greeting()).unwrap();
            // The most that is taken, 50 MiB with its prefix. Half of them begin with a header and a body's length.
            let mut call = raw::encode(&raw::RawCall {
                id: 1,
                service: "kudu.master.MasterService",
                method: "Ping",
                body: &[0; 1000],
                ..Default::default()
            });
            call[..4].copy_from_slice(&52_428_796u32.to_be_bytes());
            let sent = if round % 2 == 0 { 4 } else { call.len() };
            stream.write_all(&call[..sent]).unwrap();
            peers.push(stream);
        }
        for length in [52_428_797, 1 << 31, u32::MAX] {
            let mut stream = raw::connect(&address);
            stream.write_all(&greeting()).unwrap();
            stream.write_all(&length.to_be_bytes()).unwrap();
            assert!(is_closed(&mut *stream), "{length} at {address}");
        }
    }
    run(a_good_client_is_served(&cluster));
    let (resident_now, asked_now) = memory();
    // They claim 9 GB.
    assert!(resident_now < resident + (64 << 20), "{} MiB more", (resident_now - resident) >> 20);
    assert!(asked_now < asked + (1 << 30), "{} MiB more", (asked_now - asked) >> 20);
}

#[test]
fn five_hundred_peers_that_stop_half_way_do_not_delay_a_good_client() {
    many_files();
    // Nobody is dropped for taking too long.
    let cluster = start(
        MiniCluster::builder()
            .master_flag("--rpc_negotiation_timeout_ms=3600000")
            .tserver_flag("--rpc_negotiation_timeout_ms=3600000"),
    );
    let greeting = greeting();
    let mut peers = Vec::new();
    for address in addresses(&cluster) {
        for peer in 0..500 {
            let mut stream = raw::connect(&address);
            stream.write_all(&greeting[..peer % 66]).unwrap();
            peers.push(stream);
        }
    }
    // A real server keeps the good client waiting for what is left of the time that the others have, which is an hour here.
    run(a_good_client_is_served(&cluster));
    drop(peers);
    run(a_good_client_is_served(&cluster));
}
