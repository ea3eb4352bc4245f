//! Calls: through the machines alone, and through all of client and server.

use std::io::IoSlice;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::BytesMut;
use net_addr::SockAddr;
use prost::Message;
use rpc_core::machine::{
    Body, ClientConnection, ClientEvent, ClientOptions, OutboundCall, ServerConnection, ServerEvent,
    ServerOptions,
};
use rpc_core::{Answer, Messenger, Method, Proxy, Responder};
use rpc_server::{Server, Service};

use crate::bench::rpc::calculator::calculator_service::{Add, SERVICE};
use crate::bench::rpc::calculator::{AddRequestPb, AddResponsePb};

/// Calls in flight.
const CALLS: u64 = 50;

/// Encoded by the client, decoded by the server, answered through a responder, decoded by the client: 50 at a time.
pub(super) fn machines(rounds: u32) -> Result<()> {
    let now = Instant::now();
    let mut client = ClientConnection::new(&ClientOptions::default(), "root".to_owned(), now);
    let mut server = ServerConnection::new(Arc::new(ServerOptions::default()), SockAddr::UnixUnnamed, now);
    let (mut to_client, mut to_server) = (BytesMut::new(), BytesMut::new());
    let answers: Arc<Mutex<Vec<(i32, Answer)>>> = Arc::default();
    let sink = Arc::new({
        let answers = Arc::clone(&answers);
        move |call_id, answer| {
            answers.lock().unwrap_or_else(|broken| broken.into_inner()).push((call_id, answer))
        }
    });
    let mut right = 0;
    for round in 0..=u64::from(rounds) {
        for number in 0..CALLS {
            let x = number as u32;
            let body = Body::encode(&AddRequestPb { x, y: x });
            let call =
                OutboundCall { service: Add::SERVICE, method: Add::NAME, body, extras: None, deadline: None };
            client.start_call(round * CALLS + number, call, x);
        }
        let before = right;
        while right < before + CALLS {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = client.poll_transmit(now, &mut slices);
            let sent = slices[..count].iter().map(|slice| slice.len()).sum();
            slices[..count].iter().for_each(|slice| to_server.extend_from_slice(slice));
            client.transmitted(sent, now);
            server.handle_input(&mut to_server, now);
            while let Some(event) = server.poll_event() {
                let ServerEvent::Request(request) = event else { continue };
                ensure!(request.destination.method() == Add::NAME, "another method");
                let AddRequestPb { x, y } = AddRequestPb::decode(request.body)?;
                let response = AddResponsePb { result: x.wrapping_add(y) };
                Responder::new(request.call_id, sink.clone())
                    .respond(response.encode_to_vec().into(), Vec::new());
            }
            for (call_id, answer) in answers.lock().unwrap_or_else(|broken| broken.into_inner()).drain(..) {
                server.respond(call_id, &answer);
            }
            let mut slices = [IoSlice::new(&[]); 8];
            let count = server.poll_transmit(&mut slices);
            let sent = slices[..count].iter().map(|slice| slice.len()).sum();
            slices[..count].iter().for_each(|slice| to_client.extend_from_slice(slice));
            server.transmitted(sent, now);
            client.handle_input(&mut to_client, now);
            while let Some(event) = client.poll_event() {
                let ClientEvent::Response { tag, body, .. } = event else { continue };
                right += u64::from(body.decode::<AddResponsePb>()?.result == 2 * tag);
            }
            ensure!(client.fault().is_none() && server.closing().is_none(), "the connection broke");
        }
    }
    Ok(())
}

/// A server with one reactor and a client, each on a thread, 50 callers: proxies, messenger, sockets, dispatch and all.
pub(super) fn sockets(rounds: u32) -> Result<()> {
    let add = |request: &AddRequestPb| AddResponsePb { result: request.x.wrapping_add(request.y) };
    let address = format!("@nyala-instructions-{}", std::process::id());
    let service = Service::builder(SERVICE).function::<Add>(add).build();
    let server = Server::builder().reactors(1).bind_unix(&address).service(service).start()?;
    server.ready();
    let proxy = Proxy::new(&Messenger::builder().user("root").build(), address.parse()?, "localhost");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let caller = |x| {
            let proxy = proxy.clone();
            async move {
                for _ in 0..rounds {
                    let answer = proxy.call::<Add>(&AddRequestPb { x, y: x }).send().await?;
                    ensure!(answer.message.result == 2 * x, "a wrong sum");
                }
                Ok(())
            }
        };
        let callers: Vec<_> = (0..CALLS as u32).map(|x| tokio::spawn(caller(x))).collect();
        for caller in callers {
            caller.await??;
        }
        Ok(())
    });
    server.shutdown();
    outcome
}
