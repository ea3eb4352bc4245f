use std::io;
use std::time::{Duration, Instant};

use net_addr::SockAddr;
use socket2::{Domain, Socket, Type};

use super::registered::Registered;
use crate::reactor::stream::Stream;
use crate::reactor::sys;

/// Connects without blocking, TCP or unix. Has no deadline of its own.
pub(crate) async fn connect(remote: SockAddr) -> io::Result<Stream<Registered>> {
    let native = remote.to_socket2()?;
    let mut pause = Duration::from_millis(1);
    loop {
        let socket = socket(&remote)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&native) {
            Ok(()) => {}
            Err(error) if is_under_way(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && remote.is_unix() => {
                // The listener's queue is full. TCP would try again by itself.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
                continue;
            }
            Err(error) => return Err(error),
        }
        // Only a socket that has begun to connect may be polled: before, it counts as hung up.
        let registered = Registered::new(socket)?;
        if !remote.is_unix() {
            registered.connected().await?;
        }
        return Ok(Stream::new(registered));
    }
}

/// As [`connect`], on the thread that asks, for at most `patience`. The socket blocks.
pub(crate) fn connect_blocking(remote: &SockAddr, patience: Duration) -> io::Result<Socket> {
    let native = remote.to_socket2()?;
    let until = Instant::now() + patience;
    loop {
        let socket = socket(remote)?;
        let left = until.saturating_duration_since(Instant::now());
        match socket.connect_timeout(&native, left.max(Duration::from_millis(1))) {
            Ok(()) => {
                socket.set_nonblocking(false)?;
                return Ok(socket);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !left.is_zero() => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
}

fn socket(remote: &SockAddr) -> io::Result<Socket> {
    let domain = if remote.is_unix() { Domain::UNIX } else { Domain::for_address(inet(remote)?) };
    let socket = Socket::new(domain, Type::STREAM, None)?;
    sys::set_no_delay(&socket, remote)?;
    if remote.ip().is_some_and(|ip| ip.is_loopback()) {
        sys::set_within_machine(&socket);
    }
    Ok(socket)
}

fn inet(remote: &SockAddr) -> io::Result<std::net::SocketAddr> {
    remote.as_inet().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

fn is_under_way(error: &io::Error) -> bool {
    /// `EINPROGRESS`.
    const IN_PROGRESS: i32 = if cfg!(any(target_os = "linux", target_os = "android")) { 115 } else { 36 };
    error.raw_os_error() == Some(IN_PROGRESS)
}
