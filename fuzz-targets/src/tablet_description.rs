//! What a tablet is: the request that made it, as its file keeps it and as masters send it.

use std::sync::Arc;

use prost::Message;
use proto::kudu::tserver::CreateTabletRequestPb;
use schema::wire::partition::{Naming, partition_schema_from_pb, partition_schema_to_pb};
use schema::{HybridClock, Partition, Schema};
use tablet::{ScanSpec, Tablet, TabletOptions};

/// A description that is taken is described again with the same columns and partitions, and its tablet is empty.
pub fn run(bytes: &[u8]) {
    let Ok(request) = CreateTabletRequestPb::decode(bytes) else { return };
    let Ok(schema) = Schema::try_from(&request.schema) else { return };
    let Some(Ok(partition)) = request.partition.as_ref().map(Partition::try_from) else { return };
    let told = request.partition_schema.clone().unwrap_or_default();
    let Ok(partition_schema) = partition_schema_from_pb(&told, &schema) else { return };
    let options = TabletOptions {
        id: String::from_utf8_lossy(&request.tablet_id).into_owned(),
        table_id: String::new(),
        table_name: request.table_name.clone(),
        schema: schema.clone(),
        partition_schema: partition_schema.clone(),
        partition,
        schema_version: 0,
        history_max_age_sec: None,
    };
    let Ok(tablet) = Tablet::open(options, Arc::new(HybridClock::default())) else { return };
    assert_eq!(Schema::try_from(&proto::kudu::SchemaPb::from(&schema)), Ok(tablet.schema()));
    if let Ok(again) = partition_schema_to_pb(&partition_schema, &schema, Naming::ById) {
        assert_eq!(partition_schema_from_pb(&again, &schema), Ok(partition_schema));
    }
    let spec = ScanSpec { projection: (0..schema.len()).collect(), ordered: true, ..ScanSpec::default() };
    let Ok(mut scanner) = tablet.scan(spec.clone(), NOW) else { unreachable!("all columns are there") };
    assert!(matches!(scanner.next_block(1), Ok(None)) || !scanner.has_more());
    assert!(tablet.split_key_range(&spec, 1).is_ok_and(|pieces| pieces.len() == 1));
}

const NOW: u64 = 1_700_000_000_000_000;
