//! Reports to one master, for as long as the server runs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use net_addr::{HostPort, Resolver, SockAddr, SystemResolver};
use parking_lot::Mutex;
use proto::kudu::ServerRegistrationPb;
use proto::kudu::master::{MasterErrorPb, TsHeartbeatResponsePb, master_error_pb};
use proto::methods::master_service::{Ping, TSHeartbeat};
use rpc_core::{CallError, Messenger, Proxy};

use super::report::Heard;
use crate::node::SharedNode;

/// What all reporters of a server share.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) node: SharedNode,
    pub(super) registration: Arc<ServerRegistrationPb>,
    pub(super) messenger: Messenger,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    /// Masters that are reported to already: names that repeat one are left alone.
    pub(super) taken: Arc<Mutex<HashSet<SockAddr>>>,
}

/// Reports to one master.
pub(super) struct Reporter {
    common: Common,
    master: HostPort,
    proxy: Option<Proxy>,
    claim: Claim,
    heard: Heard,
}

/// The address that a reporter has for itself among those of one server.
struct Claim {
    taken: Arc<Mutex<HashSet<SockAddr>>>,
    own: Option<SockAddr>,
}

impl Claim {
    /// Claims `address` in place of the one before; false if another reporter has it.
    fn take(&mut self, address: &SockAddr) -> bool {
        if self.own.as_ref() == Some(address) {
            return true;
        }
        let mut taken = self.taken.lock();
        // Whatever comes of it, the old address is no longer the master's.
        if let Some(before) = self.own.take() {
            taken.remove(&before);
        }
        let free = taken.insert(address.clone());
        self.own = free.then(|| address.clone());
        free
    }
}

/// How it went with the master last time; told when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    There,
    Away,
    Repeated,
}

/// Why the master did not take a heartbeat.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Resolve(#[from] std::io::Error),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it answered {}: {}", .code.as_str_name(), .message)]
    Refused { code: master_error_pb::Code, message: String },
    #[error("it is the same master as another one in --tserver_master_addrs")]
    Repeated,
}

impl Reporter {
    pub(super) fn new(common: Common, master: HostPort) -> Self {
        let claim = Claim { taken: Arc::clone(&common.taken), own: None };
        Self { common, master, proxy: None, claim, heard: Heard::nothing() }
    }

    /// Runs until it is dropped. While the master is one that another reporter has, it only looks whether that is still so.
    pub(super) async fn run(mut self) {
        let mut news = self.common.node.tablets.subscribe();
        let mut state = None;
        let mut failures = 0;
        loop {
            news.borrow_and_update();
            let wait = match self.beat().await {
                Ok(again) => {
                    if state.replace(State::There) != Some(State::There) {
                        tracing::info!(master = %self.master, "reporting to the master");
                    }
                    failures = 0;
                    if again { Duration::ZERO } else { self.common.interval }
                }
                Err(Failure::Repeated) => {
                    if state.replace(State::Repeated) != Some(State::Repeated) {
                        tracing::info!(master = %self.master, "not used: {}", Failure::Repeated);
                    }
                    failures += 1;
                    REPEATED_PAUSE
                }
                Err(failure) => {
                    if state.replace(State::Away) != Some(State::Away) {
                        tracing::warn!(master = %self.master, "cannot report to the master: {failure}; trying on");
                    }
                    self.start_over();
                    failures += 1;
                    back_off(failures, self.common.interval)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Ok(()) = news.changed(), if failures == 0 => {}
            }
        }
    }

    /// One heartbeat; true if the next one should follow at once.
    async fn beat(&mut self) -> Result<bool, Failure> {
        let proxy = self.proxy().await?;
        let (node, registration) = (&self.common.node, &self.common.registration);
        let heartbeat = self.heard.next(node, registration);
        let mut call = proxy.call::<TSHeartbeat>(&heartbeat.request).timeout(self.common.timeout);
        if heartbeat.registers {
            call = call.feature(REPLICA_MANAGEMENT);
        }
        let response: TsHeartbeatResponsePb = call.send().await?.message;
        if let Some(error) = response.error {
            return Err(refused(&error));
        }
        self.heard.taken(heartbeat);
        let (registers, full) = (response.needs_reregister(), response.needs_full_tablet_report());
        if registers {
            self.heard.forget_registration();
        }
        if full {
            self.heard.forget_replicas();
        }
        Ok(registers || full)
    }

    /// The master's proxy; a new one is tried with a ping, so that a large report meets a master that listens.
    async fn proxy(&mut self) -> Result<Proxy, Failure> {
        if let Some(proxy) = &self.proxy {
            return Ok(proxy.clone());
        }
        let address = resolve(&self.master).await?;
        if !self.claim.take(&address) {
            return Err(Failure::Repeated);
        }
        let proxy = Proxy::new(&self.common.messenger, address, &self.master.host);
        proxy.call::<Ping>(&Default::default()).timeout(self.common.timeout).send().await?;
        Ok(self.proxy.insert(proxy).clone())
    }

    /// The master may come back at another address, or as one that has forgotten everything.
    fn start_over(&mut self) {
        self.proxy = None;
        self.heard = Heard::nothing();
    }
}

async fn resolve(master: &HostPort) -> std::io::Result<SockAddr> {
    if let Some(address) = master.as_ip() {
        return Ok(address);
    }
    let name = master.clone();
    let looked_up = tokio::task::spawn_blocking(move || name.resolve(&SystemResolver as &dyn Resolver));
    let addresses = looked_up.await.map_err(std::io::Error::other)??;
    let none =
        || std::io::Error::new(std::io::ErrorKind::NotFound, format!("no address for {}", master.host));
    addresses.into_iter().next().ok_or_else(none)
}

fn refused(error: &MasterErrorPb) -> Failure {
    Failure::Refused { code: error.code(), message: error.status.message().to_owned() }
}

/// A master that starts with this server is found soon; one that is away costs a try an interval.
fn back_off(failures: u32, interval: Duration) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.min(10)).min(interval)
}

/// Two names may lead to one address for a while, when a name server is being changed.
const REPEATED_PAUSE: Duration = Duration::from_secs(10);
/// Half the wait after a first failure.
const FIRST_RETRY: Duration = Duration::from_millis(10);
/// The master checks that it and this server replace replicas in the same way.
const REPLICA_MANAGEMENT: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_of_two_names_is_reported_to_once_for_as_long_as_they_lead_to_it() {
        let taken = Arc::default();
        let claim = || Claim { taken: Arc::clone(&taken), own: None };
        let (mut first, mut second) = (claim(), claim());
        let address = |text: &str| text.parse::<SockAddr>().unwrap();
        let (old, new) = (address("10.0.0.1:7051"), address("10.0.0.2:7051"));
        assert!(first.take(&old) && first.take(&old) && !second.take(&old));
        assert!(first.take(&new) && second.take(&old));
        assert!(!first.take(&old));
        assert!(second.take(&new), "the first one has left it");
    }
}
