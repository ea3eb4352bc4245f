//! The Arrow files in the eyes of pyarrow, if `NYALA_PYTHON` names a Python that has it (`cargo xtask interop arrow`).

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::*;
use crate::backend::Disk;

/// All types, each as it is and packed.
fn schema(compression: Compression) -> Schema {
    let mut columns = vec![Column::new("key", DataType::Int64), Column::new("more", DataType::String)];
    for packed in [Compression::None, compression] {
        let all = [
            Column::new("int8", DataType::Int8),
            Column::new("int16", DataType::Int16),
            Column::new("int32", DataType::Int32),
            Column::new("int64", DataType::Int64),
            Column::new("bool", DataType::Bool),
            Column::new("float", DataType::Float),
            Column::new("double", DataType::Double),
            Column::new("string", DataType::String),
            Column::new("binary", DataType::Binary),
            Column::varchar("varchar", 20),
            Column::new("micros", DataType::UnixtimeMicros),
            Column::new("date", DataType::Date),
            Column::decimal("decimal32", 9, 2),
            Column::decimal("decimal64", 18, 0),
            Column::decimal("decimal128", 38, 38),
        ];
        columns.extend(all.into_iter().map(|column| Column {
            name: format!("{} {packed:?}", column.name),
            nullable: true,
            compression: packed,
            ..column
        }));
    }
    Schema::new(columns, 2).unwrap().with_sequential_ids(10)
}

/// Rows with nulls here and there, and a second batch that has none.
fn rows(schema: &Schema) -> Vec<Row> {
    let row = |i: i64| {
        let cell = |(index, column): (usize, &Column)| {
            if column.nullable && i < 100 && (i + index as i64) % 4 == 0 {
                return None;
            }
            Some(match column.data_type {
                DataType::Bool => vec![(i % 2) as u8],
                DataType::Float => (i as f32 / 4.0).to_le_bytes().to_vec(),
                DataType::Double => (i as f64 / -8.0).to_le_bytes().to_vec(),
                DataType::Binary => vec![0xff; i as usize % 70],
                DataType::String | DataType::Varchar => format!("ä{i:04}").into_bytes(),
                other if index > 0 && other != DataType::Date => {
                    (i128::from(i) - 50).to_le_bytes()[..other.cell_size()].to_vec()
                }
                other => i.to_le_bytes()[..other.cell_size()].to_vec(),
            })
        };
        let cells = schema.columns().iter().enumerate().map(cell).collect();
        Row { cells, inserted: 1, ended: ALIVE }
    };
    (0..160).map(row).collect()
}

const BATCH: usize = 100;

#[test]
fn pyarrow_reads_the_same_cells() {
    let Some(python) = std::env::var_os("NYALA_PYTHON") else { return };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tools/arrow_cells.py");
    for compression in [Compression::Lz4, Compression::Zlib] {
        let root = tempfile::tempdir().unwrap();
        let (disk, schema) = (Disk::new(root.path()), schema(compression));
        let rows = rows(&schema);
        write(&disk, &schema, true, &rows, BATCH).unwrap();
        let rowset = open(&disk).unwrap();
        for (packed, name) in [(false, DATA), (true, PACKED)] {
            let file = root.path().join(folder()).join(name);
            let output = Command::new(&python).arg(&script).arg(file).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            let here: Vec<usize> =
                (0..schema.len()).filter(|column| rowset.columns()[*column].packed == packed).collect();
            for (field, &column) in found["fields"].as_array().unwrap().iter().zip(&here) {
                let expected = &schema.columns()[column];
                assert_eq!(field["name"], expected.name);
                assert_eq!(field["nullable"], expected.nullable);
                assert_eq!(field["type"], type_name(expected), "{}", expected.name);
                assert_eq!(field["metadata"]["kudu.id"], schema.id(column).0.to_string());
                let kudu_type = field["metadata"]["kudu.type"].as_str().unwrap();
                assert!(kudu_type.starts_with(expected.data_type.name()), "{kudu_type}");
            }
            for (batch, rows) in found["batches"].as_array().unwrap().iter().zip(rows.chunks(BATCH)) {
                assert_eq!(batch["rows"], rows.len());
                assert_eq!(batch["columns"].as_array().unwrap().len(), here.len());
                for (cells, &column) in batch["columns"].as_array().unwrap().iter().zip(&here) {
                    let expected: Vec<Value> =
                        rows.iter().map(|row| hex(row.cells[column].as_deref())).collect();
                    assert_eq!(cells, &Value::from(expected), "{}", schema.columns()[column].name);
                }
            }
            assert_eq!(found["batches"].as_array().unwrap().len(), 2);
        }
    }
}

fn hex(cell: Option<&[u8]>) -> Value {
    let digits = |cell: &[u8]| cell.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    cell.map_or(Value::Null, |cell| digits(cell).into())
}

/// What pyarrow calls the type of a column of text.
fn type_name(column: &Column) -> &'static str {
    match column.data_type {
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::Bool | DataType::IsDeleted => "uint8",
        DataType::Float => "float",
        DataType::Double => "double",
        DataType::String | DataType::Varchar => "string",
        DataType::Binary => "binary",
        DataType::UnixtimeMicros => "timestamp[us, tz=UTC]",
        DataType::Date => "date32[day]",
        DataType::Decimal32 => "decimal32(9, 2)",
        DataType::Decimal64 => "decimal64(18, 0)",
        DataType::Decimal128 => "decimal128(38, 38)",
    }
}
