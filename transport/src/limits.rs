//! Bounds of connections, and what happens at each.

use std::time::Duration;

/// Bounds of one core's connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of requests that one connection may have unanswered. Beyond it its socket is not read.
    pub in_flight_bytes_max: usize,
    /// Requests that one connection may have unanswered. Beyond it its socket is not read.
    pub in_flight_requests_max: usize,
    /// Bytes of requests that all connections of the core may have unanswered. Beyond it no socket is read.
    pub core_in_flight_bytes_max: usize,
    /// Bytes waiting to be sent at which the socket is not read any more.
    pub out_bytes_pause: usize,
    /// Bytes waiting to be sent at which the connection is closed: its peer asks, but does not read.
    pub out_bytes_max: usize,
    /// Connections of the core. Beyond it a new one is closed at once.
    pub connections_max: usize,
    /// A connection with no byte either way for so long is closed.
    pub idle_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            in_flight_bytes_max: 32 << 20,
            in_flight_requests_max: 16_384,
            core_in_flight_bytes_max: 256 << 20,
            out_bytes_pause: 4 << 20,
            out_bytes_max: 512 << 20,
            connections_max: 65_536,
            idle_time_max: Duration::from_secs(120),
        }
    }
}
