//! A raw connection on plain threads: bytes out in batches, whole frames in, where they lie in the receive buffer.
//!
//! Blocking sockets, and no executor: a generator that sleeps and wakes for each message must wake cheaply, or it
//! measures itself. Against a server that only answers, 5,000 messages a second took 60 us of CPU each through the
//! reactor, and were sent 21 us late at the median; with threads it is a quarter of the one and half of the other.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use remoting::frame::{self, FrameError};
use runtime::net;

use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// A socket that takes nothing for so long is given up: the server has stopped to read.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// A pause between two attempts to open a connection again.
pub(crate) const AWAY_PAUSE: Duration = Duration::from_millis(50);
/// A target that cannot be connected to for so long is given up.
pub(crate) const AWAY_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes asked of a socket at once, at least.
const RECEIVE_BYTES: usize = 256 << 10;

/// Who is given the frames of a connection.
pub(crate) trait Frames {
    /// What arrived now had waited in the socket until this thread was awake and read it.
    fn waited(&mut self, _waited_ns: u64) {}
    /// A whole frame, its length word included, that had arrived in the socket at that time.
    fn frame(&mut self, frame: &[u8], arrived_ns: u64);
    /// What arrived together is through.
    fn batch_end(&mut self);
    /// The connection ended, and not by us. What was asked on it is not answered any more.
    fn broken(&mut self) {}
    /// It is open again, after so long.
    fn restored(&mut self, _away_ns: u64) {}
}

/// One thread may read while others send.
#[derive(Debug)]
pub(crate) struct Link {
    broker: SocketAddr,
    /// Replaced when the connection is opened again; the lock is held for a clone.
    stream: Mutex<Arc<TcpStream>>,
    /// Held by whoever writes: what one sends in one piece is not mixed with what another one does.
    writing: Mutex<()>,
    /// Ended for good.
    closed: AtomicBool,
    /// Ended by the other side, and not open again yet.
    broken: AtomicBool,
}

impl Link {
    pub(crate) fn open(broker: SocketAddr) -> Result<Arc<Link>, BenchError> {
        let stream =
            connect(broker).map_err(|source| BenchError::Unreachable { broker: broker.to_string(), source })?;
        let stream = Mutex::new(Arc::new(stream));
        let [closed, broken] = [false, false].map(AtomicBool::new);
        Ok(Arc::new(Link { broker, stream, writing: Mutex::new(()), closed, broken }))
    }

    pub(crate) fn open_all(broker: SocketAddr, count: u16) -> Result<Vec<Arc<Link>>, BenchError> {
        (0..count).map(|_| Link::open(broker)).collect()
    }

    pub(crate) fn stream(&self) -> Arc<TcpStream> {
        self.stream.lock().expect("no holder panics").clone()
    }

    /// Of this side, as the target sees it; 0 when the connection is gone.
    pub(crate) fn port(&self) -> u16 {
        self.stream().local_addr().map_or(0, |address| address.port())
    }

    /// Sends all of it, and waits while the socket is full. A failure breaks the connection, which its reader sees.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let stream = self.stream();
        let written = {
            let _writing = self.writing.lock().expect("no holder panics");
            (&*stream).write_all(bytes)
        };
        if written.is_err() {
            // An error means that the peer was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether it can be sent on just now.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Ends both directions for good; whoever reads or sends sees it.
    pub(crate) fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            let _ = self.stream().shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn read_time_max(&self, span: Duration) -> io::Result<()> {
        self.stream().set_read_timeout(Some(span))
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

    /// Reads until [`Link::close`]. A connection that the other side ends is opened again; when that takes too long, it
    /// is closed.
    ///
    /// # Errors
    /// When what arrives is not the protocol.
    pub(crate) fn read_on(&self, clock: RunClock, frames: &mut impl Frames) -> Result<(), FrameError> {
        loop {
            let ended = self.read_frames(clock, frames);
            if ended.is_err() || self.is_closed() {
                self.close();
                return ended;
            }
            let away = Away::begin(self, clock, frames);
            while !away.look(self, clock, frames) {
                if self.is_closed() {
                    return Ok(());
                }
                clock.sleep(AWAY_PAUSE);
            }
        }
    }

    fn read_frames(&self, clock: RunClock, frames: &mut impl Frames) -> Result<(), FrameError> {
        let stream = self.stream();
        let mut inbox = Inbox::new();
        while !self.is_closed() && inbox.receive(&stream, clock, frames)? {}
        Ok(())
    }
}

/// A connection that its other side has ended, until it is open again or closed for good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Away {
    since_ns: u64,
}

impl Away {
    pub(crate) fn begin(link: &Link, clock: RunClock, frames: &mut impl Frames) -> Away {
        link.broken.store(true, Ordering::Relaxed);
        frames.broken();
        Away { since_ns: clock.now_ns() }
    }

    /// Tries to open it again. True: it is open. After too long it is closed.
    pub(crate) fn look(self, link: &Link, clock: RunClock, frames: &mut impl Frames) -> bool {
        let away_ns = clock.now_ns() - self.since_ns;
        if away_ns > nanoseconds(AWAY_TIME_MAX) {
            link.close();
            return false;
        }
        let Ok(stream) = connect(link.broker) else { return false };
        *link.stream.lock().expect("no holder panics") = Arc::new(stream);
        // A close between the two would have shut the old stream down only.
        if link.is_closed() {
            return false;
        }
        link.broken.store(false, Ordering::Relaxed);
        frames.restored(clock.now_ns() - self.since_ns);
        true
    }
}

/// What was read of a connection and is not through yet: the beginning of a frame.
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    filled: usize,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { buffer: vec![0; RECEIVE_BYTES], filled: 0 }
    }

    /// Reads once, waiting if there is nothing, and hands on what is whole. False: the connection has ended.
    ///
    /// # Errors
    /// When what arrives is not the protocol.
    pub(crate) fn receive(
        &mut self,
        stream: &TcpStream,
        clock: RunClock,
        frames: &mut impl Frames,
    ) -> Result<bool, FrameError> {
        let (received, waited_ns) = match net::receive_stamped(stream, &mut self.buffer[self.filled..]) {
            Ok((0, _)) => return Ok(false),
            Ok(received) => received,
            Err(error) => return Ok(error.kind() == io::ErrorKind::Interrupted),
        };
        self.filled += received;
        let arrived_ns = clock.now_ns().saturating_sub(waited_ns);
        frames.waited(waited_ns);
        let mut at = 0;
        let mut wanted = frame::bytes_wanted(&self.buffer[..self.filled])?;
        while wanted > 0 && self.filled - at >= wanted {
            frames.frame(&self.buffer[at..at + wanted], arrived_ns);
            at += wanted;
            wanted = frame::bytes_wanted(&self.buffer[at..self.filled])?;
        }
        if at > 0 {
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
            frames.batch_end();
        }
        // Room for the rest of the frame at the front, whose length was checked.
        if self.buffer.len() < self.filled + RECEIVE_BYTES / 2 || self.buffer.len() < wanted {
            self.buffer.resize((self.filled + RECEIVE_BYTES).max(wanted), 0);
        }
        Ok(true)
    }
}

fn connect(broker: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&broker, CONNECT_TIME_MAX)?;
    stream.set_nodelay(true)?;
    // Where the kernel does not tell, nothing has waited.
    net::stamp_arrivals(&stream);
    stream.set_write_timeout(Some(WRITE_TIME_MAX))?;
    Ok(stream)
}
