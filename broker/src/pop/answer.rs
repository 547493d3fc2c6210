//! The answer to a pop: what was taken from several queues as one, and the texts that receipts are made of. Pure.
//!
//! ```text
//! startOffsetInfo   kind queue start              parted by ;
//! msgOffsetInfo     kind queue offset,offset,…    parted by ;
//! orderCountInfo    kind qo<queue>%<offset> times parted by ;
//! ```

use std::fmt::Write;

use bytes::{Bytes, BytesMut};
use remoting::text::Text;

use super::take::Taken;

#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) starts: String,
    pub(crate) offsets: String,
    pub(crate) counts: String,
}

impl Texts {
    pub(crate) fn of(taken: &[Taken]) -> Texts {
        let mut texts = Texts::default();
        for part in taken {
            let (kind, queue) = (part.kind.digit(), part.queue);
            push(&mut texts.starts, format_args!("{kind} {queue} {}", part.start));
            push(&mut texts.offsets, format_args!("{kind} {queue} "));
            for (index, offset) in part.offsets.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                write!(texts.offsets, "{comma}{offset}").expect("a text takes all");
            }
            for (offset, times) in &part.counts {
                push(&mut texts.counts, format_args!("{kind} qo{queue}%{offset} {times}"));
            }
        }
        texts
    }
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    if !text.is_empty() {
        text.push(';');
    }
    text.write_fmt(part).expect("a text takes all");
}

/// A text as a header's field; none when it says nothing.
pub(crate) fn field(text: String) -> Option<Text> {
    (!text.is_empty()).then(|| Text::from(text))
}

/// The records of all parts, in their order.
pub(crate) fn body(taken: &[Taken]) -> Bytes {
    if let [only] = taken {
        return only.records.clone();
    }
    let mut all = BytesMut::with_capacity(taken.iter().map(|part| part.records.len()).sum());
    taken.iter().for_each(|part| all.extend_from_slice(&part.records));
    all.freeze()
}

#[cfg(test)]
mod tests {
    use base::{QueueId, QueueOffset};

    use super::super::receipt::Kind;
    use super::*;

    #[test]
    fn the_texts_name_every_queue_once() {
        let part = |kind, queue, offsets: &[u64], counts: &[(u64, u32)]| Taken {
            kind,
            queue: QueueId(queue),
            start: QueueOffset(offsets[0]),
            offsets: offsets.iter().map(|offset| QueueOffset(*offset)).collect(),
            counts: counts.iter().map(|(offset, times)| (QueueOffset(*offset), *times)).collect(),
            records: Bytes::copy_from_slice(&[queue as u8]),
        };
        let taken = [part(Kind::Normal, 3, &[10, 11, 14], &[]), part(Kind::Retry, 0, &[2], &[(2, 1)])];
        let texts = Texts::of(&taken);
        assert_eq!(texts.starts, "0 3 10;1 0 2");
        assert_eq!(texts.offsets, "0 3 10,11,14;1 0 2");
        assert_eq!(texts.counts, "1 qo0%2 1");
        assert_eq!((&body(&taken)[..], &body(&taken[..1])[..]), (&[3, 0][..], &[3][..]));
        assert_eq!(field(Texts::of(&[]).starts), None);
    }
}
