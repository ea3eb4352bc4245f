//! The server: tonic on two workers, all batches in memory, stock settings.

use std::io::Read;
use std::sync::Arc;

use anyhow::Result;
use arrow_array::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::Columns;
use crate::listener::Listener;

#[derive(clap::Args)]
pub(crate) struct Serve {
    #[arg(long)]
    rows: u64,

    #[arg(long, value_enum)]
    columns: Columns,

    /// On a unix socket in place of TCP.
    #[arg(long)]
    uds: bool,
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        let streams = (0..super::STREAMS)
            .map(|stream| super::batches(self.rows, stream, self.columns))
            .collect::<Result<Vec<_>>>()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let _entered = runtime.enter();
        let service = FlightServiceServer::new(Service { streams: Arc::new(streams) });
        let router = Server::builder().add_service(service);
        let (listener, address) = Listener::bind(self.uds)?;
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
        println!("{address}");
        std::io::stdin().read_to_end(&mut Vec::new())?;
        Ok(())
    }
}

struct Service {
    streams: Arc<Vec<Vec<RecordBatch>>>,
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let number = std::str::from_utf8(&request.get_ref().ticket).ok().and_then(|text| text.parse().ok());
        let batches = number.and_then(|number: usize| self.streams.get(number));
        let batches = batches.ok_or_else(|| Status::not_found("no such stream"))?.clone();
        let batches = stream::iter(batches.into_iter().map(Ok));
        let data = FlightDataEncoderBuilder::new().build(batches).map_err(Status::from);
        Ok(Response::new(data.boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(unused())
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(unused())
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        Err(unused())
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(unused())
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        Err(unused())
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        Err(unused())
    }

    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        Err(unused())
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Err(unused())
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(unused())
    }
}

fn unused() -> Status {
    Status::unimplemented("only DoGet is measured")
}
