//! What goes on in a server, as data.

use std::sync::Arc;
use std::time::Duration;

use rpc_core::reactor::CallsInFlight;

use crate::Server;
use crate::metrics::MethodMetrics;

/// One registered service.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceStats {
    /// Full name.
    pub name: &'static str,
    /// Threads that run its calls; 0 if all its methods run on the reactors.
    pub threads: usize,
    /// Calls that may wait for a thread.
    pub queue_length: usize,
    /// Calls that wait now.
    pub queued: usize,
}

/// One method of a registered service.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MethodStats {
    /// Full name of the service.
    pub service: &'static str,
    /// Name of the method.
    pub method: &'static str,
    /// Runs on the reactor that read the call.
    pub cheap: bool,
    /// Counters, histograms, sampled calls; they go on counting.
    pub metrics: Arc<MethodMetrics>,
}

impl Server {
    /// The registered services, by name.
    pub fn services(&self) -> Vec<ServiceStats> {
        let services = self.dispatch.services.load();
        let stats = services.values().map(|registered| ServiceStats {
            name: registered.service.name,
            threads: registered.pool.as_ref().map_or(0, |_| registered.service.threads),
            queue_length: registered.pool.as_ref().map_or(0, |_| registered.service.queue_length),
            queued: registered.pool.as_ref().map_or(0, |pool| pool.queued()),
        });
        let mut stats: Vec<_> = stats.collect();
        stats.sort_by_key(|service| service.name);
        stats
    }

    /// All methods that can be called, by service and name.
    pub fn methods(&self) -> Vec<MethodStats> {
        let services = self.dispatch.services.load();
        let methods = services.values().flat_map(|registered| {
            let service = &registered.service;
            service.methods.iter().map(|(method, entry)| MethodStats {
                service: service.name,
                method,
                cheap: entry.cheap,
                metrics: Arc::clone(&entry.metrics),
            })
        });
        let mut methods: Vec<_> = methods.collect();
        methods.sort_by_key(|method| (method.service, method.method));
        methods
    }

    /// What is counted of one method; `None` if it is not registered.
    pub fn method_metrics(&self, service: &str, method: &str) -> Option<Arc<MethodMetrics>> {
        let services = self.dispatch.services.load();
        services.get(service)?.service.methods.get(method).map(|entry| Arc::clone(&entry.metrics))
    }

    /// The calls that are not yet answered, waiting or running; see [`rpc_core::ReactorPool::calls_in_flight`]. Not to be called by a
    /// cheap handler, whose reactor could not tell.
    pub fn calls_in_flight(&self, patience: Duration) -> CallsInFlight {
        self.reactors().calls_in_flight(patience)
    }
}
