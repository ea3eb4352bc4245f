//! The timeouts of a pool's connections, on a thread of their own: a reactor whose wait had one would have the system set a timer
//! and take it back each time it goes to sleep, also for a call that comes alone. Timeouts are seldom set anew, and almost never
//! reached.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// Dropping it ends the thread; timers must not be polled after that.
#[derive(Debug)]
pub(crate) struct Timers {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Timers {
    pub(crate) fn start(name: String) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let body = move || {
            // Told to stop or forgotten: both end it.
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new().name(name).spawn(body)?;
        Ok(Self { runtime: handle, stop: Some(stop), thread: Some(thread) })
    }

    /// A timer that may be polled by tasks of any runtime.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> Sleep {
        let _inside = self.runtime.enter();
        tokio::time::sleep_until(deadline)
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}
