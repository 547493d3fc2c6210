//! What the journal of one log's transactions says, as text. Pure.
//!
//! It lies in the op queue of the log.
//!
//! ```text
//! d   a half message is ended        body: its offset in the half queue      END: commit | rollback | give-up
//! c   producers were asked           body: offsets, joined by commas
//! s   all that is pending right now  body: offset:checks, joined by commas   HALVES_FROM: younger ones begin here
//! ```

use std::fmt::Write;

use base::QueueOffset;
use remoting::properties::{Builder, TAGS};
use remoting::record::RecordView;

use crate::journal;

const TAG_ENDED: &str = "d";
const TAG_CHECKED: &str = "c";
const TAG_SNAPSHOT: &str = "s";
const END: &str = "END";
const HALVES_FROM: &str = "HALVES_FROM";

/// How a half message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The message itself follows the journal's record in the log.
    Commit,
    Rollback,
    /// Nobody knew for too long: a copy for operators follows the journal's record.
    GiveUp,
}

impl End {
    const ALL: [End; 3] = [End::Commit, End::Rollback, End::GiveUp];

    fn text(self) -> &'static str {
        match self {
            End::Commit => "commit",
            End::Rollback => "rollback",
            End::GiveUp => "give-up",
        }
    }
}

/// One record of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Ended { half: QueueOffset, end: End },
    Checked { halves: Vec<QueueOffset> },
    Snapshot { halves: Vec<(QueueOffset, u32)>, halves_from: QueueOffset },
}

impl journal::Note for Note {
    fn body(&self) -> String {
        let mut body = String::new();
        match self {
            Note::Ended { half, .. } => push(&mut body, half.0),
            Note::Checked { halves } => halves.iter().for_each(|half| push(&mut body, half.0)),
            Note::Snapshot { halves, .. } => {
                for (half, checks) in halves {
                    push(&mut body, half.0);
                    write!(body, ":{checks}").expect("a text takes all");
                }
            }
        }
        body
    }

    fn properties(&self) -> Builder {
        let mut properties = Builder::new();
        match self {
            Note::Ended { end, .. } => {
                properties.push(TAGS, TAG_ENDED);
                properties.push(END, end.text());
            }
            Note::Checked { .. } => properties.push(TAGS, TAG_CHECKED),
            Note::Snapshot { halves_from, .. } => {
                properties.push(TAGS, TAG_SNAPSHOT);
                properties.push(HALVES_FROM, halves_from.0 as i64);
            }
        }
        properties
    }

    fn is_snapshot(&self) -> bool {
        matches!(self, Note::Snapshot { .. })
    }

    fn of(record: &RecordView<'_>) -> Option<Note> {
        let body = std::str::from_utf8(record.body()).ok()?;
        let parts = body.split(',').filter(|part| !part.is_empty());
        match record.property(TAGS)? {
            TAG_ENDED => {
                let end = record.property(END)?;
                let end = End::ALL.into_iter().find(|known| known.text() == end)?;
                Some(Note::Ended { half: offset(body)?, end })
            }
            TAG_CHECKED => Some(Note::Checked { halves: parts.map(offset).collect::<Option<_>>()? }),
            TAG_SNAPSHOT => {
                let halves = parts
                    .map(|part| {
                        let (half, checks) = part.split_once(':')?;
                        Some((offset(half)?, checks.parse().ok()?))
                    })
                    .collect::<Option<_>>()?;
                Some(Note::Snapshot { halves, halves_from: offset(record.property(HALVES_FROM)?)? })
            }
            _ => None,
        }
    }
}

fn push(body: &mut String, number: u64) {
    if !body.is_empty() {
        body.push(',');
    }
    write!(body, "{number}").expect("a text takes all");
}

fn offset(text: &str) -> Option<QueueOffset> {
    text.parse().ok().map(QueueOffset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Note as _, read_back};

    #[test]
    fn notes_come_back_as_they_were_written() {
        let (one, two) = (QueueOffset(7), QueueOffset(4_000_000_000));
        for note in [
            Note::Ended { half: one, end: End::Commit },
            Note::Ended { half: two, end: End::Rollback },
            Note::Ended { half: two, end: End::GiveUp },
            Note::Checked { halves: vec![one, two] },
            Note::Snapshot { halves: vec![(one, 0), (two, 14)], halves_from: QueueOffset(9) },
            Note::Snapshot { halves: Vec::new(), halves_from: QueueOffset(0) },
        ] {
            assert_eq!(read_back(&note.body(), note.properties().as_str()), Some(note));
        }
    }

    #[test]
    fn what_is_no_note_says_nothing() {
        for (body, properties) in [
            ("7", ""),
            ("7", "TAGS\u{1}x\u{2}"),
            ("7", "TAGS\u{1}d\u{2}"),
            ("x", "TAGS\u{1}d\u{2}END\u{1}commit\u{2}"),
            ("7,x", "TAGS\u{1}c\u{2}"),
            ("7", "TAGS\u{1}s\u{2}HALVES_FROM\u{1}1\u{2}"),
        ] {
            assert_eq!(read_back::<Note>(body, properties), None, "{body} {properties}");
        }
    }
}
