//! A call as a handler sees it: the decoded request, and the way to answer it.

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use proto::Method;
use rpc_core::{
    Answer, ConnectionInfo, Destination, Extras, RemoteError, RequestId, Responder, RpcErrorCode,
};

use crate::metrics::MethodMetrics;
use crate::refusal;
use crate::results::{ResultTracker, StoredAnswer};
use crate::server::Route;
use crate::timing::Started;

/// A call of method `M`.
///
/// It is answered once, by one of the methods that consume it, on this or any other thread, now or later. Dropped unanswered it
/// fails with ERROR_APPLICATION. The answer is encoded on the thread that gives it. If the client has given up or gone away meanwhile, the answer is thrown away.
pub struct Call<M: Method> {
    request: M::Request,
    arrival: Arrival,
    reply: Reply<M>,
}

/// The way to answer a [`Call`] whose request was taken out by [`Call::into_parts`].
pub struct Reply<M: Method> {
    raw: RawReply,
    method: PhantomData<fn() -> M>,
}

/// What is known of a call besides its request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Arrival {
    /// When its last byte was read.
    pub received: Instant,
    /// When the client stops waiting; `None` = never.
    pub deadline: Option<Instant>,
    /// What few calls have: features (all of them are known here), a request id, sidecars.
    pub extras: Option<Box<Extras>>,
}

impl Arrival {
    /// Raw blocks that came behind the body.
    pub fn sidecars(&self) -> &[Bytes] {
        self.extras.as_ref().map_or(&[], |extras| &extras.sidecars)
    }

    /// Application features which the client requires of the service.
    pub fn required_features(&self) -> &[u32] {
        self.extras.as_ref().map_or(&[], |extras| &extras.required_features)
    }

    /// Which logical call this is an attempt of.
    pub fn request_id(&self) -> Option<&RequestId> {
        self.extras.as_ref()?.request_id.as_ref()
    }
}

impl<M: Method> Call<M> {
    pub(crate) fn new(request: M::Request, arrival: Arrival, raw: RawReply) -> Self {
        Self { request, arrival, reply: Reply { raw, method: PhantomData } }
    }

    /// The decoded request. All of its required fields are there.
    pub fn request(&self) -> &M::Request {
        &self.request
    }

    /// Takes the request out, leaving an empty one.
    pub fn take_request(&mut self) -> M::Request {
        std::mem::take(&mut self.request)
    }

    /// Everything apart, for handlers that answer from elsewhere.
    pub fn into_parts(self) -> (M::Request, Arrival, Reply<M>) {
        (self.request, self.arrival, self.reply)
    }

    /// Deadline, sidecars, features and the like.
    pub fn arrival(&self) -> &Arrival {
        &self.arrival
    }

    /// The raw blocks that came with the request.
    pub fn sidecars(&self) -> &[Bytes] {
        self.arrival.sidecars()
    }

    /// The authenticated user.
    pub fn user(&self) -> &str {
        &self.connection().user
    }

    /// The connection that brought the call.
    pub fn connection(&self) -> &Arc<ConnectionInfo> {
        self.reply.connection()
    }

    /// When the client stops waiting; `None` = never.
    pub fn deadline(&self) -> Option<Instant> {
        self.arrival.deadline
    }

    /// How long the client goes on waiting, seen from `now`; `None` = for ever.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        self.arrival.deadline.map(|deadline| deadline.saturating_duration_since(now))
    }

    /// Answers. A tracked method's answer is remembered and given to later attempts of the same call.
    pub fn respond(self, response: &M::Response) {
        self.reply.respond(response);
    }

    /// Answers with sidecars, which the response refers to by index. At most 10,000.
    pub fn respond_with_sidecars(self, response: &M::Response, sidecars: Vec<Bytes>) {
        self.reply.respond_with_sidecars(response, sidecars);
    }

    /// Answers with sidecars, and with descriptors for a client that takes them ([`ConnectionInfo::takes_descriptors`]).
    pub fn respond_with_descriptors(
        self,
        response: &M::Response,
        sidecars: Vec<Bytes>,
        descriptors: Vec<Arc<OwnedFd>>,
    ) {
        self.reply.respond_with_descriptors(response, sidecars, descriptors);
    }

    /// Answers without remembering: the next attempt of a tracked call runs anew. For answers that carry an error.
    pub fn respond_uncached(self, response: &M::Response) {
        self.reply.respond_uncached(response);
    }

    /// Fails the call itself.
    pub fn fail(self, error: RemoteError) {
        self.reply.fail(error);
    }

    /// Fails the call with ERROR_APPLICATION and a text of the form `Kind: what happened`.
    pub fn fail_application(self, text: impl Into<String>) {
        self.reply.fail_application(text);
    }
}

impl<M: Method> Reply<M> {
    /// The connection that brought the call, with the authenticated user.
    pub fn connection(&self) -> &Arc<ConnectionInfo> {
        self.raw.destination.connection()
    }

    /// See [`Call::respond`].
    pub fn respond(mut self, response: &M::Response) {
        if self.raw.tracked.is_some() {
            return self.respond_with_sidecars(response, Vec::new());
        }
        if let Some(responder) = self.raw.settle(false) {
            responder.respond_encoded(response.encoded_len(), &mut |out| {
                // A vector has room for everything.
                let _ = response.encode(out);
            });
        }
    }

    /// See [`Call::respond_with_sidecars`].
    pub fn respond_with_sidecars(mut self, response: &M::Response, sidecars: Vec<Bytes>) {
        self.raw.respond(response.encode_to_vec().into(), sidecars, true);
    }

    /// See [`Call::respond_with_descriptors`]. Never remembered: of a tracked method the next attempt runs anew.
    pub fn respond_with_descriptors(
        mut self,
        response: &M::Response,
        sidecars: Vec<Bytes>,
        descriptors: Vec<Arc<OwnedFd>>,
    ) {
        let body = response.encode_to_vec().into();
        if descriptors.is_empty() {
            return self.raw.respond(body, sidecars, false);
        }
        if let Some(responder) = self.raw.settle(false) {
            responder.answer(Answer::WithDescriptors { body, sidecars, descriptors });
        }
    }

    /// See [`Call::respond_uncached`].
    pub fn respond_uncached(mut self, response: &M::Response) {
        self.raw.respond(response.encode_to_vec().into(), Vec::new(), false);
    }

    /// See [`Call::fail`].
    pub fn fail(mut self, error: RemoteError) {
        self.raw.fail(error);
    }

    /// See [`Call::fail_application`].
    pub fn fail_application(self, text: impl Into<String>) {
        self.fail(RemoteError::new(RpcErrorCode::ERROR_APPLICATION, text));
    }
}

impl<M: Method> fmt::Debug for Call<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({}.{} from {:?})", M::SERVICE, M::NAME, self.connection().peer)
    }
}

impl<M: Method> fmt::Debug for Reply<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({}.{})", M::SERVICE, M::NAME)
    }
}

/// The tracker that all tracked methods of a server share.
pub(crate) type SharedTracker = Arc<Mutex<ResultTracker<Responder>>>;

/// The one answer of a call, before it has a type: it settles what the tracker and the metrics want to know of it.
pub(crate) struct RawReply {
    pub(crate) responder: Option<Responder>,
    pub(crate) tracked: Option<Box<(SharedTracker, RequestId)>>,
    pub(crate) destination: Arc<Destination>,
    /// `None` = noted at the destination, which saves each call of a cheap method from counting up what all reactors count.
    pub(crate) metrics: Option<Arc<MethodMetrics>>,
    /// `None` = its time is not taken.
    pub(crate) started: Option<Started>,
    pub(crate) method: &'static str,
}

impl RawReply {
    fn respond(&mut self, body: Bytes, sidecars: Vec<Bytes>, remember: bool) {
        let attached = match self.tracked.as_deref() {
            Some((tracker, id)) if remember => {
                let answer = StoredAnswer { body: body.clone(), sidecars: sidecars.clone() };
                tracker.lock().complete(&id.client_id, id.seq_no, answer, Instant::now())
            }
            Some((tracker, id)) => tracker.lock().forget(&id.client_id, id.seq_no),
            None => Vec::new(),
        };
        self.send(attached, Answer::Success { body, sidecars }, false);
    }

    fn fail(&mut self, error: RemoteError) {
        let attached = match self.tracked.as_deref() {
            Some((tracker, id)) => tracker.lock().forget(&id.client_id, id.seq_no),
            None => Vec::new(),
        };
        self.send(attached, Answer::Error(error), true);
    }

    fn send(&mut self, attached: Vec<Responder>, answer: Answer, failed: bool) {
        for other in attached {
            other.answer(answer.clone());
        }
        if let Some(responder) = self.settle(failed) {
            responder.answer(answer);
        }
    }

    /// Counts the call; it is to be answered now.
    fn settle(&mut self, failed: bool) -> Option<Responder> {
        let responder = self.responder.take();
        if responder.is_some() {
            let noted = || self.destination.note::<Route>().map(Route::metrics);
            if let Some(metrics) = self.metrics.as_deref().or_else(noted) {
                metrics.record(self.started.as_ref(), failed, &self.destination);
            }
        }
        responder
    }
}

impl Drop for RawReply {
    fn drop(&mut self) {
        if self.responder.is_some() {
            let panicking = std::thread::panicking();
            self.fail(if panicking {
                refusal::panicked(self.method)
            } else {
                refusal::unanswered(self.method)
            });
        }
    }
}
