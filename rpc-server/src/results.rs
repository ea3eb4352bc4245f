//! Exactly-once results: a call that is tried again gets the answer of its first run. No threads, no clock: `now` is an argument.
//!
//! A client names each logical call by `(client_id, seq_no)` and tells with `first_incomplete_seq_no` which answers it no longer
//! waits for. Per client there is a watermark, `stale_before`: calls below it are refused, since their answers are forgotten.
//! Memory is bounded: when the remembered answers exceed [`Limits::bytes`] the oldest are forgotten and the watermark rises,
//! so that a late retry is refused rather than run twice. A client itself is forgotten, its watermark too, when it was silent for
//! [`Limits::client_ttl`], or for [`Limits::response_ttl`] when others need the room: a retry that is later still runs again,
//! as in Kudu. While there are too many clients to remember, new ones are refused as [`Start::Busy`].

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// How much is remembered, and for how long.
#[derive(Debug, Clone)]
pub struct Limits {
    /// A client that was silent this long is forgotten, unless one of its calls is still running. Kudu: one hour.
    pub client_ttl: Duration,
    /// An answer this old is forgotten. Kudu: ten minutes.
    pub response_ttl: Duration,
    /// The most bytes of remembered answers, each charged with 128 bytes of bookkeeping.
    pub bytes: usize,
    /// The most clients. Beyond it those silent for longest are forgotten, if that is as long as `response_ttl`; if none was,
    /// new clients are refused.
    pub clients: usize,
    /// The most attempts that wait for one running call; each keeps its connection's memory of it. Clients have one or two.
    pub waiters: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client_ttl: Duration::from_secs(3600),
            response_ttl: Duration::from_secs(600),
            bytes: 64 << 20,
            clients: 100_000,
            waiters: 64,
        }
    }
}

/// The part of a request id that the tracker looks at. Attempt numbers do not matter here.
#[derive(Debug, Clone, Copy)]
pub struct CallKey<'a> {
    /// Unique per client process.
    pub client_id: &'a str,
    /// Number of the logical call within the client.
    pub seq_no: i64,
    /// Answers below this are not waited for any more; -1 if the client does not say.
    pub first_incomplete_seq_no: i64,
}

/// An answer as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The encoded response.
    pub body: Bytes,
    /// Its sidecars.
    pub sidecars: Vec<Bytes>,
}

/// What to do with a call, and with the `W` that waits for its answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Start<W> {
    /// New: run the handler, then call [`ResultTracker::complete`] or [`ResultTracker::forget`].
    Run(W),
    /// Already answered: send this again and do not run.
    Replay(W, StoredAnswer),
    /// Another attempt is running; the waiter was kept and comes back from `complete` or `forget`.
    Attached,
    /// Below the watermark: refuse with ERROR_REQUEST_STALE.
    Stale(W),
    /// Nothing more can be remembered of it, so it must not run: refuse with ERROR_SERVER_TOO_BUSY.
    Busy(W),
}

/// The memory of calls run and running, for waiters `W`.
#[derive(Debug)]
pub struct ResultTracker<W> {
    clients: HashMap<String, Client<W>>,
    /// Completed records in order of completion: their time, client and seq_no. May name records that are gone by now.
    completed: VecDeque<(Instant, String, i64)>,
    bytes: usize,
    next_gc: Option<Instant>,
    /// Until then no client will be old enough to be forgotten: looking for one is in vain.
    full_until: Option<Instant>,
    limits: Limits,
}

#[derive(Debug)]
struct Client<W> {
    stale_before: i64,
    heard: Instant,
    running: usize,
    records: BTreeMap<i64, Record<W>>,
}

#[derive(Debug)]
enum Record<W> {
    Running(Vec<W>),
    Done(Instant, StoredAnswer),
}

impl<W> ResultTracker<W> {
    /// A tracker that knows nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            clients: HashMap::new(),
            completed: VecDeque::new(),
            bytes: 0,
            next_gc: None,
            full_until: None,
            limits,
        }
    }

    /// An attempt of a call arrived.
    pub fn start(&mut self, key: CallKey<'_>, waiter: W, now: Instant) -> Start<W> {
        let Some(client) = self.meet(key, now) else { return Start::Busy(waiter) };
        if key.seq_no < client.stale_before {
            return Start::Stale(waiter);
        }
        let freed = client.drop_done_before(key.first_incomplete_seq_no);
        self.bytes -= freed;
        let Some(client) = self.clients.get_mut(key.client_id) else { return Start::Run(waiter) };
        match client.records.get_mut(&key.seq_no) {
            None => {
                client.records.insert(key.seq_no, Record::Running(Vec::new()));
                client.running += 1;
                Start::Run(waiter)
            }
            Some(Record::Running(waiters)) if waiters.len() >= self.limits.waiters => Start::Busy(waiter),
            Some(Record::Running(waiters)) => {
                waiters.push(waiter);
                Start::Attached
            }
            Some(Record::Done(_, answer)) => Start::Replay(waiter, answer.clone()),
        }
    }

    /// The handler succeeded: remembers its answer and gives back those that attached meanwhile, to be answered alike.
    pub fn complete(&mut self, client_id: &str, seq_no: i64, answer: StoredAnswer, now: Instant) -> Vec<W> {
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        let Some(record @ Record::Running(_)) = client.records.get_mut(&seq_no) else { return Vec::new() };
        self.bytes += charge(&answer);
        client.running -= 1;
        client.heard = now;
        let old = std::mem::replace(record, Record::Done(now, answer));
        self.completed.push_back((now, client_id.to_owned(), seq_no));
        self.shrink_to_limit();
        old.into_waiters()
    }

    /// The handler failed, or its answer is not to be remembered: the next attempt runs anew. Gives back those that attached.
    pub fn forget(&mut self, client_id: &str, seq_no: i64) -> Vec<W> {
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        match client.records.remove(&seq_no) {
            Some(record @ Record::Running(_)) => {
                client.running -= 1;
                record.into_waiters()
            }
            Some(done) => {
                client.records.insert(seq_no, done);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Forgets what is too old. Cheap when called often: it looks at most once a second.
    pub fn gc(&mut self, now: Instant) {
        if self.next_gc.is_some_and(|next| now < next) {
            return;
        }
        self.next_gc = Some(now + Duration::from_secs(1));
        while let Some((done, client_id, seq_no)) = self.completed.front() {
            let gone = !self.holds(client_id, *seq_no, *done);
            if !gone && now.saturating_duration_since(*done) < self.limits.response_ttl {
                break;
            }
            self.forget_oldest();
        }
        let ttl = self.limits.client_ttl;
        let mut freed = 0;
        self.clients.retain(|_, client| {
            let keep = client.running > 0 || now.saturating_duration_since(client.heard) < ttl;
            if !keep {
                freed += client.charged();
            }
            keep
        });
        self.bytes -= freed;
    }

    /// Bytes charged for remembered answers.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many clients are known.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// The client of a call, which has just been heard of. `None` = it is new, and there is no room.
    fn meet(&mut self, key: CallKey<'_>, now: Instant) -> Option<&mut Client<W>> {
        self.gc(now);
        if !self.clients.contains_key(key.client_id) {
            if !self.make_room_for_client(now) {
                return None;
            }
            let client = Client {
                stale_before: key.first_incomplete_seq_no,
                heard: now,
                running: 0,
                records: BTreeMap::new(),
            };
            self.clients.insert(key.client_id.to_owned(), client);
        }
        let client = self.clients.get_mut(key.client_id)?;
        client.heard = now;
        Some(client)
    }

    fn holds(&self, client_id: &str, seq_no: i64, done: Instant) -> bool {
        let record = self.clients.get(client_id).and_then(|client| client.records.get(&seq_no));
        matches!(record, Some(Record::Done(at, _)) if *at == done)
    }

    fn forget_oldest(&mut self) {
        let Some((done, client_id, seq_no)) = self.completed.pop_front() else { return };
        if !self.holds(&client_id, seq_no, done) {
            return;
        }
        let Some(client) = self.clients.get_mut(&client_id) else { return };
        if let Some(Record::Done(_, answer)) = client.records.remove(&seq_no) {
            self.bytes -= charge(&answer);
            client.stale_before = client.stale_before.max(seq_no.saturating_add(1));
        }
    }

    fn shrink_to_limit(&mut self) {
        while self.bytes > self.limits.bytes && !self.completed.is_empty() {
            self.forget_oldest();
        }
        // Entries of records dropped by their client pile up behind a long-lived one: sweep when most are dead.
        if self.completed.len() > 64 && self.completed.len() * 64 > self.bytes {
            let live = std::mem::take(&mut self.completed);
            self.completed = live.into_iter().filter(|(done, id, seq)| self.holds(id, *seq, *done)).collect();
        }
    }

    /// False = there is none.
    fn make_room_for_client(&mut self, now: Instant) -> bool {
        if self.clients.len() < self.limits.clients {
            return true;
        }
        if self.full_until.is_some_and(|until| now < until) {
            return false;
        }
        let ttl = self.limits.response_ttl;
        // An eighth at once, so that a stream of new client ids does not pay a whole pass each.
        let mut idle: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, c)| c.running == 0 && now.saturating_duration_since(c.heard) >= ttl)
            .map(|(id, c)| (c.heard, id.clone()))
            .collect();
        idle.sort_unstable();
        if idle.is_empty() {
            // A pass over all clients is not for every call of a stranger.
            self.full_until = Some(now + Duration::from_secs(1));
            return false;
        }
        for (_, id) in idle.into_iter().take(self.limits.clients / 8 + 1) {
            if let Some(client) = self.clients.remove(&id) {
                self.bytes -= client.charged();
            }
        }
        true
    }
}

impl<W> Client<W> {
    /// Drops completed records below `first_incomplete`, in order, up to the first that is still running. Returns the bytes freed.
    fn drop_done_before(&mut self, first_incomplete: i64) -> usize {
        let mut freed = 0;
        while let Some(first) = self.records.first_entry() {
            match first.get() {
                Record::Done(_, answer) if *first.key() < first_incomplete => {
                    freed += charge(answer);
                    self.stale_before = self.stale_before.max(first.key().saturating_add(1));
                    first.remove();
                }
                _ => break,
            }
        }
        freed
    }

    fn charged(&self) -> usize {
        self.records
            .values()
            .map(|record| if let Record::Done(_, answer) = record { charge(answer) } else { 0 })
            .sum()
    }
}

impl<W> Record<W> {
    fn into_waiters(self) -> Vec<W> {
        match self {
            Record::Running(waiters) => waiters,
            Record::Done(..) => Vec::new(),
        }
    }
}

fn charge(answer: &StoredAnswer) -> usize {
    answer.sidecars.iter().fold(128 + answer.body.len(), |sum, sidecar| sum + sidecar.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(client_id: &str, seq_no: i64, first_incomplete_seq_no: i64) -> CallKey<'_> {
        CallKey { client_id, seq_no, first_incomplete_seq_no }
    }

    fn answer(text: &str) -> StoredAnswer {
        StoredAnswer { body: Bytes::copy_from_slice(text.as_bytes()), sidecars: Vec::new() }
    }

    fn tracker() -> (ResultTracker<u32>, Instant) {
        (ResultTracker::new(Limits::default()), Instant::now())
    }

    #[test]
    fn a_second_attempt_gets_the_first_answer() {
        let (mut tracker, now) = tracker();
        assert_eq!(tracker.start(key("c", 1, 1), 10, now), Start::Run(10));
        assert_eq!(tracker.start(key("c", 1, 1), 11, now), Start::Attached);
        assert_eq!(tracker.complete("c", 1, answer("ok"), now), [11]);
        assert_eq!(tracker.start(key("c", 1, 1), 12, now), Start::Replay(12, answer("ok")));
        assert_eq!(tracker.start(key("other", 1, 1), 13, now), Start::Run(13));
    }

    #[test]
    fn a_failed_call_runs_anew() {
        let (mut tracker, now) = tracker();
        tracker.start(key("c", 1, 1), 10, now);
        tracker.start(key("c", 1, 1), 11, now);
        assert_eq!(tracker.forget("c", 1), [11]);
        assert_eq!(tracker.start(key("c", 1, 1), 12, now), Start::Run(12));
    }

    #[test]
    fn the_first_call_of_a_client_fixes_what_is_stale() {
        let (mut tracker, now) = tracker();
        assert_eq!(tracker.start(key("c", 5, 5), 1, now), Start::Run(1));
        assert_eq!(tracker.start(key("c", 4, 4), 2, now), Start::Stale(2));
        assert_eq!(tracker.start(key("d", 0, -1), 3, now), Start::Run(3));
    }

    #[test]
    fn answers_nobody_waits_for_are_dropped_up_to_the_first_running_call() {
        let (mut tracker, now) = tracker();
        for seq_no in 1..=3 {
            tracker.start(key("c", seq_no, 1), 0, now);
        }
        tracker.complete("c", 1, answer("1"), now);
        tracker.complete("c", 3, answer("3"), now);
        assert_eq!(tracker.start(key("c", 4, 4), 0, now), Start::Run(0));
        assert_eq!(tracker.start(key("c", 1, 1), 9, now), Start::Stale(9));
        assert_eq!(
            tracker.start(key("c", 3, 1), 9, now),
            Start::Replay(9, answer("3")),
            "behind the running 2"
        );
    }

    #[test]
    fn old_answers_and_silent_clients_are_forgotten() {
        let (mut tracker, start) = tracker();
        tracker.start(key("c", 1, 1), 0, start);
        tracker.complete("c", 1, answer("1"), start);
        let later = start + Duration::from_secs(601);
        assert_eq!(tracker.start(key("c", 1, 1), 7, later), Start::Stale(7));
        assert_eq!(tracker.bytes(), 0);
        tracker.gc(later + Duration::from_secs(3601));
        assert_eq!(tracker.clients(), 0);
    }

    #[test]
    fn a_running_call_outlives_every_ttl() {
        let (mut tracker, start) = tracker();
        tracker.start(key("c", 1, 1), 0, start);
        tracker.gc(start + Duration::from_secs(100_000));
        assert_eq!(tracker.start(key("c", 1, 1), 1, start + Duration::from_secs(100_001)), Start::Attached);
    }

    #[test]
    fn memory_stays_below_the_limit_and_nothing_runs_twice() {
        let limits = Limits { bytes: 10_000, clients: 50, ..Limits::default() };
        let (mut tracker, now) = (ResultTracker::new(limits), Instant::now());
        for seq_no in 0..1000 {
            assert_eq!(tracker.start(key("c", seq_no, 0), 0, now), Start::Run(0));
            tracker.complete("c", seq_no, answer(&"x".repeat(100)), now);
            assert!(tracker.bytes() <= 10_000);
        }
        assert_eq!(tracker.start(key("c", 0, 0), 1, now), Start::Stale(1));
        assert!(matches!(tracker.start(key("c", 999, 0), 1, now), Start::Replay(1, _)));
        for client in 0..1000 {
            let later = now + Duration::from_secs(client * 20);
            tracker.start(key(&client.to_string(), 0, 0), 0, later);
            tracker.complete(&client.to_string(), 0, answer(""), later);
            assert!(tracker.clients() <= 50);
        }
        assert!(tracker.completed.len() <= 1100);
    }

    #[test]
    fn strangers_cannot_push_a_client_out_whose_retry_may_still_come() {
        let limits = Limits { clients: 50, ..Limits::default() };
        let (mut tracker, now) = (ResultTracker::new(limits), Instant::now());
        tracker.start(key("real", 7, 7), 0, now);
        tracker.complete("real", 7, answer("ok"), now);
        let mut busy = 0;
        for stranger in 0..1000 {
            match tracker.start(key(&format!("stranger {stranger}"), 0, 0), stranger, now) {
                Start::Run(_) => drop(tracker.complete(&format!("stranger {stranger}"), 0, answer(""), now)),
                other => {
                    assert_eq!(other, Start::Busy(stranger));
                    busy += 1;
                }
            }
        }
        assert_eq!((busy, tracker.clients()), (951, 50));
        assert_eq!(tracker.start(key("real", 7, 7), 1, now), Start::Replay(1, answer("ok")));
        assert_eq!(tracker.start(key("real", 8, 7), 1, now), Start::Run(1), "who is known is served");
        let later = now + Duration::from_secs(600);
        assert_eq!(tracker.start(key("new", 0, 0), 1, later), Start::Run(1), "room comes back");
    }

    #[test]
    fn only_so_many_attempts_wait_for_one_call() {
        let limits = Limits { waiters: 2, ..Limits::default() };
        let (mut tracker, now) = (ResultTracker::new(limits), Instant::now());
        assert_eq!(tracker.start(key("c", 1, 1), 0, now), Start::Run(0));
        for attempt in 1..=2 {
            assert_eq!(tracker.start(key("c", 1, 1), attempt, now), Start::Attached);
        }
        assert_eq!(tracker.start(key("c", 1, 1), 3, now), Start::Busy(3));
        assert_eq!(tracker.complete("c", 1, answer("ok"), now), [1, 2]);
        assert_eq!(tracker.start(key("c", 1, 1), 4, now), Start::Replay(4, answer("ok")));
    }

    proptest! {
        #[test]
        fn no_call_runs_to_success_twice(
            steps in prop::collection::vec((0_u8..4, 0_usize..2, 0_i64..6, 0_i64..6, 0_u64..400), 0..200),
            bytes in 100_usize..2000,
        ) {
            let names = ["a", "b"];
            let limits = Limits { bytes, ..Limits::default() };
            let mut tracker = ResultTracker::new(limits);
            let mut now = Instant::now();
            let mut succeeded = std::collections::BTreeMap::new();
            let mut running = std::collections::BTreeSet::new();
            let mut attached = 0_usize;
            for (i, (kind, client, seq_no, first, pause)) in steps.into_iter().enumerate() {
                let id = (client, seq_no);
                match kind {
                    0 | 1 => match tracker.start(key(names[client], seq_no, first.min(seq_no)), i, now) {
                        Start::Run(_) => {
                            prop_assert!(!succeeded.contains_key(&id));
                            prop_assert!(running.insert(id));
                        }
                        Start::Replay(_, got) => prop_assert_eq!(&got, &succeeded[&id]),
                        Start::Attached => {
                            prop_assert!(running.contains(&id));
                            attached += 1;
                        }
                        Start::Stale(_) | Start::Busy(_) => {}
                    },
                    2 if running.remove(&id) => {
                        let got = answer(&i.to_string());
                        attached -= tracker.complete(names[client], seq_no, got.clone(), now).len();
                        succeeded.insert(id, got);
                    }
                    3 if running.remove(&id) => attached -= tracker.forget(names[client], seq_no).len(),
                    _ => now += Duration::from_secs(pause / 10),
                }
                prop_assert!(tracker.bytes() <= bytes);
            }
            for (client, seq_no) in running {
                attached -= tracker.forget(names[client], seq_no).len();
            }
            prop_assert_eq!(attached, 0, "every waiter comes back");
        }
    }
}
