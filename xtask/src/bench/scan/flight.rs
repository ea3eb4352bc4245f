//! The same rows from an Arrow Flight server to its client, both processes of `bench-peers`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use xtask::measure;

use super::super::peers::{self, Talker};
use super::pass::{Pass, Times};

/// What to serve, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) rows: u64,
    /// As its command line names them.
    pub(super) columns: &'static str,
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
        let columns = setting.columns;
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
        let (mut client, mut elapsed, mut rows) = (Duration::ZERO, Duration::ZERO, 0);
        loop {
            let said = self.client.ask()?;
            let figure =
                |name: &str| said[name].as_f64().with_context(|| format!("the client told no {name}"));
            client += Duration::from_secs_f64(figure("client_cpu_seconds")?);
            elapsed += Duration::from_secs_f64(figure("seconds")?);
            rows += figure("rows")? as u64;
            let server = measure::cpu_time(self.server.pid())?.saturating_sub(before);
            if Times::Enough.is_done(server, client, elapsed) {
                return Ok(Pass::of(server, client, elapsed, rows));
            }
        }
    }
}
