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
use rpc_core::machine::ClientOptions;
use rpc_core::{CallBuilder, CallError, Messenger, Method, Proxy, Response, blocking};

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
    /// Starts the callers: futures on their threads' runtimes.
    pub(in crate::bench) fn start<W: Work>(shape: &Shape, work: Arc<W>) -> Result<Load> {
        Self::start_threads(shape, work, run)
    }

    /// Starts threads that block, each with a connection and a call; they look for an answer for up to `busy_poll` before
    /// they sleep.
    pub(in crate::bench) fn start_blocking<W: Work>(
        shape: &Shape,
        work: Arc<W>,
        busy_poll: Duration,
    ) -> Result<Load> {
        Self::start_threads(shape, work, move |thread, shape, shared, work| {
            let proxy = blocking::Proxy::with_options(
                shape.remote.clone(),
                "bench",
                ClientOptions::default(),
                busy_poll,
            );
            let mut caller = Caller::new(thread);
            while caller.goes_on(shared) {
                let response =
                    caller.prepare(proxy.call::<W::Method>(&caller.request(&**work)), &**work).send();
                caller.note(response, &**work, shared);
            }
            Ok(())
        })
    }

    fn start_threads<W: Work>(
        shape: &Shape,
        work: Arc<W>,
        run: impl Fn(usize, &Shape, &Arc<Shared>, &Arc<W>) -> Result<()> + Clone + Send + 'static,
    ) -> Result<Load> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            counters: (0..shape.threads).map(|_| Counter::default()).collect(),
            latencies: Mutex::new(Histogram::new_with_bounds(1, 60_000_000_000, 3)?),
            wrong: Mutex::new(None),
        });
        let mut load = Load { threads: Vec::new(), shared };
        for thread in 0..shape.threads {
            let (shape, shared, work) = (shape.clone(), Arc::clone(&load.shared), Arc::clone(&work));
            let run = run.clone();
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
        let tasks: Vec<_> = callers.into_iter().map(tokio::spawn).collect();
        for task in tasks {
            task.await.context("a caller panicked")?;
        }
        Ok(())
    })
}

/// One caller: the next call as soon as the last is answered.
async fn call<W: Work>(proxy: Proxy, work: Arc<W>, shared: Arc<Shared>, thread: usize) {
    let mut caller = Caller::new(thread);
    while caller.goes_on(&shared) {
        let call = caller.prepare(proxy.call::<W::Method>(&caller.request(&*work)), &*work);
        caller.note(call.send().await, &*work, &shared);
    }
}

/// What a caller keeps from call to call.
struct Caller {
    thread: usize,
    number: u32,
    started: Option<Instant>,
    failed: bool,
}

impl Caller {
    fn new(thread: usize) -> Self {
        Self { thread, number: 0, started: None, failed: false }
    }

    fn goes_on(&mut self, shared: &Shared) -> bool {
        self.started = self.number.is_multiple_of(SAMPLED).then(Instant::now);
        !self.failed && !shared.stop.load(Ordering::Relaxed)
    }

    fn request<W: Work>(&self, work: &W) -> <W::Method as Method>::Request {
        work.request(self.number)
    }

    fn prepare<W: Work, P>(&self, call: CallBuilder<W::Method, P>, work: &W) -> CallBuilder<W::Method, P> {
        let sidecars = work.sidecars();
        let call = call.timeout(TIMEOUT);
        if sidecars.is_empty() { call } else { call.sidecars(sidecars) }
    }

    fn note<W: Work>(
        &mut self,
        outcome: Result<Response<<W::Method as Method>::Response>, CallError>,
        work: &W,
        shared: &Shared,
    ) {
        let wrong = match outcome {
            Ok(response) if work.check(self.number, &response.message) => None,
            Ok(_) => Some("a wrong answer".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            shared.wrong.lock().get_or_insert(wrong);
            self.failed = true;
            return;
        }
        if let Some(started) = self.started {
            let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            shared.latencies.lock().saturating_record(nanos);
        }
        if let Some(counter) = shared.counters.get(self.thread) {
            // Only this thread writes it.
            counter.0.store(counter.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        self.number = self.number.wrapping_add(1);
    }
}

/// Of so many calls of a caller one has its time taken; the clock is not free.
const SAMPLED: u32 = 16;

/// As in rpc-bench.
const TIMEOUT: Duration = Duration::from_secs(10);
