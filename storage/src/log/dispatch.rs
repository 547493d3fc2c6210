//! Making records visible: in their queue, under their keys, and to whoever waits for messages.
//!
//! Happens in the same step in which a mark advances and before any ticket's waiter runs, so that whoever is told
//! "stored" finds the message in its queue.

use std::rc::Rc;

use base::QueueOffset;

use super::Log;
use crate::options::FlushPolicy;
use crate::queue::{Entry, KeyEntry, QueueRef, Span};

/// A record that just became visible.
pub struct VisibleRecord<'a> {
    pub queue: &'a QueueRef,
    pub queue_offset: QueueOffset,
    pub entry: &'a Entry,
}

pub(super) type VisibleCall = dyn Fn(&VisibleRecord<'_>);

/// A record that is appended and not visible yet.
pub(super) struct Pending {
    pub(super) queue: QueueRef,
    pub(super) queue_offset: u64,
    pub(super) entry: Entry,
    /// How many of the pending keys are its own.
    pub(super) key_count: u32,
}

impl Log {
    /// Calls this for each record that becomes visible, in the order of the log. It must be quick and not append.
    pub fn on_visible(&self, call: Box<dyn Fn(&VisibleRecord<'_>)>) {
        self.visible_call.replace(Some(Rc::from(call)));
    }

    /// Shows all records up to the mark of the policy, then wakes those who wait.
    pub(super) fn marks_advanced(&self) {
        let visible = match self.options.flush {
            FlushPolicy::Sync => self.marks.durable(),
            FlushPolicy::Async => self.marks.safe(),
        };
        let call = self.visible_call.borrow().clone();
        loop {
            let pending = {
                let mut list = self.pending.borrow_mut();
                if list.front().is_none_or(|pending| pending.entry.limit().0 > visible) {
                    break;
                }
                list.pop_front().expect("just seen")
            };
            self.show(&pending);
            if let Some(call) = &call {
                let queue_offset = QueueOffset(pending.queue_offset);
                call(&VisibleRecord { queue: &pending.queue, queue_offset, entry: &pending.entry });
            }
        }
        self.marks.wake();
    }

    fn show(&self, pending: &Pending) {
        let entry = pending.entry;
        let mut span = self.span.get();
        if span.ends_before(entry.offset.0, self.options.extent_bytes) {
            span = Span::new(entry.offset.0);
            self.extents_full.borrow_mut().push_back(entry.offset.0);
            self.cut_wanted.notify();
        }
        span.add(entry.offset.0, pending.queue.enters(span.start));
        self.span.set(span);
        if pending.queue.push_visible(pending.queue_offset, entry) {
            self.growing.borrow_mut().push(pending.queue.clone());
        }
        let mut index = self.index.borrow_mut();
        let mut keys = self.pending_keys.borrow_mut();
        for _ in 0..pending.key_count {
            let hash = keys.pop_front().expect("each pending record has left its keys");
            let store_timestamp_ms = entry.store_timestamp_ms;
            index.keys.push(KeyEntry { hash, offset: entry.offset.0, store_timestamp_ms });
        }
        assert!(entry.offset.0 >= self.dispatched.get(), "{entry:?} was shown already");
        self.dispatched.set(entry.limit().0);
    }
}
