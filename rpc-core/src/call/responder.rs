use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;

use super::{RemoteError, RpcErrorCode};

/// What goes back to the client.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The encoded response message, and the raw blocks which it refers to by index (at most 10,000).
    Success {
        /// The encoded response message.
        body: Bytes,
        /// Sent as they are, without a copy if they are big.
        sidecars: Vec<Bytes>,
    },
    /// As `Success`, with descriptors, which the client has no later than the answer. They are left out if the connection does
    /// not take any ([`ConnectionInfo::takes_descriptors`](super::ConnectionInfo::takes_descriptors)).
    WithDescriptors {
        /// The encoded response message.
        body: Bytes,
        /// As in `Success`.
        sidecars: Vec<Bytes>,
        /// At most 250: the system takes no more at once.
        descriptors: Vec<Arc<OwnedFd>>,
    },
    /// The call as such failed. (Services report most of *their* errors inside a success.)
    Error(RemoteError),
}

/// Where answers go: a connection, or a test's channel.
pub trait ResponseSink: Send + Sync {
    /// Takes the answer of call `call_id`; called at most once a call, from any thread, and must not block.
    fn deliver(&self, call_id: i32, answer: Answer);

    /// As [`deliver`](Self::deliver) of a success without sidecars, whose body of `len` bytes `encode` appends: a sink
    /// may have a place for it.
    fn deliver_encoded(&self, call_id: i32, len: usize, encode: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut body = Vec::with_capacity(len);
        encode(&mut body);
        self.deliver(call_id, Answer::Success { body: body.into(), sidecars: Vec::new() });
    }
}

impl<F: Fn(i32, Answer) + Send + Sync> ResponseSink for F {
    fn deliver(&self, call_id: i32, answer: Answer) {
        self(call_id, answer);
    }
}

/// The one chance to answer a call, from any thread, now or later.
///
/// Answers of one wake-up leave together: the connection's task is marked once, however many calls are answered before
/// it runs. If the connection is gone by then, the answer is dropped. Dropped unanswered, a responder sends
/// ERROR_APPLICATION with a text that starts with `Aborted: `.
pub struct Responder {
    call_id: i32,
    sink: Option<Arc<dyn ResponseSink>>,
}

impl Responder {
    /// A responder whose answer goes to `sink` under `call_id`.
    pub fn new(call_id: i32, sink: Arc<dyn ResponseSink>) -> Self {
        Self { call_id, sink: Some(sink) }
    }

    /// Sends the encoded response message and its sidecars.
    pub fn respond(self, body: Bytes, sidecars: Vec<Bytes>) {
        self.answer(Answer::Success { body, sidecars });
    }

    /// Sends the response message of `len` bytes that `encode` appends. Called on the reactor that read the call, in the
    /// turn that hands it out, this needs no memory.
    pub fn respond_encoded(mut self, len: usize, encode: &mut dyn FnMut(&mut Vec<u8>)) {
        if let Some(sink) = self.sink.take() {
            sink.deliver_encoded(self.call_id, len, encode);
        }
    }

    /// Fails the call; the connection lives on.
    pub fn fail(self, error: RemoteError) {
        self.answer(Answer::Error(error));
    }

    /// Sends either kind of answer.
    pub fn answer(mut self, answer: Answer) {
        if let Some(sink) = self.sink.take() {
            sink.deliver(self.call_id, answer);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            let error =
                RemoteError::new(RpcErrorCode::ERROR_APPLICATION, "Aborted: the server dropped the call");
            sink.deliver(self.call_id, Answer::Error(error));
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("call_id", &self.call_id).finish_non_exhaustive()
    }
}
