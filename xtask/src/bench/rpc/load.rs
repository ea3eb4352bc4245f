//! The generator: threads that keep calls in flight, through the public client API, one future per call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use hdrhistogram::Histogram;
use net_addr::SockAddr;
use parking_lot::Mutex;
use rpc_core::{Messenger, Method, Proxy};

/// What is called, and how the answers are checked.
pub(in crate::bench) trait Work: Send + Sync + 'static {
    type Method: Method;
    /// The `number`-th request of a caller.
    fn request(&self, number: u32) -> <Self::Method as Method>::Request;
    /// Blocks to go with each request.
    fn sidecars(&self) -> Vec<Bytes> {
        Vec::new()
    }
    /// Is this the right answer?
    fn check(&self, number: u32, response: &<Self::Method as Method>::Response) -> bool;
}

/// How much of it.
#[derive(Debug, Clone)]
pub(in crate::bench) struct Shape {
    pub(in crate::bench) remote: SockAddr,
    /// OS threads, each with a messenger and a runtime.
    pub(in crate::bench) threads: usize,
    /// Connections, dealt to the threads in turn.
    pub(in crate::bench) connections: usize,
    /// Calls in flight, dealt to the connections in turn.
    pub(in crate::bench) calls: usize,
}

/// Callers at work.
pub(in crate::bench) struct Load {
    threads: Vec<JoinHandle<Result<()>>>,
    shared: Arc<Shared>,
}

struct Shared {
    stop: AtomicBool,
    counters: Vec<Counter>,
    latencies: Mutex<Histogram<u64>>,
    wrong: Mutex<Option<String>>,
}

/// One a thread, each in cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

impl Load {
    /// Starts the callers.
    pub(in crate::bench) fn start<W: Work>(shape: &Shape, work: Arc<W>) -> Result<Load> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            counters: (0..shape.threads).map(|_| Counter::default()).collect(),
            latencies: Mutex::new(Histogram::new_with_bounds(1, 60_000_000_000, 3)?),
            wrong: Mutex::new(None),
        });
        let mut load = Load { threads: Vec::new(), shared };
        for thread in 0..shape.threads {
            let (shape, shared, work) = (shape.clone(), Arc::clone(&load.shared), Arc::clone(&work));
            let body = move || run(thread, &shape, &shared, &work);
            let spawned = std::thread::Builder::new().name(format!("client-{thread}")).spawn(body);
            match spawned {
                Ok(handle) => load.threads.push(handle),
                Err(error) => {
                    let _ = load.stop();
                    return Err(error).context("no thread for a client");
                }
            }
        }
        Ok(load)
    }

    /// Calls answered so far.
    pub(in crate::bench) fn answered(&self) -> u64 {
        self.shared.counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum()
    }

    /// Sampled latencies since the last time, in nanoseconds.
    pub(in crate::bench) fn take_latencies(&self) -> Histogram<u64> {
        let mut latencies = self.shared.latencies.lock();
        let taken = latencies.clone();
        latencies.reset();
        taken
    }

    /// Ends the callers; an error if any call failed or was answered wrongly.
    pub(in crate::bench) fn stop(self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a client thread panicked"))??;
        }
        match self.shared.wrong.lock().take() {
            Some(wrong) => Err(anyhow!(wrong)),
            None => Ok(()),
        }
    }
}

fn run<W: Work>(thread: usize, shape: &Shape, shared: &Arc<Shared>, work: &Arc<W>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let messenger = Messenger::builder().user("bench").build();
    let mut callers = Vec::new();
    for connection in (thread..shape.connections).step_by(shape.threads) {
        let proxy = Proxy::with_plane(&messenger, shape.remote.clone(), "bench", &connection.to_string());
        let calls = (connection..shape.calls).step_by(shape.connections).count();
        for _ in 0..calls {
            callers.push(call(proxy.clone(), Arc::clone(work), Arc::clone(shared), thread));
        }
    }
    runtime.block_on(async {
        if callers.len() == 1 {
            // A caller that blocks: nothing between it and its runtime.
            for caller in callers {
                caller.await;
            }
            return Ok(());
        }
        let tasks: Vec<_> = callers.into_iter().map(tokio::spawn).collect();
        for task in tasks {
            task.await.context("a caller panicked")?;
        }
        Ok(())
    })
}

/// One caller: the next call as soon as the last is answered.
async fn call<W: Work>(proxy: Proxy, work: Arc<W>, shared: Arc<Shared>, thread: usize) {
    let Some(counter) = shared.counters.get(thread) else { return };
    let mut number = 0u32;
    while !shared.stop.load(Ordering::Relaxed) {
        let started = number.is_multiple_of(SAMPLED).then(Instant::now);
        let request = work.request(number);
        let mut call = proxy.call::<W::Method>(&request).timeout(TIMEOUT);
        let sidecars = work.sidecars();
        if !sidecars.is_empty() {
            call = call.sidecars(sidecars);
        }
        let wrong = match call.send().await {
            Ok(response) if work.check(number, &response.message) => None,
            Ok(_) => Some("a wrong answer".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            shared.wrong.lock().get_or_insert(wrong);
            return;
        }
        if let Some(started) = started {
            let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            shared.latencies.lock().saturating_record(nanos);
        }
        // Only this thread writes it.
        counter.0.store(counter.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        number = number.wrapping_add(1);
    }
}

/// Of so many calls of a caller one has its time taken; the clock is not free.
const SAMPLED: u32 = 16;

/// As in rpc-bench.
const TIMEOUT: Duration = Duration::from_secs(10);
