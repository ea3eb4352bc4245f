//! How long the system lets a thread wait on a socket.

use std::io;
use std::time::Duration;

use socket2::Socket;

/// What a socket was last told. Calls with equal timeouts do not tell it again.
#[derive(Debug, Default)]
pub(super) struct Patience(Option<Duration>);

impl Patience {
    /// Reads and writes are to fail with `WouldBlock` after `left`, which must not be zero; `None` = never.
    pub(super) fn set(&mut self, socket: &Socket, left: Option<Duration>) -> io::Result<()> {
        let same = match (self.0, left) {
            (Some(told), Some(left)) => told.abs_diff(left) < SLACK.min(left / 2),
            (told, left) => told == left,
        };
        if !same {
            // The system counts in its own ticks; less than one would be for ever.
            let left = left.map(|left| left.max(SLACK));
            socket.set_read_timeout(left)?;
            socket.set_write_timeout(left)?;
            self.0 = left;
        }
        Ok(())
    }
}

/// Deadlines are kept to this.
const SLACK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_the_socket_was_told_is_what_is_left_to_a_millisecond() {
        let (one, _other) = UnixStream::pair().unwrap();
        let socket = Socket::from(one);
        let mut patience = Patience::default();
        let close = |told: Option<Duration>, wanted: Duration| told.unwrap().abs_diff(wanted) < SLACK * 12;
        for left in [10_000, 9_000, 20, 10_000] {
            let left = Duration::from_millis(left);
            patience.set(&socket, Some(left)).unwrap();
            assert!(close(socket.read_timeout().unwrap(), left));
            assert!(close(socket.write_timeout().unwrap(), left));
        }
        patience.set(&socket, Some(Duration::from_nanos(1))).unwrap();
        assert!(close(socket.read_timeout().unwrap(), SLACK));
        patience.set(&socket, None).unwrap();
        assert_eq!(socket.read_timeout().unwrap(), None);
    }
}
