//! No request, however wrong, of any method of any service, ends a server or makes one of its handlers panic.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use client::schema::row_ops::Encoder;
use client::schema::wire::schema_without_ids;
use client::schema::{OpKind, PartialRow};
use client::{Client, Table};
use common::raw::{self, RawCall, RawClient};
use common::{a_good_client_is_served, count, master, row, run, schema, start, table};
use mini_cluster::MiniCluster;
use net_addr::SockAddr;
use prost::Message;
use proto::kudu::master::{CreateTableRequestPb, GetTableLocationsRequestPb, TableIdentifierPb};
use proto::kudu::tserver::{
    CreateTabletRequestPb, NewScanRequestPb, QuiesceTabletServerRequestPb, ScanRequestPb, WriteRequestPb,
};
use proto::kudu::{PartitionPb, PartitionSchemaPb};

type Bodies = BTreeMap<(String, String), Vec<Vec<u8>>>;

/// Service and method of all that the `.proto` files know, from the markers' doc comments.
fn methods() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/src/gen");
    let mut methods = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("/// `kudu.")?.strip_suffix('`'));
        let names = names.filter_map(|name| name.rsplit_once('.'));
        methods.extend(names.map(|(service, method)| (format!("kudu.{service}"), method.to_owned())));
    }
    methods.retain(|(service, _)| service.ends_with("Service"));
    methods.sort();
    methods
}

/// Bodies that real clients have sent, from the captured sessions.
fn captured(bodies: &mut Bodies) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/captures");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".hex").filter(|name| name.ends_with(".c2s")) else { continue };
        for frame in raw::capture(name) {
            if let Some((key, body)) = call_in(&frame) {
                bodies.entry(key).or_default().push(body);
            }
        }
    }
}

/// Method and body of a frame; none when it is not a call.
fn call_in(frame: &[u8]) -> Option<((String, String), Vec<u8>)> {
    let mut rest = frame.get(4..)?;
    let header = take(&mut rest)?;
    let body = take(&mut rest)?.to_vec();
    let header = proto::kudu::rpc::RequestHeader::decode(header).ok()?;
    let method = header.remote_method?;
    Some(((method.service_name, method.method_name), body))
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = prost::decode_length_delimiter(&mut *bytes).ok()?;
    let (piece, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(piece)
}

/// Bodies that this cluster would take, so that damage gets as far in as can be.
async fn acceptable(bodies: &mut Bodies, table: &Table) {
    let mut add = |service: &str, method: &str, body: Vec<u8>| {
        bodies.entry((service.into(), method.into())).or_default().push(body);
    };
    let tablet = table.tablets().await.unwrap().remove(0);
    let mut encoder = Encoder::new(table.schema());
    for id in 0..3i64 {
        let mut row = PartialRow::new(table.schema());
        row.set("id", 1000 + id).unwrap().set("text", "some text").unwrap();
        encoder.push(OpKind::Upsert, &row).unwrap();
    }
    let write = WriteRequestPb {
        tablet_id: tablet.id.clone().into(),
        schema: Some(schema_without_ids(table.schema())),
        row_operations: Some(encoder.into()),
        ..Default::default()
    };
    add("kudu.tserver.TabletServerService", "Write", write.encode_to_vec());
    let scan = NewScanRequestPb {
        tablet_id: tablet.id.clone().into(),
        projected_columns: schema_without_ids(table.schema()).columns,
        ..Default::default()
    };
    let scan =
        ScanRequestPb { new_scan_request: Some(scan), batch_size_bytes: Some(1000), ..Default::default() };
    add("kudu.tserver.TabletServerService", "Scan", scan.encode_to_vec());
    let create = CreateTabletRequestPb {
        table_id: "another table".into(),
        tablet_id: "another tablet".into(),
        table_name: "another".into(),
        schema: (&table.schema().clone().with_sequential_ids(10)).into(),
        partition: Some(PartitionPb::default()),
        partition_schema: Some(PartitionSchemaPb::default()),
        ..Default::default()
    };
    add("kudu.tserver.TabletServerAdminService", "CreateTablet", create.encode_to_vec());
    let create = CreateTableRequestPb {
        name: "made by a damaged request".into(),
        schema: schema_without_ids(&schema()),
        num_replicas: Some(1),
        ..Default::default()
    };
    add("kudu.master.MasterService", "CreateTable", create.encode_to_vec());
    let locate = GetTableLocationsRequestPb {
        table: TableIdentifierPb { table_name: Some(table.name().into()), ..Default::default() },
        partition_key_start: Some("abc".into()),
        max_returned_locations: Some(3),
        ..Default::default()
    };
    add("kudu.master.MasterService", "GetTableLocations", locate.encode_to_vec());
}

/// Protobuf of fields with low numbers and likely values: much of it means something to any message.
fn likely(random: &mut fastrand::Rng, depth: u32) -> Vec<u8> {
    let mut body = Vec::new();
    for number in 1..random.u64(2..9) {
        match random.u8(..6) {
            0 | 1 => raw::number(&mut body, number, *random.choice(&[0, 1, 2, 300, u64::MAX]).unwrap()),
            2 => raw::field(
                &mut body,
                number,
                random.choice(&["", "x", "\0", "\u{1f98c}"]).unwrap().as_bytes(),
            ),
            3 | 4 if depth > 0 => raw::field(&mut body, number, &likely(random, depth - 1)),
            _ => {}
        }
    }
    body
}

fn bodies_of(valid: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let mut bodies = vec![Vec::new(), vec![0xff; 40], vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]];
    bodies.extend((0..6).map(|_| (0..random.usize(1..60)).map(|_| random.u8(..)).collect()));
    bodies.extend((0..25).map(|_| likely(random, 3)));
    for whole in valid {
        let step = whole.len() / 100 + 1;
        bodies.extend((0..whole.len()).step_by(step).map(|length| whole[..length].to_vec()));
        for _ in 0..60.min(whole.len()) {
            let mut damaged = whole.clone();
            damaged[random.usize(..whole.len())] ^= 1 << random.u8(..8);
            bodies.push(damaged);
        }
    }
    bodies
}

/// Sends all that can be wrong to one server.
fn torment(address: &SockAddr, valid: &Bodies) {
    let mut random = fastrand::Rng::with_seed(7);
    let mut client = RawClient::open(address);
    let mut id = 0;
    let methods = methods();
    assert!(methods.len() > 50, "the markers are where they were");
    for (service, method) in &methods {
        let valid = valid.get(&(service.clone(), method.clone()));
        for body in bodies_of(valid.map_or(&[], Vec::as_slice), &mut random) {
            id += 1;
            let request_id = (method == "Write").then_some(("malformed", u64::from(id), u64::from(id), 0));
            let call = RawCall {
                id,
                service,
                method,
                timeout_ms: Some(5000),
                request_id,
                body: &body,
                ..Default::default()
            };
            // A server that ended, or dropped the connection, has no answer: that panics here.
            let answer = client.call(&call);
            assert!(
                !answer.message().starts_with("Runtime error"),
                "{service}.{method} panicked at {body:?}: {answer:?}"
            );
        }
    }
}

#[test]
fn every_method_outlives_every_kind_of_body() {
    let cluster = start(MiniCluster::builder());
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = table(&client, "before", 2).await;
        client.session().build().apply(row(&table, 1)).await.unwrap();
        let mut valid = Bodies::new();
        captured(&mut valid);
        assert!(valid.len() > 3, "the captures have calls");
        acceptable(&mut valid, &table).await;
        let server: SockAddr = cluster.tservers()[0].address.parse().unwrap();
        for address in [master(&cluster), server.clone()] {
            torment(&address, &valid);
        }
        // One of the bodies may have asked for quiet, which refuses scans.
        let quiet = QuiesceTabletServerRequestPb { quiesce: Some(false), ..Default::default() };
        let quiet = RawCall {
            service: "kudu.tserver.TabletServerAdminService",
            method: "Quiesce",
            body: &quiet.encode_to_vec(),
            ..Default::default()
        };
        // Refused where the tests' user is not root; then so were the others.
        RawClient::open(&server).call(&quiet);
        client.session().build().apply(row(&table, 2)).await.unwrap();
        assert!(count(&table).await >= 2);
        a_good_client_is_served(&cluster).await;
    });
}
