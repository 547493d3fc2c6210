//! Sockets of which one thread awaits whichever has something to read.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Sockets that one look tells; more are told by the next one.
const TOLD_MAX: usize = 64;

/// Each socket is told again and again as long as it has something to read, or has ended.
pub struct ReadySet {
    epoll: Epoll,
    events: [EpollEvent; TOLD_MAX],
}

impl ReadySet {
    pub fn new() -> io::Result<ReadySet> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(ReadySet { epoll, events: [EpollEvent::empty(); TOLD_MAX] })
    }

    /// `key` is what the socket is told as.
    pub fn add(&self, stream: &TcpStream, key: usize) -> io::Result<()> {
        Ok(self.epoll.add(stream, EpollEvent::new(EpollFlags::EPOLLIN, key as u64))?)
    }

    pub fn remove(&self, stream: &TcpStream) -> io::Result<()> {
        Ok(self.epoll.delete(stream)?)
    }

    /// Blocks until a socket has something to read, or for so long, rounded up to milliseconds; tells their keys.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<impl Iterator<Item = usize>> {
        let limit = limit.map(|limit| u16::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(u16::MAX));
        let count = match self.epoll.wait(&mut self.events, limit.map_or(EpollTimeout::NONE, EpollTimeout::from)) {
            Err(Errno::EINTR) => 0,
            told => told?,
        };
        Ok(self.events[..count].iter().map(|event| event.data() as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn whoever_has_something_is_told_until_it_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (ours, listener.accept().unwrap().0)
        };
        let [(mut first, mut first_peer), (second, second_peer)] = [pair(), pair()];
        let mut set = ReadySet::new().unwrap();
        set.add(&first, 7).unwrap();
        set.add(&second, 8).unwrap();
        let mut told = |limit_ms| {
            let mut keys: Vec<usize> = set.wait(Some(Duration::from_millis(limit_ms))).unwrap().collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(told(1), []);
        first_peer.write_all(b"x").unwrap();
        assert_eq!((told(1000), told(1000)), (vec![7], vec![7]));
        first.read_exact(&mut [0]).unwrap();
        assert_eq!(told(1), []);
        drop(second_peer);
        assert_eq!(told(1000), [8]);
        set.remove(&second).unwrap();
        assert!(set.wait(Some(Duration::from_millis(1))).unwrap().next().is_none());
    }
}
