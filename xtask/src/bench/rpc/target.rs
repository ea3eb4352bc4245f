//! The same load on a server of its own process, whose CPU time is what is measured.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use proto::methods::{generic_service, master_service, tablet_server_service};
use rpc_core::Method;
use xtask::measure;

use super::calculator::calculator_service;
use super::load::{Load, Shape, Work};
use super::service::Sum;

/// What one server spent on one load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub(super) rate: f64,
    /// Of the server's process, a call.
    pub(super) server_cpu_us: f64,
}

/// Loads the server until it has used a second of CPU time, or 20 s are over; `blocking`: from threads that block.
pub(super) fn cost(shape: &Shape, method: &str, pid: u32, blocking: bool) -> Result<Cost> {
    let load = start(shape, method, blocking)?;
    std::thread::sleep(WARM_UP);
    let before = (measure::cpu_time(pid)?, load.answered(), Instant::now());
    let after = loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = (measure::cpu_time(pid)?, load.answered(), Instant::now());
        if now.0 - before.0 >= ENOUGH || now.2 - before.2 >= LONGEST {
            break now;
        }
    };
    load.stop()?;
    let calls = after.1 - before.1;
    if calls == 0 {
        bail!("no call of {method} was answered");
    }
    let spent = (after.0 - before.0).as_secs_f64();
    let seconds = (after.2 - before.2).as_secs_f64();
    Ok(Cost { rate: calls as f64 / seconds, server_cpu_us: spent * 1e6 / calls as f64 })
}

/// The methods that can be called without knowing anything of the server.
fn start(shape: &Shape, method: &str, blocking: bool) -> Result<Load> {
    fn begin<W: Work>(shape: &Shape, work: W, blocking: bool) -> Result<Load> {
        match blocking {
            true => Load::start_blocking(shape, Arc::new(work), Duration::ZERO),
            false => Load::start(shape, Arc::new(work)),
        }
    }
    fn empty<M: Method>() -> Empty<M> {
        Empty(PhantomData)
    }
    fn named<M: Method>(name: &str) -> bool {
        name.rsplit_once('.').is_some_and(|(service, method)| service == M::SERVICE && method == M::NAME)
    }
    match method {
        name if named::<master_service::Ping>(name) => {
            begin(shape, empty::<master_service::Ping>(), blocking)
        }
        name if named::<tablet_server_service::Ping>(name) => {
            begin(shape, empty::<tablet_server_service::Ping>(), blocking)
        }
        name if named::<generic_service::GetStatus>(name) => {
            begin(shape, empty::<generic_service::GetStatus>(), blocking)
        }
        name if named::<generic_service::GetFlags>(name) => {
            begin(shape, empty::<generic_service::GetFlags>(), blocking)
        }
        name if named::<calculator_service::Add>(name) => begin(shape, Sum, blocking),
        _ => bail!(
            "{method} cannot be called; can: kudu.master.MasterService.Ping, kudu.tserver.TabletServerService.Ping, \
             kudu.server.GenericService.GetStatus and GetFlags, kudu.rpc_test.CalculatorService.Add"
        ),
    }
}

/// Calls with an empty request, whatever the answer says.
struct Empty<M>(PhantomData<fn() -> M>);

impl<M: Method> Work for Empty<M> {
    type Method = M;

    fn request(&self, _number: u32) -> M::Request {
        M::Request::default()
    }

    fn check(&self, _number: u32, _response: &M::Response) -> bool {
        true
    }
}

const WARM_UP: Duration = Duration::from_millis(500);
const ENOUGH: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(20);
