//! Masters tell how a table has changed: in which order, how often, and what is left after a restart.

mod common;

use common::{Rig, TABLET, row, scan_request, table};
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tablet::TabletStatePb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{AlterSchemaRequestPb, TabletServerErrorPb};
use proto::methods::tablet_server_admin_service::AlterSchema;
use proto::methods::tablet_server_service::ListTablets;
use schema::{Column, ColumnId, DataType, Schema};

/// The table, with a number behind its columns.
fn wider() -> Schema {
    let mut columns = table().columns().to_vec();
    columns.push(Column::new("n", DataType::Int32).default_value(7));
    Schema::new(columns, 1).unwrap().with_ids([10, 11, 12].map(ColumnId).to_vec()).unwrap()
}

fn request(schema: &Schema, version: u32) -> AlterSchemaRequestPb {
    AlterSchemaRequestPb {
        tablet_id: TABLET.into(),
        schema: schema.into(),
        schema_version: version,
        new_table_name: Some("renamed".into()),
        ..Default::default()
    }
}

fn alter(rig: &Rig, request: &AlterSchemaRequestPb) -> Result<(), TabletServerErrorPb> {
    rig.call::<AlterSchema>(request).unwrap().message.error.map_or(Ok(()), Err)
}

fn codes(altered: Result<(), TabletServerErrorPb>) -> (Code, ErrorCode) {
    let error = altered.unwrap_err();
    (error.code(), error.status.code())
}

/// Name, version and columns of the table, as the server lists them.
fn listed(rig: &Rig) -> (String, u32, usize) {
    let one = rig.call::<ListTablets>(&Default::default()).unwrap().message.status_and_schema.remove(0);
    (one.tablet_status.table_name.clone(), one.schema_version(), one.schema.unwrap().columns.len())
}

fn count(rig: &Rig, schema: &Schema) -> i64 {
    let (response, _) = rig.open(scan_request(schema), 1 << 20);
    assert_eq!(response.error, None);
    response.data.map_or(0, |data| i64::from(data.num_rows()))
}

#[test]
fn a_change_is_made_once_and_never_back() {
    let (rig, old, new) = (Rig::new(&[]), table(), wider());
    assert_eq!(codes(alter(&rig, &request(&new, 1))), (Code::TabletNotFound, ErrorCode::NotFound));
    rig.create(&old);
    rig.insert(&old, &[row(&old, 1)]);
    assert_eq!(listed(&rig), ("t".into(), 0, 2));
    alter(&rig, &request(&new, 3)).unwrap();
    assert_eq!(listed(&rig), ("renamed".into(), 3, 3));
    alter(&rig, &request(&new, 3)).unwrap();
    assert_eq!(
        codes(alter(&rig, &request(&old, 2))),
        (Code::TabletHasANewerSchema, ErrorCode::InvalidArgument)
    );
    assert_eq!(codes(alter(&rig, &request(&old, 3))), (Code::MismatchedSchema, ErrorCode::Corruption));
    let foreign = AlterSchemaRequestPb { dest_uuid: Some("another".into()), ..request(&new, 4) };
    assert_eq!(codes(alter(&rig, &foreign)).0, Code::WrongServerUuid);
    assert_eq!(listed(&rig), ("renamed".into(), 3, 3));
    // Both the old and the new columns can be read and written.
    rig.insert(&old, &[row(&old, 2)]);
    assert_eq!((count(&rig, &old), count(&rig, &new)), (2, 2));
}

#[test]
fn a_schema_that_cannot_be_is_refused_and_the_server_lives_on() {
    let (rig, old) = (Rig::new(&[]), table());
    rig.create(&old);
    let mut without_ids = request(&wider(), 1);
    without_ids.schema.columns.iter_mut().for_each(|column| column.id = None);
    let mut other_key = request(&wider(), 1);
    other_key.schema.columns[0].id = Some(77);
    let mut other_type = request(&wider(), 1);
    other_type.schema.columns[1].r#type = proto::kudu::DataType::Int64 as i32;
    let mut empty = request(&wider(), 1);
    empty.schema.columns.clear();
    for (number, wrong) in [without_ids, other_key, other_type, empty].iter().enumerate() {
        let refused = codes(alter(&rig, wrong));
        assert_eq!(refused, (Code::InvalidSchema, ErrorCode::InvalidArgument), "case {number}");
        assert_eq!(listed(&rig), ("t".into(), 0, 2));
    }
    alter(&rig, &request(&wider(), 1)).unwrap();
}

#[test]
fn a_change_outlives_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [&format!("--fs_wal_dir={}", folder.path().display()), "--log_force_fsync_all"];
    let (old, new) = (table(), wider());
    let rig = Rig::new(&flags);
    rig.create(&old);
    rig.insert(&old, &[row(&old, 1)]);
    alter(&rig, &request(&new, 5)).unwrap();
    rig.insert(&old, &[row(&old, 2)]);
    drop(rig);

    let rig = Rig::new(&flags);
    let state = || {
        let listed = rig.call::<ListTablets>(&Default::default()).unwrap().message.status_and_schema;
        listed[0].tablet_status.state()
    };
    while state() == TabletStatePb::Bootstrapping {
        std::thread::yield_now();
    }
    assert_eq!(listed(&rig), ("renamed".into(), 5, 3));
    assert_eq!((count(&rig, &old), count(&rig, &new)), (2, 2));
    // The master that has not heard the answer asks again.
    alter(&rig, &request(&new, 5)).unwrap();
}
