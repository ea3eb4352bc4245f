use std::io;
use std::task::{Context, Poll, ready};

use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::reactor::stream::Watched;
use crate::reactor::sys::register;

/// A socket that the caller's tokio runtime watches.
#[derive(Debug)]
pub(crate) struct Registered {
    fd: AsyncFd<Socket>,
    /// A second descriptor of the socket, there only while the socket takes no more bytes.
    blocked: Option<AsyncFd<Socket>>,
}

impl Registered {
    /// Takes over a connected socket; must be called inside the runtime that is to drive it.
    pub(crate) fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let fd = register(socket, Interest::READABLE)?;
        Ok(Self { fd, blocked: None })
    }

    /// Waits until a connection that is being made is made, or has failed.
    pub(crate) async fn connected(&self) -> io::Result<()> {
        let writable = register(self.socket().try_clone()?, Interest::WRITABLE)?;
        let _guard = writable.writable().await?;
        match self.socket().take_error()? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Watched for Registered {
    fn socket(&self) -> &Socket {
        self.fd.get_ref()
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(&Socket) -> io::Result<(usize, bool)>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            match read(self.fd.get_ref()) {
                Ok((count, drained)) => {
                    if drained && count > 0 {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let blocked = match &self.blocked {
            Some(blocked) => blocked,
            None => match write(self.fd.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let again = self.socket().try_clone()?;
                    self.blocked.insert(register(again, Interest::WRITABLE)?)
                }
                done => return Poll::Ready(done),
            },
        };
        loop {
            let mut guard = ready!(blocked.poll_write_ready(cx))?;
            if let Ok(done) = guard.try_io(|fd| write(fd.get_ref())) {
                self.blocked = None;
                return Poll::Ready(done);
            }
        }
    }
}
