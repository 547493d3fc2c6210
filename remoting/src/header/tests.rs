//! Headers read what real peers send.

use super::consume::InvokeResetOffset;
use super::consumer_offset::QueryConsumerOffset;
use super::namesrv::{GetRouteInfo, RegisterBroker};
use super::queue_offset::{Boundary, SearchOffset};
use super::topic::CreateTopic;
use super::transaction::EndTransaction;
use super::view_message::QueryMessage;
use crate::fields::Fields;
use crate::text::Text;

fn fields(entries: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::new();
    entries.iter().for_each(|(name, value)| fields.push_named(name, *value));
    fields
}

#[test]
fn wire_names_are_the_peers() {
    let transaction = EndTransaction {
        producer_group: Text::from("pg"),
        half_queue_offset: 1,
        half_physical_offset: 2,
        commit_or_rollback: 8,
        from_transaction_check: true,
        message_id: Text::from("id"),
        transaction_id: None,
        topic: None,
    };
    let names: Vec<_> = transaction.to_fields().iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        names,
        [
            "producerGroup=pg",
            "tranStateTableOffset=1",
            "commitLogOffset=2",
            "commitOrRollback=8",
            "fromTransactionCheck=true",
            "msgId=id"
        ]
    );
    assert_eq!(EndTransaction::decode(&transaction.to_fields()), Ok(transaction));
}

#[test]
fn defaults_and_absence_are_told_apart() {
    let queue = [("consumerGroup", "g"), ("topic", "T"), ("queueId", "0")];
    assert_eq!(QueryConsumerOffset::decode(&fields(&queue)).unwrap().set_zero_if_not_found, None);
    let reset = [("group", "g"), ("topic", "T"), ("timestamp", "-1"), ("isForce", "true")];
    let reset = InvokeResetOffset::decode(&fields(&reset)).unwrap();
    assert_eq!((reset.queue_id, reset.offset, reset.timestamp_ms, reset.force), (-1, -1, -1, true));
    let register = [
        ("brokerName", "b"),
        ("brokerAddr", "127.0.0.1:10911"),
        ("clusterName", "c"),
        ("haServerAddr", "127.0.0.1:10912"),
        ("brokerId", "0"),
        ("bodyCrc32", "17"),
    ];
    let register = RegisterBroker::decode(&fields(&register)).unwrap();
    assert_eq!((register.enable_acting_master, register.body_crc32, register.compressed), (None, 17, false));
    assert!(!GetRouteInfo::decode(&fields(&[("topic", "T")])).unwrap().accept_standard_json_only);
}

#[test]
fn boundaries_are_words() {
    let search = |word| fields(&[("topic", "T"), ("queueId", "0"), ("timestamp", "5"), ("boundaryType", word)]);
    for (word, boundary) in [("LOWER", Boundary::Lower), ("upper", Boundary::Upper)] {
        assert_eq!(SearchOffset::decode(&search(word)).unwrap().boundary, boundary);
    }
    assert_eq!(
        SearchOffset::decode(&search("MIDDLE")).unwrap_err().to_string(),
        "the custom field <boundaryType> is not LOWER or UPPER: \"MIDDLE\""
    );
}

#[test]
fn a_missing_field_is_named() {
    let query = fields(&[("topic", "T"), ("key", "k"), ("maxNum", "32"), ("begin", "0"), ("end", "1")]);
    assert_eq!(QueryMessage::decode(&query).unwrap_err().to_string(), "the custom field <beginTimestamp> is missing");
    let create = fields(&[("topic", "T"), ("defaultTopic", "TBW102"), ("readQueueNums", "8")]);
    assert_eq!(CreateTopic::decode(&create).unwrap_err().name(), "writeQueueNums");
}
