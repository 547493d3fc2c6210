//! Where the time of this core's requests goes: a histogram for each stage, and the slowest requests one by one.
//!
//! A stage is counted on the core that spent it: what happens at a request's connection there, all others on the owner
//! of its queue. A pop asks several owners, and each counts what it did for it. What all cores have is gathered when
//! somebody asks.

mod histogram;
mod view;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{CoreId, Millis};
use runtime::clock::{self, Stamp};
use storage::WriteTimes;
use transport::{Stage, Trip, UNIT_NS};

use crate::config;
use crate::core::Core;
pub(crate) use histogram::Histogram;
pub(crate) use view::gather;

/// Slow requests kept on one core. Beyond it the oldest goes.
const SLOW_MAX: usize = 256;

/// Kinds of requests that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send,
    Pull,
    Pop,
    /// Of one popped message.
    Ack,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Send, Kind::Pull, Kind::Pop, Kind::Ack];

    fn of(trip: &Trip) -> Kind {
        Kind::ALL[usize::from(trip.kind)]
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Send => "send",
            Kind::Pull => "pull",
            Kind::Pop => "pop",
            Kind::Ack => "ack",
        }
    }

    /// The stages that such a request may pass, in their order.
    fn stages(self) -> &'static [Stage] {
        match self {
            Kind::Send | Kind::Ack => &[
                Stage::Receive,
                Stage::Route,
                Stage::Append,
                Stage::Gather,
                Stage::Write,
                Stage::Flush,
                Stage::Replicate,
                Stage::Reply,
            ],
            Kind::Pull | Kind::Pop => &[Stage::Receive, Stage::Route, Stage::Read, Stage::Park, Stage::Reply],
        }
    }

    /// Whether a stage is passed where the request's connection lives; the others are where its queue lives.
    fn is_at_connection(self, stage: Stage) -> bool {
        match stage {
            Stage::Receive | Stage::Reply => true,
            // It is parked on all owners, and waits at home.
            Stage::Park => self == Kind::Pop,
            _ => false,
        }
    }
}

/// Times of one stage, and their sum in units.
#[derive(Clone, Debug, Default)]
struct Times {
    histogram: Histogram,
    units: u64,
}

impl Times {
    fn record(&mut self, units: u32) {
        self.histogram.record(units);
        self.units += u64::from(units);
    }
}

/// All times of one kind of request.
#[derive(Clone, Debug, Default)]
struct KindTimes {
    stages: [Times; Stage::ALL.len()],
    total: Times,
}

impl KindTimes {
    /// Records the stages that a trip, or a leg of one, has passed here.
    fn record(&mut self, trip: &Trip, is_here: impl Fn(Stage) -> bool) {
        for stage in Stage::ALL {
            let units = trip.units(stage);
            if units > 0 && is_here(stage) {
                self.stages[stage as usize].record(units);
            }
        }
    }
}

/// A request that took long.
#[derive(Clone, Copy, Debug)]
struct Slow {
    at: Millis,
    peer: SocketAddr,
    trip: Trip,
}

/// The times of one core.
pub(crate) struct Stages {
    is_on: Cell<bool>,
    /// 0: none are kept.
    slower_than_units: Cell<u64>,
    kinds: RefCell<Box<[KindTimes; Kind::ALL.len()]>>,
    slow: RefCell<VecDeque<Slow>>,
}

impl Stages {
    pub(crate) fn new(config: config::Stages) -> Stages {
        let stages = Stages {
            is_on: Cell::default(),
            slower_than_units: Cell::default(),
            kinds: RefCell::default(),
            slow: RefCell::default(),
        };
        stages.configure(config);
        stages
    }

    pub(crate) fn configure(&self, config: config::Stages) {
        self.is_on.set(config.measured);
        self.slower_than_units.set(config.slower_than_us * 1000 / UNIT_NS);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// The owner is done with a request. One that asks several owners was counted by each ([`Watch::ask`]).
    pub(crate) fn processed(&self, trip: &Trip) {
        if Kind::of(trip) != Kind::Pop {
            self.passed(trip);
        }
    }

    /// Counts what an owner did for a request, or in a leg of its trip.
    fn passed(&self, trip: &Trip) {
        if self.is_on() {
            let kind = Kind::of(trip);
            self.kinds.borrow_mut()[kind as usize].record(trip, |stage| !kind.is_at_connection(stage));
        }
    }

    /// The answers of requests have left.
    pub(crate) fn answered(&self, peer: SocketAddr, trips: &mut [Trip], at: Stamp) {
        if !self.is_on() {
            return;
        }
        let mut kinds = self.kinds.borrow_mut();
        for trip in trips {
            trip.pass(Stage::Reply, at);
            self.end(&mut kinds[usize::from(trip.kind)], peer, trip);
        }
    }

    /// A request that is not answered is over.
    pub(crate) fn ended(&self, peer: SocketAddr, trip: &Trip) {
        if self.is_on() {
            self.end(&mut self.kinds.borrow_mut()[usize::from(trip.kind)], peer, trip);
        }
    }

    fn end(&self, times: &mut KindTimes, peer: SocketAddr, trip: &Trip) {
        times.record(trip, |stage| Kind::of(trip).is_at_connection(stage));
        let total = trip.units_total();
        times.total.record(u32::try_from(total).unwrap_or(u32::MAX));
        let slower_than = self.slower_than_units.get();
        if slower_than > 0 && total - u64::from(trip.units(Stage::Park)) > slower_than {
            let mut slow = self.slow.borrow_mut();
            if slow.len() == SLOW_MAX {
                slow.pop_front();
            }
            slow.push_back(Slow { at: clock::now_ms(), peer, trip: *trip });
        }
    }
}

/// The time that the owner of a send has taken for it.
pub(crate) fn time_of_send(trip: &Trip) -> Duration {
    let stages = [Stage::Append, Stage::Gather, Stage::Write, Stage::Flush, Stage::Replicate];
    Duration::from_nanos(stages.into_iter().map(|stage| u64::from(trip.units(stage))).sum::<u64>() * UNIT_NS)
}

/// Passes what a record has waited for after it was appended: the times of the write that has it. One that is safe
/// without a write has waited for none of these.
pub(crate) fn pass_write(trip: &mut Trip, times: &WriteTimes) {
    trip.pass(Stage::Gather, times.began);
    for (stage, at) in [(Stage::Write, times.taken), (Stage::Flush, times.durable)] {
        if let Some(at) = at {
            trip.pass(stage, at);
        }
    }
}

/// The trip of a request that a task of its own works at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// Of a request whose stages are measured.
    trip: Option<Rc<Cell<Trip>>>,
}

impl Watch {
    pub(crate) fn of(trip: Option<Trip>) -> Watch {
        Watch { trip: trip.map(|trip| Rc::new(Cell::new(trip))) }
    }

    /// Ends a stage now.
    pub(crate) fn pass(&self, stage: Stage) {
        self.change(|trip| trip.pass(stage, Stamp::now()));
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Trip)) {
        if let Some(cell) = &self.trip {
            let mut trip = cell.get();
            change(&mut trip);
            cell.set(trip);
        }
    }

    pub(crate) fn trip(&self) -> Option<Trip> {
        self.trip.as_ref().map(|cell| cell.get())
    }

    /// Asks an owner to look for messages; [`Core::on`] with its times. The way there, from the owner that was asked before
    /// if any, and the look count on that core.
    pub(crate) async fn ask<T, Made>(
        &self,
        core: &Rc<Core>,
        owner: CoreId,
        look: impl FnOnce(Rc<Core>) -> Made + Send + 'static,
    ) -> T
    where
        T: Send + 'static,
        Made: Future<Output = T> + 'static,
    {
        let (from, mut leg) = (core.id, self.trip().map(|trip| trip.leg()));
        let watched = move |core: Rc<Core>| async move {
            if let Some(leg) = leg.as_mut().filter(|_| core.id != from) {
                leg.pass(Stage::Route, Stamp::now());
            }
            let found = look(core.clone()).await;
            if let Some(leg) = &mut leg {
                leg.owner = core.id;
                leg.pass(Stage::Read, Stamp::now());
                core.stages.passed(leg);
            }
            (found, leg)
        };
        let (found, leg) = core.on(owner, watched).await;
        if let Some(leg) = leg {
            self.change(|trip| trip.join(&leg));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_that_crosses_cores_is_counted_once_in_each_stage() {
        let config = config::Stages { measured: true, slower_than_us: 1 };
        let (owner, connection) = (Stages::new(config), Stages::new(config));
        let start = Stamp::default().plus(1 << 30);
        let mut trip = Trip::begin(Kind::Send as u8, 7, CoreId(1), start);
        trip.pass(Stage::Receive, start.plus(1600));
        trip.pass(Stage::Route, start.plus(3200));
        trip.pass(Stage::Append, start.plus(4800));
        let times =
            WriteTimes { began: start.plus(8000), taken: Some(start.plus(16_000)), durable: Some(start.plus(80_000)) };
        pass_write(&mut trip, &times);
        owner.processed(&trip);
        let peer = "127.0.0.1:1".parse().expect("an address");
        connection.answered(peer, &mut [trip], start.plus(81_600));
        let sums = |stages: &Stages| {
            let kinds = stages.kinds.borrow();
            kinds[Kind::Send as usize].stages.iter().map(|times| times.units).collect::<Vec<_>>()
        };
        assert_eq!(sums(&owner), [0, 100, 100, 200, 500, 4000, 0, 0, 0, 0]);
        assert_eq!(sums(&connection), [100, 0, 0, 0, 0, 0, 0, 0, 0, 100]);
        assert_eq!(connection.kinds.borrow()[Kind::Send as usize].total.units, 5100);
        assert_eq!(time_of_send(&trip), Duration::from_nanos(76_800));
        let slow = connection.slow.borrow();
        assert_eq!((slow.len(), slow[0].trip.opaque, slow[0].trip.units_total()), (1, 7, 5100));
        // A write that began before the record was there is not its own.
        let before = WriteTimes { began: start, taken: Some(start.plus(10)), durable: None };
        let mut safe = trip;
        pass_write(&mut safe, &before);
        assert_eq!(safe, trip);
    }

    #[test]
    fn a_pop_is_counted_by_each_owner_and_waits_at_home() {
        let config = config::Stages { measured: true, slower_than_us: 0 };
        let owners = [Stages::new(config), Stages::new(config)];
        let home = Stages::new(config);
        let start = Stamp::default().plus(1 << 30);
        let mut trip = Trip::begin(Kind::Pop as u8, 7, CoreId(2), start);
        trip.pass(Stage::Receive, start.plus(1600));
        let mut at = start.plus(1600);
        // Each is asked, nothing is there, it waits, and the first is asked again.
        for (owner, waits) in [(0, false), (1, true), (0, false)] {
            let mut leg = trip.leg();
            leg.owner = CoreId(owner);
            leg.pass(Stage::Route, at.plus(1600));
            leg.pass(Stage::Read, at.plus(4800));
            owners[usize::from(owner)].passed(&leg);
            trip.join(&leg);
            at = at.plus(4800);
            if waits {
                at = at.plus(160_000);
                trip.pass(Stage::Park, at);
            }
        }
        home.processed(&trip);
        home.answered("127.0.0.1:1".parse().expect("an address"), &mut [trip], at.plus(1600));
        let spent = |stages: &Stages, stage| {
            let kinds = stages.kinds.borrow();
            let times: &Times = &kinds[Kind::Pop as usize].stages[stage as usize];
            (times.histogram.seen().map(|(_, count)| count).sum::<u64>(), times.units)
        };
        for (place, expected) in [(&owners[0], [(2, 200), (2, 400)]), (&owners[1], [(1, 100), (1, 200)])] {
            assert_eq!([Stage::Route, Stage::Read].map(|stage| spent(place, stage)), expected);
            assert_eq!([Stage::Receive, Stage::Park, Stage::Reply].map(|stage| spent(place, stage)), [(0, 0); 3]);
        }
        assert_eq!([Stage::Route, Stage::Read].map(|stage| spent(&home, stage)), [(0, 0); 2]);
        let at_home = [Stage::Receive, Stage::Park, Stage::Reply].map(|stage| spent(&home, stage));
        assert_eq!(at_home, [(1, 100), (1, 10_000), (1, 100)]);
        assert_eq!(home.kinds.borrow()[Kind::Pop as usize].total.units, 100 + 3 * 300 + 10_000 + 100);
    }

    #[test]
    fn the_slow_ones_are_the_newest_and_bounded_and_waiting_is_not_slow() {
        let stages = Stages::new(config::Stages { measured: true, slower_than_us: 16 });
        let peer = "127.0.0.1:1".parse().expect("an address");
        let start = Stamp::default().plus(1 << 30);
        for opaque in 0..300 {
            let mut trip = Trip::begin(Kind::Pull as u8, opaque, CoreId(0), start);
            trip.pass(Stage::Park, start.plus(1_000_000));
            if opaque % 3 != 0 {
                trip.pass(Stage::Read, start.plus(1_032_000));
            }
            stages.ended(peer, &trip);
        }
        assert_eq!(stages.slow.borrow().len(), 200);
        assert_eq!(stages.slow.borrow()[199].trip.opaque, 299);
        stages.configure(config::Stages { measured: true, slower_than_us: 0 });
        stages.slow.borrow_mut().clear();
        let mut trip = Trip::begin(Kind::Pull as u8, 0, CoreId(0), start);
        trip.pass(Stage::Read, start.plus(1_000_000_000));
        stages.ended(peer, &trip);
        assert_eq!(stages.slow.borrow().len(), 0, "0 keeps none");
    }
}
