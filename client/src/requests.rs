//! Request ids: what makes a write that is tried twice happen once.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rpc_core::RequestId;

/// Gives out the sequence numbers of one client, and knows which are still open.
#[derive(Debug)]
pub(crate) struct Requests {
    client_id: String,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: i64,
    incomplete: BTreeSet<i64>,
}

impl Requests {
    pub(crate) fn new() -> Arc<Requests> {
        let client_id = format!("{:032x}", fastrand::u128(..));
        Arc::new(Requests { client_id, open: Mutex::default() })
    }

    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Opens a logical request. Its number counts as incomplete until it is dropped.
    pub(crate) fn begin(self: &Arc<Requests>) -> OpenRequest {
        let mut open = self.open.lock();
        let seq_no = open.next;
        open.next += 1;
        open.incomplete.insert(seq_no);
        OpenRequest { requests: self.clone(), seq_no, tries: 0 }
    }
}

/// One logical request over all its tries.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    requests: Arc<Requests>,
    seq_no: i64,
    tries: i64,
}

impl OpenRequest {
    /// The id for the next try.
    pub(crate) fn next_try(&mut self) -> RequestId {
        let attempt_no = self.tries;
        self.tries += 1;
        let first_incomplete = self.requests.open.lock().incomplete.first().copied();
        RequestId {
            client_id: self.requests.client_id.clone(),
            seq_no: self.seq_no,
            first_incomplete_seq_no: first_incomplete.unwrap_or(self.seq_no),
            attempt_no,
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.requests.open.lock().incomplete.remove(&self.seq_no);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_keep_the_number_and_open_requests_hold_the_low_mark() {
        let requests = Requests::new();
        assert_eq!(requests.client_id().len(), 32);
        let (mut first, mut second) = (requests.begin(), requests.begin());
        let id = second.next_try();
        assert_eq!((id.seq_no, id.first_incomplete_seq_no, id.attempt_no), (1, 0, 0));
        assert_eq!(first.next_try().attempt_no, 0);
        assert_eq!(first.next_try().attempt_no, 1);
        drop(first);
        let id = second.next_try();
        assert_eq!((id.seq_no, id.first_incomplete_seq_no, id.attempt_no), (1, 1, 1));
        drop(second);
        assert_eq!(requests.begin().next_try().first_incomplete_seq_no, 2);
    }
}
