//! Retention: old segments leave the logs of this core, by their age and by the filling of the disk.
//!
//! A core looks at the disk, and in rounds it lets the oldest segments of its logs go, one at a time with a pause after
//! each ([`policy`] says which). Before one goes, what the broker itself still needs of it is stored anew, or the segment is
//! held back ([`needed`]). When the disk fills all the same, sends are refused until it has room again ([`filling`]).
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

pub(crate) use self::filling::messages_folder;
pub(crate) use self::policy::used_percent;

use self::filling::{Filling, Refusing};
use self::needed::Held;
use self::policy::Wanted;
use crate::call::Refusal;
use crate::config::Retention as Settings;
use crate::core::Core;
use crate::placement::TABLES_CORE;

/// The disk is looked at so often …
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// … and so often when it is this close to a limit: a fast sender must not outrun it, and sends are to resume soon.
const LOOK_CLOSE_EVERY: Duration = Duration::from_secs(1);
const CLOSE_PERCENT: u8 = 5;
/// Rounds that an operator's request asks for.
const ASKED_ROUNDS: u32 = 20;

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
    /// Whether the disk has room for sends.
    ///
    /// # Errors
    /// When it has not.
    pub(crate) fn admits(&self) -> Result<(), Refusal> {
        self.refusing.check()
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

/// Starts the rounds of a core. Cleaning writes small files, so it may use the store's ballast.
pub(crate) fn start_background(core: &Rc<Core>, ballast: Ballast) {
    let core = core.clone();
    runtime::spawn_background(async move {
        let mut last_round = clock::instant();
        while !core.draining.get() {
            let config = core.config();
            let settings = &config.retention;
            let Some(filling) = look(&core).await else {
                clock::sleep(LOOK_EVERY).await;
                continue;
            };
            let is_asked = core.retention.asked_rounds.get() > 0;
            let wanted = wanted(settings, &filling, is_asked);
            if core.id == TABLES_CORE && !core.retention.refusing.is_on() {
                keep(&ballast).await;
            }
            // A disk that fills is not kept waiting.
            if is_asked || wanted == Wanted::Any || last_round.elapsed() >= Duration::from_millis(settings.interval.0) {
                last_round = clock::instant();
                core.retention.asked_rounds.set(core.retention.asked_rounds.get().saturating_sub(1));
                if let Err(error) = round(&core, wanted, is_asked).await {
                    cannot_clean(&ballast, &error).await;
                }
            }
            clock::within(pause(settings, &filling), core.retention.wanted_now.notified()).await;
        }
    });
}

fn wanted(settings: &Settings, filling: &Filling, is_asked: bool) -> Wanted {
    Wanted::of(settings, filling.used_percent, clock::local_hour(clock::now_ms()), is_asked)
}

fn pause(settings: &Settings, filling: &Filling) -> Duration {
    let limit = settings.used_percent_refusing.min(settings.used_percent_forcing);
    let span = if filling.used_percent + CLOSE_PERCENT >= limit { LOOK_CLOSE_EVERY } else { LOOK_EVERY };
    span.min(Duration::from_millis(settings.interval.0))
}

/// Looks at the disk, and lets sends be refused or taken again.
async fn look(core: &Rc<Core>) -> Option<Filling> {
    let config = core.config();
    let filling = Filling::now(&config).await?;
    let says = if core.retention.refusing.refuses(&config.retention, &filling) {
        let held_back = held_back(core).await;
        Some(filling.says(config.retention.used_percent_refusing, &held_back))
    } else {
        None
    };
    if core.retention.refusing.set(says) {
        match core.retention.refusing.check() {
            Err(refusal) => crate::log::warn(format_args!("core {}: {}", core.id, refusal.remark)),
            Ok(()) => crate::log::note(format_args!("core {}: the disk has room again, sends are taken", core.id)),
        }
    }
    Some(filling)
}

async fn keep(ballast: &Ballast) {
    let ballast = ballast.clone();
    if let Err(error) = runtime::blocking(move || ballast.keep_if_room()).await {
        crate::log::warn(format_args!("no space is kept for a full disk: {error}"));
    }
}

/// Gives the ballast back if it was for lack of space; the next round tries again.
async fn cannot_clean(ballast: &Ballast, error: &StorageError) {
    crate::log::warn(format_args!("an old segment cannot go yet, it is tried again: {error}"));
    if error.is_full() {
        let ballast = ballast.clone();
        if let Err(error) = runtime::blocking(move || ballast.give_back_if_full()).await {
            crate::log::warn(format_args!("the space kept for a full disk cannot be given back: {error}"));
        }
    }
}

/// Lets segments go, the oldest of all logs first, as long as there is a reason.
async fn round(core: &Rc<Core>, wanted: Wanted, is_asked: bool) -> Result<(), StorageError> {
    let (mut wanted, mut dropped) = (wanted, 0);
    let mut passed_over = Vec::new();
    while wanted != Wanted::None && dropped < core.config().retention.segments_max && !core.draining.get() {
        let Some((log, segment)) = oldest(core, &passed_over).await? else { break };
        let config = core.config();
        if !wanted.takes(segment.written, &config.retention, clock::now_ms()) {
            break;
        }
        if let Some(held) = let_go(core, &log, segment, wanted).await? {
            hold_back(core, &log, held);
            passed_over.push(log.id());
            continue;
        }
        dropped += 1;
        clock::sleep(Duration::from_millis(config.retention.pause.0)).await;
        // The next one goes only if there is still a reason.
        let Some(filling) = look(core).await else { break };
        wanted = self::wanted(&config.retention, &filling, is_asked);
    }
    Ok(())
}

/// The segment that was written to the longest time ago, of the first ones of all logs.
async fn oldest(core: &Rc<Core>, passed_over: &[LogId]) -> Result<Option<(Rc<Log>, OldSegment)>, StorageError> {
    let mut oldest: Option<(Rc<Log>, OldSegment)> = None;
    for log in core.own_logs().filter(|log| !passed_over.contains(&log.id())) {
        if let Some(segment) = log.oldest_segment().await?
            && oldest.as_ref().is_none_or(|(_, other)| segment.written < other.written)
        {
            oldest = Some((log.clone(), segment));
        }
    }
    Ok(oldest)
}

/// Lets the oldest segment of a log go. Gives why it was held back, if it was.
async fn let_go(
    core: &Rc<Core>,
    log: &Rc<Log>,
    segment: OldSegment,
    wanted: Wanted,
) -> Result<Option<Held>, StorageError> {
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
