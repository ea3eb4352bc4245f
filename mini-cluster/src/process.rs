//! One server as a child process, ours or Apache Kudu's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use net_addr::HostPort;
use proto::kudu::server::ServerStatusPb;

use crate::ClusterError;

/// How long a server that was asked to stop may take before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How often a starting server is looked at.
const POLL: Duration = Duration::from_millis(2);

/// Which of the two kinds of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    TabletServer,
}

impl Role {
    fn binaries(self) -> (&'static str, &'static str) {
        match self {
            Self::Master => ("nyala-master", "kudu-master"),
            Self::TabletServer => ("nyala-tserver", "kudu-tserver"),
        }
    }
}

/// A running child process; killed when dropped.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: HostPort,
    pub(crate) uuid: String,
    pub(crate) unix_path: Option<String>,
}

/// Where one server lives on disk and how it is named in messages.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// Our servers keep what they have there.
    pub(crate) lasting: bool,
}

impl Place {
    /// A folder of its own, not there yet: a server takes one with files in it for a foreign one, or half made.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl ServerProcess {
    /// Starts the server of `role` from `binaries` and waits until it has bound its addresses.
    pub(crate) fn start(
        binaries: &Path,
        role: Role,
        place: &Place,
        flags: &[String],
        deadline: Instant,
    ) -> Result<Self, ClusterError> {
        let (executable, theirs) = find(binaries, role)?;
        fs::create_dir_all(&place.folder)
            .map_err(ClusterError::os(format!("cannot make {}", place.folder.display())))?;
        let info = place.folder.join("info.pb");
        match fs::remove_file(&info) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(ClusterError::os(format!("cannot remove {}", info.display()))(e));
            }
            _ => {}
        }
        let log = place.folder.join("stderr.log");
        let log_file =
            fs::File::create(&log).map_err(ClusterError::os(format!("cannot write {}", log.display())))?;
        let mut command = Command::new(&executable);
        command.args(common_flags(&info));
        if theirs {
            command.args(REAL_KUDU_FLAGS);
            let data = place.data();
            command.args(["--fs_wal_dir", "--fs_data_dirs"].map(|flag| format!("{flag}={}", data.display())));
            if let Some(sasl) = executable.parent().and_then(|bin| bin.parent()) {
                command.env("SASL_PATH", sasl.join("lib/sasl2"));
            }
        }
        if !theirs && place.lasting {
            command.arg(format!("--fs_wal_dir={}", place.data().display()));
        }
        command.args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
        let child =
            command.spawn().map_err(ClusterError::os(format!("cannot start {}", executable.display())))?;
        let mut process = Self { child, address: HostPort::new("", 0), uuid: String::new(), unix_path: None };
        process.wait_until_bound(place, &info, &log, deadline)?;
        Ok(process)
    }

    fn wait_until_bound(
        &mut self,
        place: &Place,
        info: &Path,
        log: &Path,
        deadline: Instant,
    ) -> Result<(), ClusterError> {
        let started = Instant::now();
        loop {
            if let Some(status) =
                self.child.try_wait().map_err(ClusterError::os("cannot wait for a server"))?
            {
                return Err(ClusterError::Exited {
                    server: place.name.clone(),
                    status,
                    last_lines: last_lines(log),
                });
            }
            if let Some(status) = read_info(info)
                && let Some(address) = status.bound_rpc_addresses.first()
            {
                self.address = HostPort::new(&address.host, address.port as u16);
                self.uuid = String::from_utf8_lossy(&status.node_instance.permanent_uuid).into_owned();
                self.unix_path = Some(format!("@kudu-{}", self.uuid));
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(ClusterError::NotReady {
                    waited: started.elapsed(),
                    state: format!("{} has not bound its addresses", place.name),
                });
            }
            std::thread::sleep(POLL);
        }
    }

    /// The child's process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to stop (SIGTERM) and waits; one that does not is killed after 10 s.
    pub(crate) fn stop(mut self) -> Result<ExitStatus, ClusterError> {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            // An error means that the child has ended by itself: the wait below collects it.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + STOP_GRACE;
        while Instant::now() < deadline {
            match self.child.try_wait().map_err(ClusterError::os("cannot wait for a server"))? {
                Some(status) => return Ok(status),
                None => std::thread::sleep(POLL),
            }
        }
        self.child.kill().map_err(ClusterError::os("cannot kill a server"))?;
        self.child.wait().map_err(ClusterError::os("cannot wait for a server"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only for a child that was waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What Apache Kudu's servers need to run on one machine without NTP and with unix sockets on.
const REAL_KUDU_FLAGS: [&str; 7] = [
    "--unlock_experimental_flags",
    "--unlock_unsafe_flags",
    "--time_source=system_unsync",
    "--rpc_listen_on_unix_domain_socket=true",
    "--webserver_enabled=false",
    "--fs_data_dirs_reserved_bytes=0",
    "--fs_wal_dir_reserved_bytes=0",
];

fn common_flags(info: &Path) -> [String; 4] {
    [
        format!("--server_dump_info_path={}", info.display()),
        "--server_dump_info_format=pb".into(),
        "--rpc_server_allow_ephemeral_ports".into(),
        "--logtostderr".into(),
    ]
}

fn find(folder: &Path, role: Role) -> Result<(PathBuf, bool), ClusterError> {
    let (ours, theirs) = role.binaries();
    let candidate = folder.join(ours);
    if candidate.is_file() {
        return Ok((candidate, false));
    }
    let candidate = folder.join(theirs);
    if candidate.is_file() {
        return Ok((candidate, true));
    }
    Err(ClusterError::NoBinary { name: ours, other: theirs, folder: folder.to_owned() })
}

/// The server's status file, once it is written whole.
fn read_info(path: &Path) -> Option<ServerStatusPb> {
    use prost::Message as _;
    let status = ServerStatusPb::decode(fs::read(path).ok()?.as_slice()).ok()?;
    status.bound_rpc_addresses.iter().all(|a| !a.host.is_empty() && a.port != 0).then_some(status)
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}
