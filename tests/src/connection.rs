//! One blocking connection: raw bytes for the tests of bad input, calls with answers for the others.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::frame::{FRAME_BYTES_MAX, Frame, bad};

/// How long an answer may take. Generous: the machine that runs the tests may be small and busy.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    opaque_next: i32,
}

/// What a peer does after something illegal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    Answered(Frame),
    Closed,
    Silent,
}

impl Connection {
    pub fn open(address: &str) -> io::Result<Connection> {
        let address = resolve(address)?;
        let stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Connection { stream, opaque_next: 1 })
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a request and returns the opaque that it was given.
    pub fn send(&mut self, request: &Frame) -> io::Result<i32> {
        let opaque = self.opaque_next;
        self.opaque_next = self.opaque_next.wrapping_add(1);
        self.stream.write_all(&request.clone().with_opaque(opaque).encode())?;
        Ok(opaque)
    }

    /// Sends a request and waits for its answer. Requests of the server that arrive meanwhile are passed over.
    pub fn call(&mut self, request: &Frame) -> io::Result<Frame> {
        let opaque = self.send(request)?;
        let deadline = Instant::now() + ANSWER_WITHIN;
        loop {
            let frame = self.receive()?;
            if frame.is_answer() {
                if frame.opaque == opaque {
                    return Ok(frame);
                }
                return Err(bad(format!("answer to {} while waiting for {opaque}: {frame:?}", frame.opaque)));
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(ErrorKind::TimedOut, format!("no answer to {request:?}")));
            }
        }
    }

    /// As [`Connection::call`], where any code but 0 is an error with the answer in it.
    pub fn call_ok(&mut self, request: &Frame) -> io::Result<Frame> {
        let answer = self.call(request)?;
        if answer.code == 0 {
            return Ok(answer);
        }
        let topic = request.fields.get("topic").or(request.fields.get("b"));
        Err(io::Error::other(format!("{} of {topic:?}: code {}, {}", request.code, answer.code, answer.remark)))
    }

    /// The next frame, of either kind.
    pub fn receive(&mut self) -> io::Result<Frame> {
        let mut length = [0u8; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length + 4 > FRAME_BYTES_MAX {
            return Err(bad(format!("the server announces a frame of {length} bytes")));
        }
        let mut bytes = vec![0u8; length];
        self.stream.read_exact(&mut bytes)?;
        Frame::decode(&bytes)
    }

    /// What the server does within `wait`: an answer, the end of the connection, or nothing.
    pub fn reaction(&mut self, wait: Duration) -> io::Result<Reaction> {
        self.stream.set_read_timeout(Some(wait))?;
        let result = self.receive();
        self.stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        match result {
            Ok(frame) => Ok(Reaction::Answered(frame)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(Reaction::Silent),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(Reaction::Closed),
                _ => Err(error),
            },
        }
    }

    /// Sends no more; what the server still has to say can be read.
    pub fn close_write(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// How long an answer may take from now on.
    pub fn set_patience(&self, wait: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(wait))
    }

    pub fn set_write_timeout(&self, wait: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(wait))
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let mut addresses = address.to_socket_addrs()?;
    addresses.next().ok_or_else(|| bad(format!("{address} resolves to nothing")))
}
