//! `cargo xtask interop`: real Kudu components, which nobody here wrote, against ours, and ours against real servers.

mod arrow;
mod cli;
mod client;
mod faults;
mod java;
mod kit;
mod programs;
mod subcommands;
mod suite;
mod target;
mod tokens;
mod unix;
mod wire;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::step;
pub(crate) use kit::Kit;
use target::{Servers, Target};

/// The programs that the interop runs need beside cargo.
pub(crate) const PROGRAMS: &[&str] = &["mvn", "java", "javac", "jar", "python3"];

/// Runs real Kudu components against our servers, and our client against real servers.
#[derive(clap::Args)]
pub(crate) struct Interop {
    /// What to run; all of it when not given.
    #[arg(value_enum)]
    what: Option<What>,

    /// Whose servers to run it on. `client` is always run on real ones.
    #[arg(long, value_enum, default_value_t = Servers::Ours)]
    on: Servers,

    /// Run it on the cluster of this master, which is up already.
    #[arg(long, value_name = "HOST:PORT")]
    master: Option<String>,

    /// Tablet servers to start.
    #[arg(long, default_value_t = 3)]
    tservers: usize,

    /// Rows that the load generator writes.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,

    /// How many times the Java client creates, opens, fills and drops a table.
    #[arg(long, default_value_t = 500)]
    tables: u32,

    /// Writes what `subcommands` found into docs/compatibility.md.
    #[arg(long)]
    write: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Our message definitions beside those of the real libraries.
    Wire,
    /// Our rowsets in pyarrow.
    Arrow,
    /// The real kudu command line, over TCP and unix sockets.
    Cli,
    /// The real Java client.
    Java,
    /// Java programs on our servers and on real ones, compared.
    Programs,
    /// Faults that users met, played to the real clients.
    Faults,
    /// The tests of our client on real servers.
    Client,
    /// Every subcommand of the real command line on our servers and on real ones, compared.
    Subcommands,
}

impl Interop {
    pub(crate) fn run(self) -> Result<()> {
        let missing = step::missing(PROGRAMS);
        if !missing.is_empty() {
            bail!("{} missing: .ci/run installs what the interop runs need", missing.join(", "));
        }
        let kit = Kit::bring(&step::root())?;
        let parts = match self.what {
            Some(part) => vec![part],
            None => What::value_variants().to_vec(),
        };
        for part in parts {
            match part {
                What::Wire => wire::run(&kit)?,
                What::Arrow => arrow::run()?,
                What::Cli => self.with_cluster(&kit, self.on, |target| cli::run(&kit, target, self.rows))?,
                What::Java => {
                    self.with_cluster(&kit, self.on, |target| java::run(&kit, target, self.tables))?
                }
                What::Programs => programs::run(&kit)?,
                What::Faults => faults::run(&kit, self.on)?,
                What::Client => self.with_cluster(&kit, Servers::Real, client::run)?,
                What::Subcommands => subcommands::run(&kit, self.write)?,
            }
        }
        Ok(())
    }

    fn with_cluster(
        &self,
        kit: &Kit,
        servers: Servers,
        run: impl FnOnce(&Target) -> Result<()>,
    ) -> Result<()> {
        let target = match &self.master {
            Some(master) => Target::running(kit, master)?,
            None => Target::start(kit, servers, self.tservers)?,
        };
        run(&target)?;
        target.stop()
    }
}
