//! The two forms of an answer's rows: row by row, or column by column.

use bytes::Bytes;
use proto::kudu::columnar_row_block_pb::Column;
use proto::kudu::tserver::ScanResponsePb;
use proto::kudu::{ColumnarRowBlockPb, RowwiseRowBlockPb};
use schema::columnar::BlockError;
use schema::{ColumnarBlock, Schema, row_block};

/// How the client wants its rows.
#[derive(Clone, Debug)]
pub(crate) enum Format {
    Rowwise {
        projection: Schema,
        /// UNIXTIME_MICROS cells have 8 zero bytes behind them.
        padded: bool,
    },
    Columnar,
}

impl Format {
    /// Puts a block into an answer: its description into the message, its bytes into sidecars.
    pub(crate) fn fill(
        &self,
        block: ColumnarBlock,
        response: &mut ScanResponsePb,
    ) -> Result<Vec<Bytes>, BlockError> {
        let mut sidecars = Vec::new();
        let mut add = |bytes: Bytes| {
            sidecars.push(bytes);
            sidecars.len() as i32 - 1
        };
        match self {
            Self::Rowwise { projection, padded } => {
                let num_rows = block.rows as i32;
                let (rows, indirect) = row_block::encode(projection, &block, *padded)?;
                let mut data = RowwiseRowBlockPb { num_rows: Some(num_rows), ..Default::default() };
                data.rows_sidecar = Some(add(rows));
                if !indirect.is_empty() {
                    data.indirect_data_sidecar = Some(add(indirect));
                }
                response.data = Some(data);
            }
            Self::Columnar => {
                let mut data = ColumnarRowBlockPb { num_rows: Some(block.rows as i64), columns: Vec::new() };
                for column in block.columns {
                    data.columns.push(Column {
                        data_sidecar: Some(add(column.data)),
                        varlen_data_sidecar: column.varlen.map(&mut add),
                        non_null_bitmap_sidecar: column.non_null.map(&mut add),
                    });
                }
                response.columnar_data = Some(data);
            }
        }
        Ok(sidecars)
    }
}
