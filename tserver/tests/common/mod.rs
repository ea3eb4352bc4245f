//! A tablet server without masters, and a client that speaks the bare protocol.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::result_large_err, reason = "CallError tells much, and tests do not mind")]

use std::time::Duration;

use bytes::Bytes;
use net_addr::SystemResolver;
use proto::Method;
use proto::kudu::tserver::{
    CreateTabletRequestPb, NewScanRequestPb, ScanRequestPb, ScanResponsePb, WriteRequestPb, WriteResponsePb,
};
use proto::kudu::{
    ColumnSchemaPb, PartitionPb, PartitionSchemaPb, SchemaPb, partition_schema_pb::RangeSchemaPb,
};
use proto::methods::tablet_server_admin_service::CreateTablet;
use proto::methods::tablet_server_service::{Scan, Write};
use rpc_core::{CallError, Messenger, Proxy, RequestId, Response};
use schema::row_ops::Encoder;
use schema::wire::schema_without_ids;
use schema::{Column, DataType, OpKind, PartialRow, Schema};
use server_base::acl::process_user;
use tokio::runtime::Runtime;
use tserver::{TabletServer, TserverOptions};

pub(crate) const TABLET: &str = "0123456789abcdef0123456789abcdef";

/// A server, and a client of it.
pub(crate) struct Rig {
    pub(crate) server: TabletServer,
    pub(crate) proxy: Proxy,
    pub(crate) runtime: Runtime,
}

/// Starts a server with these flags more.
pub(crate) fn start(flags: &[&str]) -> TabletServer {
    let set = TserverOptions::flags();
    let basic = ["--rpc_bind_addresses=127.0.0.1:0", "--tserver_master_addrs="];
    set.parse(basic.iter().chain(flags).copied()).unwrap();
    TabletServer::start(TserverOptions::from_flags(&set, &SystemResolver).unwrap()).unwrap()
}

impl Rig {
    pub(crate) fn new(flags: &[&str]) -> Self {
        let server = start(flags);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let messenger = Messenger::builder().user(process_user()).build();
        let proxy = Proxy::new(&messenger, server.bound_addresses()[0].clone(), "127.0.0.1");
        Self { server, proxy, runtime }
    }

    pub(crate) fn call<M: Method>(&self, request: &M::Request) -> Result<Response<M::Response>, CallError> {
        self.runtime.block_on(self.proxy.call::<M>(request).timeout(Duration::from_secs(20)).send())
    }

    /// Creates the tablet of all rows of `schema`.
    pub(crate) fn create(&self, schema: &Schema) {
        let response = self.call::<CreateTablet>(&create_request(schema)).unwrap().message;
        assert_eq!(response.error, None);
    }

    pub(crate) fn write(&self, schema: &Schema, rows: &[(OpKind, PartialRow)]) -> WriteResponsePb {
        self.call::<Write>(&write_request(schema, rows)).unwrap().message
    }

    /// Writes that must all succeed; the timestamp.
    pub(crate) fn insert(&self, schema: &Schema, rows: &[PartialRow]) -> u64 {
        let rows: Vec<_> = rows.iter().map(|row| (OpKind::Insert, row.clone())).collect();
        let response = self.write(schema, &rows);
        assert_eq!((&response.error, response.per_row_errors.len()), (&None, 0));
        response.timestamp.unwrap()
    }

    pub(crate) fn attempt(
        &self,
        request: &WriteRequestPb,
        id: RequestId,
    ) -> Result<WriteResponsePb, CallError> {
        let call = self.proxy.call::<Write>(request).request_id(id).timeout(Duration::from_secs(20));
        self.runtime.block_on(call.send()).map(|response| response.message)
    }

    pub(crate) fn scan(&self, request: &ScanRequestPb) -> (ScanResponsePb, Vec<Bytes>) {
        let response = self.call::<Scan>(request).unwrap();
        (response.message, response.sidecars)
    }

    /// Opens a scan of this batch size.
    pub(crate) fn open(&self, new: NewScanRequestPb, batch_size: u32) -> (ScanResponsePb, Vec<Bytes>) {
        self.scan(&ScanRequestPb {
            new_scan_request: Some(new),
            call_seq_id: Some(0),
            batch_size_bytes: Some(batch_size),
            ..Default::default()
        })
    }

    /// Reads on.
    pub(crate) fn go_on(
        &self,
        id: &Bytes,
        call_seq_id: u32,
        batch_size: u32,
    ) -> (ScanResponsePb, Vec<Bytes>) {
        self.scan(&ScanRequestPb {
            scanner_id: Some(id.clone()),
            call_seq_id: Some(call_seq_id),
            batch_size_bytes: Some(batch_size),
            ..Default::default()
        })
    }
}

/// `k` INT32 key and `v` STRING nullable.
pub(crate) fn table() -> Schema {
    let columns = vec![Column::new("k", DataType::Int32), Column::new("v", DataType::String).nullable(true)];
    Schema::new(columns, 1).unwrap().with_sequential_ids(10)
}

pub(crate) fn row(schema: &Schema, key: i32) -> PartialRow {
    let mut row = PartialRow::new(schema);
    row.set_at(0, key).unwrap().set_at(1, format!("v{key}")).unwrap();
    row
}

pub(crate) fn create_request(schema: &Schema) -> CreateTabletRequestPb {
    CreateTabletRequestPb {
        table_id: "table".into(),
        tablet_id: TABLET.into(),
        table_name: "t".into(),
        schema: schema.into(),
        partition: Some(PartitionPb::default()),
        partition_schema: Some(PartitionSchemaPb {
            range_schema: Some(RangeSchemaPb::default()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(crate) fn write_request(schema: &Schema, rows: &[(OpKind, PartialRow)]) -> WriteRequestPb {
    let mut encoder = Encoder::new(schema);
    rows.iter().for_each(|(kind, row)| encoder.push(*kind, row).unwrap());
    WriteRequestPb {
        tablet_id: TABLET.into(),
        schema: Some(schema_without_ids(schema)),
        row_operations: Some(encoder.into()),
        ..Default::default()
    }
}

/// A scan of all columns, with the key flag off as most clients have it.
pub(crate) fn scan_request(schema: &Schema) -> NewScanRequestPb {
    let SchemaPb { mut columns } = schema_without_ids(schema);
    columns.iter_mut().for_each(|column: &mut ColumnSchemaPb| column.is_key = Some(false));
    NewScanRequestPb { tablet_id: TABLET.into(), projected_columns: columns, ..Default::default() }
}
