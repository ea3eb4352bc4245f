use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// File descriptors that a server has sent over one connection, until somebody takes them.
///
/// What each is for is between client and server: the system says only that it came no later than the answer that it was
/// attached to.
#[derive(Debug, Default)]
pub struct Descriptors {
    received: Mutex<Vec<OwnedFd>>,
    came: AtomicBool,
}

impl Descriptors {
    /// Takes all that have come since the last time, in their order.
    pub fn take(&self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.received.lock())
    }

    /// Adds one; beyond [`MOST`] that nobody has taken it is closed: a peer must not use up what this process may open.
    pub(crate) fn add(&self, descriptor: OwnedFd) {
        let mut received = self.received.lock();
        if received.len() < MOST {
            received.push(descriptor);
            self.came.store(true, Ordering::Release);
        }
    }

    /// Has any ever come?
    pub fn came(&self) -> bool {
        self.came.load(Ordering::Acquire)
    }
}

/// More than the answers of a few scans bring.
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_closed_and_what_was_taken_makes_room() {
        let descriptors = Descriptors::default();
        assert!(!descriptors.came());
        let null = std::fs::File::open("/dev/null").unwrap();
        for _ in 0..MOST + 10 {
            // Duplicates of one descriptor would do as well, were they not counted by the system just the same.
            let Ok(copy) = null.try_clone() else { break };
            descriptors.add(copy.into());
        }
        let taken = descriptors.take();
        assert!(!taken.is_empty() && taken.len() <= MOST, "{}", taken.len());
        assert!(descriptors.came() && descriptors.take().is_empty());
        descriptors.add(null.into());
        assert_eq!(descriptors.take().len(), 1);
    }
}
