//! Of many that miss at once, one asks.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use meta_cache::{Answer, Asking, Lookup, MetaCache, Options, Reach, TabletAnswer, WaitOutcome, Waiting};

#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn ask(cache: &MetaCache, key: &[u8], now: Instant) -> Asking {
    match cache.lookup("t", key, Reach::Point, now) {
        Lookup::Ask(asking) => asking,
        other => panic!("expected to ask, got {other:?}"),
    }
}

fn wait(cache: &MetaCache, key: &[u8], now: Instant) -> Waiting {
    match cache.lookup("t", key, Reach::Point, now) {
        Lookup::Wait(waiting) => waiting,
        other => panic!("expected to wait, got {other:?}"),
    }
}

fn one_tablet(start: &[u8], end: &[u8]) -> Answer {
    let tablet = TabletAnswer { id: "a".into(), start: start.into(), end: end.into(), replicas: vec![] };
    Answer { ttl: Duration::from_secs(60), servers: vec![], tablets: vec![tablet] }
}

#[test]
fn the_second_to_miss_waits_and_then_hits() {
    let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
    let asking = ask(&cache, b"k", now);
    let mut waiting = pin!(wait(&cache, b"k", now));
    let counter = Arc::new(CountingWaker::default());
    let waker = Waker::from(counter.clone());
    let mut context = Context::from_waker(&waker);
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    cache.insert(asking, one_tablet(b"", b""), now).expect("a good answer");
    assert_eq!(counter.0.load(Ordering::SeqCst), 1, "woken once, though polled twice");
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(WaitOutcome::Answered));
    assert!(matches!(cache.lookup("t", b"k", Reach::Point, now), Lookup::Hit(_)));
}

#[test]
fn a_cancelled_question_wakes_the_waiting_and_lets_one_of_them_ask() {
    let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
    let asking = ask(&cache, b"k", now);
    let mut waiting = pin!(wait(&cache, b"k", now));
    let counter = Arc::new(CountingWaker::default());
    let waker = Waker::from(counter.clone());
    let mut context = Context::from_waker(&waker);
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    drop(asking);
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(WaitOutcome::GivenUp));
    drop(ask(&cache, b"k", now));
}

#[test]
fn a_dropped_waiting_is_not_woken() {
    let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
    let asking = ask(&cache, b"k", now);
    let counter = Arc::new(CountingWaker::default());
    {
        let mut waiting = pin!(wait(&cache, b"k", now));
        let waker = Waker::from(counter.clone());
        assert_eq!(waiting.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    }
    drop(asking);
    assert_eq!(counter.0.load(Ordering::SeqCst), 0);
}

#[test]
fn a_key_below_the_one_asked_for_needs_its_own_question() {
    let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
    let first = ask(&cache, b"m", now);
    let below = ask(&cache, b"c", now);
    wait(&cache, b"z", now);
    wait(&cache, b"d", now);
    assert_eq!(cache.stats().snapshot().asks, 2);
    drop((first, below));
}

#[test]
fn a_question_does_not_stand_for_keys_behind_a_known_tablet() {
    let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
    let mut answer = one_tablet(b"m", b"p");
    let more = (0..9u8).map(|n| TabletAnswer {
        id: n.to_string(),
        start: vec![b'q' + n, 0],
        end: vec![b'q' + n, 1],
        replicas: vec![],
    });
    answer.tablets.extend(more);
    cache.insert(ask(&cache, b"m", now), answer, now).expect("a good answer");
    let low = ask(&cache, b"c", now);
    let high = ask(&cache, b"zz", now);
    assert_eq!(cache.stats().snapshot().asks, 3);
    drop((low, high));
}

#[test]
fn a_point_question_does_not_stand_for_a_range_question() {
    let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
    let point = ask(&cache, b"k", now);
    assert!(matches!(cache.lookup("t", b"k", Reach::Range, now), Lookup::Ask(_)));
    drop(point);
}

#[test]
fn many_threads_that_miss_at_once_ask_once() {
    let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
    let asks = AtomicUsize::new(0);
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                loop {
                    match cache.lookup("t", b"k", Reach::Point, now) {
                        Lookup::Ask(asking) => {
                            asks.fetch_add(1, Ordering::SeqCst);
                            std::thread::sleep(Duration::from_millis(20));
                            cache.insert(asking, one_tablet(b"", b""), now).expect("a good answer");
                        }
                        Lookup::Wait(_) => std::thread::yield_now(),
                        Lookup::Hit(_) => break,
                        Lookup::NonCovered { .. } => panic!("the tablet covers all keys"),
                    }
                }
            });
        }
    });
    assert_eq!(asks.load(Ordering::SeqCst), 1);
}
