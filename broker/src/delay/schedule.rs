//! The held messages of one log: taking them in, and knowing which are due next. On the log's core.
//!
//! A message is held in the log of its own queue, so taking it in, noting its delivery and delivering it are steps in the
//! order of one log. Of the messages that wait, memory holds the keys of those due soon ([`Window`]); the others are found
//! again by their slots' queues, whose entries carry the due times.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use base::{Millis, QueueOffset};
use remoting::name::TIMER_TOPIC;
use remoting::record::RecordDraft;
use runtime::clock;
use runtime::sync::Notify;
use storage::{AppendError, Bound, Entry, Log, QueueRef, StorageError, Ticket};

use super::clock::DelayClock;
use super::held::Held;
use super::note::{Note, Progress};
use super::slot::{CLOCKS_APART_MS, DELAY_MS_MAX, DueKey, NOTES_QUEUE, SLOT_MS, Slot};
use super::window::Window;

/// Keys in memory for each log: 8 MB. With more due soon, the earliest are there and the others are looked up as these go.
const KEYS_MAX: usize = 200_000;
/// Messages due within this time from now are looked up.
const LOOK_AHEAD_MS: u64 = SLOT_MS;
/// The wall clock may be set forward while nothing is due: it is looked at so often.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// As [`SLEEP_MAX`], while nothing waits that could be late.
const SLEEP_IDLE_MAX: Duration = Duration::from_secs(60);

pub(super) struct Schedule {
    pub(super) log: Rc<Log>,
    pub(super) clock: Rc<DelayClock>,
    pub(super) window: RefCell<Window>,
    /// What was taken in or back last: when it is visible, all is.
    newest: RefCell<Option<Ticket>>,
    /// Another message is due next.
    pub(super) changed: Notify,
    /// Messages that were held anew since the start: what was found before has other keys now.
    pub(super) moves: Cell<u64>,
    /// What was taken back since messages began to be held anew, while they are.
    pub(super) recalled_meanwhile: RefCell<Option<BTreeSet<DueKey>>>,
}

impl Schedule {
    pub(super) fn new(log: Rc<Log>, clock: Rc<DelayClock>, progress: Progress) -> Rc<Schedule> {
        // Nothing waits that was due before the oldest record was stored.
        let oldest_ms = log.stats().store_ms_first.unwrap_or(clock.now().0);
        let from = progress.from.max(DueKey::first_at(Millis(oldest_ms.saturating_sub(CLOCKS_APART_MS))));
        Rc::new(Schedule {
            log,
            clock,
            window: RefCell::new(Window::new(from, KEYS_MAX)),
            newest: RefCell::default(),
            changed: Notify::new(),
            moves: Cell::new(0),
            recalled_meanwhile: RefCell::default(),
        })
    }

    /// Takes a message in by an append that gives the ticket of the record. `None` when its time has come meanwhile: then it is to be delivered at once.
    pub(super) fn hold(
        &self,
        message: &RecordDraft<'_>,
        held: &Held,
        append: impl FnOnce(&QueueRef, &RecordDraft<'_>) -> Result<Ticket, AppendError>,
    ) -> Result<Option<Ticket>, AppendError> {
        let now = self.clock.now();
        if held.due <= now {
            return Ok(None);
        }
        assert!(held.due.0 - now.0 <= DELAY_MS_MAX, "a message of {} is held until {}", now.0, held.due.0);
        let queue = self.log.queue(TIMER_TOPIC, held.queue);
        let ticket = append(&queue, &held.draft(message))?;
        let key = DueKey { due: held.due, queue_offset: ticket.queue_offset };
        // Not when it becomes visible: delivery must not pass it in between.
        if self.window.borrow_mut().add(key, ticket.physical_offset.offset()) {
            self.changed.notify();
        }
        self.took(&ticket);
        Ok(Some(ticket))
    }

    /// Looking ahead waits until this is visible.
    pub(super) fn took(&self, ticket: &Ticket) {
        self.newest.replace(Some(ticket.clone()));
    }

    /// Brings what is due soon into the window.
    pub(super) async fn look_ahead(&self) -> Result<(), StorageError> {
        loop {
            let from = {
                let mut window = self.window.borrow_mut();
                let from = window.known_until();
                if !window.has_room() || from.due.0 >= self.clock.now().0 + LOOK_AHEAD_MS {
                    return Ok(());
                }
                // What is taken in from now on enters the window by itself; what was before is looked up once visible.
                window.extend(Slot::of(from.due).limit());
                from
            };
            let looked_up = self.look_up(from).await;
            if looked_up.is_err() {
                self.window.borrow_mut().forget_from(from);
                return looked_up;
            }
        }
    }

    /// Learns what waits in one slot from a key on.
    async fn look_up(&self, from: DueKey) -> Result<(), StorageError> {
        self.until_visible().await?;
        self.look_up_held(from).await?;
        // What is taken back from now on leaves the window by itself.
        self.until_visible().await?;
        self.look_up_recalls(from).await
    }

    async fn look_up_held(&self, from: DueKey) -> Result<(), StorageError> {
        let slot = Slot::of(from.due);
        let Some(queue) = self.log.find_queue(TIMER_TOPIC, slot.queue()) else { return Ok(()) };
        let mut at = queue.offset_by_time(slot.stored_from_ms(), Bound::Lower).await?;
        loop {
            let entries = queue.entries(at).await?;
            let Some((last, _)) = entries.last() else { return Ok(()) };
            at = last.plus(1);
            self.add_from(from, &entries);
            runtime::yield_if_needed().await;
        }
    }

    fn add_from(&self, from: DueKey, entries: &[(QueueOffset, Entry)]) {
        let mut window = self.window.borrow_mut();
        for (queue_offset, entry) in entries {
            let key = DueKey { due: Millis(entry.tags_code.max(0) as u64), queue_offset: *queue_offset };
            if key >= from {
                window.add(key, entry.offset);
            }
        }
    }

    /// Waits until everything that was taken in by now can be read.
    pub(super) async fn until_visible(&self) -> Result<(), StorageError> {
        let newest = self.newest.borrow().clone();
        match newest {
            Some(ticket) => ticket.reached(self.log.visible_mark()).await,
            None => Ok(()),
        }
    }

    /// Sleeps until something may be due.
    pub(super) async fn sleep(&self) {
        let span = {
            let window = self.window.borrow();
            let now = self.clock.now();
            let until = |time: u64| Duration::from_millis(time.saturating_sub(now.0));
            let look = until(window.known_until().due.0.saturating_sub(LOOK_AHEAD_MS)).min(SLEEP_IDLE_MAX);
            match window.first_due() {
                Some(due) if window.has_room() => until(due.0).min(look).min(SLEEP_MAX),
                Some(due) => until(due.0).min(SLEEP_MAX),
                None => look,
            }
        };
        clock::within(span, self.changed.notified()).await;
    }
}

/// How far delivery had come, by what the log says. Before anything is appended to it.
pub(super) async fn progress(log: &Log) -> Result<Progress, StorageError> {
    let Some(notes) = log.find_queue(TIMER_TOPIC, NOTES_QUEUE) else { return Ok(Progress::default()) };
    let mut at = notes.max();
    while at > notes.min() {
        at = QueueOffset(at.0 - 1);
        let Some(entry) = notes.entry(at).await? else { continue };
        let record = log.record_at(entry.offset).await?;
        let note = record.as_deref().and_then(|bytes| {
            let view = remoting::record::RecordView::decode(bytes).ok()?;
            Note::decode(view.body())
        });
        if let Some(note) = note {
            return Ok(note.progress(entry.limit(), log.visible_end()));
        }
        crate::log::warn(format_args!(
            "log {}: the note {at} of delayed deliveries can't be read; those behind the note before it come again",
            log.id()
        ));
    }
    // The first delivery of what waits is still to come: a note leaves the log before what follows it.
    Ok(Progress::default())
}
