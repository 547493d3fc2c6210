//! What one core has counted: messages stored and taken, by topic, queue and group, over time.
//!
//! Counting costs a few additions on a cell that is found by the topic's number, that of a queue beside what else a send touches
//! ([`Handles`]); only the first message of a topic, a queue or a group makes one. A view of all cores is gathered when somebody asks.

mod latency;
mod rate;
mod series;
mod view;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use base::{Millis, QueueId, QueueOffset};
use remoting::text::Text;
use runtime::clock;

use crate::core::Core;
use crate::handles::Handles;
use crate::topic::Topic;
use latency::Latency;
use rate::{Rated, Rates};
use series::Series;
pub(crate) use series::Tally;
pub(crate) use series::Window;
pub(crate) use view::{Item, StatsView, gather, gather_item};

/// Topics whose series are sampled before other tasks have their turn.
const SAMPLED_AT_ONCE: usize = 64;
const TICK: Duration = Duration::from_secs(1);
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// What happened to a topic.
struct TopicSeries {
    /// What was stored in the whole topic and in each queue over time, as it was when it was looked at last.
    put: Series,
    queues: Vec<Series>,
    /// What each group was given.
    groups: HashMap<Text, Series>,
}

/// Sums since the process began, and as they were when the days began. Days are those of UTC.
#[derive(Clone, Copy, Debug, Default)]
struct Days {
    day: u64,
    put_yesterday: u64,
    put_today: u64,
    got_yesterday: u64,
    got_today: u64,
}

/// Figures of one core.
pub(crate) struct Stats {
    started: Millis,
    /// What was stored in each queue.
    handles: Rc<Handles>,
    /// By the topics' numbers.
    topics: RefCell<Vec<Option<Box<TopicSeries>>>>,
    put: RefCell<Series>,
    got: RefCell<Series>,
    pulls_missed: Cell<u64>,
    sends_refused: Cell<u64>,
    messages_skipped: Cell<u64>,
    replies_not_passed_on: Cell<u64>,
    send_time: RefCell<Latency>,
    pull_time_longest: Cell<Duration>,
    rates: RefCell<Rates>,
    days: Cell<Days>,
}

impl Stats {
    pub(crate) fn new(handles: Rc<Handles>) -> Stats {
        let now = clock::now_ms();
        Stats {
            started: now,
            handles,
            topics: RefCell::default(),
            put: RefCell::new(Series::new(now)),
            got: RefCell::new(Series::new(now)),
            pulls_missed: Cell::new(0),
            sends_refused: Cell::new(0),
            messages_skipped: Cell::new(0),
            replies_not_passed_on: Cell::new(0),
            send_time: RefCell::default(),
            pull_time_longest: Cell::default(),
            rates: RefCell::default(),
            days: Cell::new(Days { day: now.0 / DAY_MS, ..Days::default() }),
        }
    }

    /// When this core began to count, which is when the broker started.
    pub(crate) fn started(&self) -> Millis {
        self.started
    }

    /// Messages were stored in a queue by one request.
    pub(crate) fn sent(&self, topic: &Topic, queue: QueueId, messages: u64, bytes: u64) {
        self.put.borrow_mut().now.add(messages, bytes);
        if self.handles.stored(topic, queue, messages, bytes) {
            self.with_topic(topic, |series| {
                let (now, count) = (clock::now_ms(), series.queues.len().max(queue.0 as usize + 1));
                series.queues.resize_with(count, || Series::new(now));
            });
        }
    }

    /// How long a send took, from its check to its answer.
    pub(crate) fn send_took(&self, took: Duration) {
        self.send_time.borrow_mut().record(took);
    }

    pub(crate) fn send_refused(&self) {
        self.sends_refused.set(self.sends_refused.get() + 1);
    }

    /// A reader asked for messages that are gone, and goes on behind them.
    pub(crate) fn skipped(&self, from: QueueOffset, to: QueueOffset) {
        self.messages_skipped.set(self.messages_skipped.get() + to.0.saturating_sub(from.0));
    }

    pub(crate) fn reply_not_passed_on(&self) {
        self.replies_not_passed_on.set(self.replies_not_passed_on.get() + 1);
    }

    /// A group was given messages of a topic by one request.
    pub(crate) fn pulled(&self, group: &str, topic: &Topic, messages: u64, bytes: u64) {
        self.got.borrow_mut().now.add(messages, bytes);
        self.with_topic(topic, |series| match series.groups.get_mut(group) {
            Some(series) => series.now.add(messages, bytes),
            None => {
                let made = series.groups.entry(Text::from(group)).or_insert_with(|| Series::new(clock::now_ms()));
                made.now.add(messages, bytes);
            }
        });
    }

    /// A pull found nothing.
    pub(crate) fn pull_missed(&self) {
        self.pulls_missed.set(self.pulls_missed.get() + 1);
    }

    /// How long the reading of a pull took.
    pub(crate) fn pull_took(&self, took: Duration) {
        self.pull_time_longest.set(self.pull_time_longest.get().max(took));
    }

    /// The topic of this number is deleted.
    pub(crate) fn forget_topic(&self, number: u32) {
        self.handles.forget_topic(number);
        if let Some(series) = self.topics.borrow_mut().get_mut(number as usize) {
            *series = None;
        }
    }

    /// The group is deleted.
    pub(crate) fn forget_group(&self, group: &str) {
        for series in self.topics.borrow_mut().iter_mut().flatten() {
            series.groups.remove(group);
        }
    }

    fn with_topic(&self, topic: &Topic, count: impl FnOnce(&mut TopicSeries)) {
        let mut topics = self.topics.borrow_mut();
        let at = topic.number as usize;
        if topics.len() <= at {
            topics.resize_with(at + 1, || None);
        }
        count(topics[at].get_or_insert_with(|| {
            Box::new(TopicSeries { put: Series::new(clock::now_ms()), queues: Vec::new(), groups: HashMap::new() })
        }));
    }

    fn rated(&self) -> Rated {
        let got = self.got.borrow().now;
        Rated {
            put_messages: self.put.borrow().now.messages,
            got_messages: got.messages,
            found: got.calls,
            missed: self.pulls_missed.get(),
        }
    }

    fn sample_second(&self, now: Millis) {
        self.rates.borrow_mut().sample(now, self.rated());
        let days = self.days.get();
        let day = now.0 / DAY_MS;
        if day != days.day {
            self.days.set(Days {
                day,
                put_yesterday: days.put_today,
                put_today: self.put.borrow().now.messages,
                got_yesterday: days.got_today,
                got_today: self.got.borrow().now.messages,
            });
        }
    }

    async fn sample_window(&self, window: Window, now: Millis) {
        self.put.borrow_mut().sample(window, now);
        self.got.borrow_mut().sample(window, now);
        let mut start = 0;
        while let Some(limit) = self.sample_topics(start, window, now) {
            start = limit;
            runtime::yield_if_needed().await;
        }
    }

    /// Samples some topics from the number `start` on. Gives where it ended, or `None` when there are no more.
    fn sample_topics(&self, start: usize, window: Window, now: Millis) -> Option<usize> {
        let mut topics = self.topics.borrow_mut();
        let limit = topics.len().min(start + SAMPLED_AT_ONCE);
        for (number, series) in (start..).zip(topics.get_mut(start..limit)?) {
            if let Some(series) = series {
                series.look(&self.handles.tallies(number));
                series.sample(window, now);
            }
        }
        (start < limit).then_some(limit)
    }
}

impl TopicSeries {
    /// Brings the series up to what was stored by now.
    fn look(&mut self, stored: &[Tally]) {
        self.put.now = Tally::default();
        for (stored, series) in stored.iter().zip(&mut self.queues) {
            series.now = *stored;
            self.put.now += *stored;
        }
    }

    fn sample(&mut self, window: Window, now: Millis) {
        self.put.sample(window, now);
        self.queues.iter_mut().for_each(|series| series.sample(window, now));
        self.groups.values_mut().for_each(|series| series.sample(window, now));
    }
}

/// Starts to sample the figures of this core, for as long as it runs.
pub(crate) fn start(core: &Rc<Core>) {
    let core = core.clone();
    runtime::spawn_background(async move {
        let mut seconds = 0_u64;
        while !crate::core::is_stopping() {
            clock::sleep(TICK).await;
            seconds += 1;
            core.stats.sample_second(clock::now_ms());
            for window in Window::ALL {
                if seconds.is_multiple_of(window.sample_seconds()) {
                    core.stats.sample_window(window, clock::now_ms()).await;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use remoting::body::topic::TopicConfig;

    use super::*;

    fn topic(number: u32) -> Topic {
        Topic::new(number, TopicConfig { topic_name: Text::from("T"), ..TopicConfig::default() }, false)
    }

    #[test]
    fn messages_are_counted_where_they_belong() {
        let stats = Stats::new(Rc::default());
        let (one, other) = (topic(3), topic(0));
        stats.sent(&one, QueueId(2), 5, 500);
        stats.sent(&one, QueueId(0), 1, 100);
        stats.sent(&other, QueueId(0), 1, 10);
        stats.pulled("g", &one, 4, 400);
        stats.pull_missed();
        stats.send_refused();
        assert_eq!(stats.rated(), Rated { put_messages: 7, got_messages: 4, found: 1, missed: 1 });
        let mut topics = stats.topics.borrow_mut();
        let series = topics[3].as_mut().unwrap();
        series.look(&stats.handles.tallies(3));
        assert_eq!(series.put.now, Tally { calls: 2, messages: 6, bytes: 600 });
        assert_eq!(series.queues.iter().map(|queue| queue.now.messages).collect::<Vec<_>>(), [1, 0, 5]);
        assert_eq!(series.groups["g"].now.messages, 4);
        drop(topics);
        stats.forget_group("g");
        stats.forget_topic(0);
        stats.forget_topic(77);
        let topics = stats.topics.borrow();
        assert!(topics[0].is_none() && topics[3].as_ref().unwrap().groups.is_empty());
    }

    #[test]
    fn days_turn() {
        let stats = Stats::new(Rc::default());
        let day = stats.days.get().day;
        stats.sent(&topic(0), QueueId(0), 5, 500);
        stats.sample_second(Millis((day + 1) * DAY_MS));
        stats.sent(&topic(0), QueueId(0), 2, 200);
        assert_eq!((stats.days.get().put_today, stats.days.get().put_yesterday), (5, 0));
        stats.sample_second(Millis((day + 2) * DAY_MS));
        assert_eq!((stats.days.get().put_today, stats.days.get().put_yesterday), (7, 5));
    }
}
