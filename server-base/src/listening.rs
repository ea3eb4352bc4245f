//! A server that listens: which addresses it got, and what it tells of them.

use std::sync::Arc;

use net_addr::{HostPort, LocalAddresses, Resolver, SockAddr};
use proto::kudu::ServerRegistrationPb;
use rpc_server::{BindError, Server};

use crate::acl::AccessRules;
use crate::flags::FlagSet;
use crate::{GenericService, MemoryUse, RpcOptions, ServerClock, ServerIdentity, advertise, host_port_pb};

/// A server whose ports are known and whose services are still to be registered.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listening {
    /// Stops when it is dropped.
    pub server: Server,
    /// The addresses of `--rpc_bind_addresses`, ports filled in.
    pub bound: Vec<SockAddr>,
    /// The addresses of `--rpc_proxied_addresses`, ports filled in; one that is also among `bound` is one socket.
    pub proxied: Vec<SockAddr>,
    /// The unix socket, if it listens there.
    pub unix: Option<SockAddr>,
    /// What clients are told that come by `bound`.
    pub advertised: Vec<HostPort>,
    /// What clients are told that come by `proxied`; empty without a proxy.
    pub proxy_advertised: Vec<HostPort>,
}

impl Listening {
    /// Listens as `rpc` says, under the access rules of `flags`. Calls get ERROR_UNAVAILABLE until their service is registered.
    /// Blocks while it looks up its own name, which it does only if it listens on all interfaces.
    ///
    /// # Errors
    /// [`BindError`] names the address and the cause; nothing is left bound then.
    pub fn start(
        name: &str,
        rpc: &RpcOptions,
        identity: &ServerIdentity,
        flags: &FlagSet,
        resolver: &dyn Resolver,
    ) -> Result<Self, BindError> {
        let mut builder = Server::builder()
            .name(name)
            .reactors(rpc.reactors)
            .options(rpc.connection_options())
            .authorizer(AccessRules::from_flags(flags).authorizer());
        let is_bound = |address: &SockAddr| address.port() != Some(0) && rpc.bind.contains(address);
        for address in rpc.bind.iter().chain(rpc.proxied.iter().filter(|address| !is_bound(address))) {
            builder = builder.bind(address.clone());
        }
        if rpc.unix_socket {
            builder = builder.bind_unix(&identity.unix_socket());
        }
        let server = builder.start()?;
        let mut addresses = server.bound_addresses().iter().cloned();
        let bound: Vec<SockAddr> = addresses.by_ref().take(rpc.bind.len()).collect();
        let got =
            |address: &SockAddr| if is_bound(address) { Some(address.clone()) } else { addresses.next() };
        let proxied: Vec<SockAddr> = rpc.proxied.iter().filter_map(got).collect();
        let unix = server.bound_addresses().last().filter(|address| address.is_unix()).cloned();
        let advertised =
            advertise::rpc_addresses(&bound, &rpc.advertised, LocalAddresses::system(), resolver);
        let proxy_advertised = rpc.proxy_advertised.clone();
        Ok(Self { server, bound, proxied, unix, advertised, proxy_advertised })
    }

    /// What the server tells of itself. Who names addresses to advertise names all of them: the unix socket is left out then.
    pub fn registration(&self, identity: &ServerIdentity, rpc: &RpcOptions) -> ServerRegistrationPb {
        let unix = self.unix.as_ref().filter(|_| rpc.advertised.is_empty());
        let mut registration = identity.registration(&self.advertised, unix);
        registration.rpc_proxy_addresses = self.proxy_advertised.iter().cloned().map(host_port_pb).collect();
        registration
    }

    /// `kudu.server.GenericService` of this server.
    pub fn generic_service(
        &self,
        identity: &ServerIdentity,
        flags: &FlagSet,
        clock: &ServerClock,
        memory: Arc<MemoryUse>,
    ) -> rpc_server::Service {
        let (identity, flags, clock) = (identity.clone(), flags.clone(), clock.clone());
        GenericService { identity, flags, clock, bound: self.bound.clone(), memory }.into_service()
    }
}

#[cfg(test)]
mod tests {
    use net_addr::SystemResolver;

    use super::*;
    use crate::RPC_FLAGS;
    use crate::flags::Role;

    fn listen(arguments: &[String]) -> Listening {
        let flags = FlagSet::builder(Role::TabletServer, "test").acts_on_all(RPC_FLAGS).build();
        flags.parse(arguments).unwrap();
        let rpc = RpcOptions::from_flags(&flags, 7050, &SystemResolver).unwrap();
        Listening::start("Test", &rpc, &ServerIdentity::new(), &flags, &SystemResolver).unwrap()
    }

    #[test]
    fn an_address_that_is_bound_and_proxied_is_one_socket() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listening = listen(&[
            format!("--rpc_bind_addresses={free}"),
            format!("--rpc_proxied_addresses=127.0.0.1:0,{free},127.0.0.2:0"),
            "--rpc_proxy_advertised_addresses=outside:1".to_owned(),
            "--rpc_listen_on_unix_domain_socket".to_owned(),
        ]);
        assert_eq!(listening.bound, [free.into()]);
        assert_eq!(listening.server.bound_addresses().len(), 4);
        assert!(listening.unix.is_some());
        assert_eq!(listening.proxied.len(), 3);
        assert_eq!(listening.proxied[1], free.into());
        for address in &listening.proxied {
            assert_ne!(address.port(), Some(0));
            assert!(listening.server.bound_addresses().contains(address), "{address}");
        }
    }
}
