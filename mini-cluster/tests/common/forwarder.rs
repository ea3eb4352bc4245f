//! Carries TCP connections from one address to another, as NAT does; can stand still, and can go away.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

pub(crate) struct Forwarder {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    target: Mutex<Option<SocketAddr>>,
    paused: Mutex<bool>,
    resumed: Condvar,
    gone: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
    accepted: AtomicUsize,
    bytes: AtomicU64,
}

impl Forwarder {
    /// Listens at `address`; connections that come before [`Forwarder::connect_to`] are closed.
    pub(crate) fn start(address: &str) -> Forwarder {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.gone.load(Ordering::SeqCst) {
                    return;
                }
                let shared = accepting.clone();
                std::thread::spawn(move || shared.carry(client));
            }
        });
        Forwarder { address, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect_to(&self, target: &str) {
        *self.shared.target.lock().unwrap() = Some(target.parse().unwrap());
    }

    /// From now on nothing is read and nothing passes on, as if the server were stopped by SIGSTOP.
    pub(crate) fn pause(&self) {
        *self.shared.paused.lock().unwrap() = true;
    }

    pub(crate) fn resume(&self) {
        *self.shared.paused.lock().unwrap() = false;
        self.shared.resumed.notify_all();
    }

    /// Connections carried since the start.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Bytes carried since the start, both ways.
    pub(crate) fn carried(&self) -> u64 {
        self.shared.bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Forwarder {
    /// Closes all connections; nobody listens at the address any more.
    fn drop(&mut self) {
        self.shared.gone.store(true, Ordering::SeqCst);
        self.resume();
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn carry(&self, client: TcpStream) {
        let target = *self.target.lock().unwrap();
        let Some(server) = target.and_then(|target| TcpStream::connect(target).ok()) else { return };
        self.accepted.fetch_add(1, Ordering::SeqCst);
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            self.open.lock().unwrap().push(stream.try_clone().unwrap());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| self.copy(&client, &server));
            self.copy(&server, &client);
        });
    }

    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            let mut paused = self.paused.lock().unwrap();
            while *paused {
                paused = self.resumed.wait(paused).unwrap();
            }
            drop(paused);
            if count == 0 || to.write_all(&buffer[..count]).is_err() {
                break;
            }
            self.bytes.fetch_add(count as u64, Ordering::SeqCst);
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
