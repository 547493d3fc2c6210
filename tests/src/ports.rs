//! Free ports, chosen at run time.
//!
//! They come from below the range that the kernel takes for outgoing connections, so that a test with thousands of
//! connections does not take the port of the next server. A port is given out once a process.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

use base::Random;

const PORT_START: u64 = 12_000;
const PORT_LIMIT: u64 = 32_000;
const TRIES_MAX: u32 = 10_000;

static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port on which nothing listens now. A broker uses the port two below and one above it as well: those are free too.
///
/// # Panics
/// When no port is free.
pub fn free_port() -> u16 {
    let mut given = GIVEN.lock().expect("no test panics while it chooses a port");
    let mut random = Random::new(u64::from(std::process::id()) ^ (crate::now_ms() << 20));
    for _ in 0..TRIES_MAX {
        let port = u16::try_from(PORT_START + random.below(PORT_LIMIT - PORT_START)).expect("the range fits a port");
        let family = [port - 2, port, port + 1];
        if family.iter().any(|p| given.contains(p) || TcpListener::bind(("127.0.0.1", *p)).is_err()) {
            continue;
        }
        given.extend(family);
        return port;
    }
    panic!("no free port between {PORT_START} and {PORT_LIMIT}");
}

/// `127.0.0.1:PORT` with a free port.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}
