//! Peers that mean no good, or know no better: they cost little, and the next client is served.

mod rig;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rig::raw::*;
use rig::*;
use rpc_core::ServerOptions;

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

/// All that the server says until it closes, by FIN or by reset.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("the server did not close: {error}"),
        }
    }
}

#[tokio::test]
async fn what_is_no_preface_is_dropped_at_once_and_unanswered() {
    // With a limit that no test waits for: who is dropped, is dropped for what it sent.
    let rig =
        Rig::start(1, ServerOptions { negotiation_timeout: Duration::from_secs(3600), ..Default::default() });
    let hello = b"\x16\x03\x01\x00\xfe\x01\x00\x00\xfa\x03\x03";
    for garbage in
        [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], hello, b"hrpc\x08\0\0", b"hrpc\x0a\0\0", b"HRPC", &[0; 7]]
    {
        let mut stream = connect(&rig);
        stream.write_all(garbage).unwrap();
        assert_eq!(read_to_end(stream), b"");
    }
    a_good_client_is_served(&rig).await;
}

#[tokio::test]
async fn silent_peers_are_dropped_when_the_time_for_negotiation_is_over() {
    let rig = Rig::start(
        1,
        ServerOptions { negotiation_timeout: Duration::from_millis(100), ..Default::default() },
    );
    let start = Instant::now();
    for said in [&b""[..], b"hrp", PREFACE, &greeting()[..20]] {
        let mut stream = connect(&rig);
        stream.write_all(said).unwrap();
        assert_eq!(read_to_end(stream), b"");
    }
    assert!(start.elapsed() >= Duration::from_millis(400));
    a_good_client_is_served(&rig).await;
    assert_eq!(ServerOptions::default().negotiation_timeout, Duration::from_secs(3));
}

#[tokio::test]
async fn five_hundred_peers_stalled_in_negotiation_are_not_noticed() {
    many_files();
    let rig =
        Rig::start(2, ServerOptions { negotiation_timeout: Duration::from_secs(3600), ..Default::default() });
    let stalled: Vec<_> = (0..500usize)
        .map(|i| {
            let mut stream = connect(&rig);
            stream.write_all(&greeting()[..3 + i % 60]).unwrap();
            stream
        })
        .collect();
    eventually("all are taken over", || rig.accepted() == 500);
    // A real server lets the good client wait for most of the time that the others have, which is an hour here.
    a_good_client_is_served(&rig).await;
    assert_eq!(rig.connections(), 502);
    drop(stalled);
    eventually("the peers that left are forgotten", || rig.connections() <= 2);
}

#[tokio::test]
async fn a_damaged_stream_is_closed_without_a_word() {
    let rig = Rig::start(1, ServerOptions::default());
    let answered = read_answers(&rig, b"\0\0\0\0").len();
    for damage in [
        &52_428_797u32.to_be_bytes()[..],
        b"\0\0\0\x04\x02\x18\x01\0",
        b"\0\0\0\x05\x02\x18\x01\0\0",
        b"\0\0\0\x02\xff\xff",
        // Two calls of one id, the first of which is held.
        &[hold(7), hold(7)].concat(),
    ] {
        assert_eq!(read_answers(&rig, damage).len(), answered, "{damage:?}: only negotiation is answered");
    }
    a_good_client_is_served(&rig).await;
    drop(rig.held);
}

fn read_answers(rig: &Rig, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(rig);
    stream.write_all(&greeting()).unwrap();
    stream.write_all(bytes).unwrap();
    read_to_end(stream)
}

#[tokio::test]
async fn a_peer_that_reads_no_answers_is_not_read_from() {
    let options = ServerOptions { max_outbound_bytes: 1 << 20, ..Default::default() };
    let rig = Rig::start(1, options);
    let mut stream = connect(&rig);
    stream.write_all(&greeting()).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    // 256 MiB of answers if the server were to take all; what the system buffers is far less.
    let mut sent = 0u32;
    while sent < 2560 && stream.write_all(&echo(sent, 100_000)).is_ok() {
        sent += 1;
    }
    assert!(sent < 2560, "the server read on and on");
    let calls = rig.calls();
    a_good_client_is_served(&rig).await;
    assert!(calls < 1000, "{calls} calls of 100 kB were taken");
    drop(stream);
    eventually("it is forgotten when it goes", || rig.connections() <= 2);
}

#[tokio::test]
async fn frames_may_come_one_byte_at_a_time_and_all_at_once() {
    let rig = Rig::start(1, ServerOptions::default());
    let calls: Vec<u8> = (0..5).flat_map(|id| echo(id, 3)).collect();
    let all = [greeting(), calls].concat();
    let mut answers = Vec::new();
    for cut in [1, all.len()] {
        let mut stream = connect(&rig);
        stream.set_nodelay(true).unwrap();
        for piece in all.chunks(cut) {
            stream.write_all(piece).unwrap();
        }
        // 34 and 19 bytes of negotiation, then 5 answers of 13.
        let mut answer = vec![0; 34 + 19 + 5 * 13];
        stream.read_exact(&mut answer).unwrap();
        answers.push(answer);
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].ends_with(b"\0\0\0\x09\x04\x08\x04\x10\0\x03\x07\x07\x07"));
}
