//! Looking a host name up without a core waiting for the resolver.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use runtime::clock;

/// How long an answer is waited for. A lookup that takes longer counts as failed; its thread ends when the resolver
/// answers.
const LOOKUP_TIME_MAX: Duration = Duration::from_secs(1);
/// How often an unfinished lookup is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The lookups of one host, at most one of them running.
#[derive(Default)]
pub(super) struct Resolver {
    running: Option<Receiver<io::Result<Vec<SocketAddr>>>>,
}

impl Resolver {
    /// The addresses of a host. An IP address is its own, at once.
    pub(super) async fn addresses(&mut self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        // A plain thread, as a resolver that hangs would otherwise hold one of the core's few helper threads.
        let running = match self.running.take() {
            Some(running) => running,
            None => start(host.to_owned(), port)?,
        };
        let until = clock::instant() + LOOKUP_TIME_MAX;
        loop {
            match running.try_recv() {
                Ok(found) => return found,
                Err(TryRecvError::Disconnected) => return Err(io::Error::other("the lookup ended without an answer")),
                Err(TryRecvError::Empty) if clock::instant() >= until => {
                    self.running = Some(running);
                    let text = format!("{host} was not resolved within {} ms", LOOKUP_TIME_MAX.as_millis());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(TryRecvError::Empty) => clock::sleep(LOOK).await,
            }
        }
    }
}

fn start(host: String, port: u16) -> io::Result<Receiver<io::Result<Vec<SocketAddr>>>> {
    let (sender, receiver) = channel();
    runtime::core::thread("resolve", move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        let found = found.map_err(|error| io::Error::new(error.kind(), format!("{host} is not resolved: {error}")));
        // Nobody waits any more when the broker stops.
        let _ = sender.send(found);
    })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_resolver_and_unknown_hosts_are_told() {
        runtime::run_here(async {
            let mut resolver = Resolver::default();
            let found = resolver.addresses("127.0.0.1", 9876).await.expect("an address");
            assert_eq!(found, ["127.0.0.1:9876".parse().expect("an address")]);
            let found = resolver.addresses("::1", 1).await.expect("an address");
            assert_eq!(found, ["[::1]:1".parse().expect("an address")]);
            assert!(resolver.addresses("no-such-host.invalid", 1).await.is_err());
            let found = resolver.addresses("localhost", 1).await.expect("every host knows itself");
            assert!(found.iter().all(|address| address.ip().is_loopback()), "{found:?}");
        })
        .expect("an executor");
    }
}
