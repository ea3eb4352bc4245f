//! The machines at the end of a stream of bytes that comes in pieces.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use net_addr::SockAddr;
use rpc_core::machine::{
    ClientConnection, ClientEvent, ClientOptions, CloseReason, ConnectionFault, OutboundCall,
    ServerConnection, ServerEvent, ServerOptions, ServerRequest,
};
use rpc_core::{Extras, RemoteError, RequestId};

/// How a stream is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    /// All at once.
    Whole,
    /// So many bytes at a time, read to where the machine wants them.
    Pieces(usize),
}

impl Cut {
    fn next(self, left: usize) -> usize {
        match self {
            Self::Whole => left,
            Self::Pieces(most) => most.min(left),
        }
    }
}

/// Cuts that have to make no difference.
pub(crate) const CUTS: [Cut; 3] = [Cut::Whole, Cut::Pieces(1), Cut::Pieces(1000)];

/// The bound on frames: little memory, and above the size from which the machines take frames apart.
pub(crate) const LIMIT: u32 = 1 << 20;

/// The shortest way for a client through negotiation, as user `root`.
pub(crate) const GREETING: &[u8] = b"hrpc\x09\0\0\
    \0\0\0\x15\x0b\x18\xdf\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08\x08\x01\x10\x01\x3a\x02\x0a\0\
    \0\0\0\x20\x0b\x18\xdf\xff\xff\xff\xff\xff\xff\xff\xff\x01\x13\x10\x02\x1a\x06\0root\0\x22\x07\x12\x05PLAIN\
    \0\0\0\x15\x0b\x18\xfd\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08\x12\x06\x12\x04root";

/// The server's half of it.
pub(crate) const WELCOME: &[u8] = b"\
    \0\0\0\x1a\x0b\x08\xdf\xff\xff\xff\xff\xff\xff\xff\xff\x01\x0d\x08\x01\x10\x01\x22\x07\x12\x05PLAIN\
    \0\0\0\x0f\x0b\x08\xdf\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x10\0";

/// A request, comparable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) call_id: i32,
    pub(crate) service: String,
    pub(crate) method: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) body: Bytes,
    pub(crate) required_features: Vec<u32>,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) sidecars: Vec<Bytes>,
}

impl From<ServerRequest> for Request {
    fn from(request: ServerRequest) -> Self {
        let ServerRequest { call_id, destination, timeout, body, extras, .. } = request;
        let Extras { required_features, request_id, sidecars } =
            extras.map(|extras| *extras).unwrap_or_default();
        let (service, method) = (destination.service().to_owned(), destination.method().to_owned());
        Self { call_id, service, method, timeout, body, required_features, request_id, sidecars }
    }
}

/// What a server made of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) user: Option<String>,
    pub(crate) requests: Vec<Request>,
    pub(crate) sent: Vec<u8>,
    pub(crate) closing: Option<CloseReason>,
}

pub(crate) fn serve(stream: &[u8], cut: Cut, peer: &SockAddr) -> Served {
    let now = Instant::now();
    let options = ServerOptions { max_message_size: LIMIT, ..ServerOptions::default() };
    let mut server = ServerConnection::new(Arc::new(options), peer.clone(), now);
    let mut served = Served { user: None, requests: Vec::new(), sent: Vec::new(), closing: None };
    let mut buffer = BytesMut::new();
    let mut rest = stream;
    while !rest.is_empty() && server.closing().is_none() {
        let count = cut.next(rest.len());
        let count = match (server.direct_room(), buffer.is_empty()) {
            (Some(room), true) => {
                let count = count.min(room.len());
                room[..count].copy_from_slice(&rest[..count]);
                server.direct_filled(count);
                count
            }
            _ => {
                buffer.extend_from_slice(&rest[..count]);
                count
            }
        };
        rest = &rest[count..];
        server.handle_input(&mut buffer, now);
        while let Some(event) = server.poll_event() {
            match event {
                ServerEvent::Established(info) => served.user = Some(info.user.clone()),
                ServerEvent::Request(request) => served.requests.push(request.into()),
                _ => {}
            }
        }
        let mut slices = [IoSlice::new(&[]); 8];
        let count = server.poll_transmit(&mut slices);
        let before = served.sent.len();
        slices[..count].iter().for_each(|slice| served.sent.extend_from_slice(slice));
        server.transmitted(served.sent.len() - before, now);
    }
    served.closing = server.closing().cloned();
    served
}

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Response { tag: u64, body: Vec<u8>, sidecars: Vec<Bytes> },
    Failed { tag: u64, error: Option<RemoteError> },
}

/// What a client made of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) established: bool,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) sent: Vec<u8>,
    pub(crate) fault: Option<ConnectionFault>,
}

/// How many calls the client has begun when the stream comes, with the ids from 0 on.
pub(crate) const CALLS: u64 = 8;

/// Every fourth of the calls is cancelled as soon as it is sent.
pub(crate) fn is_cancelled(call: u64) -> bool {
    call % 4 == 3
}

/// Feeds a client with `welcome` at once, so that its calls are sent if that completes negotiation, then with `stream`.
pub(crate) fn ask(welcome: &[u8], stream: &[u8], cut: Cut) -> Answered {
    let now = Instant::now();
    let options = ClientOptions { max_message_size: LIMIT, ..ClientOptions::default() };
    let mut client = ClientConnection::new(&options, "root".to_owned(), now);
    for key in 0..CALLS {
        let body = Bytes::from_static(b"body").into();
        client.start_call(
            key,
            OutboundCall { service: "kudu.S", method: "M", body, extras: None, deadline: None },
            key,
        );
    }
    let mut answered = Answered { established: false, outcomes: Vec::new(), sent: Vec::new(), fault: None };
    let mut buffer = BytesMut::from(welcome);
    let mut rest = stream;
    loop {
        client.handle_input(&mut buffer, now);
        while let Some(event) = client.poll_event() {
            match event {
                ClientEvent::Response { tag, body, sidecars } => {
                    answered.outcomes.push(Outcome::Response { tag, body: body.to_vec(), sidecars });
                }
                ClientEvent::Failed { tag, error } => {
                    answered.outcomes.push(Outcome::Failed { tag, error: error.ok() });
                }
                event => panic!("nothing times out, is too large or not supported: {event:?}"),
            }
        }
        let mut slices = [IoSlice::new(&[]); 8];
        let count = client.poll_transmit(now, &mut slices);
        let before = answered.sent.len();
        slices[..count].iter().for_each(|slice| answered.sent.extend_from_slice(slice));
        client.transmitted(answered.sent.len() - before, now);
        if !answered.established && client.is_established() {
            answered.established = true;
            (0..CALLS).filter(|call| is_cancelled(*call)).for_each(|call| client.cancel(call));
        }
        if rest.is_empty() || client.fault().is_some() {
            break;
        }
        let count = cut.next(rest.len());
        let count = match (client.direct_room(), buffer.is_empty()) {
            (Some(room), true) => {
                let count = count.min(room.len());
                room[..count].copy_from_slice(&rest[..count]);
                client.direct_filled(count);
                count
            }
            _ => {
                buffer.extend_from_slice(&rest[..count]);
                count
            }
        };
        rest = &rest[count..];
    }
    answered.fault = client.fault().cloned();
    answered
}
