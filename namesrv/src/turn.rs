//! One at a time: writers of a file wait for their turn.

use std::cell::Cell;

use runtime::sync::Notify;

/// Held by at most one task of the core.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    taken: Cell<bool>,
    free: Notify,
}

/// Gives the turn on when dropped.
pub(crate) struct TurnGuard<'a> {
    turn: &'a Turn,
}

impl Turn {
    pub(crate) async fn take(&self) -> TurnGuard<'_> {
        while self.taken.replace(true) {
            self.free.notified().await;
        }
        TurnGuard { turn: self }
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        assert!(self.turn.taken.replace(false), "a turn is given on once");
        self.turn.free.notify();
    }
}
