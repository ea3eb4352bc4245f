//! The system calls of one socket, TCP or unix, and its options.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use net_addr::SockAddr;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use socket2::{Socket, TcpKeepalive};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::call::Descriptors;

/// Has the runtime that this is called in watch a socket.
#[allow(unsafe_code)]
pub(crate) fn register(socket: Socket, interest: Interest) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: a `Socket` owns its descriptor and returns the same one for as long as it lives; the `AsyncFd` owns the
    // `Socket`, and nothing here takes it out again or closes the descriptor.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}

/// Writes from `slices`, which must not be empty, in one system call.
pub(crate) fn send(
    socket: &Socket,
    slices: &[IoSlice<'_>],
    descriptors: &[Arc<OwnedFd>],
) -> io::Result<usize> {
    loop {
        let sent = match slices {
            _ if !descriptors.is_empty() => match send_with(socket, slices, descriptors) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                done => return done,
            },
            // The system reads no list of pieces then.
            [only] => rustix::net::send(socket, only, NO_SIGNAL),
            _ => sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), NO_SIGNAL),
        };
        match sent {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

fn send_with(socket: &Socket, slices: &[IoSlice<'_>], descriptors: &[Arc<OwnedFd>]) -> io::Result<usize> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    let message = SendAncillaryMessage::ScmRights(&borrowed);
    let mut space = vec![MaybeUninit::uninit(); message.size()];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(message) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "descriptors without room for them"));
    }
    Ok(sendmsg(socket, slices, &mut ancillary, NO_SIGNAL)?)
}

/// Reads bytes, and the descriptors that come with them: how much, and whether the socket is drained by it.
pub(crate) fn receive_with(
    socket: &Socket,
    room: &mut [u8],
    descriptors: &Descriptors,
) -> io::Result<(usize, bool)> {
    let room_len = room.len();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_AT_ONCE))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::from_bits_retain(CLOSE_ON_EXEC);
    let read = recvmsg(socket, &mut [IoSliceMut::new(room)], &mut ancillary, flags)?;
    // A read ends where descriptors come, whatever is behind them.
    let mut drained = read.bytes < room_len;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            drained = false;
            received.for_each(|descriptor| descriptors.add(descriptor));
        }
    }
    Ok((read.bytes, drained))
}

/// Who the system says is at the other end of a unix socket.
pub(crate) fn peer_uid(socket: &Socket) -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        let peer = rustix::net::sockopt::socket_peercred(socket);
        peer.ok().map(|peer| peer.uid.as_raw())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        None
    }
}

/// Appends to `buffer` what one read gives: how much, and whether the socket is drained by it.
pub(crate) fn receive(
    socket: &Socket,
    buffer: &mut BytesMut,
    read_size: &mut usize,
    descriptors: Option<&Descriptors>,
) -> io::Result<(usize, bool)> {
    if let Some(descriptors) = descriptors {
        let (before, room) = (buffer.len(), *read_size);
        buffer.resize(before + room, 0);
        let read = receive_with(socket, &mut buffer[before..], descriptors);
        buffer.truncate(before + read.as_ref().map_or(0, |(count, _)| *count));
        let (count, drained) = read?;
        if count == room {
            *read_size = READ_MAX.min(*read_size * 4);
        }
        return Ok((count, drained));
    }
    receive_plain(socket, buffer, read_size, RecvFlags::empty())
}

/// As [`receive`], without descriptors, and with these flags.
#[allow(unsafe_code)]
pub(crate) fn receive_plain(
    socket: &Socket,
    buffer: &mut BytesMut,
    read_size: &mut usize,
    flags: RecvFlags,
) -> io::Result<(usize, bool)> {
    if buffer.capacity().saturating_sub(buffer.len()) < *read_size / 2 {
        buffer.reserve(*read_size);
    }
    let room = buffer.spare_capacity_mut();
    let room_len = room.len();
    let (_, count) = rustix::net::recv(socket, room, flags)?;
    let count = count.min(room_len);
    // SAFETY: `recv` has initialised the first `count` bytes behind the buffer's length, and `count` is at most the
    // spare capacity, so the new length is within the capacity and all bytes up to it are initialised.
    unsafe { buffer.set_len(buffer.len() + count) };
    let full = count == room_len;
    if full {
        *read_size = READ_MAX.min(*read_size * 4);
    }
    Ok((count, !full))
}

/// What every RPC socket gets as soon as it is connected: small frames leave at once.
pub(crate) fn set_no_delay(socket: &Socket, peer: &SockAddr) -> io::Result<()> {
    if peer.is_unix() { Ok(()) } else { socket.set_tcp_nodelay(true) }
}

/// For connections within one machine: no network that could be congested is in between, so that a system's choice that
/// measures and paces (BBR) only costs CPU, a twentieth of a call.
pub(crate) fn set_within_machine(socket: &Socket) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = rustix::net::sockopt::set_tcp_congestion(socket, "reno") {
        tracing::debug!(%error, "the system's congestion control stays");
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = socket;
}

/// Lets the system notice dead peers: probes after a minute of silence, then each 3 s, 10 times.
pub(crate) fn set_keepalive(socket: &Socket, peer: &SockAddr, spread: u64) -> io::Result<()> {
    if peer.is_unix() {
        return Ok(());
    }
    // Spread, so that the connections of a restart do not all probe in the same second.
    let idle = Duration::from_secs(60 + spread % 4);
    let keepalive =
        TcpKeepalive::new().with_time(idle).with_interval(Duration::from_secs(3)).with_retries(10);
    socket.set_tcp_keepalive(&keepalive)
}

/// As many descriptors as the system lets one message carry.
const MOST_AT_ONCE: usize = 253;

/// First read buffer of a connection; peers that only connect cost no more.
pub(crate) const READ_MIN: usize = 4 << 10;

/// Read buffer of a connection whose reads fill it.
const READ_MAX: usize = 64 << 10;

/// `MSG_CMSG_CLOEXEC`: descriptors are not for programs that this one starts.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOSE_ON_EXEC: u32 = 0x4000_0000;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOSE_ON_EXEC: u32 = 0;

/// A peer that is gone must not kill a program which has not turned SIGPIPE off.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const NO_SIGNAL: SendFlags = SendFlags::empty();
