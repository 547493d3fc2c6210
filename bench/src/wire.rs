//! A raw connection on plain threads: bytes out in batches, whole frames in, where they lie in the receive buffer.
//!
//! Blocking sockets, and no executor: a generator that sleeps and wakes for each message must wake cheaply, or it
//! measures itself. Against a server that only answers, 5,000 messages a second took 60 us of CPU each through the
//! reactor, and were sent 21 us late at the median; with threads it is a quarter of the one and half of the other.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use remoting::frame::{self, FrameError};

use crate::clock::RunClock;
use crate::error::BenchError;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// A socket that takes nothing for so long is given up: the server has stopped to read.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes asked of a socket at once, at least.
const RECEIVE_BYTES: usize = 256 << 10;

/// Who is given the frames of a connection.
pub(crate) trait Frames {
    /// A whole frame, its length word included, that had arrived at that time.
    fn frame(&mut self, frame: &[u8], arrived_ns: u64);
    /// What arrived together is through.
    fn batch_end(&mut self);
}

/// One thread may read while another sends.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    closed: AtomicBool,
}

impl Link {
    pub(crate) fn open(broker: SocketAddr) -> Result<Arc<Link>, BenchError> {
        let connect = || -> io::Result<TcpStream> {
            let stream = TcpStream::connect_timeout(&broker, CONNECT_TIME_MAX)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(WRITE_TIME_MAX))?;
            Ok(stream)
        };
        let stream = connect().map_err(|source| BenchError::Unreachable { broker: broker.to_string(), source })?;
        Ok(Arc::new(Link { stream, closed: AtomicBool::new(false) }))
    }

    pub(crate) fn open_all(broker: SocketAddr, count: u16) -> Result<Vec<Arc<Link>>, BenchError> {
        (0..count).map(|_| Link::open(broker)).collect()
    }

    /// Sends all of it, and waits while the socket is full. A failure closes the connection, which its reader sees.
    pub(crate) fn send(&self, bytes: &[u8]) {
        if (&self.stream).write_all(bytes).is_err() {
            self.close();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Ends both directions; whoever reads or sends sees it.
    pub(crate) fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            // An error means that the peer was faster.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn read_time_max(&self, span: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(span))
    }

    /// Reads until the connection ends, by whomever.
    ///
    /// # Errors
    /// When what arrives is not the protocol.
    pub(crate) fn read(&self, clock: RunClock, frames: &mut impl Frames) -> Result<(), FrameError> {
        let ended = self.read_frames(clock, frames);
        self.close();
        ended
    }

    fn read_frames(&self, clock: RunClock, frames: &mut impl Frames) -> Result<(), FrameError> {
        let mut buffer = vec![0; RECEIVE_BYTES];
        let mut filled = 0;
        while !self.is_closed() {
            let received = match (&self.stream).read(&mut buffer[filled..]) {
                Ok(0) => return Ok(()),
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Ok(()),
            };
            filled += received;
            let arrived_ns = clock.now_ns();
            let mut at = 0;
            let mut wanted = frame::bytes_wanted(&buffer[..filled])?;
            while wanted > 0 && filled - at >= wanted {
                frames.frame(&buffer[at..at + wanted], arrived_ns);
                at += wanted;
                wanted = frame::bytes_wanted(&buffer[at..filled])?;
            }
            if at > 0 {
                buffer.copy_within(at..filled, 0);
                filled -= at;
                frames.batch_end();
            }
            // Room for the rest of the frame at the front, whose length was checked.
            if buffer.len() < filled + RECEIVE_BYTES / 2 || buffer.len() < wanted {
                buffer.resize((filled + RECEIVE_BYTES).max(wanted), 0);
            }
        }
        Ok(())
    }
}
