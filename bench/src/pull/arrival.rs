//! What is looked at in each message that arrives.

use remoting::code::RequestCode;
use remoting::command::Command;
use remoting::header::send_back::ConsumerSendMessageBack;
use remoting::record::{RecordView, Records, body_crc};
use remoting::text::Text;

use client::{Body, body_of};

use super::{AtEnd, Puller, RETRY_DELAY_NS, RETRY_LEVEL};
use crate::payload::{self, Content, Stamp};
use crate::record::Kind;
use crate::transaction::is_of_share;

impl Puller {
    /// Checks the records of an answer's body; returns the offset behind the last good one.
    pub(super) fn records(&mut self, place: usize, body: &[u8], arrived_ns: u64) -> i64 {
        let (queue_id, mut next_offset) = (self.queues[place].queue_id, self.queues[place].next_offset);
        for record in Records::new(body) {
            let Ok(record) = record else {
                self.tally.faults.unreadable += 1;
                break;
            };
            let offset = record.queue_offset().0 as i64;
            self.tally.faults.offset_jumps += u64::from(offset != next_offset);
            self.tally.faults.wrong_queue += u64::from(record.queue_id().0 as i32 != queue_id);
            next_offset = offset + 1;
            self.record(place, &record, arrived_ns);
        }
        next_offset
    }

    fn record(&mut self, place: usize, record: &RecordView<'_>, arrived_ns: u64) {
        let body = record.body();
        let content = match body_of(record) {
            Body::Plain(plain) => payload::read(&plain),
            Body::Packed { .. } | Body::Damaged { .. } => Content::Damaged,
        };
        let content = if body_crc(body) == record.body_crc() { content } else { Content::Damaged };
        if self.queues[place].is_retry {
            self.came_again(content, arrived_ns);
            return;
        }
        self.tally.messages += 1;
        self.tally.body_bytes += body.len() as u64;
        self.recorder.counts.pulled += u64::from(arrived_ns >= self.span_ns.start);
        match content {
            Content::Ours(stamp) => self.ours(place, record, stamp, arrived_ns),
            Content::Foreign => {}
            Content::Damaged => self.tally.faults.damaged += 1,
        }
    }

    fn ours(&mut self, place: usize, record: &RecordView<'_>, stamp: Stamp, arrived_ns: u64) {
        if self.form.end == AtEnd::Waits && self.span_ns.contains(&stamp.due_ns) {
            let (kind, wanted_ns) = match self.form.delay_ns {
                0 => (Kind::EndToEnd, stamp.due_ns),
                delay_ns => (Kind::Late, stamp.due_ns + delay_ns),
            };
            self.recorder.record(kind, arrived_ns.saturating_sub(wanted_ns));
        }
        if let Some(order) = &mut self.form.order {
            let lane = self.queues[place].lane;
            self.tally.faults.order_breaks += u64::from(!order.is_in_order(stamp.number, lane));
        }
        if self.form.commit_share.is_some_and(|share| !is_of_share(stamp.number, share)) {
            self.tally.faults.rolled_back += 1;
        }
        if let Some(share) = self.form.retry_share
            && is_of_share(stamp.number, share)
        {
            self.send_back(record, stamp.number);
        }
    }

    /// Wants a message once more.
    fn send_back(&mut self, record: &RecordView<'_>, number: u64) {
        let header = ConsumerSendMessageBack {
            offset: record.physical_offset().0 as i64,
            group: self.form.group.clone(),
            delay_level: RETRY_LEVEL,
            origin_message_id: None,
            origin_topic: Some(Text::from(record.topic())),
            unit_mode: false,
            max_reconsume_times: None,
        };
        self.tally.sent_back += 1;
        let opaque = -i32::try_from(self.tally.sent_back).unwrap_or(i32::MAX);
        let mut command = Command::request(RequestCode::CONSUMER_SEND_MSG_BACK, header.to_fields());
        (command.opaque, command.encoding) = (opaque, self.form.encoding);
        command.encode(&mut self.out);
        let sent_ns = self.clock.now_ns();
        self.shared.sent_back.lock().expect("no holder panics").insert(number, sent_ns);
    }

    /// A message out of the retry topic.
    fn came_again(&mut self, content: Content, arrived_ns: u64) {
        let Content::Ours(stamp) = content else {
            self.tally.faults.damaged += 1;
            return;
        };
        let sent_ns = self.shared.sent_back.lock().expect("no holder panics").remove(&stamp.number);
        match sent_ns {
            Some(sent_ns) => {
                self.tally.came_again += 1;
                if self.span_ns.contains(&stamp.due_ns) {
                    self.recorder.record(Kind::Retry, arrived_ns.saturating_sub(sent_ns + RETRY_DELAY_NS));
                }
            }
            // Nobody sent it back, or it came twice.
            None => self.tally.faults.retries_strange += 1,
        }
    }
}
