//! The client: one thread, one connection, both streams at once, cells added up as our own client's benchmark does.

use std::io::BufRead;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_flight::{FlightClient, Ticket};
use arrow_schema::DataType;
use futures::StreamExt;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tonic::transport::{Channel, Endpoint, Uri};

use super::{Columns, Kind, STREAMS};
use crate::listener::Address;
use crate::usage::own_cpu_time;

#[derive(clap::Args)]
pub(crate) struct Read {
    /// What the server printed.
    #[arg(long)]
    address: Address,

    #[arg(long)]
    rows: u64,

    #[arg(long, value_enum)]
    columns: Columns,

    /// Milliseconds that a sample takes at least.
    #[arg(long, default_value_t = 500)]
    at_least: u64,
}

impl Read {
    pub(crate) fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let channel = runtime.block_on(connect(self.address.clone()))?;
        for line in std::io::stdin().lock().lines() {
            line?;
            let (before, start) = (own_cpu_time(), Instant::now());
            let mut rows = 0;
            while rows == 0 || start.elapsed() < Duration::from_millis(self.at_least) {
                runtime.block_on(self.scan(&channel))?;
                rows += self.rows;
            }
            let seconds = start.elapsed().as_secs_f64();
            let cpu = (own_cpu_time() - before).as_secs_f64();
            println!("{}", json!({"rows": rows, "seconds": seconds, "client_cpu_seconds": cpu}));
        }
        Ok(())
    }

    async fn scan(&self, channel: &Channel) -> Result<()> {
        let mut streams = Vec::new();
        for stream in 0..STREAMS {
            let mut client = FlightClient::new(channel.clone());
            streams.push(client.do_get(Ticket::new(stream.to_string())).await?);
        }
        let mut batches = futures::stream::select_all(streams);
        let (mut rows, mut sum) = (0, 0);
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            sum += add_up(&batch)?;
        }
        ensure!(rows == self.rows, "a scan gave {rows} rows");
        let numbers = u128::from(rows) * u128::from(rows - 1) / 2;
        let column = |kind: &Kind| match kind {
            Kind::Int32 | Kind::Int64 => numbers,
            Kind::String => u128::from(rows) * super::STRING_BYTES as u128,
        };
        let wanted: u128 = self.columns.kinds().iter().map(column).sum();
        ensure!(sum == wanted, "the cells add up to {sum}, not to {wanted}");
        Ok(())
    }
}

/// Numbers count as they are, strings by their length.
fn add_up(batch: &RecordBatch) -> Result<u128> {
    let mut sum = 0;
    for column in batch.columns() {
        sum += match column.data_type() {
            DataType::Int32 => {
                column.as_primitive::<Int32Type>().values().iter().map(|&cell| i64::from(cell)).sum::<i64>()
            }
            DataType::Int64 => column.as_primitive::<Int64Type>().values().iter().sum::<i64>(),
            _ => {
                let offsets = column.as_string::<i32>().value_offsets();
                let ends = offsets.first().zip(offsets.last()).context("no offsets")?;
                i64::from(ends.1 - ends.0)
            }
        } as u128;
    }
    Ok(sum)
}

async fn connect(address: Address) -> Result<Channel> {
    let connector = move |_: Uri| {
        let stream = address.connect();
        async move { stream.map(TokioIo::new) }
    };
    let endpoint = Endpoint::from_static("http://flight.test");
    Ok(endpoint.connect_with_connector(tower::service_fn(connector)).await?)
}
