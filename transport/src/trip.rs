//! The way of one request through the server, and the time that each stage of it has taken.
//!
//! Each moment belongs to one stage: whoever ends a stage gives it all that has passed since the end of the stage
//! before. So the stages sum up to the whole, whatever was waited for.

use base::CoreId;
use runtime::clock::Stamp;

/// Times of stages are counted in units of so many nanoseconds.
pub const UNIT_NS: u64 = 16;

/// A part of a request's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From its arrival in the socket until it is handed out.
    Receive,
    /// To the core that owns what it is about.
    Route,
    /// Until its record has its place in the log.
    Append,
    /// Until the write begins that has it.
    Gather,
    /// Until the device has taken it.
    Write,
    /// Until the device says that it is durable.
    Flush,
    /// Until others have it too.
    Replicate,
    /// Looking for messages.
    Read,
    /// Waiting for messages.
    Park,
    /// Until the socket has taken the answer.
    Reply,
}

impl Stage {
    /// In the order in which a request passes them.
    pub const ALL: [Stage; 10] = [
        Stage::Receive,
        Stage::Route,
        Stage::Append,
        Stage::Gather,
        Stage::Write,
        Stage::Flush,
        Stage::Replicate,
        Stage::Read,
        Stage::Park,
        Stage::Reply,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Receive => "receive",
            Stage::Route => "route",
            Stage::Append => "append",
            Stage::Gather => "gather",
            Stage::Write => "write",
            Stage::Flush => "flush",
            Stage::Replicate => "replicate",
            Stage::Read => "read",
            Stage::Park => "park",
            Stage::Reply => "reply",
        }
    }
}

/// One request's times so far. It goes where the request goes, and back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// Where the last stage ended, to whole units behind where the first began.
    last: Stamp,
    units: [u32; Stage::ALL.len()],
    /// What kind of request it is, in the terms of who began the trip.
    pub kind: u8,
    /// The core that owns what the request is about.
    pub owner: CoreId,
    /// The request's own number.
    pub opaque: i32,
}

impl Trip {
    /// Begins where the request had arrived.
    pub fn begin(kind: u8, opaque: i32, owner: CoreId, arrived: Stamp) -> Trip {
        Trip { last: arrived, units: [0; Stage::ALL.len()], kind, owner, opaque }
    }

    /// A part of this trip that goes on elsewhere: its stages so far are none.
    pub fn leg(&self) -> Trip {
        Trip { units: [0; Stage::ALL.len()], ..*self }
    }

    /// Goes on where a leg of it has ended.
    pub fn join(&mut self, leg: &Trip) {
        for (units, of_leg) in self.units.iter_mut().zip(leg.units) {
            *units = units.saturating_add(of_leg);
        }
        (self.last, self.owner) = (leg.last, leg.owner);
    }

    /// Ends a stage. One that ended before the stage before it, by a clock that was read earlier, has taken nothing.
    pub fn pass(&mut self, stage: Stage, at: Stamp) {
        let passed = at.since(self.last) / UNIT_NS;
        let units = &mut self.units[stage as usize];
        *units = units.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        self.last = self.last.plus(passed * UNIT_NS);
    }

    /// Units that a stage has taken.
    pub fn units(&self, stage: Stage) -> u32 {
        self.units[stage as usize]
    }

    /// Units of all stages.
    pub fn units_total(&self) -> u64 {
        self.units.iter().copied().map(u64::from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_sum_up_to_the_whole() {
        let start = Stamp::default().plus(1_000_003);
        let mut trip = Trip::begin(1, 7, CoreId(0), start);
        let mut at = start;
        for (step, stage) in (1..).zip([Stage::Receive, Stage::Route, Stage::Read, Stage::Park, Stage::Read]) {
            at = at.plus(step * 1001);
            trip.pass(stage, at);
        }
        // A reading from before, as that of a write that began earlier.
        trip.pass(Stage::Gather, start);
        trip.pass(Stage::Reply, at.plus(5));
        assert_eq!(trip.units_total(), (1001 * 15 + 5) / UNIT_NS);
        // What is left of a unit goes to the next stage.
        assert!((500..=501).contains(&trip.units(Stage::Read)), "{trip:?}");
        assert_eq!((trip.units(Stage::Gather), trip.units(Stage::Append)), (0, 0));
        trip.pass(Stage::Flush, at.plus(u64::MAX / 2));
        assert_eq!(trip.units(Stage::Flush), u32::MAX);
    }

    #[test]
    fn legs_sum_up_as_one_trip_does() {
        let start = Stamp::default().plus(1_000_003);
        let mut trip = Trip::begin(1, 7, CoreId(0), start);
        trip.pass(Stage::Receive, start.plus(1001));
        for (owner, at) in [(1, 2002), (2, 4004)] {
            let mut leg = trip.leg();
            assert_eq!((leg.units_total(), leg.opaque, leg.kind), (0, 7, 1));
            leg.owner = CoreId(owner);
            leg.pass(Stage::Route, start.plus(at));
            leg.pass(Stage::Read, start.plus(at + 1001));
            trip.join(&leg);
        }
        trip.pass(Stage::Reply, start.plus(6006));
        assert_eq!((trip.units_total(), trip.owner), (6006 / UNIT_NS, CoreId(2)));
        let ns = |stage| u64::from(trip.units(stage)) * UNIT_NS;
        for (stage, expected_ns) in [(Stage::Receive, 1001), (Stage::Route, 2002), (Stage::Read, 2002)] {
            assert!(ns(stage).abs_diff(expected_ns) <= 2 * UNIT_NS, "{stage:?}: {trip:?}");
        }
    }

    #[test]
    fn stages_are_found_by_their_place() {
        for (place, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, place, "{}", stage.name());
        }
        assert!(size_of::<Trip>() <= 64, "a trip is carried with each request: {} bytes", size_of::<Trip>());
    }
}
