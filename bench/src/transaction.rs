//! The ends of half messages: which are committed, and the request that says so.

use bytes::BytesMut;
use remoting::code::RequestCode;
use remoting::command::{Command, HeaderEncoding};
use remoting::frame::LENGTH_BYTES;
use remoting::header::transaction::EndTransaction;
use remoting::message_id::OffsetId;
use remoting::record::sys_flag;
use remoting::text::Text;

/// Spreads neighbouring numbers evenly: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether `number` is of the part `share` of all: the same part in whichever process asks.
pub(crate) fn is_of_share(number: u64, share: f64) -> bool {
    let drawn = number.wrapping_add(1).wrapping_mul(SPREAD) >> 11;
    (drawn as f64) < share * (1_u64 << 53) as f64
}

/// What the producer of a run says of its half messages.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) group: Text,
    pub(crate) encoding: HeaderEncoding,
    /// Of all half messages; the others are rolled back.
    pub(crate) commit_share: f64,
}

impl Ends {
    pub(crate) fn commits(&self, number: u64) -> bool {
        is_of_share(number, self.commit_share)
    }

    /// Appends the end of the half message `number`, whose answer is `frame`. `None`: the answer does not name its place.
    pub(crate) fn write(&self, number: u64, frame: &[u8], opaque: i32, out: &mut BytesMut) -> Option<()> {
        let answer = Command::decode(BytesMut::from(&frame[LENGTH_BYTES..])).ok()?;
        let id = answer.fields.get("msgId")?;
        let half_physical_offset = OffsetId::decode(id).ok()?.physical_offset.0 as i64;
        let half_queue_offset = answer.fields.get("queueOffset")?.parse().ok()?;
        let transaction_id = answer.fields.get("transactionId").map(Text::from);
        let header = EndTransaction {
            producer_group: self.group.clone(),
            half_queue_offset,
            half_physical_offset,
            commit_or_rollback: match self.commits(number) {
                true => sys_flag::TRANSACTION_COMMIT,
                false => sys_flag::TRANSACTION_ROLLBACK,
            },
            from_transaction_check: false,
            message_id: transaction_id.clone().unwrap_or_else(|| Text::from(id)),
            transaction_id,
            topic: None,
        };
        let mut command = Command::request(RequestCode::END_TRANSACTION, header.to_fields());
        (command.opaque, command.encoding) = (opaque, self.encoding);
        command.encode(out);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoting::fields::Fields;
    use remoting::frame;

    #[test]
    fn a_share_is_met_evenly() {
        for (share, expected) in [(0.0, 0), (0.1, 100), (0.5, 500), (0.9, 900), (1.0, 1000)] {
            let count = (0..1000).filter(|number| is_of_share(*number, share)).count();
            assert!(count.abs_diff(expected) <= 3, "{count} of 1000 for {share}");
            let early = (0..20).filter(|number| is_of_share(*number, share)).count() as f64;
            assert!((early - 20.0 * share).abs() <= 2.0, "{early} of the first 20 for {share}");
        }
    }

    #[test]
    fn an_end_names_the_half_message_that_was_answered() {
        let ends = Ends { group: Text::from("G"), encoding: HeaderEncoding::Json, commit_share: 0.5 };
        let mut fields = Fields::new();
        fields.push("msgId", "7F00000100002A9F00000000000004D2");
        fields.push("queueOffset", 7);
        fields.push("transactionId", "T1");
        let mut frame = BytesMut::new();
        Command::reply(5, 0).with_fields(fields).encode(&mut frame);
        for number in 0..10 {
            let mut out = BytesMut::new();
            ends.write(number, &frame, -5, &mut out).unwrap();
            let command = Command::decode(frame::split(&mut out).unwrap().unwrap()).unwrap();
            let header = EndTransaction::decode(&command.fields).unwrap();
            assert_eq!((command.code, command.opaque, header.half_physical_offset), (37, -5, 1234));
            let expected = if ends.commits(number) { 8 } else { 12 };
            assert_eq!((header.half_queue_offset, header.commit_or_rollback), (7, expected));
        }
        let mut bare = BytesMut::new();
        Command::reply(5, 0).encode(&mut bare);
        assert_eq!(ends.write(0, &bare, -5, &mut BytesMut::new()), None);
    }
}
