//! Developer commands: cluster, demo, gen, lint, bench, interop, test.
#![forbid(unsafe_code)]

mod bench;
mod cluster;
mod demo;
mod r#gen;
mod instructions;
mod interop;
mod lint;
mod python;
mod soak;
mod step;
mod test;
mod tests_of;

use clap::{Parser, Subcommand};

/// Nyala's developer commands.
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a cluster until Ctrl-C.
    Cluster(cluster::Cluster),
    /// Load real rows into a cluster and scan them over TCP and over the unix socket.
    Demo(demo::Demo),
    /// Kill servers under load, for minutes, and check that nothing is lost.
    Soak(soak::Soak),
    /// Measure.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Generate proto/src/gen from proto/proto.
    Gen(r#gen::Gen),
    /// Check floors, file sizes, generated code, forbidden dependencies.
    Lint,
    /// Count the instructions of a call and of a row with valgrind, against bounds.
    Instructions(instructions::Instructions),
    /// Run all checks and tests, in the order of CI.
    Test(test::Test),
    /// Run real Kudu components against ours, and our client against real servers.
    Interop(interop::Interop),
}

fn main() -> std::process::ExitCode {
    let result = match Arguments::parse().command {
        Command::Cluster(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Soak(command) => command.run(),
        Command::Gen(command) => command.run(),
        Command::Instructions(command) => command.run(),
        Command::Lint => lint::run(&step::root()),
        Command::Test(command) => command.run(),
        Command::Interop(command) => command.run(),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
