//! Answers of tracked calls, beyond the life of a process.

use std::fmt;
use std::time::Instant;

use prost::Message;

use crate::call::SharedTracker;
use crate::results::{CallKey, StoredAnswer};

/// What a server remembers of tracked calls. Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct Answers(pub(crate) SharedTracker);

impl Answers {
    /// Remembers an answer that the process before gave, or would have given: attempts of the same call get it again. Calls
    /// of one client in the order in which they were done, before new attempts of them can be answered otherwise.
    pub fn restore(&self, key: CallKey<'_>, response: &impl Message) {
        let answer = StoredAnswer { body: response.encode_to_vec().into(), sidecars: Vec::new() };
        self.0.lock().restore(key, answer, Instant::now());
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}
