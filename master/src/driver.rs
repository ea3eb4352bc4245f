//! The thread that sends what the catalog wants sent.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net_addr::{CachingResolver, HostPort, SockAddr, SystemResolver};
use proto::Method;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::methods::tablet_server_admin_service::{AlterSchema, CreateTablet, DeleteTablet};
use rpc_core::{CallError, Messenger, Proxy};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, Semaphore, watch};

use crate::catalog::{Action, Next};
use crate::services::Context;

/// How names of tablet servers are looked up.
pub(crate) type Names = CachingResolver<SystemResolver>;

/// Wakes the driver, and runs futures on its thread.
#[derive(Clone, Debug)]
pub(crate) struct DriverHandle {
    runtime: Handle,
    news: Arc<Notify>,
}

impl DriverHandle {
    /// There may be something to send.
    pub(crate) fn wake(&self) {
        self.news.notify_one();
    }

    /// Runs a future; it ends when the master stops.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(future);
    }

    /// Runs work that takes long on a thread of its own.
    pub(crate) fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.runtime.spawn_blocking(work);
    }
}

/// The driver before it is started: the handle is there, the thread is not.
pub(crate) struct Driver {
    runtime: Runtime,
    handle: DriverHandle,
}

/// The running driver.
#[derive(Debug)]
pub(crate) struct Running {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = DriverHandle { runtime: runtime.handle().clone(), news: Arc::new(Notify::new()) };
        Ok(Self { runtime, handle })
    }

    pub(crate) fn handle(&self) -> DriverHandle {
        self.handle.clone()
    }

    /// Starts to send as `user`.
    pub(crate) fn start(
        self,
        context: Arc<Context>,
        user: String,
        resolver: Arc<Names>,
    ) -> io::Result<Running> {
        let (stop, mut stopped) = watch::channel(false);
        let news = self.handle.news;
        let run = move || {
            self.runtime.block_on(async move {
                let sender = Arc::new(Sender {
                    messenger: Messenger::builder().user(user).build(),
                    resolver,
                    context,
                });
                let mut gates = HashMap::new();
                loop {
                    while let Some(action) = sender.next() {
                        let gate = gates.entry(action.server().to_owned());
                        let gate: &Arc<Semaphore> =
                            gate.or_insert_with(|| Arc::new(Semaphore::new(IN_FLIGHT)));
                        tokio::spawn(Arc::clone(&sender).see_through(action, Arc::clone(gate)));
                    }
                    tokio::select! {
                        () = news.notified() => {}
                        _ = stopped.changed() => return,
                    }
                }
            });
            // What still runs is dropped with the runtime; a blocking look-up of a name is not waited for.
            self.runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("master-driver".to_owned()).spawn(run)?;
        Ok(Running { stop, thread: Some(thread) })
    }
}

impl Running {
    /// Stops sending. Calls that wait for a tablet server are given up.
    pub(crate) fn stop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the driver thread had panicked");
        }
    }
}

struct Sender {
    messenger: Messenger,
    resolver: Arc<Names>,
    context: Arc<Context>,
}

/// How an attempt went.
enum Outcome {
    Done,
    /// The replica has this version of its table's schema.
    Altered(u32),
    /// The same may work later.
    Failed,
    /// The server will never do it; why, in its words.
    Refused(String),
}

impl Sender {
    fn next(&self) -> Option<Action> {
        self.context.catalog.lock().poll_action()
    }

    /// Sends `action` until it is done or no longer wanted.
    async fn see_through(self: Arc<Self>, action: Action, gate: Arc<Semaphore>) {
        let mut pause = SHORTEST_PAUSE;
        for attempt in 0.. {
            let outcome = {
                let _turn = gate.acquire().await;
                match self.attempt(&action, attempt).await {
                    Some(outcome) => outcome,
                    None => return,
                }
            };
            let next = {
                let (mut catalog, now) = (self.context.catalog.lock(), Instant::now());
                let done = matches!(outcome, Outcome::Done);
                match (&action, outcome) {
                    (Action::Create { server, tablet }, Outcome::Refused(why)) => {
                        catalog.create_refused(server, tablet, &why);
                        Next::Stop
                    }
                    (Action::Create { server, tablet }, _) => {
                        catalog.create_answered(server, tablet, done, now)
                    }
                    (Action::Alter { server, tablet }, outcome) => {
                        let version = match outcome {
                            Outcome::Altered(version) => Some(version),
                            _ => None,
                        };
                        catalog.alter_answered(server, tablet, version, now)
                    }
                    (Action::Delete { server, tablet }, _) => {
                        catalog.delete_answered(server, tablet, done, now)
                    }
                }
            };
            // The catalog may have found another server for the replica.
            self.context.driver.wake();
            if next == Next::Stop {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One attempt. `None`: no longer wanted.
    async fn attempt(&self, action: &Action, attempt: usize) -> Option<Outcome> {
        let (server, tablet) = (action.server(), action.tablet());
        let mut done = Outcome::Done;
        let sent = match action {
            Action::Alter { .. } => {
                let request = self.context.catalog.lock().alter_request(server, tablet)?;
                done = Outcome::Altered(request.schema_version);
                self.send::<AlterSchema>(server, attempt, &request).await.map(|response| response.error)
            }
            Action::Create { .. } => {
                let request = self.context.catalog.lock().create_request(server, tablet)?;
                self.send::<CreateTablet>(server, attempt, &request).await.map(|response| response.error)
            }
            Action::Delete { .. } => {
                let request = self.context.catalog.lock().delete_request(server, tablet)?;
                self.send::<DeleteTablet>(server, attempt, &request).await.map(|response| response.error)
            }
        };
        let problem = match sent {
            Ok(None) => return Some(done),
            Ok(Some(error)) if action.is_done_by(error.code()) => return Some(done),
            Ok(Some(error)) if action.is_refused_by(error.code()) => {
                return Some(Outcome::Refused(error.status.message().to_owned()));
            }
            Ok(Some(error)) => format!("it refused: {}", error.status.message()),
            Err(problem) => problem,
        };
        if attempt == 0 {
            tracing::warn!(
                ?action,
                problem,
                "a tablet server did not do what it was asked; it is asked again"
            );
        } else {
            tracing::debug!(?action, attempt, problem, "asked again in vain");
        }
        Some(Outcome::Failed)
    }

    /// Sends a request to one of the server's addresses, to another one at each attempt.
    async fn send<M: Method>(
        &self,
        server: &str,
        attempt: usize,
        request: &M::Request,
    ) -> Result<M::Response, String> {
        let (address, remote) = self.address(server, attempt).await?;
        let proxy = Proxy::new(&self.messenger, remote, &address.host);
        let sent = proxy.call::<M>(request).timeout(TIMEOUT).send().await;
        sent.map(|response| response.message).map_err(|error| {
            if let CallError::Network { .. } = error {
                // The name may lead elsewhere by now.
                self.resolver.invalidate(&address.host);
            }
            error.to_string()
        })
    }

    async fn address(&self, server: &str, attempt: usize) -> Result<(HostPort, SockAddr), String> {
        let known = {
            let catalog = self.context.catalog.lock();
            let server = catalog.servers().get(server).ok_or("it has not called yet")?;
            server.registration.rpc_addresses.clone()
        };
        let (mut found, mut problem) = (Vec::new(), None);
        for address in known {
            let Ok(port) = u16::try_from(address.port) else { continue };
            let address = HostPort::new(address.host, port);
            match self.resolve(&address).await {
                Ok(addresses) => found.extend(addresses.into_iter().map(|remote| (address.clone(), remote))),
                Err(error) => problem = Some(error.to_string()),
            }
        }
        if found.is_empty() {
            return Err(problem.unwrap_or_else(|| "it has told no address".to_owned()));
        }
        let turn = attempt % found.len();
        Ok(found.swap_remove(turn))
    }

    async fn resolve(&self, address: &HostPort) -> io::Result<Vec<SockAddr>> {
        if let Some(ip) = address.as_ip() {
            return Ok(vec![ip]);
        }
        let (wanted, resolver) = (address.clone(), Arc::clone(&self.resolver));
        let found = tokio::task::spawn_blocking(move || wanted.resolve(&*resolver)).await;
        found.map_err(io::Error::other)?
    }
}

impl Action {
    pub(crate) fn server(&self) -> &str {
        match self {
            Self::Create { server, .. } | Self::Alter { server, .. } | Self::Delete { server, .. } => server,
        }
    }

    fn tablet(&self) -> &str {
        match self {
            Self::Create { tablet, .. } | Self::Alter { tablet, .. } | Self::Delete { tablet, .. } => tablet,
        }
    }

    /// Errors that no other attempt would change.
    fn is_refused_by(&self, code: Code) -> bool {
        matches!(self, Self::Create { .. })
            && matches!(code, Code::InvalidSchema | Code::MismatchedSchema | Code::InvalidConfig)
    }

    /// Errors that mean: there is nothing left to do.
    fn is_done_by(&self, code: Code) -> bool {
        match self {
            Self::Create { .. } => code == Code::TabletAlreadyExists,
            Self::Alter { .. } => code == Code::TabletHasANewerSchema,
            Self::Delete { .. } => {
                matches!(code, Code::TabletNotFound | Code::CasFailed | Code::WrongServerUuid)
            }
        }
    }
}

/// Requests on their way to one tablet server; its queue takes 50.
const IN_FLIGHT: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
