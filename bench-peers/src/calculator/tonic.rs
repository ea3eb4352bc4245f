//! On tonic, as its documentation has it: one server on a runtime of several workers.

use ::tonic::transport::server::TcpIncoming;
use ::tonic::transport::{Channel, Endpoint, Server, Uri};
use ::tonic::{Request, Response, Status};
use anyhow::Result;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::UnixListenerStream;

use crate::figures::Figures;
use crate::listener::{Address, Listener};
use crate::load::{self, Adder, Shape};

/// The stubs, made by `build.rs`.
mod stubs {
    #![allow(clippy::all, unreachable_pub, unused)]
    include!(concat!(env!("OUT_DIR"), "/rpc_test.Calculator.rs"));
}
use stubs::calculator_client::CalculatorClient;
use stubs::calculator_server::{Calculator, CalculatorServer};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AddRequest {
    #[prost(uint32, tag = "1")]
    x: u32,
    #[prost(uint32, tag = "2")]
    y: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AddResponse {
    #[prost(uint32, tag = "1")]
    result: u32,
}

struct Service;

#[::tonic::async_trait]
impl Calculator for Service {
    async fn add(&self, request: Request<AddRequest>) -> Result<Response<AddResponse>, Status> {
        let AddRequest { x, y } = request.into_inner();
        Ok(Response::new(AddResponse { result: x.wrapping_add(y) }))
    }
}

impl Adder for CalculatorClient<Channel> {
    async fn add(&self, x: u32, y: u32) -> Result<u32> {
        // A client is cloned for each call that runs beside others: that is its interface.
        let mut client = self.clone();
        let response = CalculatorClient::add(&mut client, AddRequest { x, y }).await?;
        Ok(response.into_inner().result)
    }
}

pub(super) fn run(shape: Shape, listener: Listener, address: Address, reactors: usize) -> Result<Figures> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(reactors.max(1)).enable_all().build()?;
    let _entered = runtime.enter();
    let router = Server::builder().tcp_nodelay(true).add_service(CalculatorServer::new(Service));
    match listener {
        Listener::Tcp(listener) => {
            listener.set_nonblocking(true)?;
            let incoming = TcpIncoming::from(TcpListener::from_std(listener)?).with_nodelay(Some(true));
            runtime.spawn(router.serve_with_incoming(incoming));
        }
        Listener::Unix(listener) => {
            listener.set_nonblocking(true)?;
            let incoming = UnixListenerStream::new(UnixListener::from_std(listener)?);
            runtime.spawn(router.serve_with_incoming(incoming));
        }
    }
    load::run(shape, move || connect(address.clone()))
}

/// A client with a connection of its own, driven by the current runtime.
async fn connect(address: Address) -> Result<CalculatorClient<Channel>> {
    let endpoint = Endpoint::from_static("http://calculator.test");
    let connector = move |_: Uri| {
        let stream = address.connect();
        async move { stream.map(TokioIo::new) }
    };
    let channel = endpoint.connect_with_connector(tower::service_fn(connector)).await?;
    Ok(CalculatorClient::new(channel))
}
