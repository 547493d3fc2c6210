//! Messages that are delivered later than they are sent: by delay level, at a time, or as a retry.
//!
//! Each log holds the messages of its own queues ([`schedule::Schedule`]); nothing of it crosses cores. A held message is a
//! record of the timer topic. When it is due, it is appended once more under its own address ([`deliver`]). The log is the
//! only evidence of what waits and of what was delivered; there is no other file. See `docs/design/004-delayed.md`.

mod anew;
mod clock;
mod deliver;
mod held;
mod note;
mod recall;
mod schedule;
mod slot;
mod window;
mod wish;

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::rc::Rc;

use base::{LogId, LogOffset, Millis};
use remoting::recall_handle::RecallHandle;
use remoting::record::RecordDraft;
use storage::{AppendError, QueueRef, StorageError, Ticket};

pub(crate) use anew::Anew;
pub(crate) use held::Held;
pub(crate) use note::delivered_before;
pub(crate) use recall::{Named, Recalled};
pub(crate) use slot::DELAY_MS_MAX;
pub(crate) use wish::{Due, Wish};

use crate::core::Core;
use crate::start::BrokerError;
use crate::trouble::Trouble;
use clock::DelayClock;
use note::Note;
use schedule::Schedule;
use slot::DueKey;

/// The held messages of a core's logs.
#[derive(Default)]
pub(crate) struct Delays {
    started: OnceCell<Started>,
}

struct Started {
    clock: Rc<DelayClock>,
    schedules: Vec<Rc<Schedule>>,
}

impl Delays {
    /// The time that delays count from.
    pub(crate) fn now(&self) -> Millis {
        self.started().clock.now()
    }

    /// Holds a message whose queue belongs to a log of this core. `None` when its time has come meanwhile.
    pub(crate) fn hold(
        &self,
        log: LogId,
        message: &RecordDraft<'_>,
        held: &Held,
    ) -> Result<Option<Ticket>, AppendError> {
        let schedule = self.of(log);
        schedule.hold(message, held, |queue, draft| schedule.log.append(queue, draft, runtime::clock::now_ms()))
    }

    /// As [`Delays::hold`] by an append that appends more than the record, and gives the ticket of the record.
    pub(crate) fn hold_by(
        &self,
        log: LogId,
        message: &RecordDraft<'_>,
        held: &Held,
        append: impl FnOnce(&QueueRef, &RecordDraft<'_>) -> Result<Ticket, AppendError>,
    ) -> Result<Option<Ticket>, AppendError> {
        self.of(log).hold(message, held, append)
    }

    /// The messages in a log of this core that a handle names, while they wait.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(crate) async fn find(&self, log: LogId, handle: &RecallHandle) -> Result<Named, StorageError> {
        self.of(log).find(handle).await
    }

    /// Takes one of the messages back that were found.
    pub(crate) fn recall(
        &self,
        log: LogId,
        named: &Named,
        key: DueKey,
        host: SocketAddr,
    ) -> Result<Recalled, AppendError> {
        self.of(log).recall(named, key, host)
    }

    /// Holds anew what waits in front of an offset of a log of this core, unless it takes more than `bytes_max`.
    ///
    /// # Errors
    /// When it cannot be read, or stored anew. What was done by then counts.
    pub(crate) async fn hold_anew(
        &self,
        log: LogId,
        limit: LogOffset,
        bytes_max: u64,
        host: SocketAddr,
    ) -> Result<Anew, Trouble> {
        self.of(log).hold_anew(limit, bytes_max, host).await
    }

    fn of(&self, log: LogId) -> &Rc<Schedule> {
        let schedules = &self.started().schedules;
        let of_log = schedules.iter().find(|schedule| schedule.log.id() == log);
        of_log.unwrap_or_else(|| panic!("log {log} is not opened by this core"))
    }

    fn started(&self) -> &Started {
        self.started.get().expect("delays are started before the first request")
    }
}

/// Learns from this core's logs what waits. From then on messages can be held; deliveries begin later. The topics are
/// known, and nothing was appended yet.
///
/// # Errors
/// When a log cannot be read, or takes no record that it needs.
pub(crate) async fn start(core: &Rc<Core>) -> Result<(), BrokerError> {
    let mut found = Vec::new();
    for log in core.own_logs() {
        found.push((log.clone(), schedule::progress(log).await?));
    }
    let latest = found.iter().map(|(_, progress)| progress.from.due).max().unwrap_or_default();
    let clock = Rc::new(DelayClock::new(latest));
    let mut schedules = Vec::new();
    for (log, progress) in found {
        let schedule = Schedule::new(log, clock.clone(), progress);
        if progress.is_torn {
            // Where deliveries were cut off other records will lie: the last note must not count them any more.
            let note = Note { from: progress.from, items: Vec::new() }.encode();
            let (queue, draft) = schedule.note_record(&note, core.advertised());
            let appended = schedule.log.append(&queue, &draft, runtime::clock::now_ms());
            appended.map_err(|source| BrokerError::FirstRecord { log: schedule.log.id(), source })?;
        }
        schedules.push(schedule);
    }
    assert!(core.delays.started.set(Started { clock, schedules }).is_ok(), "delays are started once");
    Ok(())
}

/// Begins to deliver what is due.
pub(crate) fn start_background(core: &Rc<Core>) {
    for schedule in &core.delays.started().schedules {
        runtime::spawn(schedule.clone().run(core.clone()));
    }
}
