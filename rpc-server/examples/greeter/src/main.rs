//! A server and a client of `proto/greeter.proto`, in one process: `cargo run -p greeter -- Ada`.
#![forbid(unsafe_code)]

use std::time::Duration;

use rpc_core::{Messenger, Proxy};
use rpc_server::{Server, Service};

#[allow(missing_docs)]
mod greeter {
    include!(concat!(env!("OUT_DIR"), "/greeter.rs"));
}

use greeter::greeter_service::{Greet, SERVICE};
use greeter::{GreetRequestPb, GreetResponsePb};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let greet = |request: &GreetRequestPb| GreetResponsePb { greeting: format!("Hello, {}!", request.name) };
    let service = Service::builder(SERVICE).function::<Greet>(greet).build();
    let server = Server::builder().bind("127.0.0.1:0".parse()?).service(service).start()?;
    server.ready();

    let address = server.bound_addresses()[0].clone();
    let proxy = Proxy::new(&Messenger::builder().build(), address, "localhost");
    let name = std::env::args().nth(1).unwrap_or_else(|| "stranger".to_owned());
    let call = proxy.call::<Greet>(&GreetRequestPb { name }).timeout(Duration::from_secs(10));
    println!("{}", call.send().await?.message.greeting);
    server.shutdown();
    Ok(())
}
