//! How evenly connections fall on reactors, beside what Kudu's hashes would do with the same peers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use net_addr::SockAddr;
use net_addr::hash::{Form, city, jenkins};
use rpc_core::Messenger;
use rpc_server::Server;
use socket2::{Domain, Socket, Type};
use xtask::figures::Figures;
use xtask::report;

use super::rpc::calculator::calculator_service::{Add, SERVICE};
use super::rpc::calculator::{AddRequestPb, AddResponsePb};

/// Connects to a server with 4 reactors in four ways and counts where the connections are.
#[derive(clap::Args)]
pub(crate) struct Balance {
    /// Times that each way is tried; the worst counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const REACTORS: usize = 4;

#[derive(Clone, Copy)]
enum Peers {
    /// Of our own client, each with the next free port.
    Client(usize),
    ConsecutivePorts(usize),
    LoopbackAddresses(usize),
    Unix(usize),
}

impl Balance {
    pub(crate) fn run(self) -> Result<()> {
        let ways = [
            ("8_clients", "8 connections of our client", Peers::Client(8)),
            ("64_ports", "64 over consecutive ports", Peers::ConsecutivePorts(64)),
            ("64_addresses", "64 over loopback addresses", Peers::LoopbackAddresses(64)),
            ("64_unix", "64 unix sockets", Peers::Unix(64)),
        ];
        let mut figures = Figures::default();
        let mut rows = Vec::new();
        for (name, about, peers) in ways {
            let mut shares = Vec::new();
            let mut kudu = Vec::new();
            let mut seed = Vec::new();
            for _ in 0..self.rounds.max(1) {
                let (loads, addresses) = connect(peers)?;
                shares.push(largest_share(&loads));
                kudu.push(hashed(&addresses, |peer| city::hash(peer, Form::Accepted) as u32));
                seed.push(hashed(&addresses, jenkins::hash));
            }
            figures.add(&format!("largest_share_{name}"), "x mean", &shares);
            figures.add(&format!("largest_share_{name}_by_kudus_hash"), "x mean", &kudu);
            figures.add(&format!("largest_share_{name}_by_the_hash_of_2016"), "x mean", &seed);
            let worst = |shares: &[f64]| format!("{:.2}", shares.iter().copied().fold(0.0, f64::max));
            rows.push(vec![about.to_owned(), worst(&shares), worst(&kudu), worst(&seed)]);
        }
        println!(
            "Connections of the fullest of {REACTORS} reactors, as a multiple of the mean; worst of {} rounds\n",
            self.rounds
        );
        println!("{}\n", report::table(&["peers", "ours", "by Kudu's hash", "by the hash of 2016"], &rows));
        super::publish(&figures, self.json.as_ref())
    }
}

/// How many connections each reactor got, and the peers' addresses as the server sees them.
fn connect(peers: Peers) -> Result<(Vec<usize>, Vec<SockAddr>)> {
    let service = rpc_server::Service::builder(SERVICE)
        .function::<Add>(|request| AddResponsePb { result: request.x.wrapping_add(request.y) })
        .build();
    let server = Server::builder().reactors(REACTORS).service(service);
    let server = match peers {
        Peers::Unix(_) => server.bind_unix(&format!("@nyala-balance-{}", std::process::id())),
        _ => server.bind("0.0.0.0:0".parse()?),
    };
    let server = server.start()?;
    server.ready();
    let bound = server.bound_addresses().first().context("no address")?;
    let remote = match bound.port() {
        Some(port) => SockAddr::parse("127.0.0.1", port)?,
        None => bound.clone(),
    };
    let count = match peers {
        Peers::Client(count) | Peers::ConsecutivePorts(count) => count,
        Peers::LoopbackAddresses(count) | Peers::Unix(count) => count,
    };
    let mut sockets = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let messenger = Messenger::builder().user("bench").build();
    match peers {
        Peers::Client(count) => runtime.block_on(async {
            for number in 0..count {
                let proxy =
                    rpc_core::Proxy::with_plane(&messenger, remote.clone(), "bench", &number.to_string());
                proxy.call::<Add>(&AddRequestPb { x: 1, y: 1 }).send().await?;
            }
            anyhow::Ok(())
        })?,
        Peers::ConsecutivePorts(count) => {
            let ports = (FIRST_PORT..).map(|port| SockAddr::parse("127.0.0.1", port));
            // Those that somebody has are left out.
            let open = ports.filter_map(|from| open(Some(&from.ok()?), &remote).ok());
            sockets.extend(open.take(count));
        }
        Peers::LoopbackAddresses(count) => {
            for number in 0..count {
                let from = SockAddr::parse(&format!("127.0.0.{}", number + 1), FIRST_PORT - 1)?;
                sockets.push(open(Some(&from), &remote)?);
            }
        }
        Peers::Unix(count) => {
            for _ in 0..count {
                sockets.push(open(None, &remote)?);
            }
        }
    }
    let until = Instant::now() + PATIENCE;
    let stats = loop {
        let stats = server.reactors().stats();
        if stats.connections.len() == count {
            break stats;
        }
        ensure!(Instant::now() < until, "{} of {count} connections came", stats.connections.len());
        std::thread::sleep(Duration::from_millis(5));
    };
    let loads = stats.reactors.iter().map(|reactor| reactor.connections).collect();
    Ok((loads, stats.connections.into_iter().map(|connection| connection.peer).collect()))
}

fn open(from: Option<&SockAddr>, to: &SockAddr) -> Result<Socket> {
    let domain = if to.is_unix() { Domain::UNIX } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if let Some(from) = from {
        socket.set_reuse_address(true)?;
        socket.bind(&from.to_socket2()?)?;
    }
    socket.connect(&to.to_socket2()?)?;
    // So that the next round finds the port free.
    socket.set_linger(Some(Duration::ZERO))?;
    Ok(socket)
}

fn hashed(peers: &[SockAddr], hash: impl Fn(&SockAddr) -> u32) -> f64 {
    let mut loads = [0; REACTORS];
    for peer in peers {
        loads[hash(peer) as usize % REACTORS] += 1;
    }
    largest_share(&loads)
}

fn largest_share(loads: &[usize]) -> f64 {
    let all: usize = loads.iter().sum();
    loads.iter().max().copied().unwrap_or(0) as f64 * loads.len() as f64 / all.max(1) as f64
}

/// Below the ports that the system hands out by itself.
const FIRST_PORT: u16 = 20_001;
const PATIENCE: Duration = Duration::from_secs(60);
