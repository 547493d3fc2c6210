//! The messages that lie in a topic before a phase begins: they are stored as fast as that goes, and not measured.

use std::time::Duration;

use crate::clock::{RunClock, nanoseconds};
use crate::desk::Desk;
use crate::error::BenchError;
use crate::load::{Drive, Finished, RunningLoad};
use crate::record::Shelf;
use crate::target::Target;
use crate::template::SendForm;
use crate::wire::Link;

/// How a backlog is made: connections, and requests in flight on each.
const CONNECTIONS: u16 = 8;
const WINDOW: usize = 64;
/// A backlog that is not there by then is given up.
const TIME_MAX: Duration = Duration::from_secs(600);
const PERIOD: Duration = Duration::from_millis(5);

/// Stores so many messages, and moves the target's starts behind them.
pub(super) fn store(
    target: &mut Target,
    mut form: SendForm,
    messages: u64,
    clock: RunClock,
    desk: &Desk,
) -> Result<(), BenchError> {
    (form.extras.delay_ms, form.extras.commit_share) = (None, None);
    let requests_max = messages.div_ceil(form.batch.into());
    let drive = Drive::Window { requests: WINDOW, requests_max };
    let shelf = Shelf::new(0..0);
    let links = Link::open_all(target.broker, CONNECTIONS)?;
    let load = RunningLoad::start(target, &form, links, &drive, clock.now_ns(), &shelf, clock)?;
    let limit_ns = clock.now_ns() + nanoseconds(TIME_MAX);
    while !load.has_ended() && !desk.is_stopped() && clock.now_ns() < limit_ns {
        clock.sleep(PERIOD);
    }
    let Finished { tally, ended_early } = load.finish(&|| !desk.is_stopped());
    if desk.is_stopped() {
        return Err(BenchError::Stopped);
    }
    if !ended_early || tally.errors.total() > 0 || tally.lost > 0 {
        let first = tally.errors.iter().next().map(|(code, _, remark)| format!("; first: code {code}: {remark}"));
        let (stored, first) = (tally.answered - tally.errors.total(), first.unwrap_or_default());
        return Err(BenchError::Backlog { stored, wanted: messages, first });
    }
    if !target.starts.is_empty() {
        target.starts = target.ends()?;
    }
    Ok(())
}
