//! What is called: Kudu's calculator.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use rpc_core::Method;
use rpc_server::{Call, Server, Service, ServiceBuilder};

use super::calculator::calculator_service::{Add, Echo, Push, SERVICE};
use super::calculator::{
    AddRequestPb, AddResponsePb, EchoRequestPb, EchoResponsePb, PushRequestPb, PushResponsePb,
};
use super::load::Work;

/// The server of the benchmark.
#[derive(Debug, Clone)]
pub(in crate::bench) struct Options {
    pub(in crate::bench) reactors: usize,
    pub(in crate::bench) workers: usize,
    pub(in crate::bench) unix: bool,
    /// Hand calls to the workers, though they are cheap.
    pub(in crate::bench) queued: bool,
}

/// As `start_polling`, with reactors that sleep as soon as they have no work.
pub(in crate::bench) fn start(options: &Options) -> Result<Server> {
    start_polling(options, Duration::ZERO)
}

/// Starts it; its reactors look for work for up to `busy_poll` before they sleep.
pub(in crate::bench) fn start_polling(options: &Options, busy_poll: Duration) -> Result<Server> {
    let service = Service::builder(SERVICE).threads(options.workers).queue_length(10_000);
    let sum = |request: &AddRequestPb| AddResponsePb { result: request.x.wrapping_add(request.y) };
    let service = match options.queued {
        true => service.method(move |call: Call<Add>| {
            let response = sum(call.request());
            call.respond(&response);
        }),
        false => service.function::<Add>(sum),
    };
    let service = add(service, options.queued, |mut call: Call<Echo>| {
        let EchoRequestPb { data } = call.take_request();
        call.respond(&EchoResponsePb { data });
    });
    let service = add(service, true, |call: Call<Push>| {
        let mut crc = crc32fast::Hasher::new();
        let mut size = 0;
        for block in call.sidecars() {
            crc.update(block);
            size += block.len() as u32;
        }
        call.respond(&PushResponsePb { size, crc32: crc.finalize() });
    });
    let builder = Server::builder()
        .name("bench")
        .reactors(options.reactors)
        .busy_poll(busy_poll)
        .service(service.build());
    let builder = match options.unix {
        true => builder.bind_unix(&format!("@nyala-bench-{}", std::process::id())),
        false => builder.bind("127.0.0.1:0".parse()?),
    };
    let server = builder.start()?;
    server.ready();
    Ok(server)
}

fn add<M: Method>(
    service: ServiceBuilder,
    queued: bool,
    handler: impl Fn(Call<M>) + Send + Sync + 'static,
) -> ServiceBuilder {
    if queued { service.method(handler) } else { service.cheap(handler) }
}

/// rpc-bench's own call.
pub(in crate::bench) struct Sum;

impl Work for Sum {
    type Method = Add;

    fn request(&self, number: u32) -> AddRequestPb {
        AddRequestPb { x: number, y: number }
    }

    fn check(&self, number: u32, response: &AddResponsePb) -> bool {
        response.result == number.wrapping_mul(2)
    }
}

/// Bytes there and back.
pub(in crate::bench) struct Payload(pub(in crate::bench) Bytes);

impl Work for Payload {
    type Method = Echo;

    fn request(&self, _number: u32) -> EchoRequestPb {
        EchoRequestPb { data: self.0.clone() }
    }

    fn check(&self, _number: u32, response: &EchoResponsePb) -> bool {
        response.data.len() == self.0.len() && response.data.first() == self.0.first()
    }
}

/// Bytes there, as a sidecar, and their checksum back.
pub(in crate::bench) struct Block {
    bytes: Bytes,
    crc32: u32,
}

impl Block {
    pub(in crate::bench) fn new(bytes: Bytes) -> Self {
        let crc32 = crc32fast::hash(&bytes);
        Self { bytes, crc32 }
    }
}

impl Work for Block {
    type Method = Push;

    fn request(&self, _number: u32) -> PushRequestPb {
        PushRequestPb { sidecar_idx: vec![0] }
    }

    fn sidecars(&self) -> Vec<Bytes> {
        vec![self.bytes.clone()]
    }

    fn check(&self, _number: u32, response: &PushResponsePb) -> bool {
        response.size as usize == self.bytes.len() && response.crc32 == self.crc32
    }
}
