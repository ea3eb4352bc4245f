//! On capnp-rpc, which is of one thread: each connection is a task of its thread.

use std::rc::Rc;

use anyhow::{Context, Result};
use capnp_rpc::{RpcSystem, rpc_twoparty_capnp::Side, twoparty};
use futures::FutureExt;
use futures::io::{BufReader, BufWriter};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::serve;
use crate::calculator_capnp::calculator;
use crate::figures::Figures;
use crate::listener::{Accepted, Address, Listener, Stream};
use crate::load::{self, Adder, Shape};

struct Service;

impl calculator::Server for Service {
    async fn add(
        self: Rc<Self>,
        params: calculator::AddParams,
        mut results: calculator::AddResults,
    ) -> Result<(), ::capnp::Error> {
        let params = params.get()?;
        results.get().set_result(params.get_x().wrapping_add(params.get_y()));
        Ok(())
    }
}

impl Adder for calculator::Client {
    async fn add(&self, x: u32, y: u32) -> Result<u32> {
        let mut request = self.add_request();
        request.get().set_x(x);
        request.get().set_y(y);
        let response = request.send().promise.await?;
        Ok(response.get()?.get_result())
    }
}

pub(super) fn run(shape: Shape, listener: Listener, address: Address, reactors: usize) -> Result<Figures> {
    serve(listener, reactors, |mut accepted: UnboundedReceiver<Accepted>| async move {
        while let Some(accepted) = accepted.recv().await {
            let Ok(stream) = accepted.adopt() else { continue };
            let service: calculator::Client = capnp_rpc::new_client(Service);
            let system = RpcSystem::new(Box::new(network(stream, Side::Server)), Some(service.client));
            tokio::task::spawn_local(system.map(drop));
        }
    });
    load::run(shape, move || connect(address.clone()))
}

async fn connect(address: Address) -> Result<calculator::Client> {
    let stream = address.connect().context("no connection")?;
    let mut system = RpcSystem::new(Box::new(network(stream, Side::Client)), None);
    let client: calculator::Client = system.bootstrap(Side::Server);
    tokio::task::spawn_local(system.map(drop));
    Ok(client)
}

/// Both ends, buffered as in the examples of capnp-rpc.
fn network(stream: Stream, side: Side) -> twoparty::VatNetwork<impl futures::AsyncRead + Unpin> {
    let (reader, writer) = tokio::io::split(stream);
    let (reader, writer) = (BufReader::new(reader.compat()), BufWriter::new(writer.compat_write()));
    twoparty::VatNetwork::new(reader, writer, side, Default::default())
}
