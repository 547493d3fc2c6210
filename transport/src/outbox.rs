//! What a connection has still to send: small things are gathered, large ones stay where they are.

use std::collections::VecDeque;

use bytes::BytesMut;
use runtime::net::Part;

use crate::outgoing::{COPY_BYTES_MAX, Outgoing};
use crate::trip::Trip;

#[derive(Default)]
pub(crate) struct Outbox {
    parts: VecDeque<Part>,
    /// Encoded frames behind the last part.
    gathered: BytesMut,
    bytes: usize,
    /// Of the answers that wait.
    trips: Vec<Trip>,
}

impl Outbox {
    pub(crate) fn push(&mut self, outgoing: Outgoing) {
        self.bytes += outgoing.bytes();
        self.trips.extend(outgoing.trip);
        self.gathered.extend_from_slice(&outgoing.head);
        for part in outgoing.parts {
            match part {
                Part::Bytes(bytes) if bytes.len() <= COPY_BYTES_MAX => self.gathered.extend_from_slice(&bytes),
                Part::Slab(slice) if slice.len() <= COPY_BYTES_MAX => self.gathered.extend_from_slice(&slice),
                part => self.push_part(part),
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Moves all that waits to `target`, and the trips that end with it to `trips`.
    pub(crate) fn take(&mut self, target: &mut VecDeque<Part>, trips: &mut Vec<Trip>) -> usize {
        self.flush_gathered();
        trips.append(&mut self.trips);
        target.append(&mut self.parts);
        std::mem::take(&mut self.bytes)
    }

    fn push_part(&mut self, part: Part) {
        if part.bytes() > 0 {
            self.flush_gathered();
            self.parts.push_back(part);
        }
    }

    fn flush_gathered(&mut self) {
        if !self.gathered.is_empty() {
            self.parts.push_back(Part::Bytes(self.gathered.split().freeze()));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use remoting::command::Command;

    use super::*;

    #[test]
    fn frames_leave_whole_and_in_order() {
        let mut outbox = Outbox::default();
        let large = Bytes::from(vec![7; COPY_BYTES_MAX + 1]);
        let first = Command::reply(1, 0).with_body(Bytes::from_static(b"small"));
        let second = Command::reply(2, 0);
        outbox.push(Outgoing::from(first.clone()));
        outbox.push(Outgoing::new(&second, vec![Part::Bytes(large.clone()), Part::Bytes(Bytes::from_static(b"end"))]));
        let mut expected = BytesMut::new();
        first.encode(&mut expected);
        second.with_body([&large[..], b"end"].concat()).encode(&mut expected);
        assert_eq!(outbox.bytes(), expected.len());
        let mut parts = VecDeque::new();
        assert_eq!(outbox.take(&mut parts, &mut Vec::new()), expected.len());
        let sent: Vec<u8> = parts
            .iter()
            .flat_map(|part| match part {
                Part::Bytes(bytes) => bytes.to_vec(),
                _ => unreachable!("only memory was put in"),
            })
            .collect();
        assert_eq!(sent, expected);
        assert!(outbox.is_empty() && parts.len() == 3);
    }
}
