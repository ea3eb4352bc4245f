//! Slow and failing name servers cost as little as they can.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use net_addr::{CachingResolver, HostPort, ResolveError, Resolver, SystemResolver};

type Answers = dyn Fn(&str, usize) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Counts look-ups; the answer depends on the name and the number of earlier look-ups.
struct Scripted {
    asked: AtomicUsize,
    answers: Box<Answers>,
}

impl Scripted {
    fn new(answers: impl Fn(&str, usize) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { asked: AtomicUsize::new(0), answers: Box::new(answers) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolver for Scripted {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        (self.answers)(host, self.asked.fetch_add(1, Ordering::SeqCst))
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_name_is_looked_up_once_in_its_time_however_many_ask_at_once() {
    let inner = Scripted::new(|_, _| {
        std::thread::sleep(Duration::from_millis(100));
        Ok(vec![ip(1)])
    });
    let resolver = CachingResolver::new(inner.clone(), HOUR);
    let start = Barrier::new(50);
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                start.wait();
                assert_eq!(resolver.resolve("ts").unwrap(), [ip(1)]);
            });
        }
    });
    for _ in 0..50 {
        assert_eq!(resolver.resolve("ts").unwrap(), [ip(1)]);
    }
    assert_eq!(inner.asked(), 1);
    assert_eq!(resolver.peek("ts").unwrap().unwrap(), [ip(1)]);
    assert!(resolver.peek("other").is_none());
}

#[test]
fn a_slow_name_does_not_hold_up_another() {
    let gate = Arc::new(Barrier::new(2));
    let inner_gate = gate.clone();
    let resolver = CachingResolver::new(
        Scripted::new(move |host, _| {
            if host == "slow" {
                inner_gate.wait();
            }
            Ok(vec![ip(1)])
        }),
        HOUR,
    );
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| resolver.resolve("slow"));
        // The slow look-up ends only after this one did: a lock held over it would hang the test.
        assert_eq!(resolver.resolve("fast").unwrap(), [ip(1)]);
        gate.wait();
        assert_eq!(slow.join().unwrap().unwrap(), [ip(1)]);
    });
}

#[test]
fn a_server_that_moved_is_found_after_its_name_was_invalidated() {
    let inner = Scripted::new(|_, earlier| Ok(vec![ip(1 + earlier as u8)]));
    let resolver = CachingResolver::new(inner.clone(), HOUR);
    let server = HostPort::new("ts.local", 7050);
    assert_eq!(server.resolve(&resolver).unwrap(), ["127.0.0.1:7050".parse().unwrap()]);
    assert_eq!(server.resolve(&resolver).unwrap(), ["127.0.0.1:7050".parse().unwrap()]);
    resolver.invalidate("ts.local");
    assert_eq!(server.resolve(&resolver).unwrap(), ["127.0.0.2:7050".parse().unwrap()]);
    assert_eq!(inner.asked(), 2);
}

#[test]
fn an_answer_older_than_its_time_is_asked_for_again() {
    let inner = Scripted::new(|_, earlier| Ok(vec![ip(1 + earlier as u8)]));
    let resolver = CachingResolver::new(inner.clone(), Duration::from_millis(20));
    assert_eq!(resolver.resolve("ts").unwrap(), [ip(1)]);
    std::thread::sleep(Duration::from_millis(30));
    assert!(resolver.peek("ts").is_none());
    assert_eq!(resolver.resolve("ts").unwrap(), [ip(2)]);
}

#[test]
fn an_answer_that_was_under_way_when_its_name_was_invalidated_is_not_kept() {
    let (entered, leave) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (inner_entered, inner_leave) = (entered.clone(), leave.clone());
    let resolver = CachingResolver::new(
        Scripted::new(move |_, earlier| {
            if earlier == 0 {
                inner_entered.wait();
                inner_leave.wait();
            }
            Ok(vec![ip(1 + earlier as u8)])
        }),
        HOUR,
    );
    std::thread::scope(|scope| {
        let old = scope.spawn(|| resolver.resolve("ts"));
        entered.wait();
        resolver.invalidate("ts");
        assert_eq!(resolver.resolve("ts").unwrap(), [ip(2)]);
        leave.wait();
        assert_eq!(old.join().unwrap().unwrap(), [ip(1)]);
    });
    assert_eq!(resolver.resolve("ts").unwrap(), [ip(2)]);
}

#[test]
fn a_failure_names_the_host_keeps_its_kind_and_is_forgotten_within_seconds() {
    let inner = Scripted::new(|_, earlier| match earlier {
        0 => Err(io::Error::new(io::ErrorKind::HostUnreachable, "name server is away")),
        _ => Ok(vec![ip(1)]),
    });
    let resolver = CachingResolver::new(inner.clone(), HOUR);
    for _ in 0..3 {
        let error = resolver.resolve("ts").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::HostUnreachable);
        assert_eq!(error.to_string(), "cannot resolve `ts`: name server is away");
        let inside = error.get_ref().and_then(|e| e.downcast_ref::<ResolveError>()).unwrap();
        assert!(inside.is_retriable());
    }
    assert_eq!(inner.asked(), 1);
    let failed = Instant::now();
    while resolver.resolve("ts").is_err() {
        assert!(
            failed.elapsed() < Duration::from_secs(120),
            "a failure is kept for a second, not for the hour of an address"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(inner.asked(), 2);
}

#[test]
fn those_who_wait_for_a_look_up_that_panics_get_an_error() {
    let (entered, leave) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (inner_entered, inner_leave) = (entered.clone(), leave.clone());
    let resolver = CachingResolver::new(
        Scripted::new(move |_, _| {
            inner_entered.wait();
            inner_leave.wait();
            panic!("a resolver of the user's that fails its own assertion");
        }),
        Duration::ZERO,
    );
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| resolver.resolve("ts"));
        entered.wait();
        let waiting = scope.spawn(|| resolver.resolve("ts"));
        std::thread::sleep(Duration::from_millis(50));
        leave.wait();
        assert!(asking.join().is_err());
        assert!(waiting.join().unwrap().unwrap_err().to_string().contains("panicked"));
    });
}

#[test]
fn a_slow_look_up_is_logged_with_its_time() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer({
        let log = log.clone();
        move || log.clone()
    });
    tracing::subscriber::with_default(subscriber.finish(), || {
        let resolver = CachingResolver::new(
            Scripted::new(|host, _| {
                std::thread::sleep(Duration::from_millis(if host == "slow.example" { 250 } else { 0 }));
                Ok(vec![ip(1)])
            }),
            HOUR,
        );
        resolver.resolve("slow.example").unwrap();
        resolver.resolve("fast.example").unwrap();
    });
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("WARN") && text.contains("slow.example") && text.contains("took_ms=2"), "{text}");
    assert!(!text.contains("fast.example"), "{text}");
}

#[test]
fn the_system_knows_localhost() {
    let ips = CachingResolver::new(SystemResolver, HOUR).resolve("localhost").unwrap();
    assert!(!ips.is_empty() && ips.iter().all(IpAddr::is_loopback), "{ips:?}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
