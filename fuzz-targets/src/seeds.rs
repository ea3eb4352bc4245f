//! The beginnings of the corpus.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use proto::kudu::{ColumnPredicatePb, SchemaPb};
use rpc_core::wire::frame;
use schema::row_ops::Encoder;
use schema::{ColumnBuilder, ColumnarBlock, OpKind, PartialRow, Schema, Value, row_block};

use crate::row_operations::{every_type, small};
use crate::stream::{GREETING, WELCOME};

/// What one side of a recorded session said in clear: preface and frames.
#[derive(Debug)]
pub struct Capture {
    /// Said by the client?
    pub is_client: bool,
    /// Preface and frames, one each.
    pub lines: Vec<Vec<u8>>,
}

/// Reads recorded sessions (lines of hex, `NAME.c2s.hex` and `NAME.s2c.hex`).
///
/// # Errors
/// What the system says, or a line that is not hex.
pub fn captures(folder: &Path) -> io::Result<Vec<Capture>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    paths.iter().map(|path| capture(path)).collect()
}

fn capture(path: &Path) -> io::Result<Capture> {
    let text = std::fs::read_to_string(path)?;
    let clear = text.lines().take_while(|line| !line.starts_with("# raw TLS records"));
    let lines = clear.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let bytes = |line: &str| {
        let digits = (0..line.len()).step_by(2).map(|at| line.get(at..at + 2).unwrap_or_default());
        digits.map(|digits| u8::from_str_radix(digits, 16)).collect::<Result<Vec<u8>, _>>()
    };
    let lines = lines.map(bytes).collect::<Result<Vec<_>, _>>();
    let is_client = path.to_string_lossy().ends_with(".c2s.hex");
    Ok(Capture {
        is_client,
        lines: lines.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
    })
}

/// The seeds of each target by its name.
pub fn all(captures: &[Capture]) -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let mut seeds: BTreeMap<&'static str, Vec<Vec<u8>>> = BTreeMap::new();
    let mut add = |target, seed: Vec<u8>| {
        let seeds = seeds.entry(target).or_default();
        if !seeds.contains(&seed) {
            seeds.push(seed);
        }
    };
    for other in
        [&b"hrpc\x09\0\0"[..], b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\0", b"hrpc\x08\0\0", b"HRPC\x09\0\0"]
    {
        add("preface", other.to_vec());
    }
    add("negotiation_server", GREETING.to_vec());
    add("negotiation_client", WELCOME.to_vec());
    for capture in captures {
        let frames = capture.lines.iter().filter(|line| !line.starts_with(b"hrpc"));
        let (negotiation, calls): (Vec<_>, Vec<_>) = frames.partition(|line| is_negotiation(line));
        let header = if capture.is_client { "request_header" } else { "response_header" };
        for line in &capture.lines {
            if let Some((head, main)) = parts(line) {
                add(header, head.to_vec());
                if is_negotiation(line) {
                    add("negotiation_client", main.to_vec());
                }
            }
        }
        let calls: Vec<u8> = calls.into_iter().flatten().copied().collect();
        if capture.is_client {
            add("negotiation_server", capture.lines.concat());
            add("frames", calls);
        } else {
            add("negotiation_client", negotiation.into_iter().flatten().copied().collect());
            add("response_header", calls);
        }
    }
    for (offsets, repeats) in [(&[][..], 1u8), (&[3, 3, 9], 1), (&[100, 70_000, 70_000], 255), (&[9, 3], 2)] {
        let mut seed = vec![offsets.len() as u8, repeats];
        offsets.iter().for_each(|offset: &u32| seed.extend(offset.to_le_bytes()));
        seed.extend((0..if repeats == 1 { 20 } else { 1000 }).map(|byte| byte as u8));
        add("sidecars", seed);
    }
    rows(&mut add);
    for kind in 0..8u8 {
        add("messages", [&[kind][..], &message(kind)].concat());
    }
    for seed in crate::tablet_files::seeds() {
        add("tablet_files", seed);
    }
    for seed in crate::scan_token::seeds() {
        add("scan_token", seed);
    }
    add("tablet_description", description());
    add("sealed_file", b"NYALAFUZ\x02\0\0\0\0\0\0\0content".to_vec());
    seeds
}

fn is_negotiation(line: &[u8]) -> bool {
    // Both headers begin with the call id, and that of negotiation and context is negative: ten bytes.
    parts(line).is_some_and(|(header, _)| {
        header.len() > 10 && header.get(10) == Some(&1) && header.get(1) >= Some(&0x80)
    })
}

fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let total = frame::length(line, u32::MAX).ok()??;
    let parts = frame::parts(line, total).ok()??;
    Some((line.get(parts.header)?, line.get(parts.main)?))
}

/// Seeds of the targets that read rows.
fn rows(add: &mut impl FnMut(&'static str, Vec<u8>)) {
    for (index, table) in [small(), every_type()].iter().enumerate() {
        let mut encoder = Encoder::new(table);
        for (kind, values) in
            [(OpKind::Insert, 0), (OpKind::Upsert, 1), (OpKind::Delete, 2), (OpKind::Update, 1)]
        {
            encoder.push(kind, &row(table, values)).unwrap_or_else(|error| unreachable!("{error}"));
        }
        let (rows, indirect) = encoder.finish();
        let length = (rows.len() as u16).to_le_bytes();
        add("row_operations", [&[index as u8][..], &length, &rows, &indirect].concat());
        if index == 0 {
            for seed in log(&rows, &indirect) {
                add("log", seed);
            }
        }
        let block = block(table);
        for padded in [false, true] {
            let (rows, indirect) =
                row_block::encode(table, &block, padded).unwrap_or_else(|error| unreachable!("{error}"));
            let kind = index as u8 | if padded { 4 } else { 0 };
            add("result_blocks", [&[kind, block.rows as u8][..], &rows, &indirect].concat());
        }
        let mut seed = vec![index as u8 | 2, block.rows as u8];
        for column in &block.columns {
            for part in
                [Some(&column.data), column.varlen.as_ref(), column.non_null.as_ref()].into_iter().flatten()
            {
                seed.extend((part.len() as u16).to_le_bytes());
                seed.extend(part);
            }
        }
        add("result_blocks", seed);
    }
}

/// `values`: 0 = all set, 1 = with NULLs, 2 = the key only.
fn row(table: &Schema, values: usize) -> PartialRow {
    let mut row = PartialRow::new(table);
    for (index, column) in table.columns().iter().enumerate().take(if values == 2 { 1 } else { table.len() })
    {
        if values == 1 && column.nullable && index > 0 {
            row.set_null_at(index).map(drop).unwrap_or_else(|error| unreachable!("{error}"));
            continue;
        }
        let value = value(column);
        row.set_at(index, value).map(drop).unwrap_or_else(|error| unreachable!("{error}"));
    }
    row
}

fn value(column: &schema::Column) -> Value {
    use schema::DataType as T;
    match column.data_type {
        T::Int8 => Value::from(1i8),
        T::Int16 => Value::from(2i16),
        T::Int32 => Value::from(3i32),
        T::Int64 => Value::from(4i64),
        T::Bool | T::IsDeleted => Value::from(true),
        T::Float => Value::from(5.5f32),
        T::Double => Value::from(6.5f64),
        T::String => Value::from("text"),
        T::Binary => Value::from(vec![0u8, 255]),
        T::UnixtimeMicros => Value::UnixtimeMicros(7),
        T::Date => Value::Date(8),
        T::Varchar => Value::Varchar("v".to_owned()),
        T::Decimal32 => Value::Decimal32(9),
        T::Decimal64 => Value::Decimal64(10),
        T::Decimal128 => Value::Decimal128(11),
    }
}

fn block(table: &Schema) -> ColumnarBlock {
    let rows = [row(table, 0), row(table, 1), row(table, 0)];
    let columns = table.columns().iter().enumerate().map(|(index, column)| {
        let mut builder = ColumnBuilder::new(column);
        for row in &rows {
            builder.push(row.cell(index)).unwrap_or_else(|error| unreachable!("{error}"));
        }
        builder.finish()
    });
    ColumnarBlock { rows: rows.len(), columns: columns.collect() }
}

/// A record of two entries, by itself and behind its frame and header.
fn log(rows: &Bytes, indirect: &Bytes) -> Vec<Vec<u8>> {
    let entry = |request: &[u8]| {
        let mut entry = vec![1];
        entry.extend([0; 12]);
        entry.extend(request);
        entry.extend(3u32.to_le_bytes());
        [10u32, 11, 12].iter().for_each(|column| entry.extend(column.to_le_bytes()));
        for part in [rows, indirect] {
            entry.extend((part.len() as u32).to_le_bytes());
            entry.extend(part);
        }
        [&(entry.len() as u16).to_le_bytes()[..], &entry].concat()
    };
    let request = [&[1, 1, 0, 0, 0, b'c'][..], &7u64.to_le_bytes(), &7u64.to_le_bytes()].concat();
    let entries = [entry(&[0]), entry(&request)].concat();
    let record = crate::log::record(&entries);
    let segment = [crate::log::header(), record.clone()].concat();
    [(0, segment), (1, record), (2, entries)].map(|(kind, bytes)| [&[kind][..], &bytes].concat()).to_vec()
}

fn description() -> Vec<u8> {
    use proto::kudu::partition_schema_pb::{ColumnIdentifierPb, HashBucketSchemaPb, column_identifier_pb};
    let identifier = column_identifier_pb::Identifier::Id(10);
    let dimension = HashBucketSchemaPb {
        columns: vec![ColumnIdentifierPb { identifier: Some(identifier) }],
        num_buckets: 4,
        ..Default::default()
    };
    proto::kudu::tserver::CreateTabletRequestPb {
        table_id: Bytes::from_static(b"table"),
        tablet_id: Bytes::from_static(b"tablet"),
        table_name: "t".to_owned(),
        schema: SchemaPb::from(&every_type().with_sequential_ids(10)),
        partition: Some(proto::kudu::PartitionPb { hash_buckets: vec![1], ..Default::default() }),
        partition_schema: Some(proto::kudu::PartitionSchemaPb {
            hash_schema: vec![dimension],
            ..Default::default()
        }),
        ..Default::default()
    }
    .encode_to_vec()
}

fn message(kind: u8) -> Vec<u8> {
    use proto::kudu::{master, tserver};
    let table = every_type().with_sequential_ids(10);
    let partitions = || proto::kudu::PartitionSchemaPb {
        hash_schema: vec![proto::kudu::partition_schema_pb::HashBucketSchemaPb {
            columns: vec![proto::kudu::partition_schema_pb::ColumnIdentifierPb {
                identifier: Some(proto::kudu::partition_schema_pb::column_identifier_pb::Identifier::Name(
                    "INT8".to_owned(),
                )),
            }],
            num_buckets: 4,
            ..Default::default()
        }],
        ..Default::default()
    };
    match kind {
        0 => master::CreateTableRequestPb {
            name: "t".to_owned(),
            schema: SchemaPb::from(&small()),
            partition_schema: Some(partitions()),
            ..Default::default()
        }
        .encode_to_vec(),
        1 => master::GetTableLocationsRequestPb::default().encode_to_vec(),
        2 => tserver::ScanRequestPb {
            new_scan_request: Some(tserver::NewScanRequestPb {
                tablet_id: Bytes::from_static(b"t"),
                projected_columns: SchemaPb::from(&small()).columns,
                ..Default::default()
            }),
            ..Default::default()
        }
        .encode_to_vec(),
        3 => tserver::WriteRequestPb { tablet_id: Bytes::from_static(b"t"), ..Default::default() }
            .encode_to_vec(),
        4 => SchemaPb::from(&table).encode_to_vec(),
        5 => partitions().encode_to_vec(),
        6 => proto::kudu::PartitionPb { hash_buckets: vec![1, 2], ..Default::default() }.encode_to_vec(),
        _ => ColumnPredicatePb {
            column: Some("INT8".to_owned()),
            predicate: Some(proto::kudu::column_predicate_pb::Predicate::Equality(
                proto::kudu::column_predicate_pb::Equality { value: Some(Bytes::from_static(b"\x07")) },
            )),
        }
        .encode_to_vec(),
    }
}
