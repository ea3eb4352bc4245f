//! Results byte for byte as a real tablet server gave them.

mod common;

use common::{Rig, TABLET, scan_request};
use proto::kudu::RowOperationsPb;
use proto::kudu::tserver::{NewScanRequestPb, ScanResponsePb, WriteRequestPb};
use proto::methods::tablet_server_service::Write;
use schema::wire::schema_without_ids;
use schema::{Column, DataType, Schema};
use serde_json::Value;

/// What was read from a running Kudu 1.18.1.
fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/vectors.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

/// The table and the three rows of `row_operations` in testdata/vectors.json.
fn filled() -> (Rig, Schema) {
    let columns = vec![
        Column::new("a", DataType::Int32),
        Column::new("b", DataType::Int8).nullable(true),
        Column::new("c", DataType::String).nullable(true),
        Column::new("d", DataType::UnixtimeMicros),
        Column::new("e", DataType::Bool).nullable(true),
        Column::new("f", DataType::Double).nullable(true),
        Column::new("g", DataType::String),
    ];
    let schema = Schema::new(columns, 1).unwrap().with_sequential_ids(10);
    let rig = Rig::new(&[]);
    rig.create(&schema);
    let operations = RowOperationsPb {
        rows: Some(bytes(&vectors()["row_operations"]["rows"]).into()),
        indirect_data: Some(bytes(&vectors()["row_operations"]["indirect_data"]).into()),
    };
    let request = WriteRequestPb {
        tablet_id: TABLET.into(),
        schema: Some(schema_without_ids(&schema)),
        row_operations: Some(operations),
        ..Default::default()
    };
    let response = rig.call::<Write>(&request).unwrap().message;
    assert_eq!((response.error, response.per_row_errors), (None, Vec::new()));
    (rig, schema)
}

fn sidecars_of(name: &str) -> Vec<Vec<u8>> {
    vectors()[name]["sidecars"].as_array().unwrap().iter().map(bytes).collect()
}

fn scan(rig: &Rig, new: NewScanRequestPb) -> (ScanResponsePb, Vec<Vec<u8>>) {
    let (response, sidecars) = rig.open(new, 1 << 20);
    assert_eq!(response.error, None);
    (response, sidecars.iter().map(|sidecar| sidecar.to_vec()).collect())
}

#[test]
fn rowwise_results_are_those_of_a_real_server() {
    let (rig, schema) = filled();
    let (response, sidecars) = scan(&rig, scan_request(&schema));
    let data = response.data.unwrap();
    assert_eq!((data.num_rows, data.rows_sidecar, data.indirect_data_sidecar), (Some(3), Some(0), Some(1)));
    assert_eq!(sidecars, sidecars_of("scan_rowwise"));
}

#[test]
fn padded_results_have_eight_more_bytes_behind_each_time() {
    let (rig, schema) = filled();
    let mut request = scan_request(&schema);
    request.row_format_flags = Some(1);
    let (_, sidecars) = scan(&rig, request);
    assert_eq!(sidecars, sidecars_of("scan_rowwise_padded"));
}

#[test]
fn columnar_results_are_those_of_a_real_server() {
    let (rig, schema) = filled();
    let mut request = scan_request(&schema);
    request.row_format_flags = Some(2);
    let (response, sidecars) = scan(&rig, request);
    let data = response.columnar_data.unwrap();
    let numbers: Vec<_> = data
        .columns
        .iter()
        .map(|c| (c.data_sidecar, c.varlen_data_sidecar, c.non_null_bitmap_sidecar))
        .collect();
    assert_eq!(
        numbers,
        [
            (Some(0), None, None),
            (Some(1), None, Some(2)),
            (Some(3), Some(4), Some(5)),
            (Some(6), None, None),
            (Some(7), None, Some(8)),
            (Some(9), None, Some(10)),
            (Some(11), Some(12), None),
        ]
    );
    let expected = sidecars_of("scan_columnar");
    for (number, (got, want)) in sidecars.iter().zip(expected).enumerate() {
        // Bits behind the last row mean nothing.
        let bitmap = numbers.iter().any(|column| column.2 == Some(number as i32));
        let meant = |bytes: &[u8]| if bitmap { vec![bytes[0] & 0b111] } else { bytes.to_vec() };
        assert_eq!(meant(got), meant(&want), "sidecar {number}");
    }
    assert_eq!((sidecars.len(), data.num_rows), (13, Some(3)));
}

#[test]
fn a_count_has_rows_and_an_empty_sidecar() {
    let (rig, schema) = filled();
    let mut request = scan_request(&schema);
    request.projected_columns.clear();
    let (response, sidecars) = scan(&rig, request);
    let data = response.data.unwrap();
    assert_eq!((data.num_rows, data.rows_sidecar, data.indirect_data_sidecar), (Some(3), Some(0), None));
    assert_eq!(sidecars, [Vec::<u8>::new()]);
}
