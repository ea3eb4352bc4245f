//! Both machines joined by two byte streams in virtual time, cut wherever the test wants.

mod faults;

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use net_addr::SockAddr;

use super::*;
use crate::call::{Answer, CallStage, Extras, RemoteError, RequestId, RpcErrorCode};
use crate::negotiate::NegotiationError;
use crate::wire::FrameError;
use crate::wire::limits::MAX_NEGOTIATION_MESSAGE_SIZE;

pub(crate) struct Pair {
    pub(crate) client: ClientConnection<u64>,
    pub(crate) server: ServerConnection,
    pub(crate) now: Instant,
    /// At most this many bytes are moved at once.
    cut: usize,
    to_client: BytesMut,
    to_server: BytesMut,
    next_key: u64,
}

impl Pair {
    pub(crate) fn new(cut: usize) -> Self {
        Self::with(cut, ServerOptions::default(), SockAddr::UnixUnnamed)
    }

    fn with(cut: usize, options: ServerOptions, peer: SockAddr) -> Self {
        let now = Instant::now();
        Self {
            client: ClientConnection::new(&ClientOptions::default(), "root".into(), now),
            server: ServerConnection::new(Arc::new(options), peer, now),
            now,
            cut,
            to_client: BytesMut::new(),
            to_server: BytesMut::new(),
            next_key: 0,
        }
    }

    fn call(&mut self, method: &'static str, body: &'static [u8]) -> u64 {
        self.send(call(method, body))
    }

    fn send(&mut self, call: OutboundCall) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        self.client.start_call(key, call, key);
        key
    }

    /// Moves one piece each way; false = nothing to move.
    fn step(&mut self) -> bool {
        // Both, always.
        self.step_to_server() | self.step_to_client()
    }

    fn step_to_server(&mut self) -> bool {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = self.client.poll_transmit(self.now, &mut slices);
        let piece: Vec<u8> = slices[..count].iter().flat_map(|s| s.iter().copied()).take(self.cut).collect();
        if !piece.is_empty() {
            self.client.transmitted(piece.len(), self.now);
            self.to_server.extend_from_slice(&piece);
            self.server.handle_input(&mut self.to_server, self.now);
        }
        !piece.is_empty()
    }

    fn step_to_client(&mut self) -> bool {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = self.server.poll_transmit(&mut slices);
        let back: Vec<u8> = slices[..count].iter().flat_map(|s| s.iter().copied()).take(self.cut).collect();
        if !back.is_empty() {
            self.server.transmitted(back.len(), self.now);
            self.to_client.extend_from_slice(&back);
            self.client.handle_input(&mut self.to_client, self.now);
        }
        !back.is_empty()
    }

    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    fn requests(&mut self) -> Vec<ServerRequest> {
        self.settle();
        let mut requests = Vec::new();
        while let Some(event) = self.server.poll_event() {
            if let ServerEvent::Request(request) = event {
                requests.push(request);
            }
        }
        requests
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }
}

fn call(method: &'static str, body: &'static [u8]) -> OutboundCall {
    OutboundCall {
        service: "kudu.S",
        method,
        body: Bytes::from_static(body).into(),
        extras: None,
        deadline: None,
    }
}

fn success(body: &'static str) -> Answer {
    Answer::Success { body: Bytes::from_static(body.as_bytes()), sidecars: Vec::new() }
}

#[test]
fn a_conversation_is_the_same_however_it_is_cut() {
    for cut in [1, 2, 3, 7, 16, 17, 64, 1000, usize::MAX] {
        let mut pair = Pair::new(cut);
        let request_id =
            RequestId { client_id: "me".into(), seq_no: 7, first_incomplete_seq_no: -1, attempt_no: 1 };
        pair.send(OutboundCall {
            extras: Extras {
                required_features: vec![3, 200],
                request_id: Some(request_id.clone()),
                sidecars: vec![Bytes::from_static(b"one"), Bytes::new(), Bytes::from_static(b"three")],
            }
            .boxed(),
            deadline: Some(pair.now + Duration::from_millis(1500)),
            ..call("First", b"body")
        });
        pair.call("Second", b"");
        let requests = pair.requests();
        assert_eq!(requests.len(), 2);
        let first = &requests[0];
        assert_eq!(
            (first.destination.service(), first.destination.method(), first.call_id),
            ("kudu.S", "First", 0)
        );
        let extras = first.extras.as_deref().unwrap();
        assert_eq!(
            (&first.body[..], &extras.sidecars[..]),
            (&b"body"[..], &["one", "", "three"].map(Bytes::from)[..])
        );
        assert_eq!(first.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(
            (&extras.required_features[..], extras.request_id.as_ref()),
            (&[3, 200][..], Some(&request_id))
        );
        assert_eq!((requests[1].timeout, requests[1].body.len()), (None, 0));

        pair.server.respond(1, &success("second"));
        let sidecars = vec![Bytes::from_static(b"x"), Bytes::from_static(b"yz")];
        pair.server.respond(0, &Answer::Success { body: Bytes::from_static(b"first"), sidecars });
        pair.settle();
        let Some(ClientEvent::Response { tag: 1, body, sidecars }) = pair.client.poll_event() else {
            panic!()
        };
        assert_eq!((&body[..], sidecars.len()), (&b"second"[..], 0));
        let Some(ClientEvent::Response { tag: 0, body, sidecars }) = pair.client.poll_event() else {
            panic!()
        };
        assert_eq!((&body[..], &sidecars[..]), (&b"first"[..], &["x", "yz"].map(Bytes::from)[..]));
        assert_eq!(pair.server.calls_in_flight(), 0);
    }
}

#[test]
fn an_error_keeps_the_connection() {
    let mut pair = Pair::new(5);
    pair.call("M", b"");
    assert_eq!(pair.requests().len(), 1);
    let error = RemoteError::unsupported_features(vec![9999, 4242]);
    pair.server.respond(0, &Answer::Error(error.clone()));
    pair.settle();
    assert!(matches!(pair.client.poll_event(), Some(ClientEvent::Failed { error: Ok(e), .. }) if e == error));
    pair.call("M", b"");
    assert_eq!(pair.requests().len(), 1);
}

#[test]
fn a_response_is_sent_once() {
    let mut pair = Pair::new(usize::MAX);
    pair.call("M", b"");
    pair.requests();
    pair.server.respond(0, &success("a"));
    pair.server.respond(0, &success("b"));
    pair.server.respond(5, &success("c"));
    pair.settle();
    assert!(pair.client.poll_event().is_some());
    assert!(pair.client.poll_event().is_none() && pair.client.fault().is_none());
}

#[test]
fn a_call_times_out_and_its_late_answer_is_dropped() {
    let mut pair = Pair::new(usize::MAX);
    let key = pair.send(OutboundCall { deadline: Some(pair.now + Duration::from_secs(1)), ..call("M", b"") });
    assert_eq!(pair.requests().len(), 1);
    assert!(pair.client.poll_timeout().is_some_and(|at| at <= pair.now + Duration::from_secs(1)));
    pair.pass(Duration::from_millis(999));
    assert!(pair.client.poll_event().is_none());
    pair.pass(Duration::from_millis(1));
    let event = pair.client.poll_event();
    assert!(matches!(event, Some(ClientEvent::TimedOut { tag, stage: CallStage::Sent }) if tag == key));
    pair.server.respond(0, &success("late"));
    pair.call("M", b"");
    assert_eq!(pair.requests()[0].call_id, 1, "id 0 was still taken when the call began");
    assert!(pair.client.poll_event().is_none());
    pair.server.respond(1, &success("right"));
    pair.settle();
    assert!(matches!(pair.client.poll_event(), Some(ClientEvent::Response { tag: 1, .. })));
}

#[test]
fn a_call_that_is_cancelled_before_it_is_sent_never_is() {
    let mut pair = Pair::new(usize::MAX);
    let key = pair.call("Never", b"");
    pair.call("Second", b"");
    pair.client.cancel(key);
    let requests = pair.requests();
    assert_eq!((requests.len(), requests[0].destination.method()), (1, "Second"));
}

#[test]
fn the_id_of_a_cancelled_call_stays_taken_until_its_answer() {
    let mut pair = Pair::new(usize::MAX);
    let start = (1u64 << 31) - 1;
    pair.next_key = start;
    let key = pair.call("M", b"");
    assert_eq!(pair.requests()[0].call_id, i32::MAX);
    pair.client.cancel(key);
    pair.next_key = start + (1 << 31);
    let again = pair.call("M", b"");
    assert_eq!(pair.requests()[0].call_id, 0, "the next free id, over the wrap");
    pair.server.respond(i32::MAX, &success("late"));
    pair.server.respond(0, &success("right"));
    pair.settle();
    assert!(matches!(pair.client.poll_event(), Some(ClientEvent::Response { tag, .. }) if tag == again));
    assert!(pair.client.poll_event().is_none());
    // And a call whose id is not its key's own can be cancelled all the same.
    pair.next_key = start;
    pair.call("M", b"");
    pair.next_key = start + (1 << 31);
    let moved = pair.call("M", b"");
    pair.client.cancel(moved);
    assert_eq!(pair.requests().len(), 1);
}

#[test]
fn unsent_payloads_come_back_and_sent_ones_do_not() {
    let mut pair = Pair::new(usize::MAX);
    pair.settle();
    let big: &'static [u8] = Box::leak(vec![1; 100_000].into_boxed_slice());
    for _ in 0..3 {
        pair.call("Big", big);
    }
    // The first call is begun, the others wait behind it.
    let mut slices = [IoSlice::new(&[]); 4];
    assert!(pair.client.poll_transmit(pair.now, &mut slices) > 0);
    pair.client.transmitted(1, pair.now);
    assert!(pair.client.outbound_bytes() < 2 * big.len(), "calls wait where they can be cancelled");
    let unfinished = pair.client.into_unfinished();
    let unsent: Vec<_> = unfinished.iter().map(|call| (call.tag, call.unsent.is_some())).collect();
    assert_eq!(unsent, [(0, false), (1, true), (2, true)]);
}

#[test]
fn a_duplicate_call_id_in_flight_drops_the_connection() {
    let mut pair = Pair::new(usize::MAX);
    pair.call("M", b"");
    pair.requests();
    let frame = b"\0\0\0\x0e\x0c\x18\0\x32\x08\x0a\x03S.S\x12\x01M\0";
    pair.server.handle_input(&mut BytesMut::from(&frame[..]), pair.now);
    assert_eq!(pair.server.closing(), Some(&CloseReason::DuplicateCallId(0)));
    assert_eq!(pair.server.outbound_bytes(), 0);
}

#[test]
fn damaged_streams_are_dropped_without_a_word() {
    let oversize = 52_428_797u32.to_be_bytes();
    for (bytes, reason) in [
        (&[0; 4][..], FrameError::Empty),
        (&oversize, FrameError::TooLarge { len: 52_428_797, limit: 52_428_800 }),
        (b"\0\0\0\x04\x02\x18\x01\0", FrameError::NoMethod),
        (b"\0\0\0\x05\x02\x18\x01\0\0", FrameError::Parts),
    ] {
        let mut pair = Pair::new(usize::MAX);
        pair.settle();
        pair.server.handle_input(&mut BytesMut::from(bytes), pair.now);
        assert_eq!(pair.server.closing(), Some(&CloseReason::Frame(reason)));
        assert_eq!(pair.server.outbound_bytes(), 0);
    }
}

#[test]
fn bad_sidecar_offsets_drop_the_connection_on_either_side() {
    let mut pair = Pair::new(usize::MAX);
    pair.settle();
    let frame = b"\0\0\0\x12\x0f\x18\0\x32\x08\x0a\x03S.S\x12\x01M\x80\x01\x05\x01x";
    pair.server.handle_input(&mut BytesMut::from(&frame[..]), pair.now);
    assert!(matches!(pair.server.closing(), Some(CloseReason::Frame(FrameError::Sidecar(_)))));

    pair.call("M", b"");
    let mut slices = [IoSlice::new(&[]); 4];
    pair.client.poll_transmit(pair.now, &mut slices);
    pair.client.handle_input(&mut BytesMut::from(&b"\0\0\0\x09\x06\x08\0\x10\0\x18\x05\x01x"[..]), pair.now);
    assert!(matches!(pair.client.fault(), Some(ConnectionFault::Frame(FrameError::Sidecar(_)))));
    assert_eq!(pair.client.into_unfinished().len(), 1, "the call whose answer it was fails with the others");
}

#[test]
fn a_silent_peer_is_dropped_after_the_negotiation_timeout() {
    let options = Arc::new(ServerOptions::default());
    let now = Instant::now();
    let mut server = ServerConnection::new(options, SockAddr::UnixUnnamed, now);
    assert_eq!(server.poll_timeout(), Some(now + Duration::from_secs(3)));
    server.handle_input(&mut BytesMut::from(&b"hrpc\x09\0\0"[..]), now + Duration::from_secs(2));
    server.handle_timeout(now + Duration::from_millis(2999));
    assert_eq!(server.closing(), None);
    server.handle_timeout(now + Duration::from_secs(3));
    assert_eq!(server.closing(), Some(&CloseReason::NegotiationTimedOut));

    let mut client = Pair::new(usize::MAX).client;
    client.handle_timeout(now + Duration::from_secs(4));
    assert_eq!(client.fault(), Some(&ConnectionFault::Negotiation(NegotiationError::TimedOut)));
}

#[test]
fn idle_means_no_call_and_no_byte_for_the_keepalive_time() {
    let mut pair = Pair::new(usize::MAX);
    pair.settle();
    let keepalive = Duration::from_secs(65);
    assert_eq!(pair.server.poll_timeout(), Some(pair.now + keepalive));
    pair.call("M", b"");
    pair.requests();
    assert_eq!(pair.server.poll_timeout(), None, "a call in progress");
    pair.pass(keepalive * 2);
    pair.server.respond(0, &success(""));
    let stall = Duration::from_secs(300);
    assert_eq!(pair.server.poll_timeout(), Some(pair.now + stall - keepalive * 2), "an answer not yet sent");
    pair.settle();
    assert_eq!(pair.server.poll_timeout(), Some(pair.now + keepalive));
    pair.server.handle_input(&mut BytesMut::from(&b"\0\0"[..]), pair.now);
    assert_eq!(pair.server.poll_timeout(), Some(pair.now + stall), "half a frame");
    let mut idle = Pair::new(usize::MAX);
    idle.settle();
    idle.pass(keepalive);
    assert_eq!(idle.server.closing(), Some(&CloseReason::Idle));
}

#[test]
fn a_peer_that_stops_in_the_middle_of_a_frame_or_of_an_answer_is_left() {
    for stall_timeout in [Some(Duration::from_secs(10)), None] {
        let options = || ServerOptions { stall_timeout, ..Default::default() };
        let mut writer = Pair::with(usize::MAX, options(), SockAddr::UnixUnnamed);
        writer.settle();
        writer.server.handle_input(&mut BytesMut::from(&b"\0\0"[..]), writer.now);
        let mut reader = Pair::with(usize::MAX, options(), SockAddr::UnixUnnamed);
        reader.call("M", b"");
        reader.requests();
        reader.server.respond(0, &success("never read"));
        for pair in [&mut writer, &mut reader] {
            pair.pass(Duration::from_millis(9_999));
            assert_eq!(pair.server.closing(), None);
            pair.pass(Duration::from_secs(1_000_000));
            assert_eq!(pair.server.closing(), stall_timeout.map(|_| &CloseReason::Stalled));
        }
    }
}

#[test]
fn before_negotiation_is_over_a_frame_is_small() {
    let limit = MAX_NEGOTIATION_MESSAGE_SIZE;
    for (total, refused) in [(limit, false), (limit + 1, true)] {
        let mut pair = Pair::new(usize::MAX);
        let bytes = [&b"hrpc\x09\0\0"[..], &(total - 4).to_be_bytes()].concat();
        pair.server.handle_input(&mut BytesMut::from(&bytes[..]), pair.now);
        let error = FrameError::TooLarge { len: total - 4, limit };
        assert_eq!(pair.server.closing(), refused.then(|| CloseReason::Frame(error)).as_ref());
        pair.client.handle_input(&mut BytesMut::from(&bytes[7..]), pair.now);
        assert_eq!(pair.client.fault().is_some(), refused);
    }
    let mut pair = Pair::new(usize::MAX);
    pair.settle();
    let len = (10 * limit).to_be_bytes();
    pair.server.handle_input(&mut BytesMut::from(&len[..]), pair.now);
    pair.client.handle_input(&mut BytesMut::from(&len[..]), pair.now);
    assert_eq!((pair.server.closing(), pair.client.fault()), (None, None), "afterwards it may be big");
}

#[test]
fn an_endless_negotiation_timeout_never_comes() {
    let (now, endless) = (Instant::now(), Duration::MAX);
    let options = ServerOptions { negotiation_timeout: endless, ..Default::default() };
    let mut server = ServerConnection::new(Arc::new(options), SockAddr::UnixUnnamed, now);
    let options = ClientOptions { negotiation_timeout: endless, ..Default::default() };
    let mut client: ClientConnection<u64> = ClientConnection::new(&options, "root".into(), now);
    let later = now + Duration::from_secs(1_000_000);
    server.handle_timeout(later);
    client.handle_timeout(later);
    assert_eq!((server.poll_timeout(), server.closing()), (None, None));
    assert_eq!((client.poll_timeout(), client.fault()), (None, None));
}

#[test]
fn a_call_whose_id_had_to_move_can_be_cancelled_after_its_first_id_is_free() {
    let mut pair = Pair::new(usize::MAX);
    let moved = 1 << 31;
    pair.client.start_call(0, call("Old", b""), 0);
    pair.client.start_call(moved, call("New", b""), moved);
    assert_eq!(pair.requests().len(), 2);
    pair.server.respond(0, &success(""));
    pair.settle();
    assert!(matches!(pair.client.poll_event(), Some(ClientEvent::Response { tag: 0, .. })));
    pair.client.cancel(moved);
    pair.server.respond(1, &success("late"));
    pair.settle();
    assert!(pair.client.poll_event().is_none(), "nobody waits for it");
}

#[test]
fn strangers_are_told_that_they_are_not_trusted() {
    let peer = SockAddr::parse("8.8.8.8:1234", 0).unwrap();
    let mut pair = Pair::with(3, ServerOptions::default(), peer);
    pair.call("M", b"");
    pair.settle();
    let Some(ConnectionFault::Negotiation(error)) = pair.client.fault() else { panic!() };
    assert!(error.is_not_authorized() && !error.is_retriable());
    assert_eq!(error.remote().and_then(|e| e.code), Some(RpcErrorCode::FATAL_UNAUTHORIZED));
    assert!(matches!(pair.server.closing(), Some(CloseReason::Negotiation(_))));
}

#[test]
fn a_peer_that_reads_no_answers_is_not_read_from() {
    let mut pair = Pair::with(
        usize::MAX,
        ServerOptions { max_outbound_bytes: 10, ..Default::default() },
        SockAddr::UnixUnnamed,
    );
    pair.call("M", b"");
    pair.requests();
    assert!(pair.server.wants_input());
    pair.server.respond(0, &success("more than ten bytes"));
    assert!(!pair.server.wants_input());
    pair.settle();
    assert!(pair.server.wants_input());
}

#[test]
fn features_need_a_server_that_checks_them() {
    let mut client: ClientConnection<u64> =
        ClientConnection::new(&ClientOptions::default(), "root".into(), Instant::now());
    let extras = Extras { required_features: vec![1], ..Default::default() }.boxed();
    client.start_call(0, OutboundCall { extras, ..call("M", b"") }, 0);
    client.start_call(1, call("M", b""), 1);
    // A server with no features at all: NEGOTIATE with PLAIN, then SASL_SUCCESS.
    let head = b"\x0b\x08\xdf\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    let negotiate = [&[0, 0, 0, 24][..], head, b"\x0b\x10\x01\x22\x07\x12\x05PLAIN"].concat();
    let success = [&[0, 0, 0, 15][..], head, b"\x02\x10\x00"].concat();
    let now = Instant::now();
    client.handle_input(&mut BytesMut::from(&[negotiate, success].concat()[..]), now);
    assert!(client.is_established(), "{:?}", client.fault());
    let mut slices = [IoSlice::new(&[]); 2];
    client.poll_transmit(now, &mut slices);
    assert!(matches!(client.poll_event(), Some(ClientEvent::NotSupported { tag: 0 })));
    assert!(client.poll_event().is_none());
}

#[test]
fn what_no_frame_can_carry_is_refused_on_both_sides() {
    let mut pair = Pair::new(usize::MAX);
    let extras = Extras { sidecars: vec![Bytes::new(); 10_001], ..Default::default() }.boxed();
    pair.send(OutboundCall { extras, ..call("M", b"") });
    pair.call("M", b"");
    assert_eq!(pair.requests().len(), 1);
    assert!(matches!(pair.client.poll_event(), Some(ClientEvent::TooLarge { tag: 0, sidecars: 10_001, .. })));
    pair.server.respond(1, &Answer::Success { body: Bytes::new(), sidecars: vec![Bytes::new(); 10_001] });
    pair.settle();
    assert!(matches!(pair.client.poll_event(), Some(ClientEvent::Failed { tag: 1, error: Ok(_) })));
}

#[test]
fn deadlines_of_answered_calls_are_swept() {
    let mut pair = Pair::new(usize::MAX);
    for _ in 0..1000 {
        let deadline = Some(pair.now + Duration::from_secs(10));
        pair.send(OutboundCall { deadline, ..call("M", b"") });
        for request in pair.requests() {
            pair.server.respond(request.call_id, &success(""));
        }
        pair.settle();
        assert!(pair.client.poll_event().is_some());
    }
    assert!(pair.client.deadlines() < 100);
}
