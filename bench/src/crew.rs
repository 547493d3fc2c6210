//! Connections that one thread reads, each when it has something to read.
//!
//! A thread for each connection was woken for each answer: sends against canned answers cost 0.49 us of CPU a message with eight
//! threads, and a broker on the same cores was interrupted twice as often.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use remoting::frame::FrameError;
use runtime::ready_set::ReadySet;

use crate::clock::{RunClock, nanoseconds};
use crate::wire::{AWAY_PAUSE, Away, Frames, Inbox, Link};

/// Who reads on a connection of its own.
pub(crate) trait Member: Frames {
    fn link(&self) -> &Arc<Link>;
    /// The connection is open, and nothing was read yet.
    fn begin(&mut self) {}
}

struct Seat {
    stream: Arc<TcpStream>,
    inbox: Inbox,
    state: State,
    ended: Result<(), FrameError>,
}

enum State {
    Open,
    Away(Away),
    Over,
}

/// All connections of a thread.
pub(crate) struct Crew<M> {
    clock: RunClock,
    set: ReadySet,
    members: Vec<M>,
    seats: Vec<Seat>,
    open: usize,
    away: usize,
    /// When those that are away are looked at again.
    look_ns: u64,
}

impl<M: Member> Crew<M> {
    /// # Errors
    /// When the kernel has no set of sockets left for this process.
    pub(crate) fn new(members: Vec<M>, clock: RunClock) -> std::io::Result<Crew<M>> {
        let set = ReadySet::new()?;
        let mut seats = Vec::new();
        for (key, member) in members.iter().enumerate() {
            let stream = member.link().stream();
            set.add(&stream, key)?;
            seats.push(Seat { stream, inbox: Inbox::new(), state: State::Open, ended: Ok(()) });
        }
        Ok(Crew { clock, set, open: seats.len(), members, seats, away: 0, look_ns: 0 })
    }

    /// Reads each connection as [`Link::read_on`] does until all of them are closed; tells how each ended.
    pub(crate) fn run(mut self) -> Vec<(M, Result<(), FrameError>)> {
        self.members.iter_mut().for_each(M::begin);
        if let [only] = &mut self.members[..] {
            // It need not be asked for before it is read.
            let ended = only.link().clone().read_on(self.clock, only);
            return self.members.into_iter().map(|member| (member, ended)).collect();
        }
        let mut ready = Vec::new();
        while self.open + self.away > 0 {
            let limit = (self.away > 0).then(|| Duration::from_nanos(self.look_ns.saturating_sub(self.clock.now_ns())));
            ready.extend(self.set.wait(limit).expect("the set is open"));
            ready.drain(..).for_each(|key| self.read(key));
            if self.away > 0 && self.clock.now_ns() >= self.look_ns {
                self.look_for_away();
            }
        }
        self.members.into_iter().zip(self.seats.into_iter().map(|seat| seat.ended)).collect()
    }

    fn read(&mut self, key: usize) {
        let (member, seat) = (&mut self.members[key], &mut self.seats[key]);
        let received = seat.inbox.receive(&seat.stream, self.clock, member);
        if matches!(received, Ok(true)) {
            return;
        }
        // What is not in the set any more would be told for nobody.
        self.set.remove(&seat.stream).expect("the set has the connections that are open");
        self.open -= 1;
        let link = member.link().clone();
        if received.is_ok() && !link.is_closed() {
            seat.state = State::Away(Away::begin(&link, self.clock, member));
            self.away += 1;
            self.look_ns = self.clock.now_ns();
        } else {
            link.close();
            (seat.state, seat.ended) = (State::Over, received.map(|_| ()));
        }
    }

    fn look_for_away(&mut self) {
        for (key, (member, seat)) in self.members.iter_mut().zip(&mut self.seats).enumerate() {
            let State::Away(away) = seat.state else { continue };
            let link = member.link().clone();
            if !link.is_closed() && away.look(&link, self.clock, member) {
                (seat.stream, seat.inbox, seat.state) = (link.stream(), Inbox::new(), State::Open);
                self.set.add(&seat.stream, key).expect("the set has room for what it had before");
                (self.open, self.away) = (self.open + 1, self.away - 1);
            } else if link.is_closed() {
                seat.state = State::Over;
                self.away -= 1;
            }
        }
        self.look_ns = self.clock.now_ns() + nanoseconds(AWAY_PAUSE);
    }
}
