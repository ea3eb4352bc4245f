//! Listening sockets, and the one thread that accepts on all of them.

use std::io;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net_addr::SockAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use socket2::{Domain, Socket, Type};
use thiserror::Error;

use crate::metrics::{ServerMetrics, count};

/// Why a server cannot listen where it was told to.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// Somebody else listens there. Stop it, or choose another address (port 0 takes a free one).
    #[error("cannot listen on {address}: {} in use", what(.address))]
    #[non_exhaustive]
    InUse {
        /// The address asked for.
        address: SockAddr,
    },
    /// The system refuses the address: not one of this machine, a privileged port, a folder that does not exist.
    #[error("cannot listen on {address}: {source}")]
    #[non_exhaustive]
    Refused {
        /// The address asked for.
        address: SockAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The text is no address to listen on.
    #[error("cannot listen on '{text}': {source}")]
    #[non_exhaustive]
    NotAnAddress {
        /// The text given.
        text: String,
        /// What is wrong with it.
        source: net_addr::ParseError,
    },
    /// The threads of the server cannot be started.
    #[error("cannot start the server's threads: {0}")]
    Threads(#[from] io::Error),
}

impl BindError {
    /// True if the same start may work later: the address may become free.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::InUse { .. } | Self::Threads(_))
    }
}

fn what(address: &SockAddr) -> &'static str {
    match address {
        SockAddr::V4(_) | SockAddr::V6(_) => "port",
        _ => "name",
    }
}

/// A bound, listening socket. Dropping it frees the address, the file of a unix path included.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    address: SockAddr,
}

impl Listener {
    /// Binds and listens. A socket file that nobody listens on any more is replaced.
    pub(crate) fn bind(address: &SockAddr) -> Result<Listener, BindError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse { address: address.clone() },
            _ => BindError::Refused { address: address.clone(), source },
        };
        let socket = match listen(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && remove_stale(address) => {
                listen(address)
            }
            other => other,
        }
        .map_err(refused)?;
        let bound = socket.local_addr().and_then(|raw| SockAddr::try_from(&raw).map_err(io::Error::other));
        Ok(Listener { address: bound.map_err(refused)?, socket })
    }

    /// The address with its real port.
    pub(crate) fn address(&self) -> &SockAddr {
        &self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = path_of(&self.address) {
            // Gone already, or not ours to remove: then there is nothing to do.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn listen(address: &SockAddr) -> io::Result<Socket> {
    let (domain, ip) = match address {
        SockAddr::V4(_) => (Domain::IPV4, true),
        SockAddr::V6(_) => (Domain::IPV6, true),
        _ => (Domain::UNIX, false),
    };
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if ip {
        socket.set_reuse_address(true)?;
    }
    if domain == Domain::IPV6 {
        // So that `[::]:7051` and `0.0.0.0:7051` can be bound side by side.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.to_socket2()?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn path_of(address: &SockAddr) -> Option<&Path> {
    match address {
        SockAddr::UnixPath(path) => Some(path.as_path()),
        _ => None,
    }
}

/// Removes the socket file of a server that died. True if there is room now.
fn remove_stale(address: &SockAddr) -> bool {
    let Some(path) = path_of(address) else { return false };
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    let dead =
        matches!(UnixStream::connect(path), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused);
    is_socket && dead && std::fs::remove_file(path).is_ok()
}

/// The accepting thread.
#[derive(Debug)]
pub(crate) struct Acceptor {
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Starts to accept. `adopt` gets each connection, non-blocking; `tick` is called about once a second for housekeeping.
    pub(crate) fn start(
        listeners: Vec<Listener>,
        metrics: Arc<ServerMetrics>,
        adopt: impl Fn(Socket) + Send + 'static,
        tick: impl Fn() + Send + 'static,
    ) -> io::Result<Acceptor> {
        let (stop, stopped) = UnixStream::pair()?;
        let mut doors: Vec<_> = listeners.into_iter().map(|listener| Door::new(listener, &metrics)).collect();
        let run = move || {
            let mut next_tick = Instant::now();
            while !wait(&mut doors, &stopped, &adopt) {
                let now = Instant::now();
                if now >= next_tick {
                    tick();
                    next_tick = now + TICK;
                }
            }
        };
        let thread = std::thread::Builder::new().name("acceptor".to_owned()).spawn(run)?;
        Ok(Acceptor { stop, thread: Some(thread) })
    }

    /// Closes all listeners. When this returns their addresses are free.
    pub(crate) fn stop(&mut self) {
        // Cannot fail: the buffer of a pair is empty and the other end lives in the thread.
        let _ = self.stop.write_all(&[1]);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the accepting thread had panicked");
        }
    }
}

/// Waits for connections and hands them over. True when it is time to stop.
fn wait(doors: &mut [Door], stopped: &UnixStream, adopt: &impl Fn(Socket)) -> bool {
    let now = Instant::now();
    let mut polled = vec![PollFd::new(stopped, PollFlags::IN)];
    let open: Vec<usize> =
        (0..).zip(doors.iter()).filter(|(_, door)| door.closed_until <= now).map(|(i, _)| i).collect();
    polled.extend(
        open.iter()
            .filter_map(|i| doors.get(*i))
            .map(|door| PollFd::new(&door.listener.socket, PollFlags::IN)),
    );
    let reopened = doors.iter().map(|door| door.closed_until).filter(|until| *until > now).min();
    let timeout =
        reopened.map_or(TICK, |until| TICK.min(until.duration_since(now) + Duration::from_millis(1)));
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    if let Err(error) = poll(&mut polled, Some(&timeout)) {
        if error != Errno::INTR {
            tracing::error!(%error, "cannot wait for connections");
            std::thread::sleep(LONGEST_PAUSE);
        }
        return false;
    }
    let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
    if ready.first() == Some(&true) {
        return true;
    }
    for (door, _) in open.into_iter().zip(ready.into_iter().skip(1)).filter(|(_, ready)| *ready) {
        if let Some(door) = doors.get_mut(door) {
            door.accept(now, adopt);
        }
    }
    false
}

/// A listener and how it fares.
struct Door {
    listener: Listener,
    unix: bool,
    metrics: Arc<ServerMetrics>,
    /// After a failure: when to try again.
    closed_until: Instant,
    pause: Duration,
}

impl Door {
    fn new(listener: Listener, metrics: &Arc<ServerMetrics>) -> Self {
        let unix = listener.address.is_unix();
        let metrics = Arc::clone(metrics);
        Self { listener, unix, metrics, closed_until: Instant::now(), pause: SHORTEST_PAUSE }
    }

    /// Takes what waits, a batch at most, so that no address starves the others.
    fn accept(&mut self, now: Instant, adopt: &impl Fn(Socket)) {
        for _ in 0..BATCH {
            match accept_with(&self.listener.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(connection) => {
                    self.pause = SHORTEST_PAUSE;
                    count(if self.unix { &self.metrics.accepted_unix } else { &self.metrics.accepted_tcp });
                    adopt(Socket::from(connection));
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    // Most likely out of file descriptors. The socket stays readable, so without a pause this would spin.
                    count(&self.metrics.accept_errors);
                    let address = &self.listener.address;
                    tracing::warn!(%address, %error, pause_ms = self.pause.as_millis(), "cannot accept; will try again");
                    self.closed_until = now + self.pause;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    return;
                }
            }
        }
    }
}

const BACKLOG: i32 = 512;
const BATCH: usize = 64;
const TICK: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
