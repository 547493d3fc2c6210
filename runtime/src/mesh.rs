//! Parcels between cores: a bounded lane for each ordered pair.
//!
//! Sending never waits and never drops. What a full lane does not take stays with the sender, in order, and goes on
//! when the receiver has made room; how much that can be is bounded by whoever admits work (the in-flight budgets of
//! connections), not here. So two cores with full lanes can't wait for each other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use base::CoreId;
use crossbeam_queue::ArrayQueue;

use crate::wake::Bell;

/// Parcels a lane takes. Beyond it parcels wait with the sender.
const LANE_PARCELS_MAX: usize = 1024;
/// Parcels handled in one go before others on the core have their turn.
const PARCELS_AT_ONCE: usize = 64;
/// Parcels taken out of a lane together, so that their memory comes from the other core while the first is handled.
const PARCELS_READY: usize = 8;

struct Lane<M> {
    parcels: ArrayQueue<M>,
    /// The sender holds parcels back and wants to be rung when there is room.
    held_back: AtomicBool,
}

/// One core's end of the mesh, before it has reached its core.
pub struct MeshEnd<M> {
    here: CoreId,
    lanes_out: Vec<Arc<Lane<M>>>,
    lanes_in: Vec<Arc<Lane<M>>>,
    bells: Vec<Arc<Bell>>,
}

/// One core's end of the mesh.
pub struct Mesh<M> {
    end: MeshEnd<M>,
    held_back: RefCell<Vec<VecDeque<M>>>,
}

/// Makes the lanes between `count` cores.
pub fn ends<M: Send + 'static>(count: u16) -> Vec<MeshEnd<M>> {
    let cores = usize::from(count);
    let lane = || Arc::new(Lane { parcels: ArrayQueue::new(LANE_PARCELS_MAX), held_back: AtomicBool::new(false) });
    // lanes[from][to]; the lane to oneself is never used, a core calls itself directly.
    let lanes: Vec<Vec<Arc<Lane<M>>>> = (0..cores).map(|_| (0..cores).map(|_| lane()).collect()).collect();
    let bells: Vec<_> = (0..cores).map(|_| Bell::new()).collect();
    (0..cores)
        .map(|core| MeshEnd {
            here: CoreId(core as u16),
            lanes_out: lanes[core].clone(),
            lanes_in: lanes.iter().map(|from| from[core].clone()).collect(),
            bells: bells.clone(),
        })
        .collect()
}

impl<M: Send + 'static> MeshEnd<M> {
    pub fn core(&self) -> CoreId {
        self.here
    }

    /// Takes this end into use on its core.
    pub fn join(self) -> Rc<Mesh<M>> {
        let held_back = self.lanes_out.iter().map(|_| VecDeque::new()).collect();
        Rc::new(Mesh { end: self, held_back: RefCell::new(held_back) })
    }
}

impl<M: Send + 'static> Mesh<M> {
    pub fn here(&self) -> CoreId {
        self.end.here
    }

    pub fn core_count(&self) -> u16 {
        self.end.bells.len() as u16
    }

    /// Gives a parcel to another core. Parcels of one sender arrive in order.
    pub fn send(&self, to: CoreId, parcel: M) {
        assert!(to != self.end.here, "core {to} sends a parcel to itself");
        let at = usize::from(to.0);
        let lane = &self.end.lanes_out[at];
        let mut held_back = self.held_back.borrow_mut();
        if !held_back[at].is_empty() {
            held_back[at].push_back(parcel);
        } else if let Err(parcel) = lane.parcels.push(parcel) {
            held_back[at].push_back(parcel);
            self.ask_for_room(lane, &mut held_back[at]);
        }
        self.end.bells[at].ring();
    }

    /// Parcels that wait here because lanes are full.
    pub fn held_back(&self) -> usize {
        self.held_back.borrow().iter().map(VecDeque::len).sum()
    }

    /// Handles what other cores send, for ever. `handle` must not block; what takes longer it spawns. `ready` sees each parcel
    /// some parcels before that.
    pub async fn run(self: Rc<Self>, mut ready: impl FnMut(&M), mut handle: impl FnMut(CoreId, M)) {
        let mut taken = Vec::with_capacity(PARCELS_READY);
        let bell = &self.end.bells[usize::from(self.end.here.0)];
        loop {
            let handled = self.handle_some(&mut taken, &mut ready, &mut handle);
            self.send_held_back();
            if handled > 0 {
                crate::yield_if_needed().await;
            } else {
                bell.rung(|| self.nothing_to_do()).await;
            }
        }
    }

    fn handle_some(&self, taken: &mut Vec<M>, ready: &mut impl FnMut(&M), handle: &mut impl FnMut(CoreId, M)) -> usize {
        let mut handled = 0;
        for (from, lane) in self.end.lanes_in.iter().enumerate() {
            for _ in 0..PARCELS_AT_ONCE / PARCELS_READY {
                taken.extend(std::iter::from_fn(|| lane.parcels.pop()).take(PARCELS_READY));
                if taken.is_empty() {
                    break;
                }
                handled += taken.len();
                taken.iter().for_each(&mut *ready);
                taken.drain(..).for_each(|parcel| handle(CoreId(from as u16), parcel));
            }
            fence(Ordering::SeqCst);
            if lane.held_back.load(Ordering::Relaxed) && lane.held_back.swap(false, Ordering::SeqCst) {
                self.end.bells[from].ring();
            }
        }
        handled
    }

    fn send_held_back(&self) {
        let mut held_back = self.held_back.borrow_mut();
        for (at, waiting) in held_back.iter_mut().enumerate() {
            if waiting.is_empty() {
                continue;
            }
            let lane = &self.end.lanes_out[at];
            push_all(lane, waiting);
            self.ask_for_room(lane, waiting);
            self.end.bells[at].ring();
        }
    }

    /// Says that parcels are held back. The lane was seen full after it was said, so the receiver rings when it makes
    /// room: it takes the word back as it rings, hence the word is given anew after every parcel that still fitted.
    fn ask_for_room(&self, lane: &Lane<M>, waiting: &mut VecDeque<M>) {
        while !waiting.is_empty() {
            lane.held_back.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if lane.parcels.is_full() {
                return;
            }
            push_all(lane, waiting);
        }
    }

    fn nothing_to_do(&self) -> bool {
        let held_back = self.held_back.borrow();
        let room = held_back
            .iter()
            .zip(&self.end.lanes_out)
            .any(|(waiting, lane)| !waiting.is_empty() && !lane.parcels.is_full());
        !room && self.end.lanes_in.iter().all(|lane| lane.parcels.is_empty())
    }
}

fn push_all<M>(lane: &Lane<M>, waiting: &mut VecDeque<M>) {
    while let Some(parcel) = waiting.pop_front() {
        if let Err(parcel) = lane.parcels.push(parcel) {
            waiting.push_front(parcel);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cores;
    use crate::sync::Notify;
    use std::cell::Cell;

    /// Each core floods the other far beyond a lane's length; all parcels arrive, in order, on both sides.
    #[test]
    fn flooded_lanes_lose_nothing_and_keep_order() {
        const PARCELS: u64 = 50_000;
        let cores = Cores::start(ends::<u64>(2), "mesh", move |core, end| async move {
            let mesh = end.join();
            let peer = CoreId(1 - core.0);
            let next = Rc::new(Cell::new(0));
            let done = Rc::new(Notify::new());
            let (seen, all) = (next.clone(), done.clone());
            let inbox = mesh.clone();
            crate::spawn(async move {
                let handle = move |from, number| {
                    assert_eq!((from, number), (peer, seen.get()));
                    seen.set(number + 1);
                    if number + 1 == PARCELS {
                        all.notify();
                    }
                };
                inbox.run(|_| (), handle).await;
            });
            for number in 0..PARCELS {
                mesh.send(peer, number);
                if number % 5000 == 0 {
                    crate::yield_now().await;
                }
            }
            while next.get() < PARCELS || mesh.held_back() > 0 {
                let _ = crate::clock::within(std::time::Duration::from_millis(1), done.notified()).await;
            }
        })
        .expect("cores");
        cores.join();
    }

    /// One parcel at a time to a sleeping core, there and back: a lost wake would hang here.
    #[test]
    fn a_sleeping_core_wakes_for_every_parcel() {
        const ROUNDS: u64 = 20_000;
        let cores = Cores::start(ends::<u64>(2), "wake", move |core, end| async move {
            let mesh = end.join();
            let done = Rc::new(Notify::new());
            let (inbox, back, ended) = (mesh.clone(), mesh.clone(), done.clone());
            crate::spawn(async move {
                let handle = move |from, number| {
                    if number < ROUNDS {
                        back.send(from, number + 1);
                    }
                    if number >= ROUNDS - 1 {
                        ended.notify();
                    }
                };
                inbox.run(|_| (), handle).await;
            });
            if core.0 == 0 {
                mesh.send(CoreId(1), 0);
            }
            done.notified().await;
        })
        .expect("cores");
        cores.join();
    }
}
