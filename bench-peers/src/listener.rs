//! Where a server listens and its clients connect: TCP, or a unix socket of an abstract name.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::str::FromStr;

use tokio::net::{TcpStream, UnixStream};
use tokio_util::either::Either;

/// A connection of either kind.
pub(crate) type Stream = Either<TcpStream, UnixStream>;

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Where it listens; as text `HOST:PORT`, or `@` and the abstract name of a unix socket.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(String),
}

impl Listener {
    pub(crate) fn bind(unix: bool) -> io::Result<(Listener, Address)> {
        if unix {
            let name = format!("nyala-bench-peers-{}", std::process::id());
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
            let listener = UnixListener::bind_addr(&address)?;
            return Ok((Listener::Unix(listener), Address::Unix(name)));
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        Ok((Listener::Tcp(listener), Address::Tcp(address)))
    }

    /// Waits for the next connection; to be called outside of runtimes.
    pub(crate) fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => Ok(Accepted::Tcp(listener.accept()?.0)),
            Listener::Unix(listener) => Ok(Accepted::Unix(listener.accept()?.0)),
        }
    }
}

/// A connection that no runtime knows yet.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Accepted {
    /// Has the current runtime drive it.
    pub(crate) fn adopt(self) -> io::Result<Stream> {
        Ok(match self {
            Accepted::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Either::Left(TcpStream::from_std(stream)?)
            }
            Accepted::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Either::Right(UnixStream::from_std(stream)?)
            }
        })
    }
}

impl Address {
    pub(crate) fn connect(&self) -> io::Result<Stream> {
        match self {
            Address::Tcp(address) => Accepted::Tcp(std::net::TcpStream::connect(address)?),
            Address::Unix(name) => {
                let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
                Accepted::Unix(std::os::unix::net::UnixStream::connect_addr(&address)?)
            }
        }
        .adopt()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(name) => write!(f, "@{name}"),
        }
    }
}

impl FromStr for Address {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix('@') {
            Some(name) => Ok(Address::Unix(name.to_owned())),
            None => Ok(Address::Tcp(text.parse()?)),
        }
    }
}
