use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Answer, ConnectionInfo, Destination, Extras, RequestId, Responder, ResponseSink};

/// What a client asked for: names, deadline, body, sidecars. Cheap to move, shares the bytes of the receive buffer.
///
/// As long as a `Request` (or a clone of its body) lives, so does the receive buffer behind it: copy out what has to
/// outlive the call.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// Chosen by the client, unique among the calls in flight on its connection.
    pub call_id: i32,
    /// When the last byte of the frame was read.
    pub received: Instant,
    /// The time the client gave when it sent the call; `None` = it waits for ever (absent or 0 on the wire).
    pub timeout: Option<Duration>,
    /// The encoded request message.
    pub body: Bytes,
    /// Connection, service and method.
    pub destination: Arc<Destination>,
    /// What few calls have.
    pub extras: Option<Box<Extras>>,
}

impl Request {
    /// A request with nothing but names and a body, received at `received`; set the other fields as needed.
    pub fn new(
        connection: Arc<ConnectionInfo>,
        call_id: i32,
        service: Bytes,
        method: Bytes,
        body: Bytes,
        received: Instant,
    ) -> Self {
        let destination = Arc::new(Destination::new(connection, &service, &method));
        Self { call_id, received, timeout: None, body, destination, extras: None }
    }

    /// Full name of the service, e.g. `kudu.master.MasterService`; bytes that are not UTF-8 are replaced.
    pub fn service(&self) -> &str {
        self.destination.service()
    }

    /// Bare name of the method, e.g. `ConnectToMaster`; bytes that are not UTF-8 are replaced.
    pub fn method(&self) -> &str {
        self.destination.method()
    }

    /// When the client stops waiting: [`received`](Self::received) + [`timeout`](Self::timeout); `None` = never.
    pub fn deadline(&self) -> Option<Instant> {
        self.received.checked_add(self.timeout?)
    }

    /// When the last byte of the frame was read.
    pub fn received(&self) -> Instant {
        self.received
    }

    /// The time the client gave when it sent the call.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Application features which the service must know, in request order.
    pub fn required_features(&self) -> &[u32] {
        self.extras.as_ref().map_or(&[], |extras| &extras.required_features)
    }

    /// Present on calls that are to run exactly once.
    pub fn request_id(&self) -> Option<&RequestId> {
        self.extras.as_ref()?.request_id.as_ref()
    }

    /// The encoded request message.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Raw blocks that came behind the body; the body refers to them by index.
    pub fn sidecars(&self) -> &[Bytes] {
        self.extras.as_ref().map_or(&[], |extras| &extras.sidecars)
    }

    /// Takes the sidecars away.
    pub fn take_sidecars(&mut self) -> Vec<Bytes> {
        self.extras.as_mut().map(|extras| std::mem::take(&mut extras.sidecars)).unwrap_or_default()
    }

    /// The connection that brought the call.
    pub fn connection(&self) -> &Arc<ConnectionInfo> {
        self.destination.connection()
    }

    /// Chosen by the client.
    pub fn call_id(&self) -> i32 {
        self.call_id
    }
}

/// A [`Request`] together with the one chance to answer it. Dereferences to the request.
#[derive(Debug)]
pub struct InboundCall {
    request: Request,
    responder: Responder,
}

impl InboundCall {
    /// Joins a request with the way its answer goes.
    pub fn new(request: Request, responder: Responder) -> Self {
        Self { request, responder }
    }

    /// A call that came over no socket, for tests: its answer goes to `sink` (called exactly once, on the answering
    /// thread), e.g. the `send` of a channel.
    pub fn detached(
        connection: Arc<ConnectionInfo>,
        service: &str,
        method: &str,
        body: impl Into<Bytes>,
        sink: impl Fn(Answer) + Send + Sync + 'static,
    ) -> Self {
        let (service, method) = (Bytes::from(service.to_owned()), Bytes::from(method.to_owned()));
        let request = Request::new(connection, 0, service, method, body.into(), Instant::now());
        Self { request, responder: Responder::new(0, Arc::new(move |_: i32, answer: Answer| sink(answer))) }
    }

    /// The request alone, e.g. to set a deadline on a [`detached`](Self::detached) call.
    pub fn request_mut(&mut self) -> &mut Request {
        &mut self.request
    }

    /// Takes the call apart.
    pub fn split(self) -> (Request, Responder) {
        (self.request, self.responder)
    }
}

impl Deref for InboundCall {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

/// What a server does with a call.
pub trait InboundHandler: Send + Sync + 'static {
    /// Takes over `call`. Runs on the reactor thread that read it, so it must neither block nor panic; it answers at
    /// once, or moves the call (or only its [`Responder`]) to another thread.
    fn handle(&self, call: InboundCall);

    /// Takes over a small call of a method called before on its connection, before it is made an [`InboundCall`], which
    /// costs more than running a cheap handler. False = not taken: `handle` gets it. As `handle`, it must not block.
    fn handle_small(&self, call: &SmallCall<'_>) -> bool {
        let _ = call;
        false
    }
}

/// A call with neither sidecars nor anything else that few calls have, still in the receive buffer.
#[non_exhaustive]
pub struct SmallCall<'a> {
    /// When its last byte was read.
    pub received: Instant,
    /// The time the client gave when it sent the call; `None` = it waits for ever.
    pub timeout: Option<Duration>,
    /// The encoded request message.
    pub body: &'a [u8],
    /// Connection, service and method.
    pub destination: &'a Arc<Destination>,
    pub(crate) call_id: i32,
    pub(crate) sink: &'a Arc<dyn ResponseSink>,
}

impl SmallCall<'_> {
    /// The way to answer. To be asked for once, and only if the call is taken.
    pub fn responder(&self) -> Responder {
        Responder::new(self.call_id, Arc::clone(self.sink))
    }

    /// Answers at once, in place of a [`responder`](Self::responder): the response message is the `len` bytes that `encode`
    /// appends.
    pub fn respond_encoded(&self, len: usize, encode: &mut dyn FnMut(&mut Vec<u8>)) {
        self.sink.deliver_encoded(self.call_id, len, encode);
    }
}

impl std::fmt::Debug for SmallCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SmallCall({:?})", self.destination)
    }
}

impl<F: Fn(InboundCall) + Send + Sync + 'static> InboundHandler for F {
    fn handle(&self, call: InboundCall) {
        self(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::RemoteError;
    use std::sync::mpsc;

    fn connection() -> Arc<ConnectionInfo> {
        let address = net_addr::SockAddr::UnixUnnamed;
        Arc::new(ConnectionInfo::new(address.clone(), address, "alice"))
    }

    #[test]
    fn a_detached_call_is_answered_through_its_sink() {
        let (send, receive) = mpsc::channel();
        let call = InboundCall::detached(connection(), "kudu.S", "M", "ab", move |a| send.send(a).unwrap());
        assert_eq!((call.service(), call.method(), &call.body()[..]), ("kudu.S", "M", &b"ab"[..]));
        call.split().1.respond(Bytes::from_static(b"yes"), Vec::new());
        assert!(matches!(receive.recv(), Ok(Answer::Success { body, .. }) if body == "yes"));
        assert!(receive.recv().is_err(), "one answer only");
    }

    #[test]
    fn a_call_dropped_unanswered_fails_as_aborted() {
        let (send, receive) = mpsc::channel();
        drop(InboundCall::detached(connection(), "kudu.S", "M", "", move |a| send.send(a).unwrap()));
        let Ok(Answer::Error(RemoteError { message, .. })) = receive.recv() else { panic!("no error") };
        assert!(message.starts_with("Aborted: "), "{message}");
    }

    #[test]
    fn names_that_are_not_utf8_are_mended() {
        let bad = Bytes::from_static(b"a\xffb");
        let request = Request::new(connection(), 1, bad.clone(), bad, Bytes::new(), Instant::now());
        assert_eq!(request.service(), "a\u{fffd}b");
    }

    #[test]
    fn the_deadline_counts_from_reception() {
        let now = Instant::now();
        let mut request = Request::new(connection(), 1, Bytes::new(), Bytes::new(), Bytes::new(), now);
        assert_eq!(request.deadline(), None);
        request.timeout = Some(Duration::from_millis(5));
        assert_eq!(request.deadline(), Some(now + Duration::from_millis(5)));
    }
}
