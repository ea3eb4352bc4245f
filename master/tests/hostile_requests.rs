//! No request, however wrong, ends the master or makes one of its handlers panic.

mod common;

use std::time::Duration;

use common::{Client, Tserver, hashed, run, start, table};
use prost::Message;
use proto::Method;
use proto::kudu::master::{ConnectToMasterRequestPb, GetTableLocationsRequestPb, ListTablesRequestPb};
use proto::methods::master_service as m;
use rpc_core::CallError;

/// A method of the master that takes any bytes for a request: they are kept as they are.
macro_rules! raw {
    ($name:ident) => {
        struct $name;
        impl Method for $name {
            type Request = Raw;
            type Response = Raw;
            const SERVICE: &'static str = m::$name::SERVICE;
            const NAME: &'static str = m::$name::NAME;
            const TRACKED: bool = false;
            const AUTHZ: &'static str = "";
            const REQUEST: &'static proto::required::MessageTable = &proto::required::MessageTable::EMPTY;
            const RESPONSE: &'static proto::required::MessageTable = &proto::required::MessageTable::EMPTY;
        }
    };
}

/// Encodes as its bytes, whatever they are.
#[derive(Debug, Default, Clone)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, out: &mut impl bytes::BufMut) {
        out.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        bytes: &mut impl bytes::Buf,
        context: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, bytes, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

raw!(CreateTable);
raw!(GetTableLocations);
raw!(GetTabletLocations);
raw!(TSHeartbeat);
raw!(ListTables);
raw!(DeleteTable);
raw!(GetTableSchema);

async fn send<M: Method<Request = Raw>>(client: &Client, bytes: &[u8]) {
    let request = Raw(bytes.to_vec());
    let answer = client.0.call::<M>(&request).timeout(Duration::from_secs(10)).send().await;
    match answer {
        Ok(_) => {}
        Err(CallError::Remote { error, .. }) => {
            assert!(!error.message.starts_with("Runtime error"), "{} panicked at {bytes:?}", M::NAME);
        }
        Err(other) => panic!("{} at {bytes:?}: {other}", M::NAME),
    }
}

async fn send_to_all(client: &Client, bytes: &[u8]) {
    send::<CreateTable>(client, bytes).await;
    send::<GetTableLocations>(client, bytes).await;
    send::<GetTabletLocations>(client, bytes).await;
    send::<TSHeartbeat>(client, bytes).await;
    send::<ListTables>(client, bytes).await;
    send::<DeleteTable>(client, bytes).await;
    send::<GetTableSchema>(client, bytes).await;
}

#[test]
fn the_master_outlives_damaged_requests() {
    run(async {
        let master = start(&[]);
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.register(&client).await;
        let mut random = fastrand::Rng::with_seed(3);
        let lookup = GetTableLocationsRequestPb {
            table: table("t"),
            partition_key_start: Some("abc".into()),
            max_returned_locations: Some(3),
            ..Default::default()
        };
        let good =
            [hashed("t", 3).encode_to_vec(), lookup.encode_to_vec(), server.heartbeat().encode_to_vec()];
        for round in 0..150 {
            let mut bytes = good[round % good.len()].clone();
            for _ in 0..=random.usize(..3) {
                match random.u8(..4) {
                    0 => bytes.truncate(random.usize(..=bytes.len())),
                    1 if !bytes.is_empty() => {
                        let at = random.usize(..bytes.len());
                        bytes[at] ^= 1 << random.u8(..8);
                    }
                    2 => bytes.insert(random.usize(..=bytes.len()), random.u8(..)),
                    _ => bytes.extend((0..random.usize(..20)).map(|_| random.u8(..))),
                }
            }
            send_to_all(&client, &bytes).await;
        }
        let connected = client.call::<m::ConnectToMaster>(&ConnectToMasterRequestPb::default()).await;
        assert_eq!(connected.error, None);
        client.create(hashed("afterwards", 2)).await;
        let listed = client.call::<m::ListTables>(&ListTablesRequestPb::default()).await;
        assert!(listed.tables.iter().any(|table| table.name == "afterwards"));
    });
}
