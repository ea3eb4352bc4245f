//! Ctrl-C and SIGTERM as a flag that a command looks at, or waits for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

/// Set by SIGINT (Ctrl-C) or SIGTERM once installed; a second signal ends the process at once with exit code 1.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches the two signals for the rest of the process.
    pub fn install() -> io::Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order counts: the shutdown handler has to see the flag as the signal before left it.
            signal_hook::flag::register_conditional_shutdown(signal, 1, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Interrupt(flag))
    }

    /// Whether one of the signals has come.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ends soon after one of the signals has come. Nothing is lost when it is dropped.
    pub async fn wait(&self) {
        while !self.is_set() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A command that ended because somebody wanted it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

const LOOK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_sets_the_flag_and_ends_nothing() {
        let interrupt = Interrupt::install().unwrap();
        assert!(!interrupt.is_set());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(interrupt.is_set());
    }
}
