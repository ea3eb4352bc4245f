//! Logs: to standard error, as much as `RUST_LOG` or `--v` say.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Logs of this process are already set up, here or by someone else; they stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("logging is already set up in this process")]
#[non_exhaustive]
pub struct AlreadySetUp;

/// Sets up the logs of the process: to standard error, with colours only if that is a terminal and `NO_COLOR` is not set.
///
/// `RUST_LOG` decides what is logged if it is set and can be read; else `verbosity`, the flag `--v`: 0 and below is info, 1 debug,
/// 2 and above trace. Call it once, from a program and not from a library.
pub fn init(verbosity: i64) -> Result<(), AlreadySetUp> {
    let (filter, handle) = reload::Layer::new(filter(std::env::var("RUST_LOG").ok().as_deref(), verbosity));
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(colours);
    tracing_subscriber::registry().with(filter).with(lines).try_init().map_err(|_| AlreadySetUp)?;
    let _ = HANDLE.set(handle);
    Ok(())
}

/// Changes what is logged from now on; `RUST_LOG` no longer counts. Does nothing if [`init`] was not called.
pub fn set_verbosity(verbosity: i64) {
    if let Some(handle) = HANDLE.get() {
        let _ = handle.reload(filter(None, verbosity));
    }
}

static HANDLE: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

fn filter(rust_log: Option<&str>, verbosity: i64) -> EnvFilter {
    let level = match verbosity {
        ..=0 => "info",
        1 => "debug",
        2.. => "trace",
    };
    rust_log
        .filter(|text| !text.is_empty())
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| EnvFilter::new(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_log_goes_before_the_flag_unless_it_cannot_be_read() {
        for (rust_log, verbosity, expected) in [
            (None, -1, "info"),
            (None, 0, "info"),
            (None, 1, "debug"),
            (None, 9, "trace"),
            (Some(""), 1, "debug"),
            (Some("warn"), 2, "warn"),
            (Some("rpc_core=trace,info"), 0, "rpc_core=trace,info"),
            (Some("=,=="), 1, "debug"),
        ] {
            assert_eq!(filter(rust_log, verbosity).to_string(), expected, "{rust_log:?} {verbosity}");
        }
    }

    #[test]
    fn a_second_set_up_is_refused_and_harmless() {
        let first = init(0);
        assert_eq!(init(2), Err(AlreadySetUp));
        set_verbosity(1);
        assert_eq!(tracing::enabled!(tracing::Level::DEBUG), first.is_ok());
        set_verbosity(0);
        assert!(!tracing::enabled!(tracing::Level::DEBUG));
    }
}
