//! What the journal of one log's pops says, as text. Pure.
//!
//! It lies in the log's queue of the revive topic. Names hold no blanks, so blanks part them:
//!
//! ```text
//! p   messages were popped     group topic queue start popTime invisible next offset,offset,…
//! a   messages are done        batch:offset for each, parted by blanks
//! v   a message is held anew   batch:offset, then as p; the message leaves its old batch
//! o   a queue in order         group topic queue next popTime attempt offset:until:times,…
//! f   queues are forgotten     a line each: group topic queue
//! s   all that holds           a line each: `q group topic queue next`, `b batch done` and then as p,
//!                             `o` and then as o
//! ```
//!
//! `attempt` is a hash or `-`; so is the list of messages when all are acknowledged.
//! A batch is named by the offset of its `p` or `v` in the journal. `next` is where the group pops on.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use base::{QueueId, QueueOffset};
use remoting::properties::{Builder, TAGS};
use remoting::record::RecordView;
use remoting::text::Text;

use super::in_flight::{Batch, PopQueue};
use super::order::{Open, Ordered};
use crate::journal;

const NOTHING: &str = "-";

/// A message of a batch.
pub(super) type InBatch = (QueueOffset, QueueOffset);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Popped {
        batch: Batch,
        next: QueueOffset,
    },
    Done {
        messages: Vec<InBatch>,
    },
    Held {
        message: InBatch,
        batch: Batch,
        next: QueueOffset,
    },
    /// All that holds of a queue popped in order.
    Ordered {
        of: Rc<PopQueue>,
        next: QueueOffset,
        ordered: Ordered,
    },
    Forgotten {
        queues: Vec<PopQueue>,
    },
    Snapshot {
        queues: Vec<(PopQueue, QueueOffset)>,
        batches: Vec<(QueueOffset, Batch)>,
        ordered: Vec<(Rc<PopQueue>, QueueOffset, Ordered)>,
    },
}

impl journal::Note for Note {
    fn body(&self) -> String {
        let mut body = String::new();
        match self {
            Note::Popped { batch, next } => push_batch(&mut body, batch, *next),
            Note::Done { messages } => {
                for (index, message) in messages.iter().enumerate() {
                    if index > 0 {
                        body.push(' ');
                    }
                    push_message(&mut body, *message);
                }
            }
            Note::Held { message, batch, next } => {
                push_message(&mut body, *message);
                body.push(' ');
                push_batch(&mut body, batch, *next);
            }
            Note::Ordered { of, next, ordered } => push_ordered(&mut body, of, *next, ordered),
            Note::Forgotten { queues } => {
                for of in queues {
                    writeln!(body, "{} {} {}", of.group, of.topic, of.queue).expect("a text takes all");
                }
            }
            Note::Snapshot { queues, batches, ordered } => {
                for (of, next) in queues {
                    writeln!(body, "q {} {} {} {next}", of.group, of.topic, of.queue).expect("a text takes all");
                }
                for (id, batch) in batches {
                    write!(body, "b {id} {} ", batch.done).expect("a text takes all");
                    push_batch(&mut body, batch, batch.start);
                    body.push('\n');
                }
                for (of, next, ordered) in ordered {
                    body.push_str("o ");
                    push_ordered(&mut body, of, *next, ordered);
                    body.push('\n');
                }
            }
        }
        body
    }

    fn properties(&self) -> Builder {
        let mut properties = Builder::new();
        properties.push(TAGS, self.tag());
        properties
    }

    fn of(record: &RecordView<'_>) -> Option<Note> {
        let body = std::str::from_utf8(record.body()).ok()?;
        let mut words = body.split(' ');
        Some(match record.property(TAGS)? {
            "p" => {
                let (batch, next) = batch(&mut words)?;
                Note::Popped { batch, next }
            }
            "a" => Note::Done { messages: words.map(message).collect::<Option<_>>()? },
            "v" => {
                let message = message(words.next()?)?;
                let (batch, next) = batch(&mut words)?;
                Note::Held { message, batch, next }
            }
            "o" => {
                let (of, next, ordered) = ordered(&mut words)?;
                Note::Ordered { of, next, ordered }
            }
            "f" => {
                let queues = body.lines().map(|line| queue(&mut line.split(' '))).collect::<Option<_>>()?;
                Note::Forgotten { queues }
            }
            "s" => snapshot(body)?,
            _ => return None,
        })
    }

    fn is_snapshot(&self) -> bool {
        matches!(self, Note::Snapshot { .. })
    }
}

impl Note {
    fn tag(&self) -> &'static str {
        match self {
            Note::Popped { .. } => "p",
            Note::Done { .. } => "a",
            Note::Held { .. } => "v",
            Note::Ordered { .. } => "o",
            Note::Forgotten { .. } => "f",
            Note::Snapshot { .. } => "s",
        }
    }
}

fn push_batch(body: &mut String, batch: &Batch, next: QueueOffset) {
    let Batch { of, start, pop_time_ms, invisible_ms, offsets, .. } = batch;
    let PopQueue { group, topic, queue } = &**of;
    write!(body, "{group} {topic} {queue} {start} {pop_time_ms} {invisible_ms} {next} ").expect("a text takes all");
    for (index, offset) in offsets.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(body, "{comma}{offset}").expect("a text takes all");
    }
}

fn push_ordered(body: &mut String, of: &PopQueue, next: QueueOffset, ordered: &Ordered) {
    let PopQueue { group, topic, queue } = of;
    write!(body, "{group} {topic} {queue} {next} {} ", ordered.pop_time_ms).expect("a text takes all");
    match ordered.attempt {
        Some(hash) => write!(body, "{hash}").expect("a text takes all"),
        None => body.push_str(NOTHING),
    }
    body.push(' ');
    if ordered.open.is_empty() {
        body.push_str(NOTHING);
    }
    for (index, (offset, open)) in ordered.open.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(body, "{comma}{offset}:{}:{}", open.until_ms, open.times).expect("a text takes all");
    }
}

fn push_message(body: &mut String, (id, offset): InBatch) {
    write!(body, "{id}:{offset}").expect("a text takes all");
}

fn message(word: &str) -> Option<InBatch> {
    let (id, offset) = word.split_once(':')?;
    Some((number(id)?, number(offset)?))
}

fn batch<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<(Batch, QueueOffset)> {
    let of = Rc::new(queue(words)?);
    let start = number(words.next()?)?;
    let pop_time_ms = words.next()?.parse().ok()?;
    let invisible_ms = words.next()?.parse().ok()?;
    let next = number(words.next()?)?;
    let offsets = words.next()?.split(',').map(number).collect::<Option<Vec<_>>>()?;
    Some((Batch { of, start, pop_time_ms, invisible_ms, offsets, done: 0 }, next))
}

fn ordered<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<(Rc<PopQueue>, QueueOffset, Ordered)> {
    let of = Rc::new(queue(words)?);
    let next = number(words.next()?)?;
    let pop_time_ms = words.next()?.parse().ok()?;
    let attempt = match words.next()? {
        NOTHING => None,
        hash => Some(hash.parse().ok()?),
    };
    let open = match words.next()? {
        NOTHING => BTreeMap::new(),
        list => list.split(',').map(open_message).collect::<Option<_>>()?,
    };
    Some((of, next, Ordered { pop_time_ms, attempt, open }))
}

fn open_message(word: &str) -> Option<(QueueOffset, Open)> {
    let mut parts = word.split(':');
    let offset = number(parts.next()?)?;
    Some((offset, Open { until_ms: parts.next()?.parse().ok()?, times: parts.next()?.parse().ok()? }))
}

fn queue<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<PopQueue> {
    Some(PopQueue {
        group: Text::from(words.next()?),
        topic: Text::from(words.next()?),
        queue: QueueId(words.next()?.parse().ok()?),
    })
}

fn snapshot(body: &str) -> Option<Note> {
    let (mut queues, mut batches, mut in_order) = (Vec::new(), Vec::new(), Vec::new());
    for line in body.lines() {
        let mut words = line.split(' ');
        match words.next()? {
            "q" => queues.push((queue(&mut words)?, number(words.next()?)?)),
            "b" => {
                let id = number(words.next()?)?;
                let done = words.next()?.parse().ok()?;
                batches.push((id, Batch { done, ..batch(&mut words)?.0 }));
            }
            "o" => in_order.push(ordered(&mut words)?),
            _ => return None,
        }
    }
    Some(Note::Snapshot { queues, batches, ordered: in_order })
}

fn number(word: &str) -> Option<QueueOffset> {
    word.parse().ok().map(QueueOffset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Note as _, read_back};

    #[test]
    fn notes_come_back_as_they_were_written() {
        let queue = PopQueue { group: Text::from("g"), topic: Text::from("%RETRY%g+T"), queue: QueueId(3) };
        let batch = Batch {
            of: Rc::new(queue.clone()),
            start: QueueOffset(5),
            pop_time_ms: 1_700_000_000_000,
            invisible_ms: 60_000,
            offsets: vec![QueueOffset(5), QueueOffset(7)],
            done: 0,
        };
        let held = Batch { start: QueueOffset(7), offsets: vec![QueueOffset(7)], ..batch.clone() };
        let open = [(5, 0), (7, 2)].map(|(offset, times)| (QueueOffset(offset), Open { until_ms: 1_700, times }));
        let ordered = Ordered { pop_time_ms: 1_600, attempt: Some(u64::MAX), open: open.into() };
        let in_order = |ordered| (Rc::new(queue.clone()), QueueOffset(9), ordered);
        for note in [
            Note::Ordered { of: Rc::new(queue.clone()), next: QueueOffset(9), ordered: ordered.clone() },
            Note::Ordered { of: Rc::new(queue.clone()), next: QueueOffset(9), ordered: Ordered::default() },
            Note::Popped { batch: batch.clone(), next: QueueOffset(9) },
            Note::Done { messages: vec![(QueueOffset(0), QueueOffset(5)), (QueueOffset(1), QueueOffset(8))] },
            Note::Held { message: (QueueOffset(0), QueueOffset(7)), batch: held.clone(), next: QueueOffset(9) },
            Note::Forgotten { queues: vec![queue.clone(), PopQueue { queue: QueueId(4), ..queue.clone() }] },
            Note::Snapshot {
                queues: vec![(queue.clone(), QueueOffset(9))],
                batches: vec![(QueueOffset(0), Batch { done: 2, ..batch }), (QueueOffset(4), held)],
                ordered: vec![in_order(ordered), in_order(Ordered::default())],
            },
            Note::Snapshot { queues: Vec::new(), batches: Vec::new(), ordered: Vec::new() },
        ] {
            assert_eq!(read_back(&note.body(), note.properties().as_str()), Some(note));
        }
    }

    #[test]
    fn what_is_no_note_says_nothing() {
        for (body, tag) in [
            ("", "p"),
            ("g T 0 0 0 0", "p"),
            ("1", "a"),
            ("1:2 x", "a"),
            ("1:2", "v"),
            ("g T", "f"),
            ("g T 0 9 1 x -", "o"),
            ("g T 0 9 1 - 5:1", "o"),
            ("x", "s"),
            ("", "y"),
        ] {
            assert_eq!(read_back::<Note>(body, &format!("TAGS\u{1}{tag}\u{2}")), None, "{tag}: {body}");
        }
    }
}
