//! Waking a core from outside of it: an eventfd which the core's reactor reads.
//!
//! Whoever has something for a core publishes it first and rings then. A core that is awake is not rung: it says when
//! it is about to sleep and looks once more after saying so, so nothing published is missed.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::reactor::EventWait;

/// The bell of one core; shared by all who may ring it.
#[derive(Debug)]
pub(crate) struct Bell {
    event: EventFd,
    sleeping: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> std::io::Result<Arc<Bell>> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?;
        Ok(Arc::new(Bell { event, sleeping: AtomicBool::new(false) }))
    }

    /// Wakes the listener if it sleeps. Call after publishing.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::SeqCst) {
            self.event.write(1).expect("an eventfd counter far below its limit takes a write");
        }
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

/// The core's side of its bell.
pub(crate) struct Listener {
    bell: Arc<Bell>,
    event: EventWait,
}

impl Listener {
    /// Binds the bell to the reactor of the current core.
    pub(crate) fn new(bell: Arc<Bell>) -> std::io::Result<Listener> {
        let event = EventWait::new(bell.raw())?;
        Ok(Listener { bell, event })
    }

    /// Waits until the bell rings, unless `idle` says that something was published meanwhile.
    pub(crate) async fn wait(&self, idle: impl FnOnce() -> bool) {
        self.bell.sleeping.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !idle() {
            self.bell.sleeping.store(false, Ordering::SeqCst);
            return;
        }
        self.event.rung().await.expect("an eventfd can be read");
        self.bell.sleeping.store(false, Ordering::SeqCst);
    }
}
