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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::task::Waker;
    use std::time::Duration;

    use mio::Events;

    use super::*;

    /// A watched socket, its peer, and the poller.
    fn watched() -> (Registered, Socket, mio::Poll) {
        let (socket, peer) = Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        let poll = mio::Poll::new().unwrap();
        let registry = Arc::new(poll.registry().try_clone().unwrap());
        (Registered::new(socket, registry, Token(7)).unwrap(), peer, poll)
    }

    /// How many events came; the socket is told of them.
    fn events(poll: &mut mio::Poll, registered: &mut Registered, patience: Duration) -> usize {
        let mut events = Events::with_capacity(8);
        poll.poll(&mut events, Some(patience)).unwrap();
        events.iter().inspect(|event| registered.happened(event)).count()
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn an_end_that_came_with_the_last_bytes_is_read_after_them() {
        let (mut registered, mut peer, mut poll) = watched();
        peer.write_all(b"last").unwrap();
        drop(peer);
        assert_eq!(events(&mut poll, &mut registered, LONG), 1);
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = || {
            let mut room = [0; 100];
            registered.poll_read(&mut cx, |mut socket| {
                io::Read::read(&mut socket, &mut room).map(|count| (count, count < room.len()))
            })
        };
        assert!(matches!(read(), Poll::Ready(Ok(4))));
        assert!(matches!(read(), Poll::Ready(Ok(0))), "no event will tell of it");
    }

    #[test]
    fn a_short_read_is_the_last_until_more_comes() {
        let (mut registered, mut peer, mut poll) = watched();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            peer.write_all(b"some").unwrap();
            assert_eq!(events(&mut poll, &mut registered, LONG), 1);
            let read = registered.poll_read(&mut cx, |mut socket| {
                io::Read::read(&mut socket, &mut [0; 100]).map(|count| (count, true))
            });
            assert!(matches!(read, Poll::Ready(Ok(4))));
            let again = registered.poll_read(&mut cx, |_| unreachable!("it would only say so"));
            assert!(again.is_pending());
        }
    }

    #[test]
    fn a_full_socket_is_watched_for_room_and_no_longer_when_it_has_some() {
        let (mut registered, mut peer, mut poll) = watched();
        let mut cx = Context::from_waker(Waker::noop());
        let mut write = |registered: &mut Registered| {
            registered.poll_write(&mut cx, |mut socket| io::Write::write(&mut socket, &[1; 4096]))
        };
        let mut sent = 0;
        while let Poll::Ready(count) = write(&mut registered) {
            sent += count.unwrap();
        }
        assert!(write(&mut registered).is_pending(), "nobody has told of room");
        events(&mut poll, &mut registered, Duration::ZERO);
        assert!(write(&mut registered).is_pending(), "there is none");
        peer.read_exact(&mut vec![0; sent]).unwrap();
        assert_eq!(events(&mut poll, &mut registered, LONG), 1);
        assert!(matches!(write(&mut registered), Poll::Ready(Ok(4096))));
        events(&mut poll, &mut registered, Duration::ZERO);
        peer.read_exact(&mut [0; 4096]).unwrap();
        assert_eq!(events(&mut poll, &mut registered, Duration::ZERO), 0, "what the peer takes is no news");
    }
}
