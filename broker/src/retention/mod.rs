//! Retention: old segments leave the logs of this core, by their age and by the filling of the disk.
//!
//! A core looks at the disks of its logs, and in rounds it lets their oldest segments go, one at a time with a pause after
//! each ([`policy`] says which). Before one goes, what the broker itself still needs of it is stored anew, or the segment is
//! held back ([`needed`]). When a disk fills all the same, sends to its logs are refused until it has room again
//! ([`filling`]).
//! [docs/design/008-retention.md](../../../docs/design/008-retention.md) has the reasons.

mod filling;
mod needed;
mod policy;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::LogId;
use runtime::ballast::Ballast;
use runtime::clock;
use runtime::sync::Notify;
use storage::{FreedSpace, Log, OldSegment, StorageError};

pub(crate) use self::filling::messages_folders;
pub(crate) use self::policy::used_percent;

use self::filling::{Filling, Refusing};
use self::needed::Held;
use self::policy::Wanted;
use crate::call::Refusal;
use crate::config::Retention as Settings;
use crate::core::Core;
use crate::log::Repeated;
use crate::placement::TABLES_CORE;

/// The disk is looked at so often …
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// … and so often when it is this close to a limit: a fast sender must not outrun it, and sends are to resume soon.
const LOOK_CLOSE_EVERY: Duration = Duration::from_secs(1);
const CLOSE_PERCENT: u8 = 5;
/// Rounds that an operator's request asks for.
const ASKED_ROUNDS: u32 = 20;

/// Of each log of a core, how full its disks are.
type Fillings = BTreeMap<LogId, Filling>;

/// Retention of one core's logs.
#[derive(Default)]
pub(crate) struct Retention {
    refusing: Refusing,
    /// Rounds that an operator asked for and that are not done.
    asked_rounds: Cell<u32>,
    wanted_now: Notify,
    /// Why the oldest segment of a log was held back the last time.
    held_back: RefCell<BTreeMap<LogId, Held>>,
}

impl Retention {
    /// Whether the disk of a log of this core has room for sends.
    ///
    /// # Errors
    /// When it has not.
    pub(crate) fn admits(&self, log: LogId) -> Result<(), Refusal> {
        self.refusing.check(log)
    }

    /// Whether the disk of any of these logs has room for sends.
    ///
    /// # Errors
    /// When none has.
    pub(crate) fn admits_any(&self, logs: impl Iterator<Item = LogId>) -> Result<(), Refusal> {
        if !self.refusing.is_on() {
            return Ok(());
        }
        logs.map(|log| self.admits(log)).reduce(|best, next| best.or(next)).unwrap_or(Ok(()))
    }

    /// An operator wants expired segments to go now.
    pub(crate) fn ask(&self) {
        self.asked_rounds.set(ASKED_ROUNDS);
        self.wanted_now.notify();
    }

    /// This core's logs whose oldest segment should go and is still needed, and by what.
    pub(crate) fn held_back(&self) -> BTreeMap<LogId, String> {
        self.held_back.borrow().iter().map(|(log, held)| (*log, held.to_string())).collect()
    }
}

/// What holds the oldest segments of all logs of all cores back, in one sentence; empty when nothing does.
async fn held_back(core: &Rc<Core>) -> String {
    let of_cores = core.on_each(|core| async move { core.retention.held_back() }).await;
    held_back_text(&of_cores.into_iter().flatten().collect())
}

/// A sentence for people from what [`Retention::held_back`] gives.
pub(crate) fn held_back_text(held_back: &BTreeMap<LogId, String>) -> String {
    let logs: Vec<String> =
        held_back.iter().map(|(log, held)| format!("the oldest segment of log {log} stays, as {held}")).collect();
    logs.join("; ")
}

/// Starts the rounds of a core, of which one keeps the store's ballast.
pub(crate) fn start_background(core: &Rc<Core>, ballast: Ballast) {
    let core = core.clone();
    runtime::spawn_background(async move {
        let mut last_round = clock::instant();
        let (keeping, cleaning) = (Repeated::default(), Repeated::default());
        while !core.draining.get() {
            let config = core.config();
            let settings = &config.retention;
            let fillings = look(&core).await;
            let is_asked = core.retention.asked_rounds.get() > 0;
            let is_filling = fillings.values().any(|filling| wanted(settings, filling, is_asked) == Wanted::Any);
            if core.id == TABLES_CORE && !core.retention.refusing.is_on() {
                keep(&ballast, &keeping).await;
            }
            // A disk that fills is not kept waiting.
            if is_asked || is_filling || last_round.elapsed() >= Duration::from_millis(settings.interval.0) {
                last_round = clock::instant();
                core.retention.asked_rounds.set(core.retention.asked_rounds.get().saturating_sub(1));
                match round(&core, fillings.clone(), is_asked).await {
                    Ok(()) => cleaning.over(format_args!("old segments can go again")),
                    Err(error) => {
                        cleaning.warn(format_args!("an old segment cannot go yet, it is tried again: {error}"));
                    }
                }
            }
            clock::within(pause(settings, &fillings), core.retention.wanted_now.notified()).await;
        }
    });
}

fn wanted(settings: &Settings, filling: &Filling, is_asked: bool) -> Wanted {
    Wanted::of(settings, filling.used_percent, clock::local_hour(clock::now_ms()), is_asked)
}

fn pause(settings: &Settings, fillings: &Fillings) -> Duration {
    let limit = settings.used_percent_refusing.min(settings.used_percent_forcing);
    let is_close = fillings.values().any(|filling| filling.used_percent + CLOSE_PERCENT >= limit);
    let span = if is_close { LOOK_CLOSE_EVERY } else { LOOK_EVERY };
    span.min(Duration::from_millis(settings.interval.0))
}

/// Looks at the disks of the logs, and lets sends be refused or taken again.
async fn look(core: &Rc<Core>) -> Fillings {
    let fillings = Filling::of_logs(core).await;
    let config = core.config();
    let may_refuse = |filling: &Filling| policy::refuses(&config.retention, filling.used_percent, true);
    let held_back = if fillings.values().any(may_refuse) { held_back(core).await } else { String::new() };
    for (log, filling) in &fillings {
        if core.retention.refusing.update(&config.retention, *log, filling, &held_back) {
            match core.retention.admits(*log) {
                Err(refusal) => crate::log::warn(format_args!("log {log}: {}", refusal.remark)),
                Ok(()) => crate::log::note(format_args!("log {log}: the disk has room again, sends are taken")),
            }
        }
    }
    fillings
}

async fn keep(ballast: &Ballast, keeping: &Repeated) {
    let ballast = ballast.clone();
    match runtime::blocking(move || ballast.keep_if_room()).await {
        Ok(()) => keeping.over(format_args!("space is kept for a full disk again")),
        Err(error) => keeping.warn(format_args!("no space is kept for a full disk: {error}")),
    }
}

/// Lets segments go, the oldest of all logs first, as long as there is a reason.
async fn round(core: &Rc<Core>, fillings: Fillings, is_asked: bool) -> Result<(), StorageError> {
    let (mut fillings, mut dropped) = (fillings, 0);
    let mut passed_over = Vec::new();
    while dropped < core.config().retention.segments_max && !core.draining.get() {
        fillings.retain(|log, _| !passed_over.contains(log));
        let Some(oldest) = oldest(core, &fillings, is_asked).await? else { break };
        if let Some(held) = let_go(core, &oldest).await? {
            hold_back(core, &oldest.log, held);
            passed_over.push(oldest.log.id());
            continue;
        }
        dropped += 1;
        clock::sleep(Duration::from_millis(core.config().retention.pause.0)).await;
        // The next one goes only if there is still a reason.
        fillings = look(core).await;
    }
    Ok(())
}

/// A segment that is to go.
struct Oldest {
    log: Rc<Log>,
    segment: OldSegment,
    wanted: Wanted,
}

/// Of the first segments of all logs whose disks want one to go, the one that was written to the longest time ago.
async fn oldest(core: &Rc<Core>, fillings: &Fillings, is_asked: bool) -> Result<Option<Oldest>, StorageError> {
    let config = core.config();
    let mut oldest: Option<Oldest> = None;
    for log in core.own_logs() {
        let Some(filling) = fillings.get(&log.id()) else { continue };
        let wanted = wanted(&config.retention, filling, is_asked);
        if wanted != Wanted::None
            && let Some(segment) = log.oldest_segment().await?
            && wanted.takes(segment.written, &config.retention, clock::now_ms())
            && oldest.as_ref().is_none_or(|other| segment.written < other.segment.written)
        {
            oldest = Some(Oldest { log: log.clone(), segment, wanted });
        }
    }
    Ok(oldest)
}

/// Lets a segment go. Gives why it was held back, if it was.
async fn let_go(core: &Rc<Core>, oldest: &Oldest) -> Result<Option<Held>, StorageError> {
    let Oldest { log, segment, wanted } = oldest;
    let (segment, wanted) = (*segment, *wanted);
    if let Some(held) = needed::store_anew(core, log, segment, wanted == Wanted::Any).await? {
        return Ok(Some(held));
    }
    let space = if wanted == Wanted::Any { FreedSpace::GivenBack } else { FreedSpace::Kept };
    let dropped = log.drop_segments_before(segment.limit, space).await?;
    if dropped.segments == 0 {
        return Ok(Some(Held::NotDerived));
    }
    core.retention.held_back.borrow_mut().remove(&log.id());
    let why = if wanted == Wanted::Any { "the disk fills" } else { "it was kept for fileReservedTime" };
    crate::log::note(format_args!("log {}: the segment in front of offset {} is gone: {why}", log.id(), segment.limit));
    Ok(None)
}

/// Tells once why a segment stays that should go.
fn hold_back(core: &Rc<Core>, log: &Rc<Log>, held: Held) {
    let before = core.retention.held_back.borrow_mut().insert(log.id(), held);
    let is_known = before.is_some_and(|before| std::mem::discriminant(&before) == std::mem::discriminant(&held));
    if !is_known {
        crate::log::warn(format_args!("log {}: its oldest segment stays although it should go: {held}", log.id()));
    }
}
