//! A master in this process, a client's proxy to it, and tablet servers that only pretend.
#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use master::{Master, MasterOptions};
use net_addr::SockAddr;
use parking_lot::Mutex;
use proto::Method;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::consensus::raft_peer_pb::MemberType;
use proto::kudu::consensus::replica_management_info_pb::ReplacementScheme;
use proto::kudu::consensus::{ConsensusStatePb, RaftConfigPb, RaftPeerPb, ReplicaManagementInfoPb};
use proto::kudu::master::{
    CreateTableRequestPb, IsCreateTableDoneRequestPb, ReportedTabletPb, TableIdentifierPb, TabletReportPb,
    TsHeartbeatRequestPb, TsHeartbeatResponsePb, TsToMasterCommonPb,
};
use proto::kudu::partition_schema_pb::column_identifier_pb::Identifier;
use proto::kudu::partition_schema_pb::{ColumnIdentifierPb, HashBucketSchemaPb};
use proto::kudu::tserver::CreateTabletResponsePb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::{
    ColumnSchemaPb, DataType, HostPortPb, NodeInstancePb, PartitionSchemaPb, SchemaPb, ServerRegistrationPb,
};
use proto::methods::master_service as m;
use proto::methods::tablet_server_admin_service::{AlterSchema, CreateTablet, DeleteTablet};
use rpc_core::{CallError, Messenger, Proxy};
use rpc_server::{Call, Server, Service};

pub fn start(flags: &[&str]) -> Master {
    let set = MasterOptions::flags();
    set.parse(["--rpc_bind_addresses=127.0.0.1:0"].iter().chain(flags).copied()).unwrap();
    Master::start(MasterOptions::from_flags(&set, &net_addr::SystemResolver).unwrap()).unwrap()
}

/// Runs a test's future to its end.
pub fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[derive(Clone)]
pub struct Client(pub Proxy);

impl Client {
    pub fn to(address: &SockAddr) -> Self {
        let user = server_base::acl::process_user();
        Self(Proxy::new(&Messenger::builder().user(user).build(), address.clone(), "127.0.0.1"))
    }

    pub async fn try_call<M: Method>(&self, request: &M::Request) -> Result<M::Response, CallError> {
        self.0
            .call::<M>(request)
            .timeout(Duration::from_secs(10))
            .send()
            .await
            .map(|response| response.message)
    }

    pub async fn call<M: Method>(&self, request: &M::Request) -> M::Response {
        self.try_call::<M>(request).await.unwrap()
    }

    /// Creates a table and waits until it is there; returns its id.
    pub async fn create(&self, request: CreateTableRequestPb) -> Bytes {
        let name = request.name.clone();
        let created = self.call::<m::CreateTable>(&request).await;
        assert_eq!(created.error, None);
        let table = table(&name);
        for _ in 0..2000 {
            let request = IsCreateTableDoneRequestPb { table: table.clone() };
            if self.call::<m::IsCreateTableDone>(&request).await.done() {
                return created.table_id.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{name} was not created within seconds");
    }
}

pub fn table(name: &str) -> TableIdentifierPb {
    TableIdentifierPb { table_name: Some(name.into()), table_id: None }
}

pub fn column(name: &str, key: bool) -> ColumnSchemaPb {
    ColumnSchemaPb {
        name: name.into(),
        r#type: DataType::Int32 as i32,
        is_key: Some(key),
        is_nullable: Some(!key),
        ..Default::default()
    }
}

/// A table of two columns, hashed into `buckets`; 1 is no hashing.
pub fn hashed(name: &str, buckets: i32) -> CreateTableRequestPb {
    let identifier = Some(Identifier::Name("id".into()));
    let hash = HashBucketSchemaPb {
        columns: vec![ColumnIdentifierPb { identifier }],
        num_buckets: buckets,
        ..Default::default()
    };
    CreateTableRequestPb {
        name: name.into(),
        schema: SchemaPb { columns: vec![column("id", true), column("v", false)] },
        partition_schema: Some(PartitionSchemaPb {
            hash_schema: vec![hash].into_iter().filter(|_| buckets != 1).collect(),
            ..Default::default()
        }),
        num_replicas: Some(1),
        ..Default::default()
    }
}

/// A tablet server that says yes to everything and remembers what it was asked.
pub struct Tserver {
    pub uuid: String,
    pub server: Server,
    pub created: Arc<Mutex<Vec<String>>>,
    pub deleted: Arc<Mutex<Vec<String>>>,
    /// Tablets and the schema versions that it was told.
    pub altered: Arc<Mutex<Vec<(String, u32)>>>,
    /// While true it fails all requests.
    pub broken: Arc<AtomicBool>,
    /// Why it makes no tablet, whoever asks how often.
    pub refuses: Arc<Mutex<Option<String>>>,
    /// How often it was asked to make one.
    pub asked: Arc<AtomicUsize>,
    /// What it tells the master of its addresses.
    pub hosts: Vec<(String, u16)>,
    pub proxy_address: Option<HostPortPb>,
}

impl Tserver {
    pub fn start(uuid: &str) -> Self {
        let broken = Arc::new(AtomicBool::new(false));
        let (created, deleted) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let (list, fails) = (Arc::clone(&created), Arc::clone(&broken));
        let (refuses, asked) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
        let (why, count) = (Arc::clone(&refuses), Arc::clone(&asked));
        let create = move |call: Call<CreateTablet>| {
            count.fetch_add(1, Ordering::SeqCst);
            if let Some(why) = &*why.lock() {
                let (code, kind) = (Code::InvalidSchema, ErrorCode::NotSupported);
                let error = Some(server_base::consensus::error(code, kind, why));
                return call.respond(&CreateTabletResponsePb { error });
            }
            if fails.load(Ordering::SeqCst) {
                return call.fail_application("IO error: out of space");
            }
            list.lock().push(text(&call.request().tablet_id));
            call.respond(&Default::default());
        };
        let (list, fails) = (Arc::clone(&deleted), Arc::clone(&broken));
        let delete = move |call: Call<DeleteTablet>| {
            if fails.load(Ordering::SeqCst) {
                return call.fail_application("IO error: out of space");
            }
            list.lock().push(text(&call.request().tablet_id));
            call.respond(&Default::default());
        };
        let altered = Arc::new(Mutex::new(Vec::new()));
        let (list, fails) = (Arc::clone(&altered), Arc::clone(&broken));
        let alter = move |call: Call<AlterSchema>| {
            if fails.load(Ordering::SeqCst) {
                return call.fail_application("IO error: out of space");
            }
            list.lock().push((text(&call.request().tablet_id), call.request().schema_version));
            call.respond(&Default::default());
        };
        let service = Service::builder("kudu.tserver.TabletServerAdminService")
            .method::<CreateTablet>(create)
            .method::<AlterSchema>(alter)
            .method::<DeleteTablet>(delete)
            .build();
        let server = Server::builder()
            .reactors(1)
            .bind("127.0.0.1:0".parse().unwrap())
            .service(service)
            .start()
            .unwrap();
        let hosts = vec![("127.0.0.1".into(), server.bound_addresses()[0].port().unwrap())];
        Self {
            uuid: uuid.into(),
            server,
            created,
            deleted,
            altered,
            broken,
            refuses,
            asked,
            hosts,
            proxy_address: None,
        }
    }

    pub fn port(&self) -> u16 {
        self.server.bound_addresses()[0].port().unwrap()
    }

    /// A heartbeat that registers and reports no tablets.
    pub fn heartbeat(&self) -> TsHeartbeatRequestPb {
        let host = |(host, port): &(String, u16)| HostPortPb { host: host.clone(), port: (*port).into() };
        let scheme = ReplacementScheme::PrepareReplacementBeforeEviction as i32;
        let instance = NodeInstancePb {
            permanent_uuid: Bytes::copy_from_slice(self.uuid.as_bytes()),
            instance_seqno: 1,
        };
        TsHeartbeatRequestPb {
            common: TsToMasterCommonPb { ts_instance: instance },
            registration: Some(ServerRegistrationPb {
                rpc_addresses: self.hosts.iter().map(host).collect(),
                rpc_proxy_addresses: self.proxy_address.clone().into_iter().collect(),
                unix_domain_socket_path: Some(format!("@kudu-{}", self.uuid)),
                ..Default::default()
            }),
            tablet_report: Some(TabletReportPb { is_incremental: false, ..Default::default() }),
            replica_management_info: Some(ReplicaManagementInfoPb { replacement_scheme: Some(scheme) }),
            ..Default::default()
        }
    }

    /// A heartbeat that reports these tablets.
    pub fn heartbeat_with(&self, tablets: impl Iterator<Item = ReportedTabletPb>) -> TsHeartbeatRequestPb {
        let tablet_report = Some(TabletReportPb { updated_tablets: tablets.collect(), ..Default::default() });
        TsHeartbeatRequestPb { tablet_report, registration: None, ..self.heartbeat() }
    }

    pub async fn register(&self, client: &Client) -> TsHeartbeatResponsePb {
        let beat = self.heartbeat();
        let call = client.0.call::<m::TSHeartbeat>(&beat).feature(4).timeout(Duration::from_secs(5));
        call.send().await.unwrap().message
    }
}

/// What the leader of a tablet reports whose replicas are on `peers`.
pub fn report(tablet: &str, leader: &str, peers: &[String]) -> ReportedTabletPb {
    let peer = |uuid: &String| RaftPeerPb {
        permanent_uuid: Some(Bytes::copy_from_slice(uuid.as_bytes())),
        member_type: Some(MemberType::Voter as i32),
        ..Default::default()
    };
    let peers = peers.iter().map(peer).collect();
    let committed_config = RaftConfigPb { opid_index: Some(1), peers, ..Default::default() };
    ReportedTabletPb {
        tablet_id: Bytes::copy_from_slice(tablet.as_bytes()),
        consensus_state: Some(ConsensusStatePb {
            current_term: 1,
            leader_uuid: Some(leader.to_owned()),
            committed_config,
            pending_config: None,
        }),
        ..Default::default()
    }
}

/// Waits for `condition`, at most thirty seconds.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..30_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{what}: not within thirty seconds");
}
