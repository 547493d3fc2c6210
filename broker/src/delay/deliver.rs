//! Delivering held messages of one log when they are due: each once, in the order of their times.
//!
//! Messages that are due together go in groups. A group is read, and then appended in one step, its note in front. So the
//! log alone says what was delivered, however it ends. Copies for light queues are stored before that step, since they may
//! belong to other logs: a crash in between lets them be stored again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{LogOffset, Millis};
use remoting::name::TIMER_TOPIC;
use remoting::record::{RecordDraft, RecordView, record_bytes};
use runtime::clock;
use storage::{AppendError, QueueRef, StorageError};

use super::held::Restored;
use super::note::{Note, NoteItem};
use super::schedule::Schedule;
use super::slot::{DueKey, NOTES_QUEUE};
use crate::call::Refusal;
use crate::core::Core;
use crate::light::{self, Dispatch, Missed};
use crate::log::Repeated;
use crate::topic::Topic;
use crate::trouble::Trouble;

/// Messages of one group.
const GROUP_MESSAGES_MAX: usize = 128;
/// Bytes of the records of one group; a larger record goes alone. With its note a group fits into the smallest segment.
const GROUP_BYTES_MAX: u64 = 256 << 10;
/// Of what may wait for its write in the log, a group takes at most this part: it finds room beside what others send.
const GROUP_PART_MAX: u64 = 4;
/// What could not be read or appended is tried again after this time.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A held message as it was read; without bytes it could not be.
struct Source {
    key: DueKey,
    record: Option<Vec<u8>>,
}

impl Source {
    fn tells_light_queues(&self, core: &Core) -> bool {
        let record = self.record.as_deref().and_then(|bytes| RecordView::decode(bytes).ok());
        record.is_some_and(|record| light::is_told_by(core, record.properties()))
    }
}

/// The due messages that go into light queues, by their keys.
type InLightQueues = BTreeMap<DueKey, Dispatch>;

/// A message on its way out.
struct Delivery<'a> {
    record: RecordView<'a>,
    restored: Restored<'a>,
    topic: Rc<Topic>,
}

impl Schedule {
    /// Delivers for as long as the log takes records.
    pub(super) async fn run(self: Rc<Self>, core: Rc<Core>) {
        let delivering = Repeated::default();
        // What is tried again is not stored in them again.
        let mut light = InLightQueues::new();
        loop {
            match self.deliver_due(&core, &mut light).await {
                Ok(()) => {
                    delivering.over(format_args!("log {}: delayed messages are delivered again", self.log.id()));
                    self.sleep().await;
                }
                Err(Trouble::Append(AppendError::Stopped | AppendError::Failed(_))) => return,
                Err(_) if self.log.failure().is_some() => return,
                Err(Trouble::Refused(_)) if core.draining.get() => return,
                Err(Trouble::Append(AppendError::Busy { .. })) => self.log.room().await,
                Err(trouble) => {
                    delivering.warn(format_args!(
                        "log {}: delayed messages that are due wait: {trouble}; tried again each second",
                        self.log.id()
                    ));
                    clock::sleep(TRY_AGAIN).await;
                }
            }
        }
    }

    /// # Errors
    /// When a delivery did not happen. Nothing of its group has changed then.
    async fn deliver_due(&self, core: &Rc<Core>, light: &mut InLightQueues) -> Result<(), Trouble> {
        loop {
            self.look_ahead().await?;
            let due = self.window.borrow().due(self.clock.now(), GROUP_MESSAGES_MAX);
            if due.is_empty() {
                return Ok(());
            }
            let group = self.read(&due).await?;
            self.put_into_light_queues(core, &group, light).await?;
            self.append(core, &group, light)?;
            runtime::yield_now().await;
        }
    }

    /// Reads the first of the messages that are due, as many as make a group.
    async fn read(&self, due: &[(DueKey, LogOffset)]) -> Result<Vec<Source>, StorageError> {
        let mut group = Vec::with_capacity(due.len());
        let bytes_max = GROUP_BYTES_MAX.min(self.log.unwritten_bytes_max() / GROUP_PART_MAX);
        let mut group_bytes = 0;
        for (key, at) in due {
            if *at >= self.log.visible_end() {
                self.until_visible().await?;
            }
            let record = self.log.record_at(*at).await?;
            group_bytes += record.as_ref().map_or(0, Vec::len) as u64;
            if !group.is_empty() && group_bytes > bytes_max {
                break;
            }
            group.push(Source { key: *key, record });
        }
        Ok(group)
    }

    /// Stores the messages of a group in the light queues that they name.
    async fn put_into_light_queues(
        &self,
        core: &Rc<Core>,
        group: &[Source],
        light: &mut InLightQueues,
    ) -> Result<(), Trouble> {
        // What was delivered or recalled since is no more in them.
        light.retain(|key, _| self.window.borrow().contains(*key));
        let is_on = core.config().light_queues.dispatch;
        for source in group.iter().filter(|_| is_on) {
            let waits = self.window.borrow().contains(source.key) && !light.contains_key(&source.key);
            if !waits || !source.tells_light_queues(core) {
                continue;
            }
            let Some(delivery) = self.delivery(core, source, self.clock.now()) else { continue };
            match Dispatch::of(core, &delivery.draft()) {
                Ok(Some(dispatch)) => drop(light.insert(source.key, dispatch)),
                Ok(None) => {}
                Err(refusal) => self.tell_left_out(&delivery, &refusal),
            }
        }
        loop {
            let mut wanted: Vec<&mut Dispatch> = light.values_mut().collect();
            match light::store(core, &mut wanted, true).await {
                Ok(()) => return Ok(()),
                Err(Missed::Log(refusal)) => return Err(Trouble::Refused(refusal)),
                Err(Missed::Queue(queue, refusal)) => {
                    crate::log::warn(format_args!(
                        "log {}: delayed messages that are due don't go into light queue {queue}: {}",
                        self.log.id(),
                        refusal.remark
                    ));
                    wanted.into_iter().for_each(|dispatch| dispatch.give_up(&queue));
                }
            }
        }
    }

    /// The message was refused if it were sent now; it was taken before.
    fn tell_left_out(&self, delivery: &Delivery<'_>, refusal: &Refusal) {
        crate::log::warn(format_args!(
            "log {}: a delayed message of topic {} goes into none of the light queues that it names: {}",
            self.log.id(),
            delivery.topic.name(),
            refusal.remark
        ));
    }

    /// Delivers a group in one step: accepted, and from then on nothing of it waits.
    fn append(&self, core: &Rc<Core>, group: &[Source], light: &InLightQueues) -> Result<(), AppendError> {
        let waiting: Vec<&Source> = group.iter().filter(|source| self.window.borrow().contains(source.key)).collect();
        let (Some(first), Some(last)) = (waiting.first(), waiting.last()) else { return Ok(()) };
        let now = self.clock.now();
        let deliveries: Vec<Option<Delivery<'_>>> = waiting
            .iter()
            .map(|source| self.delivery(core, source, now).map(|delivery| delivery.told(light.get(&source.key))))
            .collect();
        let drafts: Vec<Option<RecordDraft<'_>>> =
            deliveries.iter().map(|delivery| delivery.as_ref().map(Delivery::draft)).collect();
        let bytes = |draft: &Option<RecordDraft<'_>>| draft.as_ref().map_or(0, |draft| record_bytes(draft) as u32);
        let items = waiting.iter().zip(&drafts);
        let items = items.map(|(source, draft)| NoteItem { key: source.key, record_bytes: bytes(draft) }).collect();
        let note = Note { from: first.key, items }.encode();
        let mut records = vec![self.note_record(&note, core.advertised())];
        for draft in drafts.into_iter().flatten() {
            records.push((self.log.queue(draft.topic, draft.queue_id), draft));
        }
        let together: Vec<_> = records.iter().map(|(queue, draft)| (queue, draft)).collect();
        self.log.append_together(&together, clock::now_ms())?;
        let mut window = self.window.borrow_mut();
        waiting.iter().for_each(|source| window.remove(source.key));
        assert!(window.first_due() >= Some(last.key.due) || window.first_due().is_none(), "passed {:?}", last.key);
        for (delivery, (_, draft)) in deliveries.iter().flatten().zip(&records[1..]) {
            core.stats.sent(&delivery.topic, delivery.restored.queue, 1, record_bytes(draft) as u64);
        }
        Ok(())
    }

    fn delivery<'a>(&self, core: &Rc<Core>, source: &'a Source, now: Millis) -> Option<Delivery<'a>> {
        let bytes = source.record.as_deref();
        let record = bytes.and_then(|bytes| RecordView::decode(bytes).ok());
        let restored = record.as_ref().and_then(|record| Restored::of(record, now));
        let (Some(record), Some(restored)) = (record, restored) else {
            crate::log::warn(format_args!(
                "log {}: the delayed message {} that was due at {} ms can't be read any more and is lost",
                self.log.id(),
                source.key.queue_offset,
                source.key.due
            ));
            return None;
        };
        // With its topic a message is gone.
        let topic = core.topics.get(restored.topic)?;
        let log = core.placement.log_of(topic.hash, restored.queue);
        assert!(log == self.log.id(), "a message for log {log} is held in log {}", self.log.id());
        Some(Delivery { record, restored, topic })
    }

    /// A note as a record of the timer topic.
    pub(super) fn note_record<'a>(&self, note: &'a [u8], host: SocketAddr) -> (QueueRef, RecordDraft<'a>) {
        (self.log.queue(TIMER_TOPIC, NOTES_QUEUE), Schedule::own_draft(note, host))
    }

    /// A record of the broker's own, as a note.
    pub(super) fn own_draft(body: &[u8], host: SocketAddr) -> RecordDraft<'_> {
        RecordDraft::own(TIMER_TOPIC, NOTES_QUEUE, body, host, clock::now_ms())
    }
}

impl Delivery<'_> {
    /// It tells where it lies in light queues.
    fn told(mut self, light: Option<&Dispatch>) -> Self {
        if let Some(dispatch) = light {
            self.restored.properties = dispatch.properties();
        }
        self
    }

    fn draft(&self) -> RecordDraft<'_> {
        self.restored.draft(&self.record, self.topic.name())
    }
}
