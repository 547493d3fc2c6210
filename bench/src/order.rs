//! Ordered load: all messages of a key go into one queue, each after the answer to the one before, and arrive in that order.

use std::collections::HashMap;

/// Which key a request has, and where its messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    keys: u64,
    connections: u64,
}

impl Order {
    /// At least so many keys, and as many on each connection: one connection sends all messages of a key.
    pub(crate) fn new(keys: u64, connections: u64) -> Order {
        Order { keys: keys.next_multiple_of(connections), connections }
    }

    pub(crate) fn key(self, number: u64) -> u64 {
        number % self.keys
    }

    pub(crate) fn lane(self, number: u64, lanes: u64) -> u64 {
        self.key(number) % lanes
    }

    /// Where its key stands among those of its connection.
    pub(crate) fn place(self, number: u64) -> usize {
        (self.key(number) / self.connections) as usize
    }

    pub(crate) fn keys_each(self) -> usize {
        (self.keys / self.connections) as usize
    }
}

/// What a consumer looks at.
#[derive(Clone, Debug)]
pub(crate) struct OrderCheck {
    order: Order,
    lanes: u64,
    /// Messages of a request.
    batch: u64,
    /// The highest message number of each key.
    seen: HashMap<u64, u64>,
}

impl OrderCheck {
    pub(crate) fn new(order: Order, lanes: u64, batch: u64) -> OrderCheck {
        OrderCheck { order, lanes, batch, seen: HashMap::new() }
    }

    /// Whether message `number` comes from its key's queue, and behind all of its key that came before.
    pub(crate) fn is_in_order(&mut self, number: u64, lane: usize) -> bool {
        let request = number / self.batch;
        let before = self.seen.insert(self.order.key(request), number);
        self.order.lane(request, self.lanes) == lane as u64 && before.is_none_or(|before| before < number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_connection_one_queue_and_one_place() {
        for (keys, connections) in [(1, 1), (10, 4), (64, 8), (3, 8)] {
            let order = Order::new(keys, connections);
            let mut places = HashMap::new();
            for number in 0..1000 {
                let place = (number % connections, order.place(number), order.lane(number, 5));
                assert!(order.place(number) < order.keys_each());
                assert_eq!(*places.entry(order.key(number)).or_insert(place), place, "{keys} {connections} {number}");
            }
            assert_eq!(places.len() as u64, order.keys_each() as u64 * connections);
        }
    }

    #[test]
    fn what_overtakes_and_what_comes_elsewhere_is_seen() {
        let check = || OrderCheck::new(Order::new(4, 2), 3, 1);
        let seen = |numbers: &[(u64, usize)]| {
            let mut check = check();
            numbers.iter().filter(|(number, lane)| !check.is_in_order(*number, *lane)).count()
        };
        assert_eq!(seen(&[(0, 0), (1, 1), (4, 0), (5, 1), (12, 0)]), 0);
        assert_eq!(seen(&[(4, 0), (0, 0)]), 1, "0 was sent before 4");
        assert_eq!(seen(&[(0, 0), (0, 0)]), 1, "twice the same");
        assert_eq!(seen(&[(2, 0)]), 1, "key 2 lies in lane 2");
        let mut batches = OrderCheck::new(Order::new(2, 1), 2, 3);
        let numbers = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (6, 0)];
        assert!(numbers.into_iter().all(|(number, lane)| batches.is_in_order(number, lane)));
        assert!(!batches.is_in_order(5, 0));
    }
}
