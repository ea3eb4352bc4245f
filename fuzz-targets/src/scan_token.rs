//! Scan tokens of other clients.

use std::sync::OnceLock;

use bytes::Bytes;
use client::{Client, ScanToken};
use mini_cluster::MiniCluster;
use parking_lot::Mutex;
use prost::Message;
use proto::kudu::client::tablet_metadata_pb::ReplicaMetadataPb;
use proto::kudu::client::{ScanTokenPb, ServerMetadataPb, TableMetadataPb, TabletMetadataPb};
use proto::kudu::column_predicate_pb::{InList, IsNotNull, Predicate, Range};
use proto::kudu::partition_schema_pb::{ColumnIdentifierPb, HashBucketSchemaPb, column_identifier_pb};
use proto::kudu::{ColumnPredicatePb, HostPortPb, PartitionPb, PartitionSchemaPb, SchemaPb};
use tokio::runtime::Runtime;

use crate::row_operations::small;

/// A token that is taken is written again with the same content. The scan is opened, as far as that goes without one of the
/// servers that the token names: the table is asked for where the token does not tell it, and is not there.
pub fn run(bytes: &[u8]) {
    let Ok(token) = ScanToken::from_bytes(bytes) else { return };
    match ScanToken::from_bytes(&token.to_bytes()) {
        Ok(again) => assert!(again == token, "another token: {again:?}"),
        Err(error) => panic!("what we write is refused: {error}"),
    }
    let rig = Rig::get();
    let client = rig.client();
    if let Err(error) = rig.runtime.block_on(client.open_token(&token)).map(drop) {
        assert!(!error.to_string().is_empty());
    }
}

/// A master without tables, and a client of it.
struct Rig {
    runtime: Runtime,
    cluster: MiniCluster,
    client: Mutex<(Client, usize)>,
}

impl Rig {
    fn get() -> &'static Rig {
        static RIG: OnceLock<Rig> = OnceLock::new();
        RIG.get_or_init(|| {
            Rig::start().unwrap_or_else(|error| unreachable!("a cluster in this process: {error}"))
        })
    }

    fn start() -> Result<Rig, Box<dyn std::error::Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let cluster = MiniCluster::builder().tservers(1).start_blocking()?;
        let client = runtime.block_on(Client::connect(&cluster.master_address()))?;
        Ok(Rig { runtime, cluster, client: Mutex::new((client, 0)) })
    }

    /// A new one from time to time, since each remembers where the tablets of tokens are.
    fn client(&self) -> Client {
        let (client, uses) = &mut *self.client.lock();
        *uses += 1;
        if *uses > USES
            && let Ok(new) = self.runtime.block_on(Client::connect(&self.cluster.master_address()))
        {
            (*client, *uses) = (new, 0);
        }
        client.clone()
    }
}

const USES: usize = 10_000;

/// Tokens with everything in them, with the table's name alone, and of a scan of changes.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let schema = small().with_sequential_ids(10);
    let identifier = column_identifier_pb::Identifier::Id(10);
    let dimension = HashBucketSchemaPb {
        columns: vec![ColumnIdentifierPb { identifier: Some(identifier) }],
        num_buckets: 4,
        ..Default::default()
    };
    let predicate = |column: &str, predicate| ColumnPredicatePb {
        column: Some(column.to_owned()),
        predicate: Some(predicate),
    };
    let key = Bytes::from_static(b"\x80\x07");
    let full = ScanTokenPb {
        table_metadata: Some(TableMetadataPb {
            table_id: Some("0123456789abcdef0123456789abcdef".to_owned()),
            table_name: Some("t".to_owned()),
            num_replicas: Some(1),
            schema: Some(SchemaPb::from(&schema)),
            partition_schema: Some(PartitionSchemaPb { hash_schema: vec![dimension], ..Default::default() }),
            ..Default::default()
        }),
        tablet_metadata: Some(TabletMetadataPb {
            tablet_id: Some("fedcba9876543210fedcba9876543210".to_owned()),
            partition: Some(PartitionPb {
                hash_buckets: vec![1],
                partition_key_start: Some(Bytes::from_static(b"\0\0\0\x01")),
                partition_key_end: Some(Bytes::from_static(b"\0\0\0\x02")),
            }),
            tablet_servers: vec![ServerMetadataPb {
                uuid: Some(Bytes::from_static(b"ts")),
                rpc_addresses: vec![HostPortPb { host: "127.0.0.1".to_owned(), port: 1 }],
                location: None,
            }],
            replicas: vec![ReplicaMetadataPb { ts_idx: 0, role: 1, dimension_label: None }],
            ttl_millis: Some(60_000),
        }),
        projected_column_idx: vec![2, 0],
        column_predicates: vec![
            predicate(
                "k",
                Predicate::Range(Range { lower: Some(vec![1, 0].into()), upper: Some(vec![9, 0].into()) }),
            ),
            predicate("s", Predicate::InList(InList { values: vec!["a".into(), "b".into()] })),
            predicate("b", Predicate::IsNotNull(IsNotNull {})),
        ],
        lower_bound_primary_key: Some(key.clone()),
        lower_bound_partition_key: Some(Bytes::from_static(b"\0\0\0\x01")),
        upper_bound_partition_key: Some(Bytes::from_static(b"\0\0\0\x02")),
        limit: Some(7),
        fault_tolerant: Some(true),
        read_mode: Some(2),
        snap_timestamp: Some(1 << 50),
        batch_size_bytes: Some(100),
        query_id: Some("q".to_owned()),
        ..Default::default()
    };
    let named = ScanTokenPb {
        table_name: Some("t".to_owned()),
        projected_columns: SchemaPb::from(&schema).columns,
        ..Default::default()
    };
    let changes = ScanTokenPb { snap_start_timestamp: Some(1 << 40), tablet_metadata: None, ..full.clone() };
    [full, named, changes].iter().map(Message::encode_to_vec).collect()
}
