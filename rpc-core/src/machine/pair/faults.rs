//! Connections that break at any byte, and peers that go on in one direction only.

use super::*;

/// Three calls of which the server answers each at once; moves `steps` bytes each way. Which calls the server saw, and
/// which were answered.
fn talk(pair: &mut Pair, steps: usize) -> (Vec<u64>, Vec<u64>) {
    for body in [&b"one"[..], b"two", b"three"] {
        pair.call("M", body);
    }
    let (mut seen, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        pair.step();
        answer(pair, &mut seen);
        take_answers(pair, &mut answered);
    }
    (seen, answered)
}

fn answer(pair: &mut Pair, seen: &mut Vec<u64>) {
    while let Some(event) = pair.server.poll_event() {
        if let ServerEvent::Request(request) = event {
            seen.push(u64::try_from(request.call_id).unwrap());
            pair.server.respond(request.call_id, &success("answer"));
        }
    }
}

fn take_answers(pair: &mut Pair, answered: &mut Vec<u64>) {
    while let Some(event) = pair.client.poll_event() {
        let ClientEvent::Response { tag, body, .. } = event else { panic!("{event:?}") };
        assert_eq!(&body[..], b"answer");
        answered.push(tag);
    }
}

/// Enough for the whole conversation, byte by byte.
const ALL: usize = 400;

#[test]
fn a_connection_reset_at_any_byte_ends_each_call_once_and_gives_back_what_was_not_sent() {
    let mut unsent_at = Vec::new();
    for steps in 0..ALL {
        let mut pair = Pair::new(1);
        let (seen, answered) = talk(&mut pair, steps);
        // The reset: nothing more comes or goes.
        let unfinished = pair.client.into_unfinished();
        let mut ended: Vec<u64> =
            answered.iter().copied().chain(unfinished.iter().map(|call| call.tag)).collect();
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2], "after {steps} bytes");
        let unsent: Vec<u64> =
            unfinished.iter().filter(|call| call.unsent.is_some()).map(|call| call.tag).collect();
        assert!(
            seen.iter().all(|call| !unsent.contains(call)),
            "{unsent:?} may be sent again, after {steps}"
        );
        unsent_at.push(unsent.len());
    }
    // All of them in the beginning, one after the other gone, none in the end.
    assert!(unsent_at.is_sorted_by(|before, after| before >= after), "{unsent_at:?}");
    assert_eq!((unsent_at.first(), unsent_at.last()), (Some(&3), Some(&0)));
    assert!([1, 2].iter().all(|count| unsent_at.contains(count)));
}

#[test]
fn a_client_that_sends_no_more_is_still_told_its_answers() {
    for steps in 0..ALL {
        let mut pair = Pair::new(1);
        let (mut seen, mut answered) = talk(&mut pair, steps);
        // The half-close: from now on bytes go to the client only.
        while pair.step_to_client() {
            take_answers(&mut pair, &mut answered);
        }
        answer(&mut pair, &mut seen);
        assert_eq!(answered, seen, "after {steps} bytes: what the server saw whole is answered");
        assert_eq!(pair.client.into_unfinished().len(), 3 - answered.len());
    }
}

#[test]
fn a_server_that_sends_no_more_still_takes_what_is_sent_and_its_answers_wait() {
    for steps in 0..ALL {
        let mut pair = Pair::new(1);
        let (mut seen, answered) = talk(&mut pair, steps);
        while pair.step_to_server() {
            answer(&mut pair, &mut seen);
        }
        assert!(pair.client.fault().is_none() && pair.server.closing().is_none());
        assert!(seen.len() >= answered.len());
        // Whoever is not answered is told so in the end, and nobody twice.
        assert_eq!(pair.client.into_unfinished().len(), 3 - answered.len(), "after {steps} bytes");
    }
}

#[test]
fn writes_that_return_short_send_each_byte_once() {
    let big: &'static [u8] =
        Box::leak((0..300_000).map(|i| (i % 251) as u8).collect::<Vec<_>>().into_boxed_slice());
    for cut in [1_000, 4_095, 4_097, 65_537] {
        let mut pair = Pair::new(cut);
        let sidecars = vec![Bytes::from_static(big), Bytes::from_static(b"small"), Bytes::from_static(big)];
        let extras = Extras { sidecars: sidecars.clone(), ..Default::default() }.boxed();
        pair.send(OutboundCall { extras, ..call("M", big) });
        let request = pair.requests().remove(0);
        assert!(request.body == big && request.extras.unwrap().sidecars == sidecars, "in pieces of {cut}");
        pair.server
            .respond(0, &Answer::Success { body: Bytes::from_static(big), sidecars: sidecars.clone() });
        pair.settle();
        let Some(ClientEvent::Response { body, sidecars: blocks, .. }) = pair.client.poll_event() else {
            panic!()
        };
        assert!(body[..] == *big && blocks == sidecars, "in pieces of {cut}");
    }
}

#[test]
fn a_server_that_never_reads_holds_no_more_than_the_first_calls() {
    let mut pair = Pair::new(usize::MAX);
    pair.settle();
    let body: &'static [u8] = Box::leak(vec![7; 30_000].into_boxed_slice());
    let deadline = Some(pair.now + Duration::from_secs(1));
    for _ in 0..100 {
        pair.send(OutboundCall { deadline, ..call("M", body) });
    }
    let mut slices = [IoSlice::new(&[]); 64];
    pair.client.poll_transmit(pair.now, &mut slices);
    assert!(pair.client.outbound_bytes() < 100_000, "the others wait where they can be forgotten");
    pair.pass(Duration::from_secs(1));
    let timed_out = std::iter::from_fn(|| pair.client.poll_event())
        .filter(|event| matches!(event, ClientEvent::TimedOut { .. }))
        .count();
    assert_eq!(timed_out, 100);
    assert!(pair.client.into_unfinished().is_empty());
}
