use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::Socket;

use super::stream::Watched;

/// A socket that a reactor's poller watches. The reactor tells what the poller says, and then gives the connection its
/// turn, so no waker is needed.
#[derive(Debug)]
pub(crate) struct Registered {
    socket: Socket,
    registry: Arc<Registry>,
    token: Token,
    readable: bool,
    /// The peer sends no more, or the connection is broken: it stays readable.
    ended: bool,
    /// The poller watches for room.
    blocked: bool,
    writable: bool,
}

impl Registered {
    /// Takes over a connected socket.
    pub(crate) fn new(socket: Socket, registry: Arc<Registry>, token: Token) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        registry.register(&mut SourceFd(&socket.as_raw_fd()), token, Interest::READABLE)?;
        let state =
            Self { socket, registry, token, readable: false, ended: false, blocked: false, writable: false };
        Ok(state)
    }

    pub(crate) fn happened(&mut self, event: &Event) {
        self.ended |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || self.ended;
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    fn watch(&self, interest: Interest) -> io::Result<()> {
        self.registry.reregister(&mut SourceFd(&self.socket.as_raw_fd()), self.token, interest)
    }
}

impl Watched for Registered {
    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn poll_read(
        &mut self,
        _: &mut Context<'_>,
        mut read: impl FnMut(&Socket) -> io::Result<(usize, bool)>,
    ) -> Poll<io::Result<usize>> {
        while self.readable {
            match read(&self.socket) {
                Ok((count, drained)) => {
                    if drained && count > 0 {
                        self.readable = self.ended;
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }

    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        mut write: impl FnMut(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        while self.writable || !self.blocked {
            match write(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    if !self.blocked {
                        // If there is room by now, the poller says so at once.
                        self.watch(Interest::READABLE | Interest::WRITABLE)?;
                        self.blocked = true;
                    }
                }
                done => {
                    if self.blocked {
                        self.watch(Interest::READABLE)?;
                        self.blocked = false;
                    }
                    return Poll::Ready(done);
                }
            }
        }
        Poll::Pending
    }
}
