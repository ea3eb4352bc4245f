//! Host names to addresses without holding up the caller's thread.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
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
    /// Addresses of the host that nobody answered at; the others are used first.
    failed: Mutex<Vec<IpAddr>>,
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
        let mut failed = known.failed.lock();
        if ips.iter().all(|ip| failed.contains(ip)) {
            failed.clear();
        }
        let ip = ips.into_iter().find(|ip| !failed.contains(ip));
        ip.map(|ip| SockAddr::from((ip, host.port)))
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("`{}` has no address", host.host)))
    }

    /// Nobody answered at this address of the host: the next call looks the name up again, and tries another address of
    /// it first.
    pub(crate) fn mark_failed(&self, host: &HostPort, address: &SockAddr) {
        let Some(ip) = address.ip().filter(|_| host.as_ip().is_none()) else { return };
        let known = self.host(&host.host);
        let mut failed = known.failed.lock();
        if !failed.contains(&ip) {
            failed.push(ip);
            self.resolver.invalidate(&host.host);
        }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        self.hosts.lock().entry(name.to_owned()).or_default().clone()
    }
}
