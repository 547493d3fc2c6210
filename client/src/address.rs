//! Addresses as people write them: names or numbers, one or several.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use thiserror::Error;

/// The port of a nameserver whose address names none.
const NAMESERVER_PORT: u16 = 9876;

/// A list of addresses that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    #[error("no address in \"{list}\"; write host:port, several joined by ;")]
    Empty { list: String },
    #[error("\"{address}\" has no port that is a number from 1 to 65535; write host:port")]
    Port { address: String },
}

/// The addresses of a list such as `10.0.0.1:9876;mq2:9876`. Commas separate too, repeated ones count once, and
/// 9876 stands in for a port that is left out.
///
/// # Errors
/// When it holds no address, or one whose port is no port.
pub fn parse_list(list: &str) -> Result<Vec<String>, AddressError> {
    let mut addresses = Vec::new();
    for part in list.split([';', ',']).map(str::trim).filter(|part| !part.is_empty()) {
        let address = with_port(part)?;
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(AddressError::Empty { list: list.to_owned() });
    }
    Ok(addresses)
}

fn with_port(address: &str) -> Result<String, AddressError> {
    let bare = address.parse::<std::net::IpAddr>();
    if let Ok(ip) = bare {
        return Ok(SocketAddr::new(ip, NAMESERVER_PORT).to_string());
    }
    let port = match address.rsplit_once(':') {
        None => return Ok(format!("{address}:{NAMESERVER_PORT}")),
        Some((_, _)) if address.ends_with(']') => return Ok(format!("{address}:{NAMESERVER_PORT}")),
        Some((host, port)) => (!host.is_empty()).then(|| port.parse::<u16>().ok()).flatten(),
    };
    match port {
        Some(port) if port > 0 => Ok(address.to_owned()),
        _ => Err(AddressError::Port { address: address.to_owned() }),
    }
}

/// Asks the system for the numbers behind `host:port`. Blocks; a number needs no asking.
pub(crate) fn resolve(address: &str) -> io::Result<SocketAddr> {
    let mut found = address.to_socket_addrs()?;
    let first = found.next();
    // A listener on one family only is most often one of IPv4.
    found
        .chain(first)
        .find(SocketAddr::is_ipv4)
        .or(first)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        for (list, expected) in [
            ("127.0.0.1:9876", vec!["127.0.0.1:9876"]),
            ("a:1;b:2", vec!["a:1", "b:2"]),
            (" a:1 , b ;; a:1", vec!["a:1", "b:9876"]),
            ("[::1]:5;[::1];::1", vec!["[::1]:5", "[::1]:9876"]),
        ] {
            assert_eq!(parse_list(list).expect(list), expected);
        }
        for list in ["", " ; ", "a:", "a:x", ":9876", "a:0", "a:70000"] {
            assert!(parse_list(list).is_err(), "{list}");
        }
    }

    #[test]
    fn numbers_resolve_to_themselves() {
        assert_eq!(resolve("127.0.0.1:7").expect("a number"), "127.0.0.1:7".parse().expect("an address"));
        assert!(resolve("127.0.0.1").is_err());
    }
}
