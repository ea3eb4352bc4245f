//! Sessions: writes on their way to the cluster.

mod batch;
mod errors;
mod flusher;
mod group;
mod lanes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, oneshot, watch};

pub use errors::{ApplyError, FlushError, RowErrors, RowFailure, WriteError};

use crate::client::Client;
use crate::op::Operation;
use errors::ErrorBuffer;

/// When a session sends what was applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushMode {
    /// Each [`apply`](Session::apply) sends its operation and tells how it went.
    #[default]
    AutoSync,
    /// In the background, when enough has gathered or some time has passed. Errors are kept for
    /// [`take_errors`](Session::take_errors).
    AutoBackground,
    /// At [`flush`](Session::flush) only. A full buffer refuses further operations.
    Manual,
}

/// Collects what a [`Session`] needs. Made by [`Client::session`].
#[derive(Clone, Debug)]
#[must_use = "call build()"]
pub struct SessionBuilder {
    client: Client,
    mode: FlushMode,
    timeout: Duration,
    buffer_bytes: usize,
    error_buffer_bytes: usize,
    flush_interval: Duration,
}

impl SessionBuilder {
    pub(crate) fn new(client: Client) -> SessionBuilder {
        SessionBuilder {
            client,
            mode: FlushMode::default(),
            timeout: Duration::from_secs(30),
            buffer_bytes: 7 << 20,
            error_buffer_bytes: 16 << 20,
            flush_interval: Duration::from_secs(1),
        }
    }

    /// When to send. Default: [`FlushMode::AutoSync`].
    pub fn mode(mut self, mode: FlushMode) -> SessionBuilder {
        self.mode = mode;
        self
    }

    /// How long one flush may take, retries included; what is not written then becomes row errors. Default: 30 s.
    pub fn timeout(mut self, timeout: Duration) -> SessionBuilder {
        self.timeout = timeout;
        self
    }

    /// How many bytes of operations may wait or be under way, up to 4 GiB. Default: 7 MiB.
    pub fn buffer_bytes(mut self, bytes: usize) -> SessionBuilder {
        self.buffer_bytes = bytes.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        self
    }

    /// How many bytes of failed operations are kept; further ones are only counted. Default: 16 MiB.
    pub fn error_buffer_bytes(mut self, bytes: usize) -> SessionBuilder {
        self.error_buffer_bytes = bytes;
        self
    }

    /// How long an operation waits at most before it is sent in the background. Default: 1 s; more than the clock can
    /// count = until a batch is full (1 MiB, or half of the buffer), or a flush.
    pub fn flush_interval(mut self, interval: Duration) -> SessionBuilder {
        self.flush_interval = interval;
        self
    }

    /// How many bytes make a batch that is worth sending.
    fn batch_bytes(&self) -> usize {
        BATCH_BYTES.min(self.buffer_bytes / 2)
    }

    /// Makes the session.
    ///
    /// # Panics
    /// Outside of a tokio runtime: the session's writes run on it.
    pub fn build(self) -> Session {
        let (done, completed) = watch::channel(0);
        let inner = Arc::new(Inner {
            space: Semaphore::new(self.buffer_bytes),
            state: Mutex::new(State {
                errors: ErrorBuffer::new(self.error_buffer_bytes),
                ..State::default()
            }),
            work: Notify::new(),
            is_full: AtomicBool::new(false),
            options: self,
        });
        tokio::spawn(flusher::run(inner.clone(), done));
        Session { handles: Arc::new(Handles(inner)), completed }
    }
}

/// A stream of writes. Cheap to clone and shared by threads: all clones are one session.
///
/// Operations are sent in batches, several at a time, but one after the other to each tablet, so two operations on the
/// same row take effect in the order in which they were applied. A flush covers all tables and tablets at once. Each
/// write carries a request id, so that what is tried twice happens once.
///
/// When the last clone is dropped a background session still sends what waits (errors are logged); a manual one gives it
/// up with a warning in the log.
#[derive(Clone)]
pub struct Session {
    handles: Arc<Handles>,
    completed: watch::Receiver<u64>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("options", &self.inner().options).finish_non_exhaustive()
    }
}

struct Handles(Arc<Inner>);

impl Drop for Handles {
    fn drop(&mut self) {
        self.0.state.lock().is_closing = true;
        self.0.work.notify_one();
    }
}

struct Inner {
    options: SessionBuilder,
    state: Mutex<State>,
    /// Wakes the flusher.
    work: Notify,
    /// A batch has gathered since the last look.
    is_full: AtomicBool,
    /// A permit a byte.
    space: Semaphore,
}

#[derive(Default)]
struct State {
    waiting: Vec<Pending>,
    waiting_bytes: usize,
    oldest: Option<Instant>,
    /// Operations ever applied, and ever handed to the flusher.
    applied: u64,
    taken: u64,
    /// Everything up to this many operations is to be sent now.
    flush_upto: u64,
    errors: ErrorBuffer,
    is_closing: bool,
}

struct Pending {
    operation: Operation,
    bytes: usize,
    reply: Option<oneshot::Sender<Result<(), RowFailure>>>,
}

impl Session {
    /// Takes an operation on its way.
    ///
    /// In [`FlushMode::AutoSync`] it is written when this returns. In [`FlushMode::AutoBackground`] this waits while the
    /// buffer is full.
    ///
    /// # Errors
    /// [`ApplyError`]: the operation was not taken, or in AutoSync mode not written. Errors of background writes do
    /// not come from here. Cancelled, the operation was not taken, except in AutoSync mode, where it may still be
    /// written.
    pub async fn apply(&self, operation: Operation) -> Result<(), ApplyError> {
        let inner = self.inner();
        // On a runtime of one thread the flusher would have no chance to send while there is room.
        if inner.is_full.load(Ordering::Relaxed) && inner.is_full.swap(false, Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        let (bytes, limit) = (operation.wire_size(), inner.options.buffer_bytes);
        if bytes > limit {
            let operation = Box::new(operation);
            return Err(ApplyError::RowTooLarge { operation, bytes, limit });
        }
        if !operation.row().is_key_set() {
            return Err(ApplyError::KeyNotSet { operation: Box::new(operation) });
        }
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        match inner.space.try_acquire_many(permits) {
            Ok(space) => space.forget(),
            Err(_) if inner.options.mode == FlushMode::Manual => {
                return Err(ApplyError::BufferFull { operation: Box::new(operation), bytes, limit });
            }
            Err(_) => {
                inner.request_flush();
                match inner.space.acquire_many(permits).await {
                    Ok(space) => space.forget(),
                    Err(_) => return Err(ApplyError::Stopped { operation: Box::new(operation) }),
                }
            }
        }
        if inner.options.mode != FlushMode::AutoSync {
            inner.push(Pending { operation, bytes, reply: None });
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let copy = operation.clone();
        inner.push(Pending { operation, bytes, reply: Some(reply) });
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(ApplyError::Row(Box::new(failure))),
            Err(_) => Err(ApplyError::Stopped { operation: Box::new(copy) }),
        }
    }

    /// Sends all that was applied before this call, and waits until it is written or has failed.
    ///
    /// # Errors
    /// [`FlushError::Rows`] if there are row errors that nobody took yet, older ones included; they stay for
    /// [`take_errors`](Self::take_errors). **Cancel safe**: the flush goes on in the background.
    pub async fn flush(&self) -> Result<(), FlushError> {
        let target = self.inner().request_flush();
        let mut completed = self.completed.clone();
        completed.wait_for(|completed| *completed >= target).await.map_err(|_| FlushError::Stopped)?;
        match self.inner().state.lock().errors.first() {
            None => Ok(()),
            Some((first, count)) => Err(FlushError::Rows { count, first: Box::new(first.clone()) }),
        }
    }

    /// The row errors so far, in the order in which the operations were applied within each flush, and forgets them.
    pub fn take_errors(&self) -> RowErrors {
        self.inner().state.lock().errors.take()
    }

    /// How many operations wait or are under way.
    pub fn pending_operations(&self) -> u64 {
        let applied = self.inner().state.lock().applied;
        applied.saturating_sub(*self.completed.borrow())
    }

    /// How many row errors nobody took yet, those included that were not kept.
    pub fn pending_errors(&self) -> u64 {
        self.inner().state.lock().errors.count()
    }

    fn inner(&self) -> &Inner {
        &self.handles.0
    }
}

impl Inner {
    /// Asks for all that was applied to be sent; gives its count.
    fn request_flush(&self) -> u64 {
        let target = {
            let mut state = self.state.lock();
            state.flush_upto = state.applied;
            state.applied
        };
        self.work.notify_one();
        target
    }

    fn push(&self, pending: Pending) {
        let mut state = self.state.lock();
        let is_sync = pending.reply.is_some();
        let was_empty = state.waiting.is_empty();
        let bytes = pending.bytes;
        state.waiting_bytes += bytes;
        state.waiting.push(pending);
        state.applied += 1;
        if was_empty {
            state.oldest = Some(Instant::now());
        }
        if is_sync {
            state.flush_upto = state.applied;
        }
        let limit = self.options.batch_bytes();
        let is_much = state.waiting_bytes >= limit;
        if is_much && state.waiting_bytes - bytes < limit && self.options.mode == FlushMode::AutoBackground {
            self.is_full.store(true, Ordering::Relaxed);
        }
        drop(state);
        if is_sync || was_empty || is_much {
            self.work.notify_one();
        }
    }
}

/// Large enough that what a request costs by itself does not count, small enough to stay in a cache.
const BATCH_BYTES: usize = 1 << 20;
