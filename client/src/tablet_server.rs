//! Calls to tablet servers: one try, by the unix socket or TCP, and what the cache learns from one that failed.

use std::sync::Arc;
use std::time::Instant;

use meta_cache::{Endpoint, Server, Tablet};
use proto::kudu::tserver::{
    ScanResponsePb, ScannerKeepAliveResponsePb, SplitKeyRangeResponsePb, TabletServerErrorPb, WriteResponsePb,
};
use proto::nyala::tserver::LocalScanResponsePb;
use rpc_core::{CallError, Descriptors, Method, Proxy, RequestId, Response};

use crate::client::Shared;
use crate::code::{Refusal, TabletCode};
use crate::error::AttemptError;
use crate::retry::{Advice, Deadline, is_unreachable};

/// What a call to a tablet server needs besides its request.
#[derive(Clone)]
pub(crate) struct CallSpec {
    pub(crate) deadline: Instant,
    pub(crate) features: Vec<u32>,
    pub(crate) request_id: Option<RequestId>,
}

impl Shared {
    /// What descriptors of a tablet server's memory come to, if its connection is made, by a unix socket, and it shares any.
    pub(crate) fn descriptors(&self, server: &Server) -> Option<Arc<Descriptors>> {
        let Endpoint::Unix { path, .. } = self.cache.endpoint(server, Instant::now()) else { return None };
        Proxy::new(&self.messenger, path, &server.host_port().host).descriptors()
    }

    /// One try at one tablet server. A unix socket that cannot be connected gives way to TCP within the same try.
    pub(crate) async fn try_server<M>(
        &self,
        server: &Server,
        request: &M::Request,
        spec: CallSpec,
    ) -> Result<Response<M::Response>, AttemptError>
    where
        M: Method,
        M::Response: TabletAnswer,
    {
        loop {
            let endpoint = self.cache.endpoint(server, Instant::now());
            let host = endpoint.host_port().clone();
            let address = match &endpoint {
                Endpoint::Unix { path, .. } => path.clone(),
                Endpoint::Tcp(host) => self.names.resolve(host, spec.deadline).await.map_err(|source| {
                    AttemptError::Resolve { host: host.clone(), source: Arc::new(source) }
                })?,
            };
            let proxy = Proxy::new(&self.messenger, address.clone(), &host.host);
            let mut call = proxy.call::<M>(request).deadline(spec.deadline);
            for feature in &spec.features {
                call = call.feature(*feature);
            }
            if let Some(request_id) = &spec.request_id {
                call = call.request_id(request_id.clone());
            }
            match call.send().await {
                Ok(response) => {
                    return match response.message.refusal() {
                        None => Ok(response),
                        Some(error) => {
                            let refusal = Refusal::new(TabletCode(error.code), &error.status);
                            Err(AttemptError::Tablet { host, refusal })
                        }
                    };
                }
                Err(CallError::Network { sent: false, source, .. }) if endpoint.is_unix() => {
                    tracing::warn!(server = %host, error = %source, "its unix socket cannot be used, trying TCP");
                    self.cache.mark_unix_unreachable(server, Instant::now());
                }
                Err(source) => {
                    if is_unreachable(&source) {
                        self.names.mark_failed(&host, &address);
                    }
                    return Err(AttemptError::call(&host, source));
                }
            }
        }
    }

    /// Tells the cache what a failed try says about a tablet and its server.
    pub(crate) fn learn(
        &self,
        tablet: &Tablet,
        server: &Server,
        error: &AttemptError,
        advice: Advice,
        deadline: &Deadline,
    ) {
        // A caller without patience says nothing about the server.
        if deadline.is_over() && error.call_error().is_some_and(CallError::is_timeout) {
            return;
        }
        match advice {
            Advice::ServerFailed => self.cache.mark_server_failed(server),
            Advice::ReplicaFailed => self.cache.mark_failed(tablet, server.uuid()),
            Advice::NotLeader => self.cache.mark_not_leader(tablet, server.uuid()),
            Advice::TabletGone => self.cache.invalidate(tablet),
            Advice::SameServer | Advice::ScannerGone | Advice::NewToken | Advice::GiveUp => {}
        }
    }
}

pub(crate) fn no_replica(tablet: &Tablet) -> AttemptError {
    let servers: Vec<String> =
        tablet.replicas().iter().map(|replica| replica.server().host_port().to_string()).collect();
    AttemptError::NoReplica { tablet: tablet.id().to_owned(), servers: servers.join(", ") }
}

/// An answer of a tablet server that may hold a refusal.
pub(crate) trait TabletAnswer {
    fn refusal(&self) -> Option<&TabletServerErrorPb>;
}

macro_rules! tablet_answers {
    ($($message:ty),*) => {$(
        impl TabletAnswer for $message {
            fn refusal(&self) -> Option<&TabletServerErrorPb> {
                self.error.as_ref()
            }
        }
    )*};
}
tablet_answers!(WriteResponsePb, ScanResponsePb, ScannerKeepAliveResponsePb, SplitKeyRangeResponsePb);

impl TabletAnswer for LocalScanResponsePb {
    fn refusal(&self) -> Option<&TabletServerErrorPb> {
        self.scan.error.as_ref()
    }
}
