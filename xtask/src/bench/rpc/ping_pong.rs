//! The least that a call can cost here: two threads that pass a request and an answer of the calculator's sizes back and
//! forth over a blocking socket, and do nothing else.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Result, anyhow};

/// Pairs of threads at work.
pub(super) struct PingPong {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl PingPong {
    /// Starts so many pairs.
    pub(super) fn start(pairs: usize, unix: bool) -> Result<Self> {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut all = Self { threads: Vec::new(), stop, answered };
        for _ in 0..pairs {
            if unix {
                let (one, other) = UnixStream::pair()?;
                all.add(one, other);
            } else {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let one = TcpStream::connect(listener.local_addr()?)?;
                let (other, _) = listener.accept()?;
                one.set_nodelay(true)?;
                other.set_nodelay(true)?;
                all.add(one, other);
            }
        }
        Ok(all)
    }

    fn add<S: Read + Write + Send + 'static>(&mut self, mut one: S, mut other: S) {
        let (stop, answered) = (Arc::clone(&self.stop), Arc::clone(&self.answered));
        self.threads.push(std::thread::spawn(move || {
            let (request, mut answer) = ([1; REQUEST], [0; ANSWER]);
            while !stop.load(Ordering::Relaxed) {
                if one.write_all(&request).and_then(|()| one.read_exact(&mut answer)).is_err() {
                    return;
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
        self.threads.push(std::thread::spawn(move || {
            let (mut request, answer) = ([0; REQUEST], [2; ANSWER]);
            // Ends when the first thread has closed its end.
            while other.read_exact(&mut request).and_then(|()| other.write_all(&answer)).is_ok() {}
        }));
    }

    /// Round trips so far.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Ends all threads.
    pub(super) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a thread of the ping-pong panicked"))?;
        }
        Ok(())
    }
}

/// Bytes of a frame that asks for a sum, and of one that tells it.
const REQUEST: usize = 66;
const ANSWER: usize = 18;
