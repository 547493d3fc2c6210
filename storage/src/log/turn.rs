//! One at a time, for work that suspends: whoever holds the turn runs, the others wait.

use std::cell::Cell;

use runtime::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Turn {
    taken: Cell<bool>,
    free: Notify,
}

pub(crate) struct TurnHeld<'a> {
    turn: &'a Turn,
}

impl Turn {
    pub(crate) async fn take(&self) -> TurnHeld<'_> {
        while self.taken.get() {
            self.free.notified().await;
        }
        self.taken.set(true);
        TurnHeld { turn: self }
    }
}

impl Drop for TurnHeld<'_> {
    fn drop(&mut self) {
        self.turn.taken.set(false);
        self.turn.free.notify();
    }
}
