//! Answers of COMMIT_WAIT writes, kept until every clock that agrees with this machine's is past the write.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Instant;

use proto::kudu::tserver::WriteResponsePb;
use proto::methods::tablet_server_service::Write;
use rpc_server::Reply;

/// A thread that answers when it is time. Answers that still wait when it is dropped are not given: the calls fail.
#[derive(Debug)]
pub(crate) struct CommitWaits {
    waiting: Arc<AtomicUsize>,
    most: usize,
    sender: Option<mpsc::Sender<Box<Waiting>>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Waiting {
    until: Instant,
    response: WriteResponsePb,
    reply: Reply<Write>,
}

impl CommitWaits {
    /// Keeps at most `most` answers at a time.
    pub(crate) fn start(most: usize) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waiting);
        let run = move || answer_in_time(&receiver, &count);
        let thread = std::thread::Builder::new().name("commit-wait".to_owned()).spawn(run)?;
        Ok(Self { waiting, most, sender: Some(sender), thread: Some(thread) })
    }

    /// Answers at `until`. With too many of them about, the caller's thread waits: it takes no more calls then, and its queue
    /// says that the server is too busy.
    pub(crate) fn answer(&self, until: Instant, response: WriteResponsePb, reply: Reply<Write>) {
        let now = Instant::now();
        if until > now && self.waiting.fetch_add(1, Ordering::Relaxed) < self.most {
            if let Some(sender) = &self.sender {
                // Without its thread the call fails, as the dropped reply says.
                let _ = sender.send(Box::new(Waiting { until, response, reply }));
            }
            return;
        }
        if until > now {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            std::thread::sleep(until - now);
        }
        reply.respond(&response);
    }
}

impl Drop for CommitWaits {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // It only ends early by a panic, which its own message tells of.
            let _ = thread.join();
        }
    }
}

fn answer_in_time(receiver: &Receiver<Box<Waiting>>, count: &AtomicUsize) {
    // By time, then in the order they came.
    let mut waiting: BTreeMap<(Instant, u64), (WriteResponsePb, Reply<Write>)> = BTreeMap::new();
    let mut number = 0;
    loop {
        let received = match waiting.first_key_value() {
            Some(((until, _), _)) => receiver.recv_timeout(until.saturating_duration_since(Instant::now())),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(new) => {
                let Waiting { until, response, reply } = *new;
                number += 1;
                waiting.insert((until, number), (response, reply));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some((_, (response, reply))) = waiting.pop_first() {
                    count.fetch_sub(1, Ordering::Relaxed);
                    reply.respond(&response);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
