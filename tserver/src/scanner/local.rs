//! Scans for clients on this machine: blocks in shared memory are named, all else is sent.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use proto::kudu::ColumnarRowBlockPb;
use proto::kudu::columnar_row_block_pb::Column;
use proto::kudu::tserver::ScanResponsePb;
use proto::nyala::tserver::{LocalScanRequestPb, LocalScanResponsePb, SharedBlockPb, SharedColumnPb};
use rpc_core::ConnectionInfo;
use schema::ColumnarBlock;

use super::answers;
use super::cost::Stopwatch;
use super::format::Format;
use super::shared::Memory;
use super::turn::{self, Ask, Refusal};
use crate::node::Node;

/// An answer, and what goes with it.
#[derive(Debug, Default)]
pub(crate) struct LocalAnswer {
    pub(crate) response: LocalScanResponsePb,
    pub(crate) sidecars: Vec<Bytes>,
    /// Of memories that the client does not have yet, by id.
    pub(crate) memories: Vec<(u64, Arc<OwnedFd>)>,
}

/// Rows, in shared memory where they can be.
pub(crate) fn scan(
    node: &Node,
    request: &LocalScanRequestPb,
    connection: &Arc<ConnectionInfo>,
    watch: Stopwatch,
) -> Result<LocalAnswer, Refusal> {
    let LocalScanRequestPb { scan, generation, released } = request;
    let shares = node.shared.begin(connection, &connection.user, *generation, *released);
    let ask = Ask {
        new: scan.new_scan_request.as_ref(),
        scanner_id: scan.scanner_id.as_ref(),
        call_seq_id: scan.call_seq_id(),
        batch_size_bytes: scan.batch_size_bytes,
        close: scan.close_scanner(),
        user: &connection.user,
        watch,
        shares,
    };
    let mut turn = turn::take(node, &ask)?;
    let (block, read) = (turn.block.take(), turn.read);
    let scan = answers::about(node, turn);
    let mut answer = LocalAnswer::default();
    answer.response.scan = scan;
    match block {
        Some((block, Format::Columnar)) if shares => {
            let mut to = Sharing { node, connection, generation: *generation, answer: &mut answer };
            to.add(block);
            answer.response.release = node.shared.wants_back(connection).then_some(true);
        }
        Some((block, format)) => {
            let response: &mut ScanResponsePb = &mut answer.response.scan;
            answer.sidecars = answers::fill(block, &format, response)?;
        }
        None => {}
    }
    answer.response.scan.resource_metrics = Some(watch.stop(read));
    Ok(answer)
}

struct Sharing<'a> {
    node: &'a Node,
    connection: &'a ConnectionInfo,
    generation: u32,
    answer: &'a mut LocalAnswer,
}

impl Sharing<'_> {
    fn add(&mut self, block: ColumnarBlock) {
        let now = Instant::now();
        let mut data = ColumnarRowBlockPb { num_rows: Some(block.rows as i64), columns: Vec::new() };
        for (index, column) in block.columns.into_iter().enumerate() {
            // The system takes so many descriptors with one answer.
            let may_share = self.answer.memories.len() < MOST_DESCRIPTORS;
            let placed = may_share.then(|| self.node.shared.place(&column, now)).flatten();
            let mut shared = SharedColumnPb { column: index as u32, ..Default::default() };
            let mut sent = Column::default();
            let (memory, places) = match &placed {
                Some((memory, places)) => (Some(memory), places.clone()),
                None => (None, Default::default()),
            };
            let [data_place, varlen_place, non_null_place] = places.map(|place| {
                let (memory, place) = (memory?, place?);
                let length = place.end - place.start;
                Some(SharedBlockPb { memory: memory.id, offset: place.start, length })
            });
            match data_place {
                Some(place) => shared.data = Some(place),
                None => sent.data_sidecar = Some(self.send(column.data)),
            }
            match varlen_place {
                Some(place) => shared.varlen_data = Some(place),
                None => sent.varlen_data_sidecar = column.varlen.map(|part| self.send(part)),
            }
            match non_null_place {
                Some(place) => shared.non_null_bitmap = Some(place),
                None => sent.non_null_bitmap_sidecar = column.non_null.map(|part| self.send(part)),
            }
            if let Some(memory) = memory {
                self.name(memory);
                self.answer.response.shared.push(shared);
            }
            data.columns.push(sent);
        }
        self.answer.response.scan.columnar_data = Some(data);
    }

    fn send(&mut self, part: Bytes) -> i32 {
        self.answer.sidecars.push(part);
        self.answer.sidecars.len() as i32 - 1
    }

    /// Sends the descriptor along, once.
    fn name(&mut self, memory: &Memory) {
        let memories = &mut self.answer.memories;
        if memories.iter().all(|(id, _)| *id != memory.id)
            && self.node.shared.is_new_to(self.connection, self.generation, memory.id)
        {
            memories.push((memory.id, Arc::clone(&memory.descriptor)));
        }
    }
}

const MOST_DESCRIPTORS: usize = 200;
