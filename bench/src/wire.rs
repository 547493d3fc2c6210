//! A raw connection: bytes out in batches, whole frames in, where they lie in the receive buffer.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use remoting::frame;
use runtime::net::{Part, Stream};
use runtime::sync::Notify;

use crate::clock::RunClock;
use crate::error::BenchError;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// Bytes asked of a socket at first; grows while reads fill the buffer.
const RECEIVE_BYTES_MIN: usize = 16 << 10;
const RECEIVE_BYTES_MAX: usize = 512 << 10;

/// Who is given the frames of a connection.
pub(crate) trait Frames {
    /// A whole frame, its length word included, that had arrived at that time.
    fn frame(&self, frame: &[u8], arrived_ns: u64);
    /// What arrived together is through.
    fn batch_end(&self);
}

pub(crate) struct Link {
    stream: Stream,
    out: RefCell<BytesMut>,
    to_send: Notify,
    closed: Cell<bool>,
}

impl Link {
    pub(crate) async fn open(broker: SocketAddr) -> Result<Rc<Link>, BenchError> {
        let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no connection in time");
        let stream = runtime::clock::within(CONNECT_TIME_MAX, Stream::connect(broker)).await;
        let stream = stream
            .unwrap_or_else(|| Err(late()))
            .map_err(|source| BenchError::Unreachable { broker: broker.to_string(), source })?;
        let link = Rc::new(Link { stream, out: RefCell::default(), to_send: Notify::new(), closed: Cell::new(false) });
        runtime::spawn(link.clone().write());
        Ok(link)
    }

    /// Where frames are written to; [`Link::flush`] sends them.
    pub(crate) fn out(&self) -> RefMut<'_, BytesMut> {
        self.out.borrow_mut()
    }

    pub(crate) fn flush(&self) {
        self.to_send.notify();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub(crate) fn close(&self) {
        if !self.closed.replace(true) {
            self.stream.shut_down();
            self.to_send.notify();
        }
    }

    async fn write(self: Rc<Self>) {
        let mut parts = VecDeque::new();
        while !self.closed.get() {
            if self.out.borrow().is_empty() {
                self.to_send.notified().await;
                continue;
            }
            let bytes = self.out.borrow_mut().split().freeze();
            parts.push_back(Part::Bytes(bytes));
            if self.stream.send(&mut parts).await.is_err() {
                self.close();
            }
        }
    }

    /// Reads until the connection ends, by whomever.
    ///
    /// # Errors
    /// When what arrives is not the protocol.
    pub(crate) async fn read(&self, clock: RunClock, frames: &impl Frames) -> Result<(), frame::FrameError> {
        let mut buffer = BytesMut::new();
        let mut receive_bytes = RECEIVE_BYTES_MIN;
        while !self.closed.get() {
            let wanted = frame::bytes_wanted(&buffer)?.saturating_sub(buffer.len());
            let ask = receive_bytes.max(wanted.min(RECEIVE_BYTES_MAX));
            let received = self.stream.receive(&mut buffer, ask).await.unwrap_or(0);
            if received == 0 {
                self.close();
                break;
            }
            receive_bytes = next_receive_bytes(receive_bytes, ask, received);
            let arrived_ns = clock.now_ns();
            let mut at = 0;
            loop {
                let wanted = frame::bytes_wanted(&buffer[at..])?;
                if wanted == 0 || buffer.len() - at < wanted {
                    break;
                }
                frames.frame(&buffer[at..at + wanted], arrived_ns);
                at += wanted;
            }
            buffer.advance(at);
            frames.batch_end();
            runtime::yield_if_needed().await;
        }
        Ok(())
    }
}

/// Asks for more while reads fill what was asked for, and for less when they hardly do.
fn next_receive_bytes(current: usize, asked: usize, received: usize) -> usize {
    if received == asked {
        (current * 2).min(RECEIVE_BYTES_MAX)
    } else if received < current / 4 {
        (current / 2).max(RECEIVE_BYTES_MIN)
    } else {
        current
    }
}
