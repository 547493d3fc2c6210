//! The figures of all cores together, gathered when somebody asks.

use std::rc::Rc;
use std::time::Duration;

use base::QueueId;
use remoting::text::Text;
use runtime::clock;

use super::latency::Latency;
use super::series::{Counted, Series, Window};
use super::{Stats, TopicSeries};
use crate::core::Core;

/// Sums and rates of one core or of several. Rates are those of the last 10, 60 and 600 seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatsView {
    pub(crate) put_messages: u64,
    pub(crate) put_bytes: u64,
    pub(crate) sends_refused: u64,
    /// Messages that were gone when a reader asked for them.
    pub(crate) messages_skipped: u64,
    /// Replies that the clients which wait for them did not take.
    pub(crate) replies_not_passed_on: u64,
    pub(crate) got_messages: u64,
    /// Messages stored and taken when yesterday and today began.
    pub(crate) put_yesterday_morning: u64,
    pub(crate) put_today_morning: u64,
    pub(crate) got_yesterday_morning: u64,
    pub(crate) got_today_morning: u64,
    pub(crate) put_rates: [f64; 3],
    pub(crate) got_rates: [f64; 3],
    pub(crate) found_rates: [f64; 3],
    pub(crate) missed_rates: [f64; 3],
    pub(crate) pull_time_longest: Duration,
    pub(super) send_time: Latency,
}

impl StatsView {
    fn merge(&mut self, other: &StatsView) {
        self.put_messages += other.put_messages;
        self.put_bytes += other.put_bytes;
        self.sends_refused += other.sends_refused;
        self.messages_skipped += other.messages_skipped;
        self.replies_not_passed_on += other.replies_not_passed_on;
        self.got_messages += other.got_messages;
        self.put_yesterday_morning += other.put_yesterday_morning;
        self.put_today_morning += other.put_today_morning;
        self.got_yesterday_morning += other.got_yesterday_morning;
        self.got_today_morning += other.got_today_morning;
        for (mine, theirs) in [
            (&mut self.put_rates, &other.put_rates),
            (&mut self.got_rates, &other.got_rates),
            (&mut self.found_rates, &other.found_rates),
            (&mut self.missed_rates, &other.missed_rates),
        ] {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
        self.pull_time_longest = self.pull_time_longest.max(other.pull_time_longest);
        self.send_time.merge(&other.send_time);
    }

    pub(crate) fn put_bytes_average(&self) -> f64 {
        if self.put_messages == 0 { 0.0 } else { self.put_bytes as f64 / self.put_messages as f64 }
    }

    pub(crate) fn send_time_longest(&self) -> Duration {
        self.send_time.longest
    }

    /// The time within which this share of the sends (0 to 1) was done.
    pub(crate) fn send_percentile_ms(&self, share: f64) -> f64 {
        self.send_time.percentile_ms(share)
    }

    pub(crate) fn send_distribution(&self) -> String {
        self.send_time.distribution()
    }
}

/// One thing that is counted, by the name and key that tools ask with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    TopicPut { topic: Text, bytes: bool },
    QueuePut { topic: Text, queue: QueueId, bytes: bool },
    GroupGot { topic: Text, group: Text, bytes: bool },
    BrokerPut,
    BrokerGot,
}

impl Item {
    /// Reads a name and a key. `None` for what is not counted here.
    pub(crate) fn parse(name: &str, key: &str, cluster: &str) -> Option<Item> {
        let topic = || Text::from(key);
        let with_group = || {
            // Names hold no @, so the one there is parts topic and group.
            let (topic, group) = key.split_once('@')?;
            Some((Text::from(topic), Text::from(group)))
        };
        let with_queue = || {
            let (topic, queue) = key.rsplit_once('@')?;
            Some((Text::from(topic), QueueId(queue.parse().ok()?)))
        };
        Some(match name {
            "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE" => Item::TopicPut { topic: topic(), bytes: name.ends_with("SIZE") },
            "QUEUE_PUT_NUMS" | "QUEUE_PUT_SIZE" => {
                let (topic, queue) = with_queue()?;
                Item::QueuePut { topic, queue, bytes: name.ends_with("SIZE") }
            }
            "GROUP_GET_NUMS" | "GROUP_GET_SIZE" => {
                let (topic, group) = with_group()?;
                Item::GroupGot { topic, group, bytes: name.ends_with("SIZE") }
            }
            "BROKER_PUT_NUMS" if key == cluster => Item::BrokerPut,
            "BROKER_GET_NUMS" if key == cluster => Item::BrokerGot,
            _ => return None,
        })
    }

    fn counts_bytes(&self) -> bool {
        match self {
            Item::TopicPut { bytes, .. } | Item::QueuePut { bytes, .. } | Item::GroupGot { bytes, .. } => *bytes,
            _ => false,
        }
    }

    fn topic(&self) -> Option<&Text> {
        match self {
            Item::TopicPut { topic, .. } | Item::QueuePut { topic, .. } | Item::GroupGot { topic, .. } => Some(topic),
            Item::BrokerPut | Item::BrokerGot => None,
        }
    }

    fn series_in<'a>(&self, topic: &'a TopicSeries) -> Option<&'a Series> {
        match self {
            Item::TopicPut { .. } => Some(&topic.put),
            Item::QueuePut { queue, .. } => topic.queues.get(queue.0 as usize),
            Item::GroupGot { group, .. } => topic.groups.get(group),
            Item::BrokerPut | Item::BrokerGot => None,
        }
    }
}

/// One thing over each window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ItemView {
    windows: [Counted; 3],
    bytes: bool,
}

impl ItemView {
    /// Sum, sum a second and sum a call of a window.
    pub(crate) fn figures(&self, window: Window) -> (u64, f64, f64) {
        let counted = self.windows[window as usize];
        let sum = if self.bytes { counted.tally.bytes } else { counted.tally.messages };
        let per = |count: f64| if count > 0.0 { sum as f64 / count } else { 0.0 };
        (sum, per(counted.span.0 as f64 / 1000.0), per(counted.tally.calls as f64))
    }
}

impl Stats {
    fn view(&self) -> StatsView {
        let (put, got, days) = (self.put.borrow().now, self.got.borrow().now, self.days.get());
        let rates = self.rates.borrow();
        StatsView {
            put_messages: put.messages,
            put_bytes: put.bytes,
            sends_refused: self.sends_refused.get(),
            messages_skipped: self.messages_skipped.get(),
            replies_not_passed_on: self.replies_not_passed_on.get(),
            got_messages: got.messages,
            put_yesterday_morning: days.put_yesterday,
            put_today_morning: days.put_today,
            got_yesterday_morning: days.got_yesterday,
            got_today_morning: days.got_today,
            put_rates: rates.of(|counted| counted.put_messages),
            got_rates: rates.of(|counted| counted.got_messages),
            found_rates: rates.of(|counted| counted.found),
            missed_rates: rates.of(|counted| counted.missed),
            pull_time_longest: self.pull_time_longest.get(),
            send_time: self.send_time.borrow().clone(),
        }
    }

    /// The windows of a series, if something was ever counted in it.
    fn windows(&self, item: &Item, number: Option<u32>) -> Option<[Counted; 3]> {
        let now = clock::now_ms();
        let counted = |series: &Series| Window::ALL.map(|window| series.counted(window, now));
        match item {
            Item::BrokerPut => Some(counted(&self.put.borrow())),
            Item::BrokerGot => Some(counted(&self.got.borrow())),
            _ => {
                let mut topics = self.topics.borrow_mut();
                let number = number? as usize;
                let topic = topics.get_mut(number)?.as_mut()?;
                topic.look(&self.handles.tallies(number));
                let series = item.series_in(topic)?;
                (series.now.calls > 0).then(|| counted(series))
            }
        }
    }
}

/// The figures of all cores.
pub(crate) async fn gather(core: &Rc<Core>) -> StatsView {
    let mut all = StatsView::default();
    for view in core.on_each(|core| async move { core.stats.view() }).await {
        all.merge(&view);
    }
    all
}

/// One thing on all cores. `None` when it was never counted.
pub(crate) async fn gather_item(core: &Rc<Core>, item: Item) -> Option<ItemView> {
    let number = match item.topic() {
        Some(topic) => Some(core.topics.get(topic)?.number),
        None => None,
    };
    let bytes = item.counts_bytes();
    let views = core.on_each(move |core| {
        let item = item.clone();
        async move { core.stats.windows(&item, number) }
    });
    let mut all: Option<ItemView> = None;
    for view in views.await.into_iter().flatten() {
        let all = all.get_or_insert_with(|| ItemView { bytes, ..ItemView::default() });
        all.windows.iter_mut().zip(view).for_each(|(mine, theirs)| mine.merge(theirs));
    }
    all
}

#[cfg(test)]
mod tests {
    use base::Millis;

    use super::super::series::Tally;
    use super::*;

    #[test]
    fn names_and_keys_are_read() {
        let item = |name: &str, key: &str| Item::parse(name, key, "C");
        let (topic, group) = (Text::from("T"), Text::from("g"));
        assert_eq!(item("TOPIC_PUT_NUMS", "T"), Some(Item::TopicPut { topic: topic.clone(), bytes: false }));
        assert_eq!(item("GROUP_GET_SIZE", "T@g"), Some(Item::GroupGot { topic: topic.clone(), group, bytes: true }));
        assert_eq!(item("QUEUE_PUT_NUMS", "T@3"), Some(Item::QueuePut { topic, queue: QueueId(3), bytes: false }));
        assert_eq!(item("BROKER_PUT_NUMS", "C"), Some(Item::BrokerPut));
        for (name, key) in [
            ("BROKER_PUT_NUMS", "D"),
            ("GROUP_GET_NUMS", "T"),
            ("QUEUE_PUT_NUMS", "T@x"),
            ("GROUP_GET_LATENCY", "0@T@g"),
            ("", ""),
        ] {
            assert_eq!(item(name, key), None, "{name} {key}");
        }
    }

    #[test]
    fn figures_are_sums_and_averages_over_all_cores() {
        let counted = |messages, bytes| Counted { tally: Tally { calls: 2, messages, bytes }, span: Millis(10_000) };
        let mut window = counted(10, 1000);
        window.merge(counted(30, 3000));
        let view = ItemView { windows: [window; 3], bytes: false };
        assert_eq!(view.figures(Window::Day), (40, 4.0, 10.0));
        assert_eq!(ItemView { bytes: true, ..view }.figures(Window::Hour), (4000, 400.0, 1000.0));
        assert_eq!(ItemView::default().figures(Window::Minute), (0, 0.0, 0.0));
    }
}
