//! Connections that are reset, end in one direction, or move a few bytes at a time, on real sockets. (The machines' half
//! of it, at every byte: `machine/pair/faults.rs`.)

mod rig;

use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use net_addr::SockAddr;
use rig::raw::*;
use rig::*;
use rpc_core::machine::{ServerConnection, ServerEvent, ServerRequest};
use rpc_core::{Answer, CallError, Messenger, Proxy, ServerOptions};
use socket2::{SockRef, Socket};

const LONG: Duration = Duration::from_secs(120);

/// Closes a connection with a reset.
fn reset(stream: &TcpStream) {
    SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// A server's end of a connection, driven by hand: it moves as few bytes at a time as a test wants.
struct Driver {
    stream: TcpStream,
    machine: ServerConnection,
    buffer: BytesMut,
    /// At most so many bytes a read and a write.
    step: usize,
}

impl Driver {
    fn accept(listener: &TcpListener, step: usize) -> Self {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let machine = ServerConnection::new(Arc::default(), SockAddr::UnixUnnamed, Instant::now());
        Self { stream, machine, buffer: BytesMut::new(), step }
    }

    /// The client's next call; `None` = it closed.
    fn next(&mut self) -> Option<ServerRequest> {
        loop {
            while let Some(event) = self.machine.poll_event() {
                if let ServerEvent::Request(request) = event {
                    return Some(request);
                }
            }
            self.write();
            let mut piece = vec![0; self.step];
            let count = self.stream.read(&mut piece).unwrap();
            if count == 0 {
                return None;
            }
            self.buffer.extend_from_slice(&piece[..count]);
            self.machine.handle_input(&mut self.buffer, Instant::now());
            assert_eq!(self.machine.closing(), None);
        }
    }

    fn echo(&mut self, mut request: ServerRequest) {
        let sidecars = request.extras.as_mut().map(|extras| std::mem::take(&mut extras.sidecars));
        let answer = Answer::Success { body: request.body, sidecars: sidecars.unwrap_or_default() };
        self.machine.respond(request.call_id, &answer);
        self.write();
    }

    fn write(&mut self) {
        loop {
            let mut slices = [IoSlice::new(&[]); 1];
            if self.machine.poll_transmit(&mut slices) == 0 {
                return;
            }
            let count = self.stream.write(&slices[0][..self.step.min(slices[0].len())]).unwrap();
            self.machine.transmitted(count, Instant::now());
        }
    }
}

/// A listener, and a client of it.
fn listen() -> (TcpListener, Proxy) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = Proxy::new(&Messenger::builder().user("root").build(), address.into(), "h");
    (listener, proxy)
}

async fn call(proxy: &Proxy, text: &'static str) -> Result<Bytes, CallError> {
    let body = Bytes::from_static(text.as_bytes());
    proxy.call::<Echo>(&body).timeout(LONG).send().await.map(|response| response.message)
}

#[tokio::test]
async fn a_client_that_resets_costs_its_own_connection_only() {
    let rig = Rig::start(1, ServerOptions::default());
    for said in [
        &greeting()[..30],
        &greeting(),
        &[greeting(), hold(1)].concat(),
        &[greeting(), hold(1)].concat()[..90],
    ] {
        let mut stream = connect(&rig);
        stream.write_all(said).unwrap();
        let held = said.ends_with(&hold(1)).then(|| rig.held.recv_timeout(LONG).unwrap());
        reset(&stream);
        drop(stream);
        eventually("the server forgets it", || rig.connections() == 0);
        // An answer to nobody.
        drop(held);
    }
    a_good_client_is_served(&rig).await;
}

#[tokio::test]
async fn a_server_that_resets_fails_the_call_that_was_sent_and_the_next_one_connects_anew() {
    let (listener, proxy) = listen();
    let server = std::thread::spawn(move || {
        let mut first = Driver::accept(&listener, 4096);
        assert!(first.next().is_some());
        reset(&first.stream);
        drop(first);
        let mut second = Driver::accept(&listener, 4096);
        let request = second.next().unwrap();
        second.echo(request);
        assert!(second.next().is_none());
    });
    let error = call(&proxy, "lost").await.unwrap_err();
    assert!(matches!(error, CallError::Network { sent: true, .. }), "{error}");
    assert_eq!(call(&proxy, "kept").await.unwrap(), "kept");
    drop(proxy);
    tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_client_that_sends_no_more_gets_the_answers_that_are_there_and_the_end() {
    let rig = Rig::start(1, ServerOptions::default());
    let mut stream = connect(&rig);
    let calls: Vec<u8> = (0..5).flat_map(|id| echo(id, 3)).collect();
    stream.write_all(&[greeting(), calls, hold(9)].concat()).unwrap();
    let held = rig.held.recv_timeout(LONG).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    // 34 and 19 bytes of negotiation, then 5 answers of 13: all but the one that is held.
    assert_eq!(answers.len(), 34 + 19 + 5 * 13);
    eventually("the connection is forgotten", || rig.connections() == 0);
    drop(held);
    a_good_client_is_served(&rig).await;
}

#[tokio::test]
async fn a_server_that_sends_no_more_fails_the_open_call_and_the_next_one_connects_anew() {
    let (listener, proxy) = listen();
    let server = std::thread::spawn(move || {
        let mut first = Driver::accept(&listener, 4096);
        let request = first.next().unwrap();
        first.echo(request);
        assert!(first.next().is_some());
        first.stream.shutdown(Shutdown::Write).unwrap();
        assert!(first.next().is_none(), "the client closes its half");
        let mut second = Driver::accept(&listener, 4096);
        let request = second.next().unwrap();
        second.echo(request);
        assert!(second.next().is_none());
    });
    assert_eq!(call(&proxy, "answered").await.unwrap(), "answered");
    let error = call(&proxy, "open").await.unwrap_err();
    assert!(matches!(error, CallError::Network { sent: true, .. }), "{error}");
    assert_eq!(call(&proxy, "next").await.unwrap(), "next");
    drop(proxy);
    tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_moves_one_byte_at_a_time_is_understood() {
    let (listener, proxy) = listen();
    let server = std::thread::spawn(move || {
        let mut driver = Driver::accept(&listener, 1);
        while let Some(request) = driver.next() {
            driver.echo(request);
        }
    });
    for text in ["", "one", "another"] {
        assert_eq!(call(&proxy, text).await.unwrap(), text);
    }
    let sidecars = vec![Bytes::from_static(b"raw"), Bytes::new()];
    let response =
        proxy.call::<Echo>(&Bytes::new()).sidecars(sidecars.clone()).timeout(LONG).send().await.unwrap();
    assert_eq!(response.sidecars, sidecars);
    drop(proxy);
    tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn megabytes_pass_through_a_small_window_whole() {
    // The client writes into a full socket again and again, and each of its writes returns short.
    let (listener, proxy) = listen();
    SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
    let server = std::thread::spawn(move || {
        let mut driver = Driver::accept(&listener, 3000);
        while let Some(request) = driver.next() {
            driver.echo(request);
        }
    });
    let big: Bytes = (0..3_000_000).map(|i| (i % 251) as u8).collect();
    let sidecars = vec![big.clone(), Bytes::from_static(b"small"), big.clone()];
    let response =
        proxy.call::<Echo>(&Bytes::new()).sidecars(sidecars.clone()).timeout(LONG).send().await.unwrap();
    assert!(response.sidecars == sidecars);
    drop(proxy);
    tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap();

    // And so does the server, to a client that reads little at a time.
    let rig = Rig::start(1, ServerOptions::default());
    let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&rig.tcp.to_socket2().unwrap()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&[greeting(), echo(1, 3_000_000)].concat()).unwrap();
    let mut left = vec![0; 34 + 19];
    stream.read_exact(&mut left).unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 1000]);
    while answer.len() < 3_000_000 {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "the server closed after {} bytes", answer.len());
        answer.extend_from_slice(&piece[..count]);
    }
    assert!(answer[20..3_000_000].iter().all(|byte| *byte == 7));
}

#[tokio::test]
async fn peers_that_never_read_and_that_never_finish_a_frame_are_left_in_time() {
    let options = ServerOptions { stall_timeout: Some(Duration::from_millis(200)), ..Default::default() };
    let rig = Rig::start(1, options);
    let (mut reader, mut writer) = (connect(&rig), connect(&rig));
    writer.write_all(&[&greeting()[..], b"\0\0"].concat()).unwrap();
    reader.write_all(&greeting()).unwrap();
    reader.set_nonblocking(true).unwrap();
    // More than the system buffers: some of the answer waits in the server.
    let call = echo(1, 40_000_000);
    let mut sent = 0;
    while sent < call.len() {
        match reader.write(&call[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
            // It was slow, for once, and left for it.
            Err(_) => break,
        }
    }
    eventually("both are left", || rig.connections() == 0);
    a_good_client_is_served(&rig).await;
}
