//! One socket, TCP or unix, that never makes its thread wait: the only code that moves bytes of connections.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use socket2::Socket;

use super::sys;
use crate::call::Descriptors;

/// A socket that a poller watches.
///
/// It is watched only for bytes to read. On a unix socket each message that the peer takes makes the socket "writable" anew,
/// and a poller that watches for that wakes up for nothing, once a message. So it is watched for room only from a write
/// that found none until the next that finds some.
pub(crate) trait Watched {
    fn socket(&self) -> &Socket;

    /// Reads when there may be something; `Pending` = the task is woken when there may be. `read` tells how much it read, and
    /// whether the socket is drained by it: the next read would only say so. What comes later, and what the system already
    /// told of the end, makes it readable again.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnMut(&Socket) -> io::Result<(usize, bool)>,
    ) -> Poll<io::Result<usize>>;

    /// Writes when there may be room; `Pending` = the task is woken when there may be.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnMut(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>>;
}

#[derive(Debug)]
pub(crate) struct Stream<W> {
    watched: W,
    read_size: usize,
    /// Where those go that the peer attaches; without it they are lost.
    descriptors: Option<Arc<Descriptors>>,
}

impl<W: Watched> Stream<W> {
    pub(crate) fn new(watched: W) -> Self {
        Self { watched, read_size: sys::READ_MIN, descriptors: None }
    }

    pub(crate) fn watched(&mut self) -> &mut W {
        &mut self.watched
    }

    /// From now on, reads with room for descriptors, which go there.
    pub(crate) fn take_descriptors(&mut self, to: Arc<Descriptors>) {
        self.descriptors = Some(to);
    }

    pub(crate) fn takes_descriptors(&self) -> bool {
        self.descriptors.is_some()
    }

    pub(crate) fn socket(&self) -> &Socket {
        self.watched.socket()
    }

    /// Appends what there is to `buffer`; 0 = end of stream. A buffer without memory gets some only when there is something
    /// to read; [`give_back`] takes it off again.
    pub(crate) fn poll_read_buffer(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let Self { watched, read_size, descriptors } = self;
        watched.poll_read(cx, |socket| {
            if buffer.capacity() == 0 {
                *buffer = SPARE.take();
            }
            sys::receive(socket, buffer, read_size, descriptors.as_deref())
        })
    }

    /// Reads into `room`, which must not be empty; 0 = end of stream.
    pub(crate) fn poll_read_direct(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Self { watched, descriptors, .. } = self;
        watched.poll_read(cx, |mut socket| match descriptors.as_deref() {
            Some(descriptors) => sys::receive_with(socket, room, descriptors),
            None => io::Read::read(&mut socket, room).map(|count| (count, count < room.len())),
        })
    }

    /// Reads whatever the poller may not have told of yet; `None` = nothing there.
    pub(crate) fn read_now(&mut self, buffer: &mut BytesMut) -> io::Result<Option<usize>> {
        loop {
            let descriptors = self.descriptors.as_deref();
            match sys::receive(self.watched.socket(), buffer, &mut self.read_size, descriptors) {
                Ok((count, _)) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes from `slices`, which must not be empty, in one system call; if any byte is written, so are the descriptors.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        descriptors: &[Arc<OwnedFd>],
    ) -> Poll<io::Result<usize>> {
        self.watched.poll_write(cx, |socket| sys::send(socket, slices, descriptors))
    }

    /// Tells the peer that no more bytes will come.
    pub(crate) fn finish(&self) {
        // Fails only if the peer is gone, and then there is nobody to tell.
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

/// Leaves the memory of an empty buffer to the next connection of this thread that has something to read: most
/// connections are idle, and those that are not find a buffer that is in the cache.
pub(crate) fn give_back(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.capacity() > 0 {
        SPARE.set(std::mem::take(buffer));
    }
}

thread_local! {
    static SPARE: Cell<BytesMut> = Cell::default();
}
