//! The generator, as that of `cargo xtask bench rpc`: threads that keep calls in flight, one connection and runtime each.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;

use crate::figures::Figures;
use crate::usage::Usage;

/// A client of one connection.
pub(crate) trait Adder: Clone + 'static {
    fn add(&self, x: u32, y: u32) -> impl Future<Output = Result<u32>>;
}

/// How much to call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) threads: usize,
    pub(crate) calls: usize,
    pub(crate) seconds: u32,
}

#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

struct Shared {
    stop: AtomicBool,
    counters: Vec<Counter>,
    latencies: Mutex<Histogram<u64>>,
    wrong: Mutex<Option<String>>,
}

/// Runs the load with clients that `connect` makes, one a thread and on that thread; each second is one sample.
pub(crate) fn run<A: Adder, F: Future<Output = Result<A>>>(
    shape: Shape,
    connect: impl Fn() -> F + Send + Sync + 'static,
) -> Result<Figures> {
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        counters: (0..shape.threads).map(|_| Counter::default()).collect(),
        latencies: Mutex::new(Histogram::new_with_bounds(1, 60_000_000_000, 3)?),
        wrong: Mutex::new(None),
    });
    let connect = Arc::new(connect);
    let threads: Vec<_> = (0..shape.threads)
        .map(|thread| {
            let (shared, connect) = (Arc::clone(&shared), Arc::clone(&connect));
            std::thread::spawn(move || client(thread, shape, &shared, &*connect))
        })
        .collect();
    std::thread::sleep(WARM_UP);
    lock(&shared.latencies).reset();
    let answered = || shared.counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum::<u64>();
    let (mut rate, mut user, mut system, mut total, mut switches) = (vec![], vec![], vec![], vec![], vec![]);
    let mut before = (Usage::now()?, answered());
    for _ in 0..shape.seconds.max(1) {
        std::thread::sleep(Duration::from_secs(1));
        let after = (Usage::now()?, answered());
        let used = after.0.since(&before.0);
        let calls = after.1 - before.1;
        rate.push(calls as f64 / used.seconds);
        let a_call = |figure: f64| figure / calls.max(1) as f64;
        user.push(a_call(used.user_us));
        system.push(a_call(used.system_us));
        total.push(a_call(used.user_us + used.system_us));
        switches.push(a_call(used.switches as f64));
        before = after;
    }
    let latencies = lock(&shared.latencies).clone();
    shared.stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| anyhow!("a client panicked"))??;
    }
    if let Some(wrong) = lock(&shared.wrong).take() {
        return Err(anyhow!(wrong));
    }
    let mut figures = Figures::default();
    figures.add("reqs_per_sec", "1/s", &rate);
    figures.add("user_cpu_us_per_req", "us", &user);
    figures.add("sys_cpu_us_per_req", "us", &system);
    figures.add("cpu_us_per_req", "us", &total);
    figures.add("ctx_switches_per_req", "", &switches);
    for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
        figures.add(name, "us", &[latencies.value_at_quantile(quantile) as f64 / 1e3]);
    }
    Ok(figures)
}

/// One thread: its runtime, its connection, its callers.
fn client<A: Adder, F: Future<Output = Result<A>>>(
    thread: usize,
    shape: Shape,
    shared: &Arc<Shared>,
    connect: &impl Fn() -> F,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let calls = (thread..shape.calls).step_by(shape.threads).count();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let adder = connect().await.context("no connection")?;
        if calls == 1 {
            caller(adder, Arc::clone(shared), thread).await;
            return Ok(());
        }
        let callers: Vec<_> = (0..calls)
            .map(|_| tokio::task::spawn_local(caller(adder.clone(), Arc::clone(shared), thread)))
            .collect();
        for caller in callers {
            caller.await.context("a caller panicked")?;
        }
        Ok(())
    })
}

/// The next call as soon as the last is answered.
async fn caller<A: Adder>(adder: A, shared: Arc<Shared>, thread: usize) {
    let Some(counter) = shared.counters.get(thread) else { return };
    let mut number = 0u32;
    while !shared.stop.load(Ordering::Relaxed) {
        let started = number.is_multiple_of(SAMPLED).then(Instant::now);
        let wrong = match adder.add(number, number).await {
            Ok(sum) if sum == number.wrapping_mul(2) => None,
            Ok(_) => Some("a wrong answer".to_owned()),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(wrong) = wrong {
            lock(&shared.wrong).get_or_insert(wrong);
            return;
        }
        if let Some(started) = started {
            let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            lock(&shared.latencies).saturating_record(nanos);
        }
        counter.0.store(counter.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        number = number.wrapping_add(1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const SAMPLED: u32 = 16;
const WARM_UP: Duration = Duration::from_millis(500);
