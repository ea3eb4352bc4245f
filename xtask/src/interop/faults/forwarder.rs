//! Carries TCP connections from one address to another, as NAT or a container's port does.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Listens on a free port of 127.0.0.3 until the process ends.
pub(super) struct Forwarder {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    target: OnceLock<SocketAddr>,
    bytes: AtomicU64,
}

impl Forwarder {
    pub(super) fn start() -> io::Result<Forwarder> {
        let listener = TcpListener::bind("127.0.0.3:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = accepting.clone();
                std::thread::spawn(move || shared.carry(&client));
            }
        });
        Ok(Forwarder { address, shared })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where connections go; those that come before are closed.
    pub(super) fn connect_to(&self, target: SocketAddr) {
        let _ = self.shared.target.set(target);
    }

    /// Bytes carried so far, both ways.
    pub(super) fn carried(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn carry(&self, client: &TcpStream) {
        let Some(server) = self.target.get().and_then(|target| TcpStream::connect(target).ok()) else {
            return;
        };
        std::thread::scope(|scope| {
            scope.spawn(|| self.copy(client, &server));
            self.copy(&server, client);
        });
    }

    /// Copies until one side closes, then closes both: a connection cut in half is of no use to anyone.
    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = match io::Read::read(&mut from, &mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            if io::Write::write_all(&mut to, &buffer[..count]).is_err() {
                break;
            }
            self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn bytes_go_both_ways_and_the_end_too() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let forwarder = Forwarder::start().unwrap();
        forwarder.connect_to(server.local_addr().unwrap());
        let mut client = TcpStream::connect(forwarder.address()).unwrap();
        client.write_all(b"ping").unwrap();
        let (mut accepted, _) = server.accept().unwrap();
        let mut buffer = [0; 4];
        accepted.read_exact(&mut buffer).unwrap();
        accepted.write_all(&buffer).unwrap();
        drop(accepted);
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        assert_eq!(back, b"ping");
        assert_eq!(forwarder.carried(), 8);
    }
}
