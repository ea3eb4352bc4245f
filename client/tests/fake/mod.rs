//! Servers that misbehave on purpose: a master and tablet servers made of closures.
#![allow(dead_code)]

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use client::Client;
use client::net_addr::Resolver;
use client::schema::{Column, DataType, Schema};
use prost::Message;
use proto::kudu::master::tablet_locations_pb::InternedReplicaPb;
use proto::kudu::master::{
    ConnectToMasterResponsePb, GetTableLocationsRequestPb, GetTableLocationsResponsePb,
    GetTableSchemaResponsePb, ListTablesResponsePb, MasterErrorPb, TabletLocationsPb, TsInfoPb,
};
use proto::kudu::tserver::{TabletServerErrorPb, WriteResponsePb};
use proto::kudu::{
    AppStatusPb, HostPortPb, PartitionPb, PartitionSchemaPb, SchemaPb, partition_schema_pb::RangeSchemaPb,
};
use rpc_core::{
    Answer, InboundCall, InboundHandler, ReactorPool, RemoteError, Request, RpcErrorCode, ServerOptions,
};

/// What a fake does with a call.
pub(crate) enum Reply {
    Message(Vec<u8>),
    WithSidecars(Vec<u8>, Vec<Bytes>),
    Error(RpcErrorCode),
    /// No answer, ever.
    Silence,
    /// An answer that comes late.
    Later(Duration, Vec<u8>),
}

impl Reply {
    pub(crate) fn message(message: &impl Message) -> Reply {
        Reply::Message(message.encode_to_vec())
    }

    pub(crate) fn busy() -> Reply {
        Reply::Error(RpcErrorCode::ERROR_SERVER_TOO_BUSY)
    }
}

type Script = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

struct Handler(Script);

impl InboundHandler for Handler {
    fn handle(&self, call: InboundCall) {
        let (request, responder) = call.split();
        match (self.0)(&request) {
            Reply::Message(message) => responder.respond(message.into(), Vec::new()),
            Reply::WithSidecars(message, sidecars) => responder.respond(message.into(), sidecars),
            Reply::Error(code) => responder.fail(RemoteError::new(code, "said the fake")),
            // A responder that is dropped answers by itself.
            Reply::Silence => std::mem::forget(responder),
            Reply::Later(delay, message) => drop(std::thread::spawn(move || {
                std::thread::sleep(delay);
                responder.answer(Answer::Success { body: message.into(), sidecars: Vec::new() });
            })),
        }
    }
}

/// A listening server whose methods are one closure.
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    pool: Arc<ReactorPool>,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl FakeServer {
    pub(crate) fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> FakeServer {
        FakeServer::start_at("127.0.0.1:0".parse().unwrap(), ServerOptions::default(), script)
    }

    pub(crate) fn start_at(
        address: SocketAddr,
        options: ServerOptions,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> FakeServer {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.set_reuse_address(true).unwrap();
        listener.bind(&address.into()).unwrap();
        listener.listen(128).unwrap();
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let pool = Arc::new(ReactorPool::start("fake", 1).unwrap());
        let (stop, options) = (Arc::new(AtomicBool::new(false)), Arc::new(options));
        let handler: Arc<dyn InboundHandler> = Arc::new(Handler(Arc::new(script)));
        let acceptor = {
            let (pool, stop) = (pool.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    match listener.accept() {
                        Ok((socket, _)) => {
                            socket.set_nonblocking(true).unwrap();
                            drop(pool.adopt(socket.into(), handler.clone(), options.clone()));
                        }
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            })
        };
        FakeServer { address, pool, stop, acceptor: Some(acceptor) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn connections(&self) -> usize {
        self.pool.stats().connections.len()
    }

    pub(crate) fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().unwrap();
            self.pool.shutdown();
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.halt();
    }
}

/// A tablet as a fake master tells it. Servers are indexes; the first is the leader.
#[derive(Clone, Debug)]
pub(crate) struct FakeTablet {
    pub(crate) id: &'static str,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) servers: Vec<usize>,
}

impl FakeTablet {
    pub(crate) fn whole(id: &'static str, server: usize) -> FakeTablet {
        FakeTablet { id, start: Vec::new(), end: Vec::new(), servers: vec![server] }
    }
}

/// What a fake master knows.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) servers: Vec<(String, u16, Option<String>)>,
    pub(crate) tablets: Vec<FakeTablet>,
    /// How long locations may be believed; 5 min unless told otherwise.
    pub(crate) ttl_millis: Option<u32>,
}

/// A master that leads, knows one table of any name, and counts its calls.
pub(crate) struct FakeMaster {
    pub(crate) server: FakeServer,
    pub(crate) world: Arc<Mutex<World>>,
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

impl FakeMaster {
    pub(crate) fn start(world: World) -> FakeMaster {
        FakeMaster::start_with(world, |_, _| None)
    }

    /// `before` may answer in the master's place, given the method and how often it was called before.
    pub(crate) fn start_with(
        world: World,
        before: impl Fn(&str, usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> FakeMaster {
        let (world, counts) = (Arc::new(Mutex::new(world)), Arc::new(Mutex::new(HashMap::new())));
        let server = {
            let (world, counts) = (world.clone(), counts.clone());
            FakeServer::start(move |request| {
                let method = request.method().to_owned();
                let earlier = {
                    let mut counts = counts.lock().unwrap();
                    let count: &mut usize = counts.entry(method.clone()).or_default();
                    *count += 1;
                    *count - 1
                };
                before(&method, earlier).unwrap_or_else(|| answer(&method, request, &world.lock().unwrap()))
            })
        };
        FakeMaster { server, world, counts }
    }

    pub(crate) fn calls(&self, method: &str) -> usize {
        self.counts.lock().unwrap().get(method).copied().unwrap_or(0)
    }

    pub(crate) fn address(&self) -> String {
        self.server.address.to_string()
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address()).await.expect("the fake master leads")
    }
}

pub(crate) fn leader() -> Reply {
    let role = proto::kudu::consensus::raft_peer_pb::Role::Leader;
    Reply::message(&ConnectToMasterResponsePb { role: Some(role.into()), ..Default::default() })
}

pub(crate) fn follower() -> Reply {
    let role = proto::kudu::consensus::raft_peer_pb::Role::Follower;
    Reply::message(&ConnectToMasterResponsePb { role: Some(role.into()), ..Default::default() })
}

pub(crate) fn master_error(code: i32, status: i32) -> MasterErrorPb {
    MasterErrorPb {
        code,
        status: AppStatusPb { code: status, message: Some("said the fake".into()), posix_code: None },
    }
}

pub(crate) fn write_error(code: i32, status: i32) -> Reply {
    let status = AppStatusPb { code: status, message: Some("said the fake".into()), posix_code: None };
    let error = Some(TabletServerErrorPb { code, status });
    Reply::message(&WriteResponsePb { error, ..Default::default() })
}

pub(crate) fn written() -> Reply {
    Reply::message(&WriteResponsePb { timestamp: Some(4096), ..Default::default() })
}

/// `id` INT64 key.
pub(crate) fn schema() -> Schema {
    let columns =
        vec![Column::new("id", DataType::Int64), Column::new("text", DataType::String).nullable(true)];
    Schema::new(columns, 1).unwrap()
}

fn answer(method: &str, request: &Request, world: &World) -> Reply {
    match method {
        "ConnectToMaster" => leader(),
        "ListTables" => Reply::message(&ListTablesResponsePb::default()),
        "GetTableSchema" => {
            let schema = schema().with_sequential_ids(0);
            let id = proto::kudu::partition_schema_pb::column_identifier_pb::Identifier::Id(0);
            let column = proto::kudu::partition_schema_pb::ColumnIdentifierPb { identifier: Some(id) };
            Reply::message(&GetTableSchemaResponsePb {
                schema: Some(SchemaPb::from(&schema)),
                partition_schema: Some(PartitionSchemaPb {
                    range_schema: Some(RangeSchemaPb { columns: vec![column] }),
                    ..Default::default()
                }),
                num_replicas: Some(1),
                table_id: Some(b"00000000000000000000000000000001"[..].into()),
                table_name: Some("fake".into()),
                ..Default::default()
            })
        }
        "GetTableLocations" => {
            let request = GetTableLocationsRequestPb::decode(request.body().clone()).unwrap();
            locations(&request, world)
        }
        other => panic!("the fake master does not know {other}"),
    }
}

fn locations(request: &GetTableLocationsRequestPb, world: &World) -> Reply {
    let start = request.partition_key_start().to_vec();
    let first = world.tablets.iter().rposition(|tablet| tablet.start <= start).unwrap_or(0);
    let max = request.max_returned_locations() as usize;
    let tablet = |tablet: &FakeTablet| TabletLocationsPb {
        tablet_id: tablet.id.as_bytes().to_vec().into(),
        partition: Some(PartitionPb {
            partition_key_start: Some(tablet.start.clone().into()),
            partition_key_end: Some(tablet.end.clone().into()),
            ..Default::default()
        }),
        interned_replicas: tablet
            .servers
            .iter()
            .enumerate()
            .map(|(place, server)| InternedReplicaPb {
                ts_info_idx: *server as u32,
                role: i32::from(place == 0),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let ts_infos = world.servers.iter().enumerate().map(|(index, (host, port, unix))| TsInfoPb {
        permanent_uuid: format!("uuid-{index}").into_bytes().into(),
        rpc_addresses: vec![HostPortPb { host: host.clone(), port: u32::from(*port) }],
        unix_domain_socket_path: unix.clone(),
        ..Default::default()
    });
    Reply::message(&GetTableLocationsResponsePb {
        tablet_locations: world.tablets.iter().skip(first).take(max).map(tablet).collect(),
        ttl_millis: world.ttl_millis.or(Some(300_000)),
        ts_infos: ts_infos.collect(),
        ..Default::default()
    })
}

/// A resolver made of a closure that counts its look-ups.
pub(crate) struct FakeResolver<F> {
    pub(crate) look_ups: Arc<AtomicUsize>,
    pub(crate) resolve: F,
}

impl<F> Resolver for FakeResolver<F>
where
    F: Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
{
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.look_ups.fetch_add(1, Ordering::SeqCst);
        (self.resolve)(host)
    }
}
