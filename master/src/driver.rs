//! The thread that sends what the catalog wants sent.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net_addr::{HostPort, Resolver, SockAddr};
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::methods::tablet_server_admin_service::{CreateTablet, DeleteTablet};
use rpc_core::{CallError, Messenger, Proxy};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, Semaphore, watch};

use crate::catalog::{Action, Next};
use crate::services::Context;

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
        resolver: Arc<dyn Resolver>,
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
    resolver: Arc<dyn Resolver>,
    context: Arc<Context>,
}

impl Sender {
    fn next(&self) -> Option<Action> {
        self.context.catalog.lock().poll_action()
    }

    /// Sends `action` until it is done or no longer wanted.
    async fn see_through(self: Arc<Self>, action: Action, gate: Arc<Semaphore>) {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let done = {
                let _turn = gate.acquire().await;
                match self.attempt(&action).await {
                    Some(done) => done,
                    None => return,
                }
            };
            let next = {
                let mut catalog = self.context.catalog.lock();
                match &action {
                    Action::Create { server, tablet } => {
                        catalog.create_answered(server, tablet, done, Instant::now())
                    }
                    Action::Delete { server, tablet } => catalog.delete_answered(server, tablet, done),
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

    /// One attempt: whether the server has done it. `None`: no longer wanted.
    async fn attempt(&self, action: &Action) -> Option<bool> {
        let (server, tablet) = (action.server(), action.tablet());
        let outcome = match action {
            Action::Create { .. } => {
                let request = self.context.catalog.lock().create_request(server, tablet)?;
                let Some(proxy) = self.proxy(server).await else { return Some(false) };
                let sent = proxy.call::<CreateTablet>(&request).timeout(TIMEOUT).send().await;
                sent.map(|response| response.message.error)
            }
            Action::Delete { .. } => {
                let request = self.context.catalog.lock().delete_request(server, tablet)?;
                let Some(proxy) = self.proxy(server).await else { return Some(false) };
                let sent = proxy.call::<DeleteTablet>(&request).timeout(TIMEOUT).send().await;
                sent.map(|response| response.message.error)
            }
        };
        Some(match outcome {
            Ok(None) => true,
            Ok(Some(error)) => {
                let done = action.is_done_by(error.code());
                if !done {
                    tracing::warn!(
                        server,
                        tablet,
                        ?action,
                        error = error.status.message(),
                        "a tablet server refused"
                    );
                }
                done
            }
            Err(error) => {
                self.log(action, &error);
                false
            }
        })
    }

    fn log(&self, action: &Action, error: &CallError) {
        tracing::warn!(?action, %error, "a tablet server could not be asked; will try again");
    }

    async fn proxy(&self, server: &str) -> Option<Proxy> {
        let address = {
            let catalog = self.context.catalog.lock();
            catalog.servers().get(server)?.registration.rpc_addresses.first().cloned()?
        };
        let address = HostPort::new(address.host, u16::try_from(address.port).ok()?);
        let remote = self.resolve(&address).await?;
        Some(Proxy::new(&self.messenger, remote, &address.host))
    }

    async fn resolve(&self, address: &HostPort) -> Option<SockAddr> {
        if let Some(ip) = address.as_ip() {
            return Some(ip);
        }
        let (wanted, resolver) = (address.clone(), Arc::clone(&self.resolver));
        let found = tokio::task::spawn_blocking(move || wanted.resolve(&*resolver)).await.ok()?;
        let found = found
            .inspect_err(|error| tracing::warn!(%address, %error, "cannot resolve a tablet server's name"));
        found.ok()?.into_iter().next()
    }
}

impl Action {
    fn server(&self) -> &str {
        match self {
            Self::Create { server, .. } | Self::Delete { server, .. } => server,
        }
    }

    fn tablet(&self) -> &str {
        match self {
            Self::Create { tablet, .. } | Self::Delete { tablet, .. } => tablet,
        }
    }

    /// Errors that mean: there is nothing left to do.
    fn is_done_by(&self, code: Code) -> bool {
        match self {
            Self::Create { .. } => code == Code::TabletAlreadyExists,
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
