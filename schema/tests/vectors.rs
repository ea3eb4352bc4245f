//! The bytes that real Kudu 1.18.1 servers gave and took.

use bytes::Bytes;
use schema::{
    Column, ColumnarBlock, DataType, HashDimension, PartialRow, PartitionSchema, RangeWithHash, Schema,
    Value,
    bloom::{BlockBloomFilter, fast_hash_32},
    columnar::ColumnData,
    key,
    partition::{RangeSpec, create_partitions, murmur2_64a},
    row_block,
    row_ops::{Decoder, Encoder, OpKind},
    timestamp::Timestamp,
};
use serde_json::Value as Json;

fn vectors() -> Json {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/vectors.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn list(json: &Json) -> &Vec<Json> {
    json.as_array().unwrap_or_else(|| panic!("no list: {json}"))
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("no text: {json}"))
}

fn bytes(json: &Json) -> Vec<u8> {
    let hex = text(json);
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn number(json: &Json) -> i128 {
    json.to_string().parse().unwrap_or_else(|_| panic!("no number: {json}"))
}

fn column(name: &str, type_name: &str) -> Column {
    let plain = |data_type| Column::new(name, data_type);
    match type_name {
        "INT8" => plain(DataType::Int8),
        "INT16" => plain(DataType::Int16),
        "INT32" => plain(DataType::Int32),
        "INT64" => plain(DataType::Int64),
        "BOOL" => plain(DataType::Bool),
        "DOUBLE" => plain(DataType::Double),
        "STRING" => plain(DataType::String),
        "BINARY" => plain(DataType::Binary),
        "UNIXTIME_MICROS" => plain(DataType::UnixtimeMicros),
        "DATE" => plain(DataType::Date),
        other if other.starts_with("VARCHAR") => Column::varchar(name, 100),
        other if other.starts_with("DECIMAL128") => Column::decimal(name, 38, 0),
        other if other.starts_with("DECIMAL64") => Column::decimal(name, 18, 0),
        other if other.starts_with("DECIMAL32") => Column::decimal(name, 9, 0),
        other => panic!("unknown type {other}"),
    }
}

fn value(data_type: DataType, json: &Json) -> Value {
    if data_type.is_varlen() {
        return match json.get("hex") {
            Some(hex) => Value::Binary(bytes(hex).into()),
            None => Value::from(text(json)).cast(data_type).unwrap(),
        };
    }
    match data_type {
        DataType::Bool => Value::Bool(json.as_bool().unwrap()),
        DataType::Double => Value::Double(json.as_f64().unwrap()),
        _ => Value::from_raw(data_type, &number(json).to_le_bytes()[..data_type.cell_size()]).unwrap(),
    }
}

fn row(schema: &Schema, values: &Json) -> PartialRow {
    let mut row = PartialRow::new(schema);
    for (index, json) in list(values).iter().enumerate() {
        if json.is_null() {
            row.set_null_at(index).unwrap();
        } else {
            row.set_at(index, value(schema.columns()[index].data_type, json)).unwrap();
        }
    }
    row
}

fn key_schema(types: &Json) -> Schema {
    let columns: Vec<_> =
        list(types).iter().enumerate().map(|(i, name)| column(&format!("c{i}"), text(name))).collect();
    let keys = columns.len();
    Schema::new(columns, keys).unwrap().with_sequential_ids(10)
}

#[test]
fn primary_keys_are_encoded_and_decoded_as_kudu_does() {
    let vectors = vectors();
    let cases = list(&vectors["encoded_primary_keys"]);
    assert_eq!(cases.len(), 75);
    for case in cases {
        let schema = key_schema(&case["types"]);
        let row = row(&schema, &case["values"]);
        let encoded = key::encode_key(&schema, &row.cells()).unwrap();
        assert_eq!(encoded, bytes(&case["encoded"]), "{case}");
        assert_eq!(key::decode_key(&schema, &encoded).unwrap(), row, "{case}");
    }
}

#[test]
fn rows_fall_into_the_buckets_that_kudu_puts_them_into() {
    let vectors = vectors();
    let cases = list(&vectors["hash_buckets"]);
    assert_eq!(cases.len(), 41);
    for case in cases {
        let schema = key_schema(&case["types"]);
        let row = row(&schema, &case["values"]);
        let columns = list(&case["hash_columns"]).iter().map(|i| schema.id(number(i) as usize)).collect();
        let (seed, buckets) = (number(&case["seed"]) as u32, number(&case["num_buckets"]) as u32);
        let partitioning = PartitionSchema {
            hash_dimensions: vec![HashDimension { columns, buckets, seed }],
            ..Default::default()
        };
        let key = partitioning.partition_key(&schema, &row.cells()).unwrap();
        assert_eq!(key, (number(&case["bucket"]) as u32).to_be_bytes(), "{case}");
        let hash = murmur2_64a(&bytes(&case["encoded_hash_columns"]), seed.into());
        assert_eq!(hash.to_be_bytes().to_vec(), bytes(&case["hash64"]), "{case}");
    }
}

fn dimensions(schema: &Schema, json: &Json) -> Vec<HashDimension> {
    let one = |json: &Json| HashDimension {
        columns: ids(schema, &json["columns"]),
        buckets: number(&json["num_buckets"]) as u32,
        seed: number(&json["seed"]) as u32,
    };
    list(json).iter().map(one).collect()
}

fn ids(schema: &Schema, names: &Json) -> Vec<schema::ColumnId> {
    list(names).iter().map(|name| schema.id(schema.index_of(text(name)).unwrap())).collect()
}

fn spec(schema: &Schema, json: Option<&Json>) -> RangeSpec {
    json.map_or_else(RangeSpec::default, |json| {
        RangeSpec::decode(schema, &bytes(&json["rows"]), &bytes(&json["indirect_data"])).unwrap()
    })
}

#[test]
fn tables_are_cut_into_kudus_tablets_and_rows_find_theirs() {
    let vectors = vectors();
    let cases = list(&vectors["partitions"]);
    assert_eq!(cases.len(), 11);
    for case in cases {
        let name = &case["description"];
        let columns: Vec<_> =
            list(&case["columns"]).iter().map(|c| column(text(&c[0]), text(&c[1]))).collect();
        let keys = list(&case["key_types"]).len();
        let schema = Schema::new(columns, keys).unwrap().with_sequential_ids(10);
        let mut partitioning = PartitionSchema {
            hash_dimensions: dimensions(&schema, &case["hash_schema"]),
            range_columns: ids(&schema, &case["range_columns"]),
            custom_ranges: Vec::new(),
        };
        for range in case.get("custom_hash_schema_ranges").into_iter().flat_map(list) {
            let spec = spec(&schema, range.get("range_bounds"));
            let (lower, upper) = spec.bounds[0].encode(&schema, &partitioning).unwrap();
            let hash_dimensions = dimensions(&schema, &range["hash_schema"]);
            partitioning.custom_ranges.push(RangeWithHash { lower, upper, hash_dimensions });
        }
        let spec = spec(&schema, case.get("split_rows_range_bounds"));
        let tablets = create_partitions(&schema, &partitioning, &spec.splits, &spec.bounds).unwrap();
        let expected = list(&case["tablets"]);
        assert_eq!(tablets.len(), expected.len(), "{name}");
        for (tablet, expected) in tablets.iter().zip(expected) {
            assert_eq!(tablet.start, bytes(&expected["start"]), "{name}");
            assert_eq!(tablet.end, bytes(&expected["end"]), "{name}");
            let buckets: Vec<_> = list(&expected["hash_buckets"]).iter().map(|b| number(b) as u32).collect();
            assert_eq!(tablet.hash_buckets, buckets, "{name}");
        }
        // What a server remembers finds the same tablets.
        partitioning.simplify();
        for case in list(&case["rows"]) {
            let row = row(&schema, &case["values"]);
            let key = partitioning.partition_key(&schema, &row.cells()).unwrap();
            let hits: Vec<_> = (0..tablets.len()).filter(|at| tablets[*at].contains(&key)).collect();
            assert_eq!(hits, [number(&case["tablet_index"]) as usize], "{name}: {case}");
        }
    }
}

fn scan_schema(vectors: &Json, keys: usize) -> Schema {
    let columns = list(&vectors["row_operations"]["columns"]).iter().enumerate();
    let columns = columns
        .map(|(i, c)| column(&format!("c{i}"), text(&c[0])).nullable(c[2].as_bool().unwrap()))
        .collect();
    Schema::new(columns, keys).unwrap()
}

#[test]
fn row_operations_go_both_ways() {
    let vectors = vectors();
    let schema = scan_schema(&vectors, 1);
    let rows: Vec<_> = list(&vectors["scan_rows"]).iter().map(|values| row(&schema, values)).collect();
    let mut encoder = Encoder::new(&schema);
    rows.iter().for_each(|row| encoder.push(OpKind::Insert, row).unwrap());
    let (data, indirect) = encoder.finish();
    assert_eq!(data, bytes(&vectors["row_operations"]["rows"]));
    assert_eq!(indirect, bytes(&vectors["row_operations"]["indirect_data"]));

    let decoder = Decoder::new(&schema, &schema).unwrap();
    let ops = decoder.decode(&data, &indirect).unwrap();
    assert_eq!(ops.len(), rows.len());
    let mut cursor = ops.cursor();
    for row in &rows {
        let op = cursor.next_op().unwrap();
        assert_eq!((op.kind, op.fault), (OpKind::Insert, None));
        assert_eq!(op.cells, row.cells());
    }
    assert!(cursor.next_op().is_none());
}

fn sidecars(json: &Json) -> Vec<Bytes> {
    list(&json["sidecars"]).iter().map(|sidecar| bytes(sidecar).into()).collect()
}

fn assert_rows(schema: &Schema, block: &ColumnarBlock, rows: &Json) {
    block.validate(schema).unwrap();
    assert_eq!(block.rows, list(rows).len());
    for (at, values) in list(rows).iter().enumerate() {
        let row = row(schema, values);
        for index in 0..schema.len() {
            assert_eq!(block.cell(at, index), row.cell(index), "row {at}, column {index}");
        }
    }
}

fn columnar(vectors: &Json) -> ColumnarBlock {
    let mut sidecars = sidecars(&vectors["scan_columnar"]).into_iter();
    let mut next = || sidecars.next().unwrap();
    let columns = scan_schema(vectors, 0)
        .columns()
        .iter()
        .map(|column| ColumnData {
            data: next(),
            varlen: column.data_type.is_varlen().then(&mut next),
            non_null: column.nullable.then(&mut next),
        })
        .collect();
    assert!(sidecars.next().is_none());
    ColumnarBlock { rows: 3, columns }
}

#[test]
fn columnar_answers_are_read() {
    let vectors = vectors();
    assert_rows(&scan_schema(&vectors, 0), &columnar(&vectors), &vectors["scan_rows"]);
}

#[test]
fn row_wise_answers_go_both_ways_padded_or_not() {
    let vectors = vectors();
    let schema = scan_schema(&vectors, 0);
    for (name, padded) in [("scan_rowwise", false), ("scan_rowwise_padded", true)] {
        let sidecars = sidecars(&vectors[name]);
        let block = row_block::decode(&schema, 3, &sidecars[0], &sidecars[1], padded).unwrap();
        assert_rows(&schema, &block, &vectors["scan_rows"]);
        let (rows, indirect) = row_block::encode(&schema, &columnar(&vectors), padded).unwrap();
        assert_eq!((&rows, &indirect), (&sidecars[0], &sidecars[1]), "{name}");
    }
}

#[test]
fn a_built_block_has_the_bytes_of_a_columnar_answer() {
    let vectors = vectors();
    let schema = scan_schema(&vectors, 0);
    let mut builders: Vec<_> = schema.columns().iter().map(schema::ColumnBuilder::new).collect();
    for values in list(&vectors["scan_rows"]) {
        let row = row(&schema, values);
        for (index, builder) in builders.iter_mut().enumerate() {
            builder.push(row.cell(index)).unwrap();
        }
    }
    let columns = builders.into_iter().map(schema::ColumnBuilder::finish).collect();
    assert_eq!(ColumnarBlock { rows: 3, columns }, columnar(&vectors));
}

#[test]
fn bloom_filters_are_kudus_bit_by_bit() {
    let vectors = vectors();
    let case = &vectors["bloom_filter"];
    let log_space_bytes = number(&case["log_space_bytes"]) as i32;
    let mut builder = BlockBloomFilter::builder(log_space_bytes as u32, 0);
    for value in list(&case["values"]) {
        let raw = (number(value) as i32).to_le_bytes();
        builder.insert(&raw);
        let hash = &case["fast_hash32"][value.to_string()];
        assert_eq!(i128::from(fast_hash_32(&raw, 0)), number(hash), "{value}");
    }
    let data = bytes(&case["bloom_data"]);
    assert_eq!(builder.build().data(), &data);
    let filter = BlockBloomFilter::from_parts(log_space_bytes, data.into(), 0, false).unwrap();
    let hits: Vec<i32> = (0..5).filter(|k: &i32| filter.may_contain(&k.to_le_bytes())).collect();
    assert_eq!(hits, [2, 4]);
}

#[test]
fn timestamps_split_into_microseconds_and_counter() {
    let vectors = vectors();
    for case in list(&vectors["timestamps"]) {
        let timestamp = Timestamp(number(&case["value"]) as u64);
        assert_eq!(i128::from(timestamp.physical_micros()), number(&case["physical_micros"]));
        assert_eq!(i128::from(timestamp.logical()), number(&case["logical"]));
        assert_eq!(Timestamp::new(timestamp.physical_micros(), timestamp.logical()), timestamp);
    }
}
