//! One server of the cluster, wherever it runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Instant;

use master::{Master, MasterOptions};
use net_addr::{HostPort, SockAddr, SystemResolver};
use server_base::{ServerIdentity, ServerUuid, StartError};
use tserver::{TabletServer, TserverOptions};

use crate::ClusterError;
use crate::process::{Place, Role, ServerProcess};

/// Where and how a server is started; kept so that it can be started again at the same address.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) role: Role,
    pub(crate) place: Place,
    pub(crate) flags: Vec<String>,
    /// Who the server was when it ran before; the same again after a restart in this process.
    pub(crate) uuid: Option<ServerUuid>,
}

/// A running server.
#[derive(Debug)]
pub(crate) enum Running {
    Master(Master),
    TabletServer(TabletServer),
    Process(ServerProcess),
}

impl Running {
    /// Starts the server of `spec` on `port` of 127.0.0.1 (0: a free one), in this process or from
    /// the folder `binaries`.
    pub(crate) fn start(
        spec: &Spec,
        port: u16,
        binaries: Option<&Path>,
        deadline: Instant,
    ) -> Result<Self, ClusterError> {
        let mut flags = vec![format!("--rpc_bind_addresses=127.0.0.1:{port}")];
        flags.extend_from_slice(&spec.flags);
        if let Some(binaries) = binaries {
            return ServerProcess::start(binaries, spec.role, &spec.place, &flags, deadline)
                .map(Self::Process);
        }
        flags.push("--rpc_server_allow_ephemeral_ports".into());
        if spec.place.lasting {
            flags.push(format!("--fs_wal_dir={}", spec.place.data().display()));
        }
        let started = match spec.role {
            Role::Master => start_master(flags, spec.uuid.clone()).map(Self::Master),
            Role::TabletServer => start_tserver(flags, spec.uuid.clone()).map(Self::TabletServer),
        };
        started.map_err(|source| ClusterError::Start { server: spec.place.name.clone(), source })
    }

    /// The first address that is not a unix socket.
    pub(crate) fn address(&self) -> HostPort {
        let bound = match self {
            Self::Master(master) => master.bound_addresses(),
            Self::TabletServer(server) => server.bound_addresses(),
            Self::Process(process) => return process.address.clone(),
        };
        bound.iter().find_map(reachable).unwrap_or_else(|| HostPort::new("127.0.0.1", 0))
    }

    pub(crate) fn uuid(&self) -> &str {
        match self {
            Self::Master(master) => master.uuid(),
            Self::TabletServer(server) => server.uuid(),
            Self::Process(process) => &process.uuid,
        }
    }

    pub(crate) fn unix_path(&self) -> Option<String> {
        match self {
            Self::Master(_) => None,
            Self::TabletServer(server) => server.unix_path(),
            Self::Process(process) => process.unix_path.clone(),
        }
    }

    pub(crate) fn process_id(&self) -> Option<u32> {
        match self {
            Self::Process(process) => Some(process.id()),
            Self::Master(_) | Self::TabletServer(_) => None,
        }
    }

    /// Ends the server at once: SIGKILL for a child process. One in this process is stopped.
    pub(crate) fn kill(self) -> Result<(), ClusterError> {
        match self {
            Self::Process(process) => drop(process),
            running => running.stop()?,
        }
        Ok(())
    }

    /// Ends the server in an orderly way.
    pub(crate) fn stop(self) -> Result<(), ClusterError> {
        match self {
            Self::Master(master) => master.shutdown(),
            Self::TabletServer(server) => server.shutdown(),
            Self::Process(process) => drop(process.stop()?),
        }
        Ok(())
    }
}

fn start_master(arguments: Vec<String>, uuid: Option<ServerUuid>) -> Result<Master, StartError> {
    let flags = MasterOptions::flags();
    flags.parse(arguments)?;
    let mut options = MasterOptions::from_flags(&flags, &SystemResolver)?;
    if let Some(uuid) = uuid {
        options.identity = ServerIdentity::started(uuid);
    }
    Master::start(options)
}

fn start_tserver(arguments: Vec<String>, uuid: Option<ServerUuid>) -> Result<TabletServer, StartError> {
    let flags = TserverOptions::flags();
    flags.parse(arguments)?;
    let mut options = TserverOptions::from_flags(&flags, &SystemResolver)?;
    if let Some(uuid) = uuid {
        options.identity = ServerIdentity::started(uuid);
    }
    TabletServer::start(options)
}

/// Where a server that listens at `bound` is reached from this machine.
fn reachable(bound: &SockAddr) -> Option<HostPort> {
    let (ip, port) = (bound.ip()?, bound.port()?);
    let ip = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Some(HostPort::new(ip.to_string(), port))
}
