//! The same rows from an Arrow Flight server to its client, both processes of `bench-peers`.

use std::process::Command;

use anyhow::{Context, Result};
use xtask::measure;

use super::super::peers::{self, Talker};
use super::pass::Pass;

/// What to serve, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) rows: u64,
    /// Only the INT32 column.
    pub(super) narrow: bool,
    pub(super) unix: bool,
}

/// Server and client.
#[derive(Debug)]
pub(super) struct Flight {
    // Before the server: it goes first.
    client: Talker,
    server: Talker,
}

impl Flight {
    pub(super) fn start(setting: Setting) -> Result<Flight> {
        let program = peers::build()?;
        let rows = setting.rows.to_string();
        let columns = if setting.narrow { "int32" } else { "all" };
        let mut server = Command::new(&program);
        server.args(["flight-server", "--rows", &rows, "--columns", columns]);
        if setting.unix {
            server.arg("--uds");
        }
        let mut server = Talker::start(&mut server)?;
        let address = server.line()?;
        let mut client = Command::new(&program);
        client.args(["flight-client", "--rows", &rows, "--columns", columns, "--address", &address]);
        Ok(Flight { client: Talker::start(&mut client)?, server })
    }

    pub(super) fn pass(&mut self) -> Result<Pass> {
        let before = measure::cpu_time(self.server.pid())?;
        let said = self.client.ask()?;
        let server = measure::cpu_time(self.server.pid())?.saturating_sub(before);
        let figure = |name: &str| said[name].as_f64().with_context(|| format!("the client told no {name}"));
        let rows = figure("rows")?;
        Ok(Pass {
            server_ns: server.as_nanos() as f64 / rows,
            client_ns: figure("client_cpu_seconds")? * 1e9 / rows,
            seconds_a_row: figure("seconds")? / rows,
        })
    }
}
