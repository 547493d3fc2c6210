//! The properties of a message on their way into the log: what the broker reads of them and what it adds.

use remoting::code::ResponseCode;
use remoting::properties::{
    self, CLUSTER, DELAY_LEVEL, INNER_MULTI_DISPATCH, MSG_REGION, NAME_END, POP_CHECKPOINT, PRIORITY,
    PROPERTIES_BYTES_MAX, SHARDING_KEY, TIMER_DELAY_MS, TIMER_DELAY_SECONDS, TIMER_DELETE_UNIQUE_KEY, TIMER_DELIVER_MS,
    TRACE_ON, TRANSACTION_PREPARED, UNIQUE_KEY, VALUE_END, WAIT_STORE,
};
use remoting::reply::ReplyFields;
use storage::Indexed;

use crate::call::Refusal;
use crate::delay::Wish;

/// What the broker wants to know of a message's properties, found in one walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known<'a> {
    pub(crate) wish: Wish<'a>,
    /// What the log derives of them, unless they are unclean.
    indexed: Indexed<'a>,
    pub(crate) is_transaction: bool,
    /// False when the sender does not want to wait for the flush.
    pub(crate) waits_for_flush: bool,
    /// Light queues that the message is to go into as well, joined by commas.
    pub(crate) light_queues: Option<&'a str>,
    /// Where the sender gave a priority. Below 0 it means nothing.
    asked_priority: Option<i32>,
    is_sharded: bool,
    /// There are entries that are malformed or that the broker sets itself: the text must be written anew.
    is_unclean: bool,
}

impl<'a> Known<'a> {
    pub(crate) fn of(properties: &'a str) -> Known<'a> {
        let mut known = Known { waits_for_flush: true, ..Known::default() };
        let text = properties.strip_suffix(VALUE_END).unwrap_or(properties);
        if text.is_empty() {
            known.is_unclean = !properties.is_empty();
            return known;
        }
        for entry in properties::walk(text) {
            if entry.is_clean {
                known.take(entry.name, entry.value);
            } else {
                known.is_unclean = true;
            }
        }
        known.is_unclean |= known.loses_priority();
        known
    }

    /// The priority that decides about the queue.
    pub(crate) fn priority(&self) -> Option<u32> {
        let asked = self.asked_priority.and_then(|asked| u32::try_from(asked).ok());
        asked.filter(|_| !self.is_of_another_kind())
    }

    /// A message that is delayed, in order or of a transaction has no priority beside that.
    fn is_of_another_kind(&self) -> bool {
        self.is_transaction || self.is_sharded || self.wish.is_any()
    }

    fn loses_priority(&self) -> bool {
        self.asked_priority.is_some_and(|asked| asked >= 0) && self.is_of_another_kind()
    }

    pub(crate) fn unique_key(&self) -> Option<&'a str> {
        self.indexed.unique_key()
    }

    /// What the log derives of the properties as they are stored. `given`: the id that was given where there was none, if it is
    /// at hand.
    pub(crate) fn indexed<'b>(&self, stored: &'b str, given: Option<&'b str>) -> Indexed<'b>
    where
        'a: 'b,
    {
        if self.is_unclean || self.unique_key().or(given).is_none() {
            return Indexed::of(stored);
        }
        let mut indexed = self.indexed;
        if let Some(given) = given {
            indexed.take(UNIQUE_KEY, given);
        }
        indexed
    }

    fn take(&mut self, name: &str, value: &'a str) {
        self.indexed.take(name, value);
        match name {
            WAIT_STORE => self.waits_for_flush = !value.eq_ignore_ascii_case("false"),
            DELAY_LEVEL => self.wish.level = Some(value),
            TIMER_DELAY_SECONDS => self.wish.delay_seconds = Some(value),
            TIMER_DELAY_MS => self.wish.delay_ms = Some(value),
            TIMER_DELIVER_MS => self.wish.deliver_ms = Some(value),
            TIMER_DELETE_UNIQUE_KEY => self.wish.deletes = Some(value),
            TRANSACTION_PREPARED => self.is_transaction = value == "true",
            POP_CHECKPOINT | MSG_REGION | TRACE_ON | CLUSTER => self.is_unclean = true,
            SHARDING_KEY => self.is_sharded = true,
            INNER_MULTI_DISPATCH => self.light_queues = Some(value),
            PRIORITY => self.asked_priority = value.parse().ok(),
            _ => {}
        }
    }
}

/// What the broker adds to every message, and to what it tells of it.
#[derive(Clone, Debug)]
pub(crate) struct Additions {
    text: String,
    /// What every sender is told.
    pub(super) reply: ReplyFields,
}

impl Additions {
    pub(crate) fn new(region: &str, trace_on: bool, cluster: &str) -> Additions {
        let told = [(MSG_REGION, region), (TRACE_ON, if trace_on { "true" } else { "false" })];
        let mut text = String::new();
        for (name, value) in told.into_iter().chain([(CLUSTER, cluster)]) {
            push(&mut text, name, value);
        }
        Additions { text, reply: ReplyFields::new(&told) }
    }

    /// The properties as they are stored. `unique_key` is added when the message has none.
    pub(crate) fn stored(
        &self,
        properties: &str,
        known: &Known<'_>,
        unique_key: impl FnOnce() -> String,
    ) -> Result<String, Refusal> {
        let mut stored = String::new();
        self.store_in(&mut stored, properties, known, unique_key)?;
        Ok(stored)
    }

    /// As [`Additions::stored`], behind what is in a text already.
    pub(super) fn store_in(
        &self,
        stored: &mut String,
        properties: &str,
        known: &Known<'_>,
        unique_key: impl FnOnce() -> String,
    ) -> Result<(), Refusal> {
        let start = stored.len();
        stored.reserve(properties.len() + self.text.len() + 64);
        if known.is_unclean {
            for (name, value) in properties::parse(properties) {
                let is_left_out = match name {
                    POP_CHECKPOINT | MSG_REGION | TRACE_ON | CLUSTER => true,
                    PRIORITY => known.loses_priority(),
                    _ => false,
                };
                if !is_left_out {
                    push(stored, name, value);
                }
            }
        } else {
            stored.push_str(properties);
            if !properties.is_empty() && !properties.ends_with(VALUE_END) {
                stored.push(VALUE_END);
            }
        }
        if known.unique_key().is_none() {
            push(stored, UNIQUE_KEY, &unique_key());
        }
        stored.push_str(&self.text);
        let bytes = stored.len() - start;
        if bytes > PROPERTIES_BYTES_MAX {
            let remark = format!(
                "the message's properties take {bytes} bytes with what the broker adds ({} bytes), the limit is \
                 {PROPERTIES_BYTES_MAX}: send fewer or shorter properties",
                // Malformed ones may have been left out.
                bytes.saturating_sub(properties.len()),
            );
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
        }
        Ok(())
    }
}

fn push(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push(NAME_END);
    text.push_str(value);
    text.push(VALUE_END);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(properties: &str) -> Result<String, Refusal> {
        let additions = Additions::new("R", true, "C");
        additions.stored(properties, &Known::of(properties), || "ID".to_owned())
    }

    #[test]
    fn the_brokers_own_are_added_once() {
        let own = "MSG_REGION\u{1}R\u{2}TRACE_ON\u{1}true\u{2}CLUSTER\u{1}C\u{2}";
        for (sent, kept) in [
            ("", "UNIQ_KEY\u{1}ID\u{2}"),
            ("UNIQ_KEY\u{1}X\u{2}", "UNIQ_KEY\u{1}X\u{2}"),
            ("TAGS\u{1}a\u{2}UNIQ_KEY\u{1}X", "TAGS\u{1}a\u{2}UNIQ_KEY\u{1}X\u{2}"),
            (
                "a\u{1}b\u{2}CLUSTER\u{1}other\u{2}POP_CK\u{1}1\u{2}UNIQ_KEY\u{1}X\u{2}",
                "a\u{1}b\u{2}UNIQ_KEY\u{1}X\u{2}",
            ),
            ("broken\u{2}\u{1}x\u{2}empty\u{1}\u{2}a\u{1}b", "a\u{1}b\u{2}UNIQ_KEY\u{1}ID\u{2}"),
        ] {
            assert_eq!(stored(sent), Ok(format!("{kept}{own}")), "{sent:?}");
        }
    }

    #[test]
    fn the_log_derives_the_same_of_what_was_sent_and_of_what_is_stored() {
        let bad = "TAGS\u{1}a\u{2}CLUSTER\u{1}other\u{2}";
        for sent in ["", "TAGS\u{1}a\u{2}", "KEYS\u{1}k l\u{2}UNIQ_KEY\u{1}X\u{2}TAGS\u{1}a", "\u{1}b\u{2}", bad] {
            let (known, stored) = (Known::of(sent), stored(sent).expect("they fit"));
            let given = known.unique_key().is_none().then_some("ID");
            assert_eq!(known.indexed(&stored, given), Indexed::of(&stored), "{sent:?}");
            assert_eq!(known.indexed(&stored, None), Indexed::of(&stored), "{sent:?}");
        }
    }

    #[test]
    fn texts_stand_behind_each_other() {
        let (additions, known) = (Additions::new("R", true, "C"), Known::of(""));
        let mut text = String::from("before");
        additions.store_in(&mut text, "", &known, || "ID".to_owned()).expect("it fits");
        assert_eq!(text, format!("before{}", stored("").expect("it fits")));
        let mut full = "x".repeat(PROPERTIES_BYTES_MAX);
        additions.store_in(&mut full, "", &known, || "ID".to_owned()).expect("the limit is of each");
    }

    #[test]
    fn too_long_ones_are_refused_also_where_more_is_left_out_than_added() {
        let sent = format!("a\u{1}{}\u{2}{}", "x".repeat(PROPERTIES_BYTES_MAX), "\u{1}y\u{2}".repeat(1000));
        assert!(stored(&sent).is_err_and(|refusal| refusal.remark.contains("(0 bytes)")));
    }

    /// As Apache RocketMQ 5.4.0 takes them.
    #[test]
    fn a_priority_counts_where_nothing_else_is_asked_for() {
        for (value, beside, priority, is_kept) in [
            ("3", "", Some(3), true),
            ("+1", "TAGS\u{1}a\u{2}", Some(1), true),
            ("0", "TRAN_MSG\u{1}x\u{2}", Some(0), true),
            ("3", "TIMER_DEL_UNIQKEY\u{1}u\u{2}", Some(3), true),
            ("-1", "", None, true),
            ("-1", "DELAY\u{1}1\u{2}", None, true),
            ("2147483648", "DELAY\u{1}1\u{2}", None, true),
            ("1.5", "", None, true),
            ("3", "TRAN_MSG\u{1}true\u{2}", None, false),
            ("3", "DELAY\u{1}0\u{2}", None, false),
            ("3", "TIMER_DELAY_MS\u{1}-1\u{2}", None, false),
            ("3", "__SHARDINGKEY\u{1}k\u{2}", None, false),
        ] {
            let properties = format!("{beside}_SYS_MSG_PRIORITY_\u{1}{value}\u{2}");
            assert_eq!(Known::of(&properties).priority(), priority, "{value} beside {beside:?}");
            let stored = stored(&properties).unwrap();
            assert_eq!(stored.contains(PRIORITY), is_kept, "{value} beside {beside:?}");
            assert!(stored.starts_with(beside), "{stored:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_with_the_limit() {
        let rest = stored("a\u{1}\u{2}").unwrap().len() + "a\u{1}\u{2}".len();
        let fits = format!("a\u{1}{}\u{2}", "x".repeat(PROPERTIES_BYTES_MAX - rest));
        assert_eq!(stored(&fits).map(|text| text.len()), Ok(PROPERTIES_BYTES_MAX));
        let over = format!("a\u{1}{}\u{2}", "x".repeat(PROPERTIES_BYTES_MAX - rest + 1));
        let refusal = stored(&over).unwrap_err();
        assert_eq!(refusal.code, ResponseCode::MESSAGE_ILLEGAL);
        assert!(refusal.remark.contains("32768") && refusal.remark.contains("32767"), "{}", refusal.remark);
    }

    #[test]
    fn what_the_broker_acts_on_is_found() {
        let known = Known::of("WAIT\u{1}false\u{2}DELAY\u{1}3\u{2}TRAN_MSG\u{1}true\u{2}UNIQ_KEY\u{1}U\u{2}");
        assert!(!known.waits_for_flush && known.is_transaction);
        assert_eq!((known.wish.level, known.unique_key()), (Some("3"), Some("U")));
        assert!(Known::of("").waits_for_flush);
    }
}
