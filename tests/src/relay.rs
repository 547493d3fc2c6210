//! A relay in front of a server that gives its answers on a while after they came: the same server, only slower, by a known
//! time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A thread that sleeps is woken late by about as much: the rest of a while is waited awake.
const AWAKE: Duration = Duration::from_micros(200);
const CHUNK_BYTES: usize = 64 << 10;

/// Its threads end with their connections, the one that accepts with the process.
#[derive(Clone, Debug)]
pub struct Relay {
    pub address: String,
    hold_ns: Arc<AtomicU64>,
}

impl Relay {
    /// # Panics
    /// When nothing can listen on this machine.
    pub fn before(server: &str) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let relay = Relay { address, hold_ns: Arc::default() };
        let (server, hold_ns) = (server.to_owned(), relay.hold_ns.clone());
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                // Without a server the client finds its connection closed.
                if let Ok(server) = TcpStream::connect(&server) {
                    connect(&client, &server, &hold_ns);
                }
            }
        });
        relay
    }

    /// How long answers are held from now on.
    pub fn hold(&self, time: Duration) {
        self.hold_ns.store(u64::try_from(time.as_nanos()).expect("it is short"), Ordering::Relaxed);
    }
}

fn connect(client: &TcpStream, server: &TcpStream, hold_ns: &Arc<AtomicU64>) {
    let twin = |stream: &TcpStream| stream.try_clone().expect("a stream has a second handle");
    [client, server].into_iter().for_each(|stream| stream.set_nodelay(true).expect("it is TCP"));
    let (from, to) = (twin(client), twin(server));
    thread::spawn(move || pass_on(from, to));
    let (held, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    let (mut from, hold_ns) = (twin(server), hold_ns.clone());
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            let due = Instant::now() + Duration::from_nanos(hold_ns.load(Ordering::Relaxed));
            if held.send((due, chunk[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    let (mut to, from) = (twin(client), twin(server));
    thread::spawn(move || {
        for (due, bytes) in due {
            await_time(due);
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        end(&from, &to);
    });
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        if to.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    end(&from, &to);
}

/// The other direction ends as well, and is perhaps over already.
fn end(one: &TcpStream, other: &TcpStream) {
    [one, other].into_iter().for_each(|stream| {
        let _ = stream.shutdown(Shutdown::Both);
    });
}

fn await_time(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if left > AWAKE {
        thread::sleep(left - AWAKE);
    }
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}
