//! Sees whether a command talks over the tablet servers' unix sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Watches `/proc/net/unix` while it lives.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches for connections to sockets of these names, as `@kudu-<uuid>`.
    pub(super) fn start(names: Vec<String>) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let most = Arc::new(AtomicUsize::new(0));
        let (stopped, seen) = (stop.clone(), most.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let text = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
                seen.fetch_max(connections(&text, &names), Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        Watch { stop, most, thread: Some(thread) }
    }

    /// Ends the watch; the most connections that were open at a time.
    pub(super) fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has shown nothing, which the count of 0 says.
            let _ = thread.join();
        }
        self.most.load(Ordering::Relaxed)
    }
}

/// Connected sockets (state 03) on the accepting side, which carry the listener's name.
fn connections(table: &str, names: &[String]) -> usize {
    table
        .lines()
        .filter(|line| {
            let mut fields = line.split_whitespace().skip(5);
            let state = fields.next();
            let name = fields.nth(1);
            state == Some("03") && name.is_some_and(|name| names.iter().any(|known| known == name))
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    #[test]
    fn a_connection_to_an_abstract_socket_is_seen_and_a_listener_is_not() {
        let name = format!("kudu-watch-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let names = vec![format!("@{name}")];
        let table = || std::fs::read_to_string("/proc/net/unix").unwrap();
        assert_eq!(connections(&table(), &names), 0);

        let client = UnixStream::connect_addr(&address).unwrap();
        let server = listener.accept().unwrap();
        let watch = Watch::start(names.clone());
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(watch.finish(), 1);
        drop((client, server));
    }
}
