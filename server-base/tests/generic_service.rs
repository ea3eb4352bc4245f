//! A server that has nothing but GenericService, asked over sockets.

use std::sync::Arc;
use std::time::Duration;

use net_addr::SockAddr;
use proto::kudu::server::{GetFlagsRequestPb, SetFlagRequestPb};
use proto::methods::generic_service::{
    CheckLeaks, DumpMemTrackers, FlushCoverage, GetFlags, GetStatus, ServerClock as Clock, SetFlag,
};
use rpc_core::{Messenger, Method, Proxy, RpcErrorCode};
use rpc_server::Server;
use server_base::acl::{AccessRules, process_user};
use server_base::flags::{FlagSet, Role};
use server_base::{GenericService, ServerClock, ServerIdentity};

struct Running {
    server: Arc<Server>,
    identity: ServerIdentity,
    clock: ServerClock,
}

fn start() -> Running {
    let flags = FlagSet::builder(Role::Master, "test").build();
    let (identity, clock) = (ServerIdentity::new(), ServerClock::new());
    let server = Server::builder()
        .reactors(1)
        .bind("127.0.0.1:0".parse().unwrap())
        .bind_unix(&identity.unix_socket())
        .authorizer(AccessRules::from_flags(&flags).authorizer())
        .start()
        .unwrap();
    let service = GenericService {
        identity: identity.clone(),
        flags,
        clock: clock.clone(),
        bound: server.bound_addresses().to_vec(),
        memory: Arc::new(|| vec![server_base::Tracker { id: "rows".to_owned(), limit: None, bytes: 4711 }]),
    };
    server.register(service.into_service()).unwrap();
    server.ready();
    Running { server: Arc::new(server), identity, clock }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn proxy(user: &str, address: &SockAddr) -> Proxy {
    Proxy::new(&Messenger::builder().user(user).build(), address.clone(), "127.0.0.1")
}

async fn call<M: Method>(proxy: &Proxy, request: M::Request) -> Result<M::Response, RpcErrorCode> {
    match proxy.call::<M>(&request).timeout(Duration::from_secs(10)).send().await {
        Ok(response) => Ok(response.message),
        Err(error) => Err(error.remote().and_then(|remote| remote.code).unwrap_or_else(|| panic!("{error}"))),
    }
}

#[test]
fn status_and_clock_are_told_on_every_address() {
    let running = start();
    run(async {
        for address in running.server.bound_addresses() {
            let proxy = proxy("somebody", address);
            let status = call::<GetStatus>(&proxy, Default::default()).await.unwrap().status;
            assert_eq!(status, running.identity.status(running.server.bound_addresses()));
            assert_eq!(status.bound_rpc_addresses.len(), 1);
            assert_ne!(status.bound_rpc_addresses[0].port, 0);
            let before = running.clock.now().0;
            let told = call::<Clock>(&proxy, Default::default()).await.unwrap().timestamp();
            assert!(before < told && told < running.clock.now().0);
        }
    });
    running.server.shutdown();
}

#[test]
fn flags_belong_to_the_administrator() {
    let running = start();
    run(async {
        let address = &running.server.bound_addresses()[0];
        let set = SetFlagRequestPb { flag: "v".to_owned(), value: "0".to_owned(), ..Default::default() };

        let somebody = proxy("somebody", address);
        assert_eq!(call::<SetFlag>(&somebody, set.clone()).await, Err(RpcErrorCode::ERROR_APPLICATION));

        let owner = proxy(&process_user(), address);
        assert_eq!(call::<SetFlag>(&owner, set).await.unwrap().old_value(), "0");
        let flags = call::<GetFlags>(&owner, GetFlagsRequestPb::default()).await.unwrap().flags;
        assert_eq!(flags.iter().map(|flag| flag.name()).collect::<Vec<_>>(), ["v"]);
        assert_eq!(call::<FlushCoverage>(&owner, Default::default()).await.unwrap().success, Some(false));
        let leaks = call::<CheckLeaks>(&owner, Default::default()).await.unwrap();
        assert_eq!((leaks.success, leaks.found_leaks), (Some(false), None));
        let root = call::<DumpMemTrackers>(&owner, Default::default()).await.unwrap().root_tracker.unwrap();
        let rows = &root.child_trackers[0].child_trackers[0];
        assert_eq!((rows.id(), rows.current_consumption(), rows.limit()), ("rows", 4711, -1));
    });
    running.server.shutdown();
}
