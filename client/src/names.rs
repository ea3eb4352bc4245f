//! Host names to addresses without holding up the caller's thread.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net_addr::{CachingResolver, HostPort, Resolver, SockAddr};
use parking_lot::Mutex;

/// Resolves names, at most one look-up a name and time to live, each on a thread where blocking is allowed.
#[derive(Clone)]
pub(crate) struct Names {
    resolver: Arc<CachingResolver<Arc<dyn Resolver>>>,
    hosts: Arc<Mutex<HashMap<String, Arc<Host>>>>,
}

#[derive(Default)]
struct Host {
    /// Held during a look-up, so that the others wait without a thread each.
    looking_up: tokio::sync::Mutex<()>,
    /// How often an address of the host failed: the next of its addresses is used then.
    failures: Mutex<usize>,
}

impl Names {
    pub(crate) fn new(resolver: Arc<dyn Resolver>, ttl: Duration) -> Names {
        Names { resolver: Arc::new(CachingResolver::new(resolver, ttl)), hosts: Arc::default() }
    }

    /// One address of the host, by `deadline`.
    pub(crate) async fn resolve(&self, host: &HostPort, deadline: Instant) -> io::Result<SockAddr> {
        if let Some(address) = host.as_ip() {
            return Ok(address);
        }
        let known = self.host(&host.host);
        let look_up = async {
            let _turn = known.looking_up.lock().await;
            if let Some(answer) = self.resolver.peek(&host.host) {
                return answer;
            }
            let (resolver, name) = (self.resolver.clone(), host.host.clone());
            tokio::task::spawn_blocking(move || resolver.resolve(&name)).await.map_err(io::Error::other)?
        };
        let mut ips = match self.resolver.peek(&host.host) {
            Some(answer) => answer?,
            None => tokio::time::timeout_at(deadline.into(), look_up).await.map_err(|_| {
                io::Error::new(io::ErrorKind::TimedOut, format!("looking up `{}` took too long", host.host))
            })??,
        };
        // Real Kudu servers listen on IPv4 only, and `localhost` often gives ::1 first.
        ips.sort_by_key(|ip| ip.is_ipv6());
        let failures = *known.failures.lock();
        let ip = failures.checked_rem(ips.len()).and_then(|index| ips.get(index));
        ip.map(|ip| SockAddr::from((*ip, host.port)))
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("`{}` has no address", host.host)))
    }

    /// Nothing answered at the host's address: the next call looks the name up again, and tries its next address.
    pub(crate) fn mark_failed(&self, host: &HostPort) {
        if host.as_ip().is_none() {
            let known = self.host(&host.host);
            let mut failures = known.failures.lock();
            *failures = failures.wrapping_add(1);
            self.resolver.invalidate(&host.host);
        }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        self.hosts.lock().entry(name.to_owned()).or_default().clone()
    }
}
