//! TCP: listening, receiving into growing buffers, and sending parts of memory and of files without copying them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_lite::{AsyncRead, AsyncWrite};
use glommio::net::{TcpListener, TcpStream};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt, setsockopt, socket, sockopt,
};

use crate::buffer::SlabSlice;
use crate::clock::{self, Stamp};
use crate::file::FileRange;
use crate::reactor::{self, Readiness};

/// Slices given to one vectored write; the kernel's own limit is 1024.
const SLICES_AT_ONCE: usize = 256;
/// Bytes of a file that one call sends: bounds how long a core is in it.
const SENDFILE_BYTES_MAX: usize = 256 << 10;
/// Bytes that are read out of a file by hand when its socket is full, to wait for room with.
const PROBE_BYTES: usize = 512;

/// What seems to have waited longer in a socket was stamped by a clock that was set since.
const WAIT_NS_MAX: u64 = 120_000_000_000;

/// A core asks the kernel for an arrival this long after it has asked at the earliest, as an answer costs 0.4 us. What
/// it reads meanwhile can hardly have waited longer, as it looks at all sockets each turn, and counts as not having waited.
const ASK_EVERY: Duration = Duration::from_micros(200);
/// After an answer above it, all that lies in the sockets may have waited as long: each read asks until one has not.
const WAIT_NS_SHORT: u64 = 50_000;

/// When this core asked the kernel last, and for how long what it was told of had waited.
#[derive(Clone, Copy)]
struct Asked {
    turn: Option<Instant>,
    waited_ns: u64,
}

thread_local! {
    static ASKED: Cell<Asked> = const { Cell::new(Asked { turn: None, waited_ns: 0 }) };
}

impl Asked {
    fn is_due() -> bool {
        let asked = ASKED.get();
        let span = reactor::turn_began().zip(asked.turn).map(|(now, then)| now.saturating_duration_since(then));
        asked.waited_ns > WAIT_NS_SHORT || span.is_none_or(|span| span >= ASK_EVERY)
    }

    fn answered(waited_ns: u64) {
        ASKED.set(Asked { turn: reactor::turn_began(), waited_ns });
    }
}

/// A part of what is to be sent.
#[derive(Clone, Debug)]
pub enum Part {
    Bytes(Bytes),
    Slab(SlabSlice),
    File(FileRange),
}

impl Part {
    pub fn bytes(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Slab(slice) => slice.len(),
            Part::File(range) => (range.limit - range.start) as usize,
        }
    }

    /// Its bytes, unless they lie in a file.
    pub fn memory(&self) -> Option<&[u8]> {
        match self {
            Part::Bytes(bytes) => Some(bytes),
            Part::Slab(slice) => Some(slice),
            Part::File(_) => None,
        }
    }

    /// A part of this part.
    ///
    /// # Panics
    /// When the range is not within it.
    pub fn slice(&self, range: Range<usize>) -> Part {
        assert!(
            range.start <= range.end && range.end <= self.bytes(),
            "{range:?} is not within {} bytes",
            self.bytes()
        );
        match self {
            Part::Bytes(bytes) => Part::Bytes(bytes.slice(range)),
            Part::Slab(slice) => Part::Slab(slice.slice(range)),
            Part::File(file) => {
                let (start, limit) = (file.start + range.start as u64, file.start + range.end as u64);
                Part::File(FileRange { start, limit, ..file.clone() })
            }
        }
    }

    /// Leaves out the first `count` bytes.
    fn advance(&mut self, count: usize) {
        match self {
            Part::Bytes(bytes) => bytes.advance(count),
            Part::Slab(slice) => *slice = slice.slice(count..slice.len()),
            Part::File(range) => range.start += count as u64,
        }
    }
}

/// A listening socket. Only one process may hold a port: no `SO_REUSEPORT`.
pub struct Listener {
    socket: ListenSocket,
    address: SocketAddr,
}

enum ListenSocket {
    Ring(StdListener),
    Glommio(TcpListener),
}

/// How long [`probe`] waits for a port to become free. The kernel takes the rings of a killed process apart after the
/// process is gone, and its listening socket with them: some milliseconds later, more on a busy machine.
const PORT_FREE_TIME_MAX: Duration = Duration::from_secs(2);
const PORT_FREE_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether one could listen on an address now, or soon; a port of 0 is replaced by a free one. Nobody can connect to what is
/// tried. Blocks.
pub fn probe(address: SocketAddr) -> io::Result<SocketAddr> {
    let until = Instant::now() + PORT_FREE_TIME_MAX;
    loop {
        match bound(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(PORT_FREE_LOOK_EVERY);
            }
            outcome => return outcome?.local_addr(),
        }
    }
}

/// A socket that has an address and does not listen, under the rules of one that is to listen.
fn bound(address: SocketAddr) -> io::Result<StdListener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(StdListener::from(socket))
}

/// The address that other hosts most likely reach this one at: of the first interface that is up and is not the
/// loopback, IPv4 before IPv6; the loopback's where there is none.
pub fn local_address() -> IpAddr {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let addresses: Vec<IpAddr> = interfaces
        .filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING))
        .filter_map(|interface| interface.address)
        .filter_map(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        })
        .filter(|address| !address.is_loopback() && !is_link_local(*address))
        .collect();
    let v4 = addresses.iter().find(|address| address.is_ipv4());
    v4.or(addresses.first()).copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// A connection that was accepted and may go to another core.
#[derive(Debug)]
pub struct Accepted {
    socket: OwnedFd,
}

impl Listener {
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        let listener = StdListener::bind(address)?;
        let address = listener.local_addr()?;
        let socket = if reactor::is_ring() {
            listener.set_nonblocking(true)?;
            ListenSocket::Ring(listener)
        } else {
            // SAFETY: the descriptor is open and its ownership passes on.
            ListenSocket::Glommio(unsafe { TcpListener::from_raw_fd(listener.into_raw_fd()) })
        };
        Ok(Listener { socket, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn accept(&self) -> io::Result<Accepted> {
        let listener = match &self.socket {
            ListenSocket::Ring(listener) => listener,
            ListenSocket::Glommio(listener) => {
                let stream = listener.accept().await?;
                // SAFETY: the stream is open; the duplicate is ours alone.
                let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(stream.as_raw_fd()) }.try_clone_to_owned()?;
                return Ok(Accepted { socket });
            }
        };
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Ok(Accepted { socket: stream.into() }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    reactor::ready(listener.as_raw_fd(), Readiness::Readable).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A connection of this core. Receiving and sending may be awaited at the same time by one task each.
#[derive(Clone)]
pub struct Stream {
    stream: Rc<Inner>,
    socket: RawFd,
}

struct Inner {
    kind: Kind,
    /// The last receive emptied the socket: waiting comes before the next one.
    is_drained: Cell<bool>,
    /// The kernel tells when what is received had arrived.
    is_stamped: Cell<bool>,
    received: Cell<Received>,
}

/// When the newest of what was received last had arrived, and when it was taken out of the socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// As `read` where the kernel does not tell.
    pub arrived: Stamp,
    pub read: Stamp,
}

enum Kind {
    Ring(StdStream),
    Glommio(RefCell<TcpStream>),
}

impl Stream {
    pub async fn connect(address: SocketAddr) -> io::Result<Stream> {
        if !reactor::is_ring() {
            return Stream::new(Kind::Glommio(RefCell::new(TcpStream::connect(address).await?)));
        }
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let stream = StdStream::from(socket(family, SockType::Stream, flags, None)?);
        match connect(stream.as_raw_fd(), &SockaddrStorage::from(address)) {
            Ok(()) => {}
            Err(nix::errno::Errno::EINPROGRESS) => {
                reactor::ready(stream.as_raw_fd(), Readiness::Writable).await?;
                let error = getsockopt(&stream, sockopt::SocketError)?;
                if error != 0 {
                    return Err(io::Error::from_raw_os_error(error));
                }
            }
            Err(error) => return Err(error.into()),
        }
        Stream::new(Kind::Ring(stream))
    }

    pub fn from_accepted(accepted: Accepted) -> io::Result<Stream> {
        if reactor::is_ring() {
            let stream = StdStream::from(accepted.socket);
            stream.set_nonblocking(true)?;
            return Stream::new(Kind::Ring(stream));
        }
        // SAFETY: the descriptor is open and its ownership passes on.
        let stream = unsafe { TcpStream::from_raw_fd(accepted.socket.into_raw_fd()) };
        Stream::new(Kind::Glommio(RefCell::new(stream)))
    }

    fn new(kind: Kind) -> io::Result<Stream> {
        let socket = match &kind {
            Kind::Ring(stream) => {
                stream.set_nodelay(true)?;
                stream.as_raw_fd()
            }
            Kind::Glommio(stream) => {
                stream.borrow().set_nodelay(true)?;
                stream.borrow().as_raw_fd()
            }
        };
        let inner =
            Inner { kind, is_drained: Cell::new(false), is_stamped: Cell::new(false), received: Cell::default() };
        Ok(Stream { stream: Rc::new(inner), socket })
    }

    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        match &self.stream.kind {
            Kind::Ring(stream) => stream.peer_addr(),
            Kind::Glommio(stream) => Ok(stream.borrow().peer_addr()?),
        }
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        match &self.stream.kind {
            Kind::Ring(stream) => stream.local_addr(),
            Kind::Glommio(stream) => Ok(stream.borrow().local_addr()?),
        }
    }

    /// Has the kernel tell soon when what is received had arrived. Only our own reactor can ask for it.
    pub fn stamp_arrivals(&self) {
        if let Kind::Ring(stream) = &self.stream.kind {
            self.stream.is_stamped.set(stamp_arrivals(stream));
        }
    }

    /// Of the last [`Stream::receive`].
    pub fn received(&self) -> Received {
        self.stream.received.get()
    }

    fn set_received(&self, waited_ns: u64) {
        let read = Stamp::now();
        self.stream.received.set(Received { arrived: read.minus(waited_ns), read });
    }

    /// Receives at most `bytes_max` bytes behind what the buffer holds. 0: the peer sends no more.
    pub async fn receive(&self, buffer: &mut BytesMut, bytes_max: usize) -> io::Result<usize> {
        let stream = match &self.stream.kind {
            Kind::Ring(_) => return self.receive_on_ring(buffer, bytes_max).await,
            Kind::Glommio(stream) => stream,
        };
        let filled = buffer.len();
        buffer.resize(filled + bytes_max, 0);
        let received =
            poll_fn(|context| Pin::new(&mut *stream.borrow_mut()).poll_read(context, &mut buffer[filled..])).await;
        buffer.truncate(filled + *received.as_ref().unwrap_or(&0));
        self.set_received(0);
        received
    }

    async fn receive_on_ring(&self, buffer: &mut BytesMut, bytes_max: usize) -> io::Result<usize> {
        let is_drained = &self.stream.is_drained;
        loop {
            if is_drained.get() {
                reactor::ready(self.socket, Readiness::Readable).await?;
                is_drained.set(false);
            }
            buffer.reserve(bytes_max);
            match self.receive_now(buffer, bytes_max) {
                Ok(received) => {
                    is_drained.set(received < bytes_max);
                    return Ok(received);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    is_drained.set(true);
                    if buffer.is_empty() {
                        // What was reserved is not kept for as long as nothing comes.
                        *buffer = BytesMut::new();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes what is there into the reserved bytes.
    fn receive_now(&self, buffer: &mut BytesMut, bytes_max: usize) -> io::Result<usize> {
        let target = buffer.chunk_mut().as_mut_ptr();
        let (received, waited_ns) = if self.stream.is_stamped.get() && Asked::is_due() {
            // SAFETY: the buffer has reserved this many bytes behind what it holds.
            let (received, waited_ns) = unsafe { receive_message(self.socket, target, bytes_max, libc::MSG_DONTWAIT) }?;
            Asked::answered(waited_ns);
            (received, waited_ns)
        } else {
            // SAFETY: the buffer has reserved this many bytes behind what it holds; the socket is open.
            let received = unsafe { libc::recv(self.socket, target.cast(), bytes_max, libc::MSG_DONTWAIT) };
            (usize::try_from(received).map_err(|_| io::Error::last_os_error())?, 0)
        };
        // SAFETY: the kernel has filled so many of the reserved bytes.
        unsafe { buffer.advance_mut(received) };
        self.set_received(waited_ns);
        Ok(received)
    }

    /// Sends all parts in order and takes them out of the queue as they go.
    pub async fn send(&self, parts: &mut VecDeque<Part>) -> io::Result<()> {
        while let Some(first) = parts.front() {
            let sent = match first {
                Part::File(range) => self.send_file(range),
                _ => self.send_memory(parts),
            };
            match sent {
                Ok(count) => drop_sent(parts, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match &self.stream.kind {
                    Kind::Ring(_) => reactor::ready(self.socket, Readiness::Writable).await?,
                    Kind::Glommio(stream) => {
                        let count = send_some(stream, &parts[0]).await?;
                        drop_sent(parts, count);
                    }
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends both directions; whoever receives or sends sees it.
    pub fn shut_down(&self) {
        // SAFETY: the socket is open as long as the stream lives. An error means that the peer was faster.
        unsafe { libc::shutdown(self.socket, libc::SHUT_RDWR) };
    }

    /// Says that nothing more will be sent.
    pub fn shut_down_sending(&self) {
        // An error means that the peer was faster.
        let _ = nix::sys::socket::shutdown(self.socket, nix::sys::socket::Shutdown::Write);
    }

    fn send_memory(&self, parts: &VecDeque<Part>) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_AT_ONCE];
        let mut count = 0;
        let mut more = false;
        for part in parts {
            let Some(memory) = part.memory() else {
                more = true;
                break;
            };
            if count == SLICES_AT_ONCE {
                break;
            }
            slices[count] = IoSlice::new(memory);
            count += 1;
        }
        // SAFETY: a message of zeros is an empty one.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = slices.as_mut_ptr().cast();
        message.msg_iovlen = count;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        // SAFETY: `IoSlice` has the layout of `iovec`; the slices outlive the call.
        let sent = unsafe { libc::sendmsg(self.socket, &raw const message, flags) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    fn send_file(&self, range: &FileRange) -> io::Result<usize> {
        let bytes = SENDFILE_BYTES_MAX.min((range.limit - range.start) as usize);
        let mut offset = range.start as libc::off_t;
        // SAFETY: both descriptors are open and the offset outlives the call.
        let sent = unsafe { libc::sendfile(self.socket, range.file.as_raw_fd(), &raw mut offset, bytes) };
        match sent {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file is shorter than a range of it")),
            sent if sent < 0 => Err(io::Error::last_os_error()),
            sent => Ok(sent as usize),
        }
    }
}

/// Waits for room by sending the next few bytes through glommio, which offers no other way.
async fn send_some(stream: &RefCell<TcpStream>, part: &Part) -> io::Result<usize> {
    if let Some(memory) = part.memory() {
        return send_bytes(stream, &memory[..PROBE_BYTES.min(memory.len())]).await;
    }
    let Part::File(range) = part else { unreachable!("what is not memory is a file") };
    let mut bytes = [0; PROBE_BYTES];
    let count = PROBE_BYTES.min((range.limit - range.start) as usize);
    range.file.read_exact_at(&mut bytes[..count], range.start)?;
    send_bytes(stream, &bytes[..count]).await
}

async fn send_bytes(stream: &RefCell<TcpStream>, bytes: &[u8]) -> io::Result<usize> {
    poll_fn(|context| Pin::new(&mut *stream.borrow_mut()).poll_write(context, bytes)).await
}

/// Has the kernel tell soon when what is received had arrived. Whether it does. It begins with it in its own time, unless
/// others have asked for it already.
pub fn stamp_arrivals(stream: &StdStream) -> bool {
    setsockopt(stream, sockopt::ReceiveTimestampns, &true).is_ok()
}

/// Receives into the buffer as far as it goes, and tells for how many nanoseconds the newest of the bytes had waited in
/// the socket: 0 where [`stamp_arrivals`] was not asked for.
pub fn receive_stamped(stream: &StdStream, buffer: &mut [u8]) -> io::Result<(usize, u64)> {
    // SAFETY: the buffer is as long as it says.
    unsafe { receive_message(stream.as_raw_fd(), buffer.as_mut_ptr(), buffer.len(), 0) }
}

/// # Safety
/// So many bytes can be written at `target`.
unsafe fn receive_message(
    socket: RawFd,
    target: *mut u8,
    bytes_max: usize,
    flags: libc::c_int,
) -> io::Result<(usize, u64)> {
    let mut slice = libc::iovec { iov_base: target.cast(), iov_len: bytes_max };
    let mut control = Control::default();
    // SAFETY: a message of zeros is an empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control.0).cast();
    message.msg_controllen = size_of::<Control>();
    // SAFETY: the message and what it names outlive the call, and the caller vouches for the bytes.
    let received = unsafe { libc::recvmsg(socket, &raw mut message, flags) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((received, arrival_ns(&message).map_or(0, waited_ns)))
}

/// Room for what the kernel says beside the bytes: one time.
#[derive(Default)]
struct Control([u64; 8]);

/// When the newest of the bytes had arrived, by the wall clock.
fn arrival_ns(message: &libc::msghdr) -> Option<u64> {
    if message.msg_controllen == 0 {
        return None;
    }
    // SAFETY: the kernel has filled the control bytes and set their length, so the first header is whole or there is
    // none, and a time lies behind one of this kind.
    let time = unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null() || ((*header).cmsg_level, (*header).cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
        {
            return None;
        }
        libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned()
    };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// How long it has waited by now. The wall clock may have been set meanwhile: what is no wait then is none.
fn waited_ns(arrival_ns: u64) -> u64 {
    let waited = clock::wall_nanoseconds().saturating_sub(arrival_ns);
    if waited > WAIT_NS_MAX { 0 } else { waited }
}

fn drop_sent(parts: &mut VecDeque<Part>, mut count: usize) {
    while let Some(first) = parts.front_mut() {
        let bytes = first.bytes();
        if bytes > count {
            first.advance(count);
            return;
        }
        count -= bytes;
        parts.pop_front();
    }
    assert!(count == 0, "{count} bytes more were sent than there were");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::SlabWriter;
    use crate::file::{ReadFile, TempFolder};
    use std::sync::Arc;

    #[test]
    fn what_is_tried_takes_no_connections() {
        let any = |address: &str| address.parse::<SocketAddr>().expect("an address");
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let tried = match bound(any(loopback)) {
                // A machine without IPv6.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => continue,
                tried => tried.expect("bound"),
            };
            let address = tried.local_addr().expect("an address");
            assert_ne!(address.port(), 0);
            assert!(StdStream::connect(address).is_err(), "nobody listens");
            let listener = StdListener::bind(address).expect("what is tried stands in nobody's way");
            drop(tried);
            assert_eq!(bound(address).expect_err("it is taken").kind(), io::ErrorKind::AddrInUse);
            drop(listener);
            assert_eq!(probe(address).expect("it is free again"), address);
        }
    }

    /// Memory and file parts, far more than a socket takes at once, arrive in order at a reader that starts late.
    #[test]
    fn parts_arrive_in_order_through_a_full_socket() {
        let folder = TempFolder::new("net");
        let path = folder.path().join("data");
        let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
        std::fs::write(&path, &content).expect("a file");
        crate::run_here(async move {
            let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
            let client = Stream::connect(listener.address()).await.expect("connected");
            let server = Stream::from_accepted(listener.accept().await.expect("accepted")).expect("a stream");
            let mut slab = SlabWriter::allocate(1 << 20).expect("memory");
            slab.write(1000, |target| target.copy_from_slice(&content[1_000_000..1_001_000]));
            let file = Arc::new(ReadFile::open(&path).expect("opened"));
            let parts: VecDeque<Part> = [
                Part::Bytes(Bytes::copy_from_slice(&content[..1_000_000])),
                Part::Slab(slab.slice(0..1000)),
                Part::File(FileRange { file, start: 1_001_000, limit: 2_999_990 }),
                Part::Bytes(Bytes::copy_from_slice(&content[2_999_990..])),
            ]
            .into();
            crate::spawn(async move {
                let mut parts = parts;
                server.send(&mut parts).await.expect("sent");
                server.shut_down_sending();
            });
            clock::sleep(Duration::from_millis(50)).await;
            let mut received = BytesMut::new();
            while client.receive(&mut received, 64 << 10).await.expect("received") > 0 {}
            assert!(received[..] == content[..], "{} of {} bytes", received.len(), content.len());
        })
        .expect("an executor");
    }

    #[test]
    fn what_waited_in_the_socket_is_known_where_the_kernel_is_asked() {
        const WAIT: Duration = Duration::from_millis(30);
        crate::run_here(async move {
            let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
            let client = Stream::connect(listener.address()).await.expect("connected");
            let server = Stream::from_accepted(listener.accept().await.expect("accepted")).expect("a stream");
            server.stamp_arrivals();
            let mut received = BytesMut::new();
            let mut waited = Duration::ZERO;
            // The first bytes after nobody has asked may come before the kernel has turned it on.
            for _ in 0..100 {
                let mut parts: VecDeque<Part> = [Part::Bytes(Bytes::from_static(b"request"))].into();
                client.send(&mut parts).await.expect("sent");
                let sent = Stamp::now();
                clock::sleep(WAIT).await;
                assert_eq!(server.receive(&mut received, 1 << 10).await.expect("received"), 7);
                let Received { arrived, read } = server.received();
                waited = Duration::from_nanos(read.since(arrived));
                assert!(read.since(sent) >= WAIT.as_nanos() as u64 && waited < Duration::from_secs(60), "{waited:?}");
                // On glommio the reactor reads, and the kernel is not asked.
                if waited >= WAIT || !reactor::is_ring() {
                    break;
                }
            }
            assert!(waited >= WAIT || !reactor::is_ring() && waited.is_zero(), "{waited:?}");
            client.shut_down();
            assert_eq!(server.receive(&mut received, 1 << 10).await.expect("the end"), 0);
        })
        .expect("an executor");
    }
}
