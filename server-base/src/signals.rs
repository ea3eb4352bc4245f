//! SIGTERM and Ctrl-C: the first asks the server to stop, a second Ctrl-C ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// What asked the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// SIGTERM.
    Terminate,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// [`Closer::close`] was called.
    Closed,
}

/// Catches the signals from its creation on.
#[derive(Debug)]
pub struct StopSignals {
    signals: Signals,
}

/// Ends a wait from another thread.
#[derive(Clone, Debug)]
pub struct Closer(Handle);

impl StopSignals {
    /// Catches SIGTERM and SIGINT. From the second SIGINT on the process exits with status 130 at once, waited for or not.
    ///
    /// Fails when the system refuses a handler or has no more file descriptors.
    pub fn install() -> io::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // The order counts: the first SIGINT finds the flag down and raises it.
        signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupted))?;
        signal_hook::flag::register(SIGINT, interrupted)?;
        Ok(Self { signals: Signals::new([SIGTERM, SIGINT])? })
    }

    /// Blocks the thread until a signal comes; one that came since [`install`](Self::install) counts.
    pub fn wait(&mut self) -> Stop {
        match self.signals.forever().next() {
            Some(SIGTERM) => Stop::Terminate,
            Some(_) => Stop::Interrupt,
            None => Stop::Closed,
        }
    }

    /// A handle that ends the wait.
    pub fn closer(&self) -> Closer {
        Closer(self.signals.handle())
    }
}

impl Closer {
    /// Ends a wait that runs and all later ones with [`Stop::Closed`].
    pub fn close(&self) {
        self.0.close();
    }
}
