//! Carries records over: messages under their own offsets first, then what waits, as a broker of ours keeps it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use base::{LogId, Millis, QueueId, QueueOffset};
use broker::takeover::{self, Reason, Waiting};
use remoting::body::topic::TopicConfig;
use remoting::name::{self, HALF_TOPIC, OP_HALF_TOPIC, REVIVE_TOPIC_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC};
use remoting::properties::{
    self, CRC32, FIRST_POP_TIME, INNER_BASE, ORIGIN_GROUP, PROPERTIES_BYTES_MAX, REAL_TOPIC, TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
};
use remoting::record::{BatchItems, RecordDraft, RecordView, sys_flag};
use remoting::text::Text;
use storage::LogBuilder;

use crate::commit_log::Scanner;
use crate::consume_queue::Unit;
use crate::delays::{Delays, address};
use crate::error::ImportError;
use crate::halves::Halves;
use crate::popped::Popped;
use crate::report::{Difference, LeftOut, Report};
use crate::source::Source;
use crate::timers::Timers;

/// The store host of records that nobody sent.
const NO_HOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Whether the broker keeps records of its own in a topic: they mean nothing elsewhere.
pub(crate) fn is_own(topic: &str) -> bool {
    [SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC].contains(&topic) || topic.starts_with(name::SYSTEM_TOPIC_PREFIX)
}

pub(crate) struct Transfer<'a> {
    pub(crate) source: &'a mut Source,
    pub(crate) topics: &'a mut BTreeMap<Text, TopicConfig>,
    pub(crate) logs: Vec<LogBuilder>,
    pub(crate) delays: Delays,
    pub(crate) timers: Timers,
    pub(crate) halves: Halves,
    pub(crate) popped: Popped,
    pub(crate) report: Report,
    pub(crate) now: Millis,
    /// Records of the broker's own that were met.
    pub(crate) own_records: u64,
    /// Records of topics that there are and that no consume queue knows anything of, by topic and queue.
    pub(crate) without_queue: BTreeMap<(String, u32), u64>,
}

impl Transfer<'_> {
    /// A record of the source, in the order of its log.
    pub(crate) fn take(&mut self, view: &RecordView<'_>, at: u64) -> Result<(), ImportError> {
        if !is_own(view.topic()) {
            return self.take_message(view, at);
        }
        let queues = &mut self.source.queues;
        match view.topic() {
            SCHEDULE_TOPIC => self.delays.meet(queues, view, at),
            TIMER_TOPIC => self.timers.meet(queues, view, at)?,
            HALF_TOPIC => self.halves.meet(view, at),
            OP_HALF_TOPIC => self.halves.meet_end(view),
            topic if topic.starts_with(REVIVE_TOPIC_PREFIX) => self.popped.meet(view),
            _ => {}
        }
        self.own_records += 1;
        Ok(())
    }

    fn take_message(&mut self, view: &RecordView<'_>, at: u64) -> Result<(), ImportError> {
        match view.transaction_kind() {
            sys_flag::TRANSACTION_NONE => {}
            sys_flag::TRANSACTION_COMMIT => self.halves.meet_committed(view),
            _ => {
                self.report.leave_out(LeftOut::NoQueue);
                return Ok(());
            }
        }
        self.delays.look_at(view);
        self.timers.look_at(view);
        if !self.topics.contains_key(view.topic()) {
            self.report.leave_out(LeftOut::NoTopic);
            return Ok(());
        }
        if view.sys_flag() & sys_flag::INNER_BATCH != 0 {
            return self.take_batch(view);
        }
        if !self.belongs(view, at)? {
            self.leave_out(view)?;
            return Ok(());
        }
        let properties = own_properties(view.properties());
        let draft = RecordDraft { properties: &properties, ..RecordDraft::of(view) };
        self.put(&draft, view.queue_offset(), view.store_timestamp_ms())
    }

    /// A record that its queue does not know is of a topic that was deleted, unless all that the topic's queues know is gone.
    fn leave_out(&mut self, view: &RecordView<'_>) -> Result<(), ImportError> {
        if self.source.queues.oldest(view.topic())?.is_none() {
            *self.without_queue.entry((view.topic().to_owned(), view.queue_id().0)).or_default() += 1;
        } else {
            self.report.leave_out(LeftOut::NotInQueue);
        }
        Ok(())
    }

    /// Whether a record is the one that its queue means by its offset.
    fn belongs(&mut self, view: &RecordView<'_>, at: u64) -> Result<bool, ImportError> {
        let offset = view.queue_offset().0;
        if let Some(queue) = self.source.queues.get(view.topic(), view.queue_id().0)
            && offset < queue.limit()
        {
            let is_it = queue.unit(offset)?.is_some_and(|unit| unit.offset == at);
            queue.taken += u64::from(is_it);
            return Ok(is_it);
        }
        // The queues may lack what was stored last.
        let stored_ms = view.store_timestamp_ms().max(0) as u64;
        let is_late = self.source.uncertain_from_ms.is_some_and(|from| stored_ms >= from);
        let next = self.log_of(view.topic(), view.queue_id()).next(view.topic(), view.queue_id());
        // Or they have lost it: what lies behind a record that a queue of the topic knows is not of a life before.
        let is_of_this_life = self.source.queues.oldest(view.topic())?.is_some_and(|oldest| oldest < at);
        let is_known = at < self.source.known && !is_late;
        let belongs = (!is_known || is_of_this_life) && next.is_none_or(|next| next <= view.queue_offset());
        self.report.unknown += u64::from(belongs && is_known);
        Ok(belongs)
    }

    /// Messages that were stored as one record: as clients take it apart.
    fn take_batch(&mut self, view: &RecordView<'_>) -> Result<(), ImportError> {
        let base =
            view.property(INNER_BASE).and_then(|base| base.parse().ok()).map_or(view.queue_offset(), QueueOffset);
        let items: Result<Vec<_>, _> = BatchItems::new(view.body()).collect();
        let next = self.log_of(view.topic(), view.queue_id()).next(view.topic(), view.queue_id());
        match items {
            Ok(items) if view.sys_flag() & sys_flag::COMPRESSED == 0 && next.is_none_or(|next| next <= base) => {
                for (number, item) in items.iter().enumerate() {
                    let draft = RecordDraft {
                        flag: item.flag,
                        sys_flag: view.sys_flag() & !(sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP),
                        body: item.body,
                        properties: item.properties,
                        ..RecordDraft::of(view)
                    };
                    self.put(&draft, base.plus(number as u64), view.store_timestamp_ms())?;
                }
            }
            _ => self.report.leave_out(LeftOut::Batch),
        }
        Ok(())
    }

    fn put(&mut self, draft: &RecordDraft<'_>, offset: QueueOffset, stored_ms: i64) -> Result<(), ImportError> {
        self.count_queue(draft.topic, draft.queue_id);
        self.log_of(draft.topic, draft.queue_id).append(draft, offset, stored_ms.max(0) as u64)?;
        self.report.records += 1;
        Ok(())
    }

    /// Everything that waits, once all records of the source were met.
    pub(crate) fn take_what_waits(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ImportError> {
        self.take_delayed(scanner)?;
        self.take_timed(scanner)?;
        self.take_popped(scanner)?;
        self.take_halves(scanner)?;
        for log in 0..self.logs.len() {
            let (queue_id, body) = takeover::nothing_waits_before(self.now);
            let draft = RecordDraft::own(TIMER_TOPIC, queue_id, &body, NO_HOST, self.now);
            self.put_own(log, &draft)?;
        }
        let Report { delayed, timed, halves, .. } = self.report;
        let done = self.own_records.saturating_sub(delayed + timed + halves);
        if done > 0 {
            self.report.left_out.insert(LeftOut::Done, done);
        }
        Ok(())
    }

    fn take_delayed(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ImportError> {
        for (queue, limit) in self.queues_of(SCHEDULE_TOPIC) {
            for offset in self.delays.first(queue)..limit {
                if let Some(unit) = self.unit(SCHEDULE_TOPIC, queue, offset)? {
                    self.take_one_delayed(scanner, unit.offset, Some(unit.tags_code.max(0) as u64))?;
                }
            }
        }
        self.delays.take_behind().into_iter().try_for_each(|at| self.take_one_delayed(scanner, at, None))
    }

    fn take_one_delayed(&mut self, scanner: &mut Scanner<'_>, at: u64, due_ms: Option<u64>) -> Result<(), ImportError> {
        let Some(view) = scanner.record_at(at)? else { return Ok(()) };
        if !self.delays.was_delivered(&view) {
            let due_ms = due_ms.unwrap_or_else(|| Delays::due_by_level(&view));
            self.report.delayed += u64::from(self.hold(&view, Reason::Level, due_ms)?);
        }
        Ok(())
    }

    fn take_timed(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ImportError> {
        self.timers.take_places().into_iter().try_for_each(|at| self.take_one_timed(scanner, at))
    }

    fn take_one_timed(&mut self, scanner: &mut Scanner<'_>, at: u64) -> Result<(), ImportError> {
        let Some(view) = scanner.record_at(at)? else { return Ok(()) };
        let Some(due_ms) = self.timers.due_if_waiting(&view) else { return Ok(()) };
        if view.property(REAL_TOPIC).is_some_and(|topic| topic.starts_with(REVIVE_TOPIC_PREFIX)) {
            self.popped.note(&view);
        } else {
            self.report.timed += u64::from(self.hold(&view, Reason::Time, due_ms)?);
        }
        Ok(())
    }

    /// The queues of a topic, each with its end.
    fn queues_of(&self, topic: &str) -> Vec<(u32, u64)> {
        let queues = self.source.queues.topics.get(topic).into_iter().flatten();
        queues.map(|(id, queue)| (*id, queue.limit())).collect()
    }

    fn unit(&mut self, topic: &str, queue: u32, offset: u64) -> Result<Option<Unit>, ImportError> {
        self.source.queues.get(topic, queue).map_or(Ok(None), |queue| queue.unit(offset))
    }

    /// Lets a message wait; false when its topic is gone.
    fn hold(&mut self, view: &RecordView<'_>, reason: Reason, due_ms: u64) -> Result<bool, ImportError> {
        let Some((topic, queue_id)) = address(view).filter(|(topic, _)| self.topics.contains_key(*topic)) else {
            self.report.leave_out(LeftOut::NoTopic);
            return Ok(false);
        };
        let properties = own_properties(view.properties());
        let message = RecordDraft { topic, queue_id, properties: &properties, ..RecordDraft::of(view) };
        self.wait(&message, reason, due_ms)
    }

    fn wait(&mut self, message: &RecordDraft<'_>, reason: Reason, due_ms: u64) -> Result<bool, ImportError> {
        match Waiting::new(message, reason, Millis(due_ms), self.now) {
            Ok(waiting) => {
                let log = self.number_of_log(message.topic, message.queue_id);
                self.put_own(log, &waiting.draft(message))?;
                Ok(true)
            }
            Err(why) => {
                self.report.notes.push(format!("a message for {} that waits is left out: {why}", message.topic));
                Ok(false)
            }
        }
    }

    fn take_popped(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ImportError> {
        for message in self.popped.unacknowledged() {
            let Some(unit) = self.unit(&message.topic, message.queue.0, message.offset)? else { continue };
            let Some(view) = scanner.record_at(unit.offset)? else { continue };
            let topic = match name::is_retry_topic(&message.topic) {
                true => message.topic.clone(),
                false => name::pop_retry_topic(&message.group, &message.topic),
            };
            let mut properties =
                properties::with(&own_properties(view.properties()), ORIGIN_GROUP, message.group.as_str());
            if properties::get(&properties, FIRST_POP_TIME).is_none() {
                properties = properties::with(&properties, FIRST_POP_TIME, message.pop_ms as i64);
            }
            self.ensure_topic(&topic);
            let draft = RecordDraft {
                topic: &topic,
                queue_id: QueueId(0),
                reconsume_times: view.reconsume_times().saturating_add(1),
                properties: if properties.len() <= PROPERTIES_BYTES_MAX { &properties } else { view.properties() },
                ..RecordDraft::of(&view)
            };
            if self.wait(&draft, Reason::Time, message.due_ms)? {
                self.report.popped += 1;
            }
        }
        Ok(())
    }

    fn ensure_topic(&mut self, topic: &str) {
        self.topics.entry(Text::from(topic)).or_insert_with(|| TopicConfig {
            topic_name: Text::from(topic),
            read_queue_nums: 1,
            write_queue_nums: 1,
            ..TopicConfig::default()
        });
    }

    fn take_halves(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ImportError> {
        for at in self.halves.pending() {
            let Some(view) = scanner.record_at(at)? else { continue };
            let Some((topic, queue)) = address(&view).filter(|(topic, _)| self.topics.contains_key(*topic)) else {
                self.report.leave_out(LeftOut::NoTopic);
                continue;
            };
            let log = self.number_of_log(topic, queue);
            let left = [TRANSACTION_CHECK_TIMES, TRANSACTION_PREPARED_QUEUE_OFFSET, CRC32];
            let draft = RecordDraft {
                topic: HALF_TOPIC,
                queue_id: takeover::own_queue(self.report.logs, HALF_TOPIC, LogId(log as u16)),
                sys_flag: view.sys_flag() & !sys_flag::TRANSACTION_MASK,
                properties: &properties::without(view.properties(), &left),
                ..RecordDraft::of(&view)
            };
            self.put_own(log, &draft)?;
            self.report.halves += 1;
        }
        Ok(())
    }

    /// Appends a record of the broker's own at the end of its queue.
    fn put_own(&mut self, log: usize, draft: &RecordDraft<'_>) -> Result<(), ImportError> {
        let log = &mut self.logs[log];
        let offset = log.next(draft.topic, draft.queue_id).unwrap_or(QueueOffset::ZERO);
        log.append(draft, offset, self.now.0)?;
        Ok(())
    }

    /// Lets each queue go on where it was, and compares their messages with those that the source's queues know.
    pub(crate) fn settle_queues(&mut self, log_end: u64) -> Result<(), ImportError> {
        let min = self.source.log.min();
        let mut topics = std::mem::take(&mut self.source.queues.topics);
        for (topic, queues) in topics.iter_mut().filter(|(topic, _)| !is_own(topic)) {
            if !self.topics.contains_key(topic.as_str()) {
                continue;
            }
            for (id, queue) in queues {
                queue.cut(log_end)?;
                self.count_queue(topic, QueueId(*id));
                self.log_of(topic, QueueId(*id)).raise_next(topic, QueueId(*id), QueueOffset(queue.limit()));
                let expected = queue.limit() - queue.first_from(min)?;
                if expected != queue.taken {
                    let (topic, queue, taken) = (topic.clone(), *id, queue.taken);
                    self.report.differences.push(Difference { topic, queue, expected, taken });
                }
            }
        }
        self.source.queues.topics = topics;
        Ok(())
    }

    /// In front of what makes a queue known.
    fn count_queue(&mut self, topic: &str, queue: QueueId) {
        let is_new = self.log_of(topic, queue).next(topic, queue).is_none();
        self.report.queues += u64::from(is_new);
    }

    fn number_of_log(&self, topic: &str, queue: QueueId) -> usize {
        usize::from(takeover::log_of(self.report.logs, topic, queue).0)
    }

    fn log_of(&mut self, topic: &str, queue: QueueId) -> &mut LogBuilder {
        let log = self.number_of_log(topic, queue);
        &mut self.logs[log]
    }
}

/// The properties without a checksum of the other broker's, which covers the record's place.
fn own_properties(text: &str) -> Cow<'_, str> {
    if text.contains(CRC32) { Cow::Owned(properties::without(text, &[CRC32])) } else { Cow::Borrowed(text) }
}
