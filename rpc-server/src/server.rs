//! A server: listening addresses, reactors, and the registry that routes each call to its method.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use net_addr::SockAddr;
use parking_lot::Mutex;
use rpc_core::reactor::{ReactorPool, ServerOptions};
use rpc_core::{InboundCall, InboundHandler, RemoteError, SmallCall};

use crate::acceptor::{Acceptor, BindError, Listener};
use crate::authz::{Authorizer, allow_all};
use crate::metrics::{MethodMetrics, ServerMetrics, count};
use crate::refusal;
use crate::results::{Limits, ResultTracker};
use crate::service::{Entry, Service, Shared};
use crate::worker::Pool;

/// A running server. Dropping it shuts it down.
pub struct Server {
    pub(crate) dispatch: Arc<Dispatch>,
    reactors: Arc<ReactorPool>,
    acceptor: Mutex<Option<Acceptor>>,
    addresses: Vec<SockAddr>,
}

/// Makes a [`Server`].
pub struct ServerBuilder {
    name: String,
    reactors: usize,
    addresses: Vec<Result<SockAddr, BindError>>,
    services: Vec<Service>,
    options: ServerOptions,
    authorizer: Authorizer,
    limits: Limits,
    busy_poll: Duration,
}

impl Server {
    /// A server with 4 reactors that listens nowhere yet and lets everybody do everything.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            name: "server".to_owned(),
            reactors: 4,
            addresses: Vec::new(),
            services: Vec::new(),
            options: ServerOptions::default(),
            authorizer: allow_all(),
            limits: Limits::default(),
            busy_poll: Duration::ZERO,
        }
    }

    /// Where it listens, ports filled in, in the order of the builder's calls.
    pub fn bound_addresses(&self) -> &[SockAddr] {
        &self.addresses
    }

    /// Adds a service; its calls are served from now on. A service of the same name is replaced. After a
    /// [`shutdown`](Self::shutdown) nothing is added.
    ///
    /// # Errors
    /// If the system gives no more threads.
    pub fn register(&self, service: Service) -> std::io::Result<()> {
        self.dispatch.register(service)
    }

    /// All services are registered: from now on an unknown one gets ERROR_NO_SUCH_SERVICE, which clients do not retry,
    /// and no longer ERROR_UNAVAILABLE.
    pub fn ready(&self) {
        let _ = self.dispatch.phase.compare_exchange(STARTING, READY, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Counters of the whole server.
    pub fn metrics(&self) -> &ServerMetrics {
        &self.dispatch.shared.metrics
    }

    /// The reactors, for their statistics and those of their connections.
    pub fn reactors(&self) -> &ReactorPool {
        &self.reactors
    }

    /// Stops in order: no new connections (the addresses are free at once), queued calls are refused with
    /// FATAL_SERVER_SHUTTING_DOWN, running ones end and are answered, then connections are closed. Blocks for as long as
    /// handlers run. May be called more than once.
    pub fn shutdown(&self) {
        {
            // A service that is being added is stopped with the others.
            let _registering = self.dispatch.registering.lock();
            self.dispatch.phase.store(STOPPING, Ordering::Release);
        }
        if let Some(mut acceptor) = self.acceptor.lock().take() {
            acceptor.stop();
        }
        for registered in self.dispatch.services.load().values() {
            if let Some(pool) = &registered.pool {
                pool.stop();
            }
        }
        self.reactors.shutdown();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.dispatch.shared.name)
            .field("addresses", &self.addresses)
            .finish()
    }
}

impl ServerBuilder {
    /// How the server calls itself in error texts, e.g. `Master`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many reactor threads move bytes, at least 1.
    pub fn reactors(mut self, reactors: usize) -> Self {
        self.reactors = reactors.max(1);
        self
    }

    /// Reactors look for work for up to this long (zero, the default, = not at all) before they sleep; see
    /// [`ReactorPool::start_polling`].
    pub fn busy_poll(mut self, busy_poll: Duration) -> Self {
        self.busy_poll = busy_poll;
        self
    }

    /// Also listens on this address. Port 0 takes a free one.
    pub fn bind(mut self, address: SockAddr) -> Self {
        self.addresses.push(Ok(address));
        self
    }

    /// Also listens on a unix socket: `@name` in the abstract namespace, else a path. The socket file of a dead server is replaced.
    pub fn bind_unix(mut self, text: &str) -> Self {
        let address = match text.strip_prefix('@') {
            Some(name) => SockAddr::unix_abstract(name),
            None => SockAddr::unix_path(text),
        };
        self.addresses
            .push(address.map_err(|source| BindError::NotAnAddress { text: text.to_owned(), source }));
        self
    }

    /// Adds a service to start with; see [`Server::register`].
    pub fn service(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    /// Limits and features of connections.
    pub fn options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }

    /// Who may call what.
    pub fn authorizer(mut self, authorizer: Authorizer) -> Self {
        self.authorizer = authorizer;
        self
    }

    /// How much is remembered for exactly-once calls.
    pub fn result_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Binds all addresses and starts to accept. Calls get ERROR_UNAVAILABLE until their service is registered.
    ///
    /// # Errors
    /// [`BindError`] names the address and the cause; nothing is left bound then.
    pub fn start(self) -> Result<Server, BindError> {
        let listeners: Vec<Listener> =
            self.addresses.into_iter().map(|address| Listener::bind(&address?)).collect::<Result<_, _>>()?;
        let addresses = listeners.iter().map(|listener| listener.address().clone()).collect();
        let metrics = Arc::new(ServerMetrics::default());
        let shared = Shared {
            name: self.name,
            authorizer: self.authorizer,
            tracker: Arc::new(Mutex::new(ResultTracker::new(self.limits))),
            metrics: Arc::clone(&metrics),
        };
        let dispatch = Arc::new(Dispatch {
            services: ArcSwap::default(),
            phase: AtomicU8::new(STARTING),
            generation: AtomicU64::new(0),
            registering: Mutex::new(()),
            shared: Arc::new(shared),
        });
        for service in self.services {
            dispatch.register(service)?;
        }
        let reactors =
            Arc::new(ReactorPool::start_polling(&dispatch.shared.name, self.reactors, self.busy_poll)?);
        let (pool, options) = (Arc::clone(&reactors), Arc::new(self.options));
        let handler: Arc<dyn InboundHandler> = Arc::clone(&dispatch) as _;
        let adopt = move |socket| {
            if let Err(error) = pool.adopt(socket, Arc::clone(&handler), Arc::clone(&options)) {
                tracing::debug!(%error, "a new connection is gone already");
            }
        };
        let tracker = Arc::clone(&dispatch.shared.tracker);
        let tick = move || tracker.lock().gc(Instant::now());
        let acceptor = Acceptor::start(listeners, metrics, adopt, tick)?;
        Ok(Server { dispatch, reactors, acceptor: Mutex::new(Some(acceptor)), addresses })
    }
}

/// Routes calls; runs on the reactors.
pub(crate) struct Dispatch {
    pub(crate) services: ArcSwap<HashMap<&'static str, Arc<Registered>>>,
    phase: AtomicU8,
    /// Counts the registrations; what is noted under an older one is not believed.
    generation: AtomicU64,
    /// Held while a service is added, and while the phase changes to `STOPPING`.
    registering: Mutex<()>,
    shared: Arc<Shared>,
}

pub(crate) struct Registered {
    pub(crate) service: Service,
    /// `None` if all methods are cheap.
    pub(crate) pool: Option<Pool>,
}

impl Dispatch {
    fn register(&self, service: Service) -> std::io::Result<()> {
        let _registering = self.registering.lock();
        if self.phase.load(Ordering::Acquire) == STOPPING {
            return Ok(());
        }
        let queued = service.methods.values().any(|entry| !entry.cheap);
        let start =
            || Pool::start(service.name, service.threads, service.queue_length, Arc::clone(&self.shared));
        let pool = queued.then(start).transpose()?;
        let registered = Arc::new(Registered { service, pool });
        self.services.rcu(|services| {
            let mut services = HashMap::clone(services);
            services.insert(registered.service.name, Arc::clone(&registered));
            services
        });
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn refuse(&self, call: InboundCall, error: RemoteError) {
        count(&self.shared.metrics.refused);
        tracing::debug!(peer = %call.connection().peer, %error, "refused");
        call.split().1.fail(error);
    }
}

impl InboundHandler for Dispatch {
    fn handle(&self, call: InboundCall) {
        // What was found out for an earlier call of the connection holds until a service is registered.
        let destination = Arc::clone(&call.destination);
        if let Some(route) = destination.note::<Route>()
            && route.generation == self.generation.load(Ordering::Acquire)
        {
            return self.run(call, route, true);
        }
        let generation = self.generation.load(Ordering::Acquire);
        let phase = self.phase.load(Ordering::Acquire);
        let services = self.services.load();
        let Some(registered) = services.get(call.service()) else {
            let text = if phase == READY { refusal::no_such_service } else { refusal::unavailable };
            let error = text(call.service(), &self.shared.name);
            return self.refuse(call, error);
        };
        match registered.service.methods.get(call.method()) {
            Some(entry) => {
                let (registered, entry) = (Arc::clone(registered), Arc::clone(entry));
                let route = Route { generation, registered, entry };
                self.run(call, &route, false);
                destination.set_note(route);
            }
            None => {
                if let Some(call) = self.admit(call, registered) {
                    let error = refusal::no_such_method(&call);
                    self.refuse(call, error);
                }
            }
        }
    }

    fn handle_small(&self, call: &SmallCall<'_>) -> bool {
        self.run_small(call)
    }
}

impl Dispatch {
    fn run_small(&self, call: &SmallCall<'_>) -> bool {
        let Some(route) = call.destination.note::<Route>() else { return false };
        let current = route.generation == self.generation.load(Ordering::Acquire);
        let open = self.phase.load(Ordering::Acquire) != STOPPING;
        route.entry.cheap && current && open && route.entry.run_small(call, &self.shared)
    }

    /// Kudu checks the features of the service before it looks for the method.
    fn admit(&self, call: InboundCall, registered: &Registered) -> Option<InboundCall> {
        if self.phase.load(Ordering::Acquire) == STOPPING {
            self.refuse(call, refusal::shutting_down());
            return None;
        }
        let known = &registered.service.features;
        if call.required_features().iter().any(|flag| !known.contains(flag)) {
            let missing =
                call.required_features().iter().copied().filter(|flag| !known.contains(flag)).collect();
            self.refuse(call, RemoteError::unsupported_features(missing));
            return None;
        }
        Some(call)
    }

    /// `noted` = the route is noted at the call's destination.
    fn run(&self, call: InboundCall, route: &Route, noted: bool) {
        let Some(call) = self.admit(call, &route.registered) else { return };
        match &route.registered.pool {
            Some(pool) if !route.entry.cheap => pool.submit(call, Arc::clone(&route.entry)),
            _ if noted => route.entry.run_noted(call, &self.shared),
            _ => route.entry.run(call, &self.shared, Instant::now()),
        }
    }
}

/// Where the calls of a destination go, noted there.
pub(crate) struct Route {
    generation: u64,
    registered: Arc<Registered>,
    entry: Arc<Entry>,
}

impl Route {
    pub(crate) fn metrics(&self) -> &MethodMetrics {
        &self.entry.metrics
    }
}

const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;
