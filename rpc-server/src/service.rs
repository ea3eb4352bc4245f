//! A service: its methods, the features it knows, and how its calls are run.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use prost::Message;
use proto::Method;
use rpc_core::{InboundCall, RemoteError, Responder, SmallCall};

use crate::authz::{Access, Authorizer};
use crate::call::{Arrival, Call, RawReply, SharedTracker};
use crate::metrics::{MethodMetrics, ServerMetrics, count};
use crate::refusal;
use crate::results::{CallKey, Start};
use crate::timing::Started;

/// A named set of methods, ready to be registered at a [`Server`](crate::Server).
pub struct Service {
    pub(crate) name: &'static str,
    pub(crate) features: Vec<u32>,
    pub(crate) methods: HashMap<&'static str, Arc<Entry>>,
    pub(crate) threads: usize,
    pub(crate) queue_length: usize,
}

/// Makes a [`Service`].
pub struct ServiceBuilder {
    service: Service,
}

/// A method: how to run it, and what to know before.
pub(crate) struct Entry {
    pub(crate) cheap: bool,
    pub(crate) metrics: Arc<MethodMetrics>,
    run: Run,
    run_small: RunSmall,
}

/// As [`Run`], for a call that may be left to it: false = it is.
type RunSmall = Box<dyn Fn(&SmallCall<'_>, &Shared, &MethodMetrics) -> bool + Send + Sync>;

/// A handler with all that comes before it.
type Run = Box<dyn Fn(InboundCall, &Shared, Option<Arc<MethodMetrics>>, Option<Started>) + Send + Sync>;

/// What all calls of a server share.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) authorizer: Authorizer,
    pub(crate) tracker: SharedTracker,
    pub(crate) metrics: Arc<ServerMetrics>,
}

impl Service {
    /// Starts a service of this full name, e.g. `kudu.master.MasterService`. It has 10 threads and a queue of 50 until told otherwise.
    pub fn builder(name: &'static str) -> ServiceBuilder {
        let service =
            Service { name, features: Vec::new(), methods: HashMap::new(), threads: 10, queue_length: 50 };
        ServiceBuilder { service }
    }

    /// The full name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl ServiceBuilder {
    /// The application features which clients may require.
    pub fn features(mut self, features: &[u32]) -> Self {
        self.service.features = features.to_vec();
        self
    }

    /// How many threads run queued calls, at least 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.service.threads = threads.max(1);
        self
    }

    /// How many calls may wait for a thread.
    pub fn queue_length(mut self, queue_length: usize) -> Self {
        self.service.queue_length = queue_length;
        self
    }

    /// A method that runs on the reactor that read the call. `handler` must be bounded: no IO, no lock held across work.
    ///
    /// # Panics
    /// If `M` belongs to another service, or was added before.
    pub fn cheap<M: Method>(self, handler: impl Fn(Call<M>) + Send + Sync + 'static) -> Self {
        self.add::<M>(true, handler)
    }

    /// A method that runs on one of the service's threads. `handler` may block, and may answer later from elsewhere.
    ///
    /// # Panics
    /// If `M` belongs to another service, or was added before.
    pub fn method<M: Method>(self, handler: impl Fn(Call<M>) + Send + Sync + 'static) -> Self {
        self.add::<M>(false, handler)
    }

    /// A method whose response is a function of its request alone: runs as [`cheap`](Self::cheap) ones do, with less around
    /// it, since there is no call that could be answered later.
    ///
    /// # Panics
    /// If `M` belongs to another service, or was added before.
    pub fn function<M: Method>(
        self,
        function: impl Fn(&M::Request) -> M::Response + Send + Sync + 'static,
    ) -> Self {
        let guarded = move |request: &M::Request| {
            catch_unwind(AssertUnwindSafe(|| function(request))).map_err(|_| {
                panicked::<M>();
                refusal::panicked(M::NAME)
            })
        };
        let guarded = Arc::new(guarded);
        let small = Arc::clone(&guarded);
        let run: Run = Box::new(move |call, shared, metrics, started| {
            let Some(call) = open::<M>(call, shared, metrics, started) else { return };
            match guarded(call.request()) {
                Ok(response) => call.respond(&response),
                Err(error) => call.fail(error),
            }
        });
        let run_small: RunSmall = Box::new(move |call, shared, metrics| {
            let started = metrics.is_sample().then(|| small_started(call));
            let Some(request) = open_small::<M>(call, shared) else { return false };
            let answer = small(&request);
            metrics.record(started.as_ref(), answer.is_err(), call.destination);
            match answer {
                Ok(response) => call.respond_encoded(response.encoded_len(), &mut |out| {
                    // A vector has room for everything.
                    let _ = response.encode(out);
                }),
                Err(error) => call.responder().fail(error),
            }
            true
        });
        self.insert::<M>(true, run, run_small)
    }

    fn add<M: Method>(self, cheap: bool, handler: impl Fn(Call<M>) + Send + Sync + 'static) -> Self {
        // A handler's panic is a bug of ours or of one request; the other calls are not to suffer for it.
        let guarded = move |call| {
            if catch_unwind(AssertUnwindSafe(|| handler(call))).is_err() {
                panicked::<M>();
            }
        };
        let guarded = Arc::new(guarded);
        let small = Arc::clone(&guarded);
        let run: Run = Box::new(move |call, shared, metrics, started| {
            if let Some(call) = open::<M>(call, shared, metrics, started) {
                guarded(call);
            }
        });
        let run_small: RunSmall = Box::new(move |call, shared, metrics| {
            let started = metrics.is_sample().then(|| small_started(call));
            let request = open_small::<M>(call, shared);
            request.map(|request| small(small_call(call, request, started))).is_some()
        });
        self.insert::<M>(cheap, run, run_small)
    }

    fn insert<M: Method>(mut self, cheap: bool, run: Run, run_small: RunSmall) -> Self {
        assert_eq!(M::SERVICE, self.service.name, "{} is a method of another service", M::NAME);
        let metrics = Arc::new(MethodMetrics::new(Instant::now()));
        let entry = Entry { cheap, metrics, run, run_small };
        let before = self.service.methods.insert(M::NAME, Arc::new(entry));
        assert!(before.is_none(), "{}.{} was added twice", M::SERVICE, M::NAME);
        self
    }

    /// The finished service.
    pub fn build(self) -> Service {
        self.service
    }
}

impl Entry {
    /// Runs `call` here, up to the end of the handler, and takes its time, which begins `now`.
    pub(crate) fn run(&self, call: InboundCall, shared: &Shared, now: Instant) {
        let started = Started::new(now, call.received, call.timeout);
        (self.run)(call, shared, Some(Arc::clone(&self.metrics)), Some(started));
    }

    /// As [`run_noted`](Self::run_noted); false = the call was not taken.
    pub(crate) fn run_small(&self, call: &SmallCall<'_>, shared: &Shared) -> bool {
        (self.run_small)(call, shared, &self.metrics)
    }

    /// As [`run`](Self::run), for a cheap method that is noted at its destination: few have their time taken.
    pub(crate) fn run_noted(&self, call: InboundCall, shared: &Shared) {
        let started = || Started::new(Instant::now(), call.received, call.timeout);
        let started = self.metrics.is_sample().then(started);
        (self.run)(call, shared, None, started);
    }
}

/// Everything between the queue and the handler: parse, rights, exactly once. `None` if the call was answered on the way.
fn open<M: Method>(
    call: InboundCall,
    shared: &Shared,
    metrics: Option<Arc<MethodMetrics>>,
    started: Option<Started>,
) -> Option<Call<M>> {
    let (mut request, responder) = call.split();
    let destination = &request.destination;
    let refuse = |responder: Responder, error: RemoteError| {
        count(&shared.metrics.refused);
        tracing::debug!(service = M::SERVICE, method = M::NAME, peer = %destination.connection().peer, %error, "refused");
        responder.fail(error);
    };
    if let Err(missing) = proto::required::check(M::REQUEST, &request.body) {
        refuse(responder, refusal::missing_fields(M::SERVICE, M::NAME, &missing));
        return None;
    }
    // From `Bytes`, so that bytes fields share the receive buffer.
    let message = match M::Request::decode(&mut request.body) {
        Ok(message) => message,
        Err(error) => {
            refuse(responder, refusal::unparsable(M::SERVICE, M::NAME, &error));
            return None;
        }
    };
    let access =
        Access { connection: destination.connection(), service: M::SERVICE, method: M::NAME, rule: M::AUTHZ };
    if !(shared.authorizer)(&access) {
        refuse(responder, refusal::not_authorized(M::NAME));
        return None;
    }
    let (responder, tracked) = match request.request_id().filter(|_| M::TRACKED) {
        None => (responder, None),
        Some(id) if id.client_id.len() > LONGEST_CLIENT_ID => {
            refuse(responder, refusal::client_id_too_long(M::SERVICE, M::NAME, LONGEST_CLIENT_ID));
            return None;
        }
        Some(id) => {
            let key = CallKey {
                client_id: &id.client_id,
                seq_no: id.seq_no,
                first_incomplete_seq_no: id.first_incomplete_seq_no,
            };
            let start = shared.tracker.lock().start(key, responder, Instant::now());
            match start {
                Start::Run(responder) => {
                    (responder, Some(Box::new((Arc::clone(&shared.tracker), id.clone()))))
                }
                Start::Replay(responder, answer) => {
                    responder.respond(answer.body, answer.sidecars);
                    return None;
                }
                Start::Attached => return None,
                Start::Stale(responder) => {
                    refuse(responder, refusal::stale(key, id.attempt_no));
                    return None;
                }
                Start::Busy(responder) => {
                    refuse(responder, refusal::too_many_to_remember(M::SERVICE, M::NAME));
                    return None;
                }
            }
        }
    };
    let arrival =
        Arrival { deadline: request.deadline(), received: request.received, extras: request.extras };
    let destination = request.destination;
    let raw =
        RawReply { responder: Some(responder), tracked, destination, metrics, started, method: M::NAME };
    Some(Call::new(message, arrival, raw))
}

/// As [`open`], for calls in which nothing is unusual; what is wrong with others, `open` says.
fn open_small<M: Method>(call: &SmallCall<'_>, shared: &Shared) -> Option<M::Request> {
    proto::required::check(M::REQUEST, call.body).ok()?;
    let message = M::Request::decode(call.body).ok()?;
    let connection = call.destination.connection();
    let access = Access { connection, service: M::SERVICE, method: M::NAME, rule: M::AUTHZ };
    (shared.authorizer)(&access).then_some(message)
}

fn small_started(call: &SmallCall<'_>) -> Started {
    Started::new(Instant::now(), call.received, call.timeout)
}

fn small_call<M: Method>(call: &SmallCall<'_>, request: M::Request, started: Option<Started>) -> Call<M> {
    let deadline = call.timeout.and_then(|timeout| call.received.checked_add(timeout));
    let arrival = Arrival { deadline, received: call.received, extras: None };
    let raw = RawReply {
        responder: Some(call.responder()),
        tracked: None,
        destination: Arc::clone(call.destination),
        metrics: None,
        started,
        method: M::NAME,
    };
    Call::new(request, arrival, raw)
}

fn panicked<M: Method>() {
    tracing::error!(service = M::SERVICE, method = M::NAME, "a handler panicked; its call failed");
}

/// Clients use 32 hex digits; whatever is remembered per client must stay small.
const LONGEST_CLIENT_ID: usize = 256;
