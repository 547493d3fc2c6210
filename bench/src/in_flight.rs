//! Requests of one connection that are not answered yet, found again by their opaque.
//!
//! An opaque is the slot of its request, plus how often the slot was used, in ten decimal digits. So neither a map nor
//! an allocation is needed, and an answer that comes twice, or to nothing, is seen.

/// Requests of one connection that may be in flight. No window is larger.
const IN_FLIGHT_MAX: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 16;
const USE_BITS: u32 = 14;
/// The first number of ten digits.
const OPAQUE_MIN: i32 = 1_000_000_000;

const _: () = assert!(OPAQUE_MIN as i64 + (1 << (SLOT_BITS + USE_BITS)) <= i32::MAX as i64);

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// In its run.
    pub(crate) number: u64,
    pub(crate) due_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    uses: u32,
    /// `None` while the slot is free.
    request: Option<Request>,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl InFlight {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn requests(&self) -> impl Iterator<Item = Request> {
        self.slots.iter().filter_map(|slot| slot.request)
    }

    /// Takes a slot and gives the opaque for it; `None` when there are too many already.
    pub(crate) fn begin(&mut self, request: Request) -> Option<i32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() == IN_FLIGHT_MAX => return None,
            None => {
                self.slots.push(Slot { uses: 0, request: None });
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[index as usize];
        assert!(slot.request.is_none(), "slot {index} is free and in use");
        slot.uses = (slot.uses + 1) % (1 << USE_BITS);
        slot.request = Some(request);
        Some(OPAQUE_MIN + (slot.uses << SLOT_BITS | index) as i32)
    }

    /// Ends the request with that opaque; `None` when no request has it.
    pub(crate) fn end(&mut self, opaque: i32) -> Option<Request> {
        let index = self.index_of(opaque)?;
        let request = self.slots[index].request.take()?;
        self.free.push(index as u32);
        Some(request)
    }

    /// The request with that opaque, which goes on.
    pub(crate) fn get(&self, opaque: i32) -> Option<Request> {
        self.slots[self.index_of(opaque)?].request
    }

    /// Of a slot that has this opaque now.
    fn index_of(&self, opaque: i32) -> Option<usize> {
        let place = u32::try_from(opaque.checked_sub(OPAQUE_MIN)?).ok()?;
        let index = (place & (IN_FLIGHT_MAX as u32 - 1)) as usize;
        (self.slots.get(index)?.uses == place >> SLOT_BITS).then_some(index)
    }

    /// Ends all requests and tells how many there were: they will not be answered.
    pub(crate) fn clear(&mut self) -> u64 {
        let mut count = 0;
        for (index, slot) in (0..).zip(&mut self.slots) {
            if slot.request.take().is_some() {
                self.free.push(index);
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> Request {
        Request { number, due_ns: number * 10 }
    }

    #[test]
    fn an_answer_ends_its_own_request_once() {
        let mut requests = InFlight::default();
        let (first, second) = (requests.begin(request(1)).unwrap(), requests.begin(request(2)).unwrap());
        assert_eq!((requests.get(second), requests.count()), (Some(request(2)), 2));
        assert_eq!((requests.end(second), requests.end(second), requests.count()), (Some(request(2)), None, 1));
        let third = requests.begin(request(3)).unwrap();
        assert_ne!(third, second);
        assert_eq!((requests.end(second), requests.get(second)), (None, None));
        assert_eq!((requests.end(third), requests.end(first)), (Some(request(3)), Some(request(1))));
        let fourth = requests.begin(request(4)).unwrap();
        assert_eq!((requests.clear(), requests.count(), requests.end(fourth)), (1, 0, None));
        for unknown in [0, -1, i32::MIN, i32::MAX, OPAQUE_MIN] {
            assert_eq!(requests.end(unknown), None);
        }
    }

    #[test]
    fn there_is_a_limit_and_opaques_keep_ten_digits() {
        let mut requests = InFlight::default();
        let opaques: Vec<i32> =
            (0..IN_FLIGHT_MAX as u64).map(|number| requests.begin(request(number)).unwrap()).collect();
        assert!(requests.begin(request(0)).is_none());
        assert!(opaques.iter().all(|opaque| *opaque >= OPAQUE_MIN));
        let mut opaque = opaques[0];
        for number in 0..=1 << USE_BITS {
            assert!(requests.end(opaque).is_some());
            opaque = requests.begin(request(number)).unwrap();
            assert!(opaque >= OPAQUE_MIN, "use {number}");
        }
    }
}
