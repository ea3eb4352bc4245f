//! The peers of `cargo xtask bench rpc --peers` and `bench scan --peers`: one process, one measurement.
#![forbid(unsafe_code)]

mod calculator;
#[allow(clippy::all, unreachable_pub, unused)]
mod calculator_capnp {
    include!(concat!(env!("OUT_DIR"), "/calculator_capnp.rs"));
}
mod figures;
mod flight;
mod listener;
mod load;
mod usage;

use clap::Parser;

/// What Nyala is measured beside.
#[derive(Parser)]
#[command(name = "bench-peers")]
enum Command {
    /// The calculator, client and server in this process; prints figures as JSON.
    Rpc(calculator::Rpc),
    /// Serves the rows of `bench scan` by Arrow Flight; prints its address, ends with its standard input.
    FlightServer(flight::server::Serve),
    /// Reads them, once for each line of its standard input, and prints one line of JSON for each.
    FlightClient(flight::client::Read),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Rpc(command) => command.run(),
        Command::FlightServer(command) => command.run(),
        Command::FlightClient(command) => command.run(),
    }
}
