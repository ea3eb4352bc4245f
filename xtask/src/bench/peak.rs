//! The most memory that a process has while something runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use xtask::measure;

/// Looks at a process ten times a second.
#[derive(Debug)]
pub(super) struct Peak {
    is_over: Arc<AtomicBool>,
    watcher: JoinHandle<std::io::Result<u64>>,
}

impl Peak {
    pub(super) fn watch(pid: u32) -> Peak {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let watcher = std::thread::spawn(move || {
            let mut most = 0;
            loop {
                // The last look comes after the end, so that what is there then counts.
                let last = over.load(Ordering::Acquire);
                most = most.max(measure::resident_bytes(pid)?);
                if last {
                    return Ok(most);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Peak { is_over, watcher }
    }

    /// Bytes of RssAnon and RssShmem.
    pub(super) fn stop(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Release);
        let most = self.watcher.join().map_err(|_| anyhow!("the watcher of memory broke"))?;
        Ok(most?)
    }
}
