"""Prints the fields and the cells of an Arrow IPC file as JSON, each cell as the hex digits of Kudu's raw cell.

usage: arrow_cells.py FILE
"""

import json
import struct
import sys

import pyarrow as pa
import pyarrow.ipc
import pyarrow.types as types


def raw(data_type, value):
    """The bytes of one cell, None for NULL."""
    if value is None:
        return None
    if types.is_string(data_type):
        return value.encode().hex()
    if types.is_binary(data_type):
        return value.hex()
    if types.is_float32(data_type):
        return struct.pack("<f", value).hex()
    if types.is_float64(data_type):
        return struct.pack("<d", value).hex()
    if types.is_decimal(data_type):
        value = int(value.scaleb(data_type.scale))
    return value.to_bytes(data_type.bit_width // 8, "little", signed=value < 0).hex()


def cells(column):
    """All cells of a column of one record batch."""
    data_type = column.type
    if types.is_timestamp(data_type):
        column = column.view(pa.int64())
    elif types.is_date32(data_type):
        column = column.view(pa.int32())
    return [raw(column.type, value) for value in column.to_pylist()]


def main():
    """Reads the file as any program would, and checks everything that pyarrow can check."""
    with pa.memory_map(sys.argv[1]) as source:
        reader = pa.ipc.open_file(source)
        fields = [
            {
                "name": field.name,
                "type": str(field.type),
                "nullable": field.nullable,
                "metadata": {key.decode(): value.decode() for key, value in (field.metadata or {}).items()},
            }
            for field in reader.schema
        ]
        batches = []
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            batch.validate(full=True)
            batches.append({"rows": batch.num_rows, "columns": [cells(column) for column in batch.columns]})
        print(json.dumps({"fields": fields, "batches": batches}))


main()
