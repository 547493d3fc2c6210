//! The course of a phase: its topic, its backlog, its load and its readers, and in the end its figures.

use std::sync::Arc;
use std::time::Duration;

use base::Random;
use remoting::body::stages::StageTimes;
use remoting::text::Text;
use runtime::priority::{Ordinary, RealTime};

use super::backlog;
use super::caught_up::CaughtUp;
use super::watch::{Sheets, Watch, Watched};
use super::{Pacing, Phase, Reads, Sends};
use crate::arguments::TargetArgs;
use crate::asked::Asked;
use crate::clock::{RunClock, nanoseconds};
use crate::desk::Desk;
use crate::duties::{Duties, Member, producer_heartbeat};
use crate::error::BenchError;
use crate::hiccup::HiccupMeter;
use crate::load::{Drive, Finished, RunningLoad, START_DELAY};
use crate::never_sent::NeverSent;
use crate::order::OrderCheck;
use crate::pace::Pace;
use crate::read::{AtEnd, RETRY_DELAY_NS, ReadBounds, ReadForm, ReadTally, RunningGroup, Way};
use crate::record::{Boards, Kind, Shelf};
use crate::report::{ReadFigures, Report, SendFigures};
use crate::stages;
use crate::tally::Waits;
use crate::target::Target;
use crate::template::SendForm;
use crate::timeline::Timeline;
use crate::wire::{AWAY_PAUSE, AWAY_TIME_MAX, Link};

pub(crate) const PRODUCER_GROUP: &str = "bench_producer";
const CONSUMER_GROUP: &str = "bench_consumer";
/// After the last message was answered, the consumer has so long to get it, and its delay.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(5);
const ARRIVAL_PERIOD: Duration = Duration::from_millis(10);
/// After the last commit the target has so long to know it.
const COMMIT_TIME_MAX: Duration = Duration::from_secs(2);
/// After a stop that was asked for, what is still to come from the target is awaited for so long, all of it together. Then what is
/// unanswered counts as lost, and what the target did not tell is missing.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);
/// After a phase its own topics are deleted within so long, and so much longer for each of them, or left.
const CLEAR_TIME_MAX: Duration = Duration::from_secs(30);
const CLEAR_TIME_EACH_MAX: Duration = Duration::from_millis(50);
/// Gives the first pulls time to be parked at the broker.
const PARK_DELAY: Duration = Duration::from_millis(200);

/// What came of a phase.
pub(crate) struct Measured {
    pub(crate) report: Report,
    pub(crate) timeline: Timeline,
}

/// Carries out a phase that was checked.
///
/// # Errors
/// When it does not come about; what goes wrong within it is in its figures.
pub(crate) fn run(phase: &Phase, args: &TargetArgs, seed: u64, desk: &mut Desk) -> Result<Measured, BenchError> {
    let mut random = Random::new(seed);
    let clock = RunClock::start();
    let mut course = Course { phase, target: Target::new(args, &phase.topic), clock, form: None };
    let measured = course.prepare(&mut random, desk).and_then(|()| course.run(&mut random, args, desk));
    let left = match phase.topic.is_own() && !args.keep_topics {
        true => course.clear(desk),
        false => None,
    };
    match (measured, left) {
        (Ok(mut measured), left) => {
            measured.report.warnings.extend(left);
            Ok(measured)
        }
        (Err(error), left) => {
            left.iter().for_each(|left| runtime::console::tell(format_args!("note: {left}")));
            Err(error)
        }
    }
}

fn send_form(target: &Target, sends: &Sends, random: &mut Random) -> Result<SendForm, BenchError> {
    let bodies = sends.bodies(random)?;
    let form = target.send_form(bodies);
    Ok(SendForm { batch: sends.batch, extras: sends.extras.clone(), ..form })
}

struct Course<'a> {
    phase: &'a Phase,
    target: Target,
    clock: RunClock,
    form: Option<SendForm>,
}

/// Where the queues begin and end before the load.
struct Bounds {
    begins: Vec<i64>,
    ends: Vec<i64>,
}

/// All readers of a phase.
#[derive(Default)]
struct Readers {
    /// Each gets all that is sent, or all that is there.
    groups: Vec<RunningGroup>,
    /// These read the backlog again and again.
    cold: Vec<RunningGroup>,
}

impl Readers {
    fn message_count(&self) -> u64 {
        self.groups.iter().map(RunningGroup::message_count).sum()
    }

    fn retries_open(&self) -> u64 {
        self.groups.iter().map(RunningGroup::retries_open).sum()
    }

    fn acks_open(&self) -> u64 {
        self.groups.iter().map(RunningGroup::acks_open).sum()
    }

    fn have_ended(&self) -> bool {
        self.groups.iter().all(RunningGroup::has_ended)
    }

    fn finish(pulls: Vec<RunningGroup>) -> ReadTally {
        let mut all = ReadTally::default();
        pulls.into_iter().for_each(|pulls| all.merge(pulls.finish()));
        all
    }
}

impl Course<'_> {
    /// Makes the topics, what is to be sent, and what lies there before.
    fn prepare(&mut self, random: &mut Random, desk: &Desk) -> Result<(), BenchError> {
        let phase = self.phase;
        self.target.starts = self.make_topics(desk)?;
        self.form = phase.sends.as_ref().map(|sends| send_form(&self.target, sends, random)).transpose()?;
        if let Some(backlog) = &phase.backlog {
            let form = send_form(&self.target, &backlog.sends, random)?;
            backlog::store(&mut self.target, form, backlog.messages, self.clock, desk)?;
        }
        Ok(())
    }

    /// A target that is away, as between two phases of a run, is awaited as one that goes away within them.
    fn make_topics(&self, desk: &Desk) -> Result<Vec<i64>, BenchError> {
        let limit_ns = self.clock.now_ns() + nanoseconds(AWAY_TIME_MAX);
        loop {
            if desk.is_stopped() {
                return Err(BenchError::Stopped);
            }
            let (target, topic) = (self.target.clone(), self.phase.topic.clone());
            let asked = Asked::ask(move || target.prepare(&topic)).map_err(BenchError::Executor)?;
            match asked.answer(&|| !desk.is_stopped()).ok_or(BenchError::Stopped)? {
                Err(error) if error.is_silence() && self.clock.now_ns() < limit_ns => self.clock.sleep(AWAY_PAUSE),
                prepared => return prepared,
            }
        }
    }

    fn run(&self, random: &mut Random, args: &TargetArgs, desk: &mut Desk) -> Result<Measured, BenchError> {
        let (phase, clock) = (self.phase, self.clock);
        let drive = phase.sends.as_ref().map(|sends| sends.drive(phase.warmup + phase.duration, random));
        let delay = match (&phase.sends, &phase.reads) {
            (Some(_), Some(_)) => PARK_DELAY,
            (Some(_), None) => START_DELAY,
            (None, _) => Duration::ZERO,
        };
        // What takes a while is done before the clock of the phase starts.
        let bounds = phase.reads.map(|reads| self.bounds(&reads)).transpose()?;
        let groups = match (&phase.reads, &bounds) {
            (Some(reads), Some(bounds)) => self.groups(reads, bounds)?,
            _ => Vec::new(),
        };
        let (boards, sheets) = (Boards::new(), Sheets::new());
        let links = match &phase.sends {
            Some(sends) => Link::open_all(self.target.broker, sends.connections)?,
            None => Vec::new(),
        };
        let start_ns = clock.now_ns() + nanoseconds(delay);
        let span_from_ns = start_ns + nanoseconds(phase.warmup);
        let shelf = boards.shelf(span_from_ns..span_from_ns + nanoseconds(phase.duration));
        // As if the clients of an open loop had a machine of their own.
        let _first = (self.rate() > 0 && !args.no_real_time).then(RealTime::begin);
        let (readers, wanted) = self.start_readers(bounds.as_ref(), &groups, &shelf)?;
        let producers = phase.has_duties.then(|| self.start_duties(&links)).transpose()?;
        let hiccups = HiccupMeter::start(&shelf, clock)?;
        let load = self.start_load(&drive, links, start_ns, &shelf)?;
        // All threads of the load are there. What this one does once a second is not to hold up a broker beside it.
        let _watching = Ordinary::begin();
        let mut watch = Watch::new(clock, shelf.clone(), &self.target, sheets, desk);
        let mut caught_up = CaughtUp::new(phase, self.rate());
        let (watched, looks) = match &load {
            Some(load) => watch.span(
                || load.load.answered(),
                || {
                    caught_up.look(clock, load.load.answered(), readers.message_count());
                    load.has_ended()
                },
            ),
            None => watch.span(|| readers.message_count(), || readers.have_ended()),
        };
        if let Some(load) = load.as_ref().filter(|_| watch.is_stopped()) {
            load.stop_sending();
        }
        hiccups.finish();
        watch.interval();
        let stop_limit_ns = clock.now_ns() + nanoseconds(STOP_TIME_MAX);
        let may_wait = || !watch.is_stopped() || clock.now_ns() < stop_limit_ns;
        let ended = self.end(Running { load, readers, producers, wanted }, &may_wait);
        if let Some(never_sent) = ended.finished.as_ref().and_then(|finished| finished.tally.never_sent.as_ref()) {
            self.add_waits(never_sent, &shelf);
        }
        let (stages, stages_warning) = stages::between(looks, watched.end_ns - span_from_ns, &may_wait);
        watch.remainder();
        let stopped = watch.is_stopped();
        if stopped && watched.end_ns == span_from_ns {
            return Err(BenchError::Stopped);
        }
        let timeline = watch.timeline;
        let came = Came { ended, watched, span_from_ns, start_ns, caught_up, stopped, stages };
        let mut report = self.report(&came, &drive, args, &timeline)?;
        report.warnings.extend(stages_warning);
        Ok(Measured { report, timeline })
    }

    /// Ends whoever sends and whoever reads.
    fn end(&self, running: Running, may_wait: &dyn Fn() -> bool) -> Ended {
        let Running { load, mut readers, producers, wanted } = running;
        let finished = load.map(|load| load.finish(may_wait));
        let wanted = match (&finished, wanted) {
            (Some(finished), Some(before)) => Some(self.await_arrivals(&readers, before, finished, may_wait)),
            (_, wanted) => wanted.map(Wanted::Counted),
        };
        if let Some(producers) = producers {
            producers.finish();
        }
        let commits_missing = self.commits_missing(&mut readers, may_wait);
        let (pulled, cold) = (Readers::finish(readers.groups), Readers::finish(readers.cold));
        Ended { finished, pulled, cold, wanted, commits_missing }
    }

    /// Puts what was never sent among the times that count from when a message was due, at consumers as well.
    fn add_waits(&self, never_sent: &NeverSent, shelf: &Shelf) {
        let commit_share = self.form.as_ref().and_then(|form| form.extras.commit_share);
        let add = |kind, later_ns, each: f64| {
            let waits = never_sent.beyond(later_ns);
            shelf.add(kind, waits.map(|(least_ns, requests)| (least_ns, (requests as f64 * each).round() as u64)));
        };
        add(Kind::Send, 0, 1.0);
        if commit_share.is_some() {
            add(Kind::Transaction, 0, 1.0);
        }
        if let Some(reads) = self.phase.reads {
            let kind = if self.delay_ms() > 0 { Kind::Late } else { Kind::EndToEnd };
            let each = (self.batch() * u64::from(reads.groups)) as f64 * commit_share.unwrap_or(1.0);
            add(kind, self.delay_ms() * 1_000_000, each);
        }
    }

    /// Starts to send, shortly before the first message is due.
    fn start_load(
        &self,
        drive: &Option<Drive>,
        links: Vec<Arc<Link>>,
        start_ns: u64,
        shelf: &Arc<Shelf>,
    ) -> Result<Option<RunningLoad>, BenchError> {
        let (Some(drive), Some(form), Some(sends)) = (drive, &self.form, &self.phase.sends) else { return Ok(None) };
        self.clock.sleep_until(start_ns.saturating_sub(nanoseconds(START_DELAY)));
        let mut target = self.target.clone();
        if sends.extras.delay_ms.is_some() || sends.extras.commit_share.is_some() {
            // They are answered with an offset among those that wait for their time, or for their end.
            target.starts.clear();
        }
        RunningLoad::start(&target, form, links, drive, start_ns, shelf, self.clock).map(Some)
    }

    fn rate(&self) -> u64 {
        match self.phase.sends.as_ref().map(|sends| &sends.pacing) {
            Some(Pacing::Rate { rate, .. }) => u64::from(*rate),
            _ => 0,
        }
    }

    fn bounds(&self, reads: &Reads) -> Result<Bounds, BenchError> {
        let is_known = !self.target.starts.is_empty();
        let ends = if is_known { self.target.starts.clone() } else { self.target.ends()? };
        let begins = if self.catches_up(reads) || reads.cold_groups > 0 { self.target.begins()? } else { ends.clone() };
        Ok(Bounds { begins, ends })
    }

    /// With a backlog a consumer of the tail has it to catch up with, unless others read it.
    fn catches_up(&self, reads: &Reads) -> bool {
        self.phase.sends.is_none() || self.phase.backlog.is_some() && reads.cold_groups == 0
    }

    /// What the groups ask for that get everything. Those that do as official clients do, or pop, are made known to the
    /// target.
    fn groups(&self, reads: &Reads, bounds: &Bounds) -> Result<Vec<ReadForm>, BenchError> {
        let end = if self.phase.sends.is_some() { AtEnd::Waits } else { AtEnd::Ends };
        let broker_name = if reads.way == Way::Pop { self.target.broker_name()? } else { Text::default() };
        let form = |index| {
            let form = self.read_form(reads, self.group(index), end);
            ReadForm { way: reads.way, broker_name: broker_name.clone(), ..form }
        };
        let forms: Vec<ReadForm> = (0..reads.groups).map(form).collect();
        let is_known = |form: &&ReadForm| form.has_duties || form.way == Way::Pop;
        let starts = self.starts(reads, bounds);
        forms.iter().filter(is_known).try_for_each(|form| self.target.announce(form, starts))?;
        Ok(forms)
    }

    /// Where the groups begin that get everything.
    fn starts<'b>(&self, reads: &Reads, bounds: &'b Bounds) -> &'b [i64] {
        if self.catches_up(reads) { &bounds.begins } else { &bounds.ends }
    }

    /// Starts whoever reads, and tells how many messages there were to get by then; none when there are no readers.
    fn start_readers(
        &self,
        bounds: Option<&Bounds>,
        groups: &[ReadForm],
        shelf: &Arc<Shelf>,
    ) -> Result<(Readers, Option<u64>), BenchError> {
        let mut readers = Readers::default();
        let (Some(reads), Some(bounds)) = (self.phase.reads, bounds) else {
            return Ok((readers, None));
        };
        let (tail, Bounds { begins, ends }) = (self.phase.sends.is_some(), bounds);
        let starts = self.starts(&reads, bounds);
        let there: i64 = ends.iter().zip(starts).map(|(end, start)| end - start).sum();
        if !tail && there == 0 {
            let (topic, queues) = (&self.target.lanes.topics[0], self.target.lanes.queues);
            return Err(super::usage(&format!(
                "the topic {topic} is not there, or has no messages to read in its first {queues} queue(s)"
            )));
        }
        let limits = (!tail).then_some(ends.as_slice());
        // Who reads as fast as it can would leave its broker no time.
        let ordinary = self.catches_up(&reads).then(Ordinary::begin);
        for form in groups {
            readers.groups.push(self.start_pulls(form, ReadBounds { starts, limits }, shelf)?);
        }
        let _ordinary = ordinary.or_else(|| (reads.cold_groups > 0).then(Ordinary::begin));
        for index in 0..reads.cold_groups {
            let group = format!("{CONSUMER_GROUP}_cold_{index}");
            let form =
                ReadForm { has_duties: false, retry_share: None, ..self.read_form(&reads, group, AtEnd::Repeats) };
            let bounds = ReadBounds { starts: begins, limits: Some(ends) };
            readers.cold.push(self.start_pulls(&form, bounds, shelf)?);
        }
        Ok((readers, Some(there as u64 * u64::from(reads.groups))))
    }

    fn start_pulls(
        &self,
        form: &ReadForm,
        bounds: ReadBounds<'_>,
        shelf: &Arc<Shelf>,
    ) -> Result<RunningGroup, BenchError> {
        let connections = self.phase.reads.map_or(1, |reads| reads.connections);
        RunningGroup::start(&self.target, form, connections, bounds, shelf, self.clock)
    }

    /// One whose offsets are committed is this run's own: it has none before.
    fn group(&self, index: u16) -> String {
        match self.commits() {
            true => format!("{CONSUMER_GROUP}_{:x}_{index}", self.target.run),
            false => format!("{CONSUMER_GROUP}_{index}"),
        }
    }

    /// Of readers that pull.
    fn read_form(&self, reads: &Reads, group: String, end: AtEnd) -> ReadForm {
        let lanes = self.target.lanes.clone();
        let (order, commit_share) = match (&self.form, &self.phase.sends) {
            (Some(form), Some(sends)) => {
                let check = |order| OrderCheck::new(order, lanes.count() as u64, form.batch.into());
                (form.order(sends.connections.into()).map(check), form.extras.commit_share)
            }
            _ => (None, None),
        };
        ReadForm {
            way: Way::Pull,
            encoding: self.target.encoding,
            group: Text::from(group),
            broker_name: Text::default(),
            invisible: reads.invisible,
            lanes,
            count_max: reads.pull_messages,
            end,
            delay_ns: self.delay_ms() * 1_000_000,
            order,
            commit_share,
            has_duties: self.phase.has_duties,
            retry_share: reads.retry_share,
        }
    }

    /// Heartbeats of the connections that send.
    fn start_duties(&self, links: &[Arc<Link>]) -> Result<Duties, BenchError> {
        let group = Text::from_static(PRODUCER_GROUP);
        let member = |(index, link): (usize, &Arc<Link>)| {
            let heartbeat = producer_heartbeat(format!("bench_{:x}@{index}", self.target.run), &group);
            Member { link: link.clone(), heartbeat, commits: Vec::new() }
        };
        Duties::start(links.iter().enumerate().map(member).collect(), self.clock)
    }

    /// How many queues of all groups the target has another offset of than was committed last, where any are committed.
    fn commits_missing(&self, readers: &mut Readers, may_wait: &dyn Fn() -> bool) -> Option<u64> {
        if !self.commits() {
            return None;
        }
        let limit_ns = self.clock.now_ns() + nanoseconds(COMMIT_TIME_MAX);
        let mut missing = 0;
        for pulls in &mut readers.groups {
            let Some(wanted) = pulls.commit() else { continue };
            missing += loop {
                let (target, group) = (self.target.clone(), pulls.group.clone());
                let found = Asked::found(move || target.committed(&group), may_wait).unwrap_or_default();
                let differing = (0..wanted.len()).filter(|lane| found.get(*lane) != Some(&wanted[*lane])).count();
                if differing == 0 || self.clock.now_ns() >= limit_ns || !may_wait() {
                    break differing as u64;
                }
                self.clock.sleep(ARRIVAL_PERIOD);
            };
        }
        Some(missing)
    }

    /// Whether the target has offsets of the groups: they commit them, or what they acknowledge is.
    fn commits(&self) -> bool {
        self.phase.has_duties || self.phase.reads.is_some_and(|reads| reads.way == Way::Pop)
    }

    /// Deletes the topics that the phase made for itself, and its groups: with thousands of queues they are gigabytes of some
    /// brokers' disk. Tells of what may be left.
    fn clear(&self, desk: &Desk) -> Option<String> {
        let topics = self.target.lanes.topics.len() as u32;
        let time_max = if desk.is_stopped() { STOP_TIME_MAX } else { CLEAR_TIME_MAX + CLEAR_TIME_EACH_MAX * topics };
        let limit_ns = self.clock.now_ns() + nanoseconds(time_max);
        let groups = match (&self.phase.reads, self.commits()) {
            (Some(reads), true) => (0..reads.groups).map(|index| self.group(index)).collect(),
            _ => Vec::new(),
        };
        let target = self.target.clone();
        let cleared = Asked::found(move || target.clear(&groups), &|| self.clock.now_ns() < limit_ns);
        let topic = &self.target.lanes.topics[0];
        cleared.is_none().then(|| {
            format!(
                "topics and groups of this phase may be left at the target, named {topic} and after it: delete them"
            )
        })
    }

    fn delay_ms(&self) -> u64 {
        self.phase.sends.as_ref().and_then(|sends| sends.extras.delay_ms).unwrap_or(0)
    }

    /// Waits until all groups got everything. `before` is what there was before the load; returns all there is.
    fn await_arrivals(
        &self,
        readers: &Readers,
        before: u64,
        finished: &Finished,
        may_wait: &dyn Fn() -> bool,
    ) -> Wanted {
        let groups = readers.groups.len() as u64;
        let retry_ns = if readers.retries_open() > 0 { RETRY_DELAY_NS } else { 0 };
        let later_ns = (self.delay_ms() * 1_000_000).max(retry_ns);
        let again = readers.groups.iter().map(RunningGroup::comes_again_after).max().unwrap_or_default();
        let limit_ns = self.clock.now_ns() + nanoseconds(ARRIVAL_TIME_MAX + again) + later_ns;
        let tally = &finished.tally;
        let acknowledged = match self.form.as_ref().and_then(|form| form.extras.commit_share) {
            Some(_) => tally.committed,
            None => tally.answered - tally.errors.total() * self.batch(),
        };
        loop {
            // A target that is away cannot tell what it has; what it acknowledged is there to get.
            let target = self.target.clone();
            let wanted = match Asked::found(move || target.ends(), may_wait) {
                Some(ends) => {
                    let sent: i64 = ends.iter().zip(&self.target.starts).map(|(end, start)| end - start).sum();
                    Wanted::Counted(before + sent as u64 * groups)
                }
                None => Wanted::Acknowledged(before + acknowledged * groups),
            };
            // Delayed messages come to their queues one by one, so what is wanted may still grow.
            let may_grow = self.delay_ms() > 0 && self.clock.now_ns() + 1_000_000_000 < limit_ns;
            let is_there = readers.message_count() >= wanted.messages()
                && readers.retries_open() == 0
                && readers.acks_open() == 0
                && !may_grow;
            if is_there || readers.have_ended() || self.clock.now_ns() >= limit_ns || !may_wait() {
                return wanted;
            }
            self.clock.sleep(ARRIVAL_PERIOD);
        }
    }

    fn batch(&self) -> u64 {
        self.phase.sends.as_ref().map_or(1, |sends| sends.batch.into())
    }

    fn report(
        &self,
        came: &Came,
        drive: &Option<Drive>,
        args: &TargetArgs,
        timeline: &Timeline,
    ) -> Result<Report, BenchError> {
        let phase = self.phase;
        let (answered, lost) = match &came.ended.finished {
            Some(finished) => (finished.tally.answered, finished.tally.connections_lost),
            None => (came.ended.pulled.messages, came.ended.pulled.connections_lost),
        };
        if answered == 0 && lost > 0 {
            return Err(BenchError::ConnectionsLost { broker: self.target.broker.to_string() });
        }
        let mut report = Report::new(args, phase, &self.target);
        let pulls = came.ended.wanted.map(|wanted| ReadFigures {
            way: phase.reads.map_or(Way::Pull, |reads| reads.way),
            tally: &came.ended.pulled,
            wanted: wanted.messages(),
            total: &timeline.total,
            commits_missing: came.ended.commits_missing,
        });
        match (&came.ended.finished, &phase.sends) {
            (Some(finished), Some(sends)) => {
                if let Some(pulls) = &pulls {
                    report.tail(pulls);
                }
                if let Some(seconds) = came.caught_up.seconds(came.span_from_ns) {
                    report.figure("caught_up_s", seconds);
                }
                let measured_ns = came.span_from_ns..came.watched.end_ns;
                let due = match drive {
                    Some(Drive::Rate { arrivals, tick_ns }) => {
                        let pace = Pace { start_ns: came.start_ns, tick_ns: *tick_ns, arrivals: arrivals.clone() };
                        Some(pace.count_in(&measured_ns) * u64::from(sends.batch))
                    }
                    _ => None,
                };
                report.send(&SendFigures {
                    tally: &finished.tally,
                    measured_ns,
                    due,
                    ended_early: finished.ended_early,
                    total: &timeline.total,
                    is_transactional: sends.extras.commit_share.is_some(),
                    body_bytes_mean: self.form.as_ref().map_or(0.0, SendForm::body_bytes_mean),
                });
            }
            _ => {
                if let Some(pulls) = &pulls {
                    report.catch_up(pulls, came.start_ns);
                }
            }
        }
        if phase.reads.is_some_and(|reads| reads.cold_groups > 0) {
            report.cold(&came.ended.cold, came.watched.end_ns.saturating_sub(came.start_ns));
        }
        report.usage(&came.watched, &timeline.total);
        where_time_went(came, timeline, &mut report);
        self.ends_early(came, &mut report);
        Ok(report)
    }

    /// Tells of a phase that is not all that was asked for.
    fn ends_early(&self, came: &Came, report: &mut Report) {
        let (measured_ns, asked) = (came.watched.end_ns - came.span_from_ns, self.phase.duration);
        if came.stopped {
            let measured_s = measured_ns as f64 / 1e9;
            report.faults.push(format!("stopped after {measured_s:.1} of {} s", asked.as_secs_f64()));
        } else if measured_ns == 0 {
            report.faults.push("the target went away for good in the warm-up: nothing is measured".to_owned());
        }
        if let Some(Wanted::Acknowledged(_)) = came.ended.wanted {
            let fault = "the target is away at the end: what is missing is counted from its acknowledgements";
            report.faults.push(fault.to_owned());
        }
    }
}

/// Tells the stages that the target counted, and the sends that were slow.
fn where_time_went(came: &Came, timeline: &Timeline, report: &mut Report) {
    let tally = came.ended.finished.as_ref().map(|finished| &finished.tally);
    if let Some(tally) = tally {
        report.slow(&tally.slow, came.stages.as_ref(), came.watched.from_ms);
    }
    let waits = tally.map_or(Waits::default(), |tally| tally.waits);
    report.stages = came.stages.as_ref().map(|times| stages::figures(times, &timeline.total, waits));
}

/// Whoever sends and reads in a phase.
struct Running {
    load: Option<RunningLoad>,
    readers: Readers,
    producers: Option<Duties>,
    /// Messages that there were to get before the load.
    wanted: Option<u64>,
}

/// What came of them.
struct Ended {
    finished: Option<Finished>,
    pulled: ReadTally,
    cold: ReadTally,
    wanted: Option<Wanted>,
    commits_missing: Option<u64>,
}

/// What came of a phase, before it is told.
struct Came {
    ended: Ended,
    watched: Watched,
    span_from_ns: u64,
    start_ns: u64,
    caught_up: CaughtUp,
    stopped: bool,
    /// What the target counted in its stages meanwhile, if it tells.
    stages: Option<StageTimes>,
}

/// Messages that there were to get, and how that is known.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// By the target's own count.
    Counted(u64),
    /// The target could not be asked.
    Acknowledged(u64),
}

impl Wanted {
    fn messages(self) -> u64 {
        match self {
            Wanted::Counted(messages) | Wanted::Acknowledged(messages) => messages,
        }
    }
}

#[cfg(test)]
mod tests;
