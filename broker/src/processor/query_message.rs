//! Messages by key (12): every log is asked for its newest; they are answered in the order in which they were stored.

use std::rc::Rc;

use base::LogOffset;
use bytes::{Bytes, BytesMut};
use remoting::code::ResponseCode;
use remoting::fields::Fields;
use remoting::properties::{self, KEYS, UNIQUE_KEY};
use remoting::record::RecordView;
use remoting::text::Text;
use storage::key_hash;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;

/// Messages of one answer. A query that asks for more gets so many.
const MESSAGES_MAX: usize = 64;
/// How often a log is asked on where records turned out not to have the key. Beyond it, older ones are not found: so many
/// hashes are equal only where a unique key is many messages' key as well.
const PAGES_MAX: u32 = 100;
/// Body bytes of one answer: the next message goes out only while it stays below, so that a frame holds it.
const BODY_BYTES_MAX: usize = 12 << 20;

#[derive(Clone)]
struct Query {
    topic: Text,
    key: Text,
    /// Store times, both included. Apache's index knows seconds since its first message, so there either end may be up to
    /// a second off.
    times_ms: (u64, u64),
    is_unique: bool,
    count_max: usize,
}

struct Match {
    store_timestamp_ms: i64,
    physical_offset: u64,
    record: Bytes,
}

pub(crate) async fn query_message(core: Rc<Core>, request: Request) -> Outcome {
    let query = read_query(&core, &request)?;
    let asked = query.clone();
    let found = core.on_each(move |core| search(core, asked.clone())).await;
    let mut matches: Vec<Match> = Vec::new();
    for part in found {
        matches.extend(part?);
    }
    matches.sort_by_key(|found| std::cmp::Reverse((found.store_timestamp_ms, found.physical_offset)));
    matches.truncate(query.count_max);
    let Some(newest) = matches.first() else {
        let remark = format!("no message of topic {} has the key {} in that time", query.topic, query.key);
        return Err(Refusal::new(ResponseCode::QUERY_NOT_FOUND, remark));
    };
    let mut fields = Fields::new();
    fields.push("indexLastUpdateTimestamp", newest.store_timestamp_ms);
    fields.push("indexLastUpdatePhyoffset", newest.physical_offset as i64);
    let mut body = BytesMut::new();
    for found in matches[..fitting(&matches)].iter().rev() {
        body.extend_from_slice(&found.record);
    }
    Ok(Answer::success().with_fields(fields).with_body(body.freeze()))
}

/// How many of the newest matches fit one answer. The first is given even if it is larger.
fn fitting(newest_first: &[Match]) -> usize {
    let mut bytes = 0;
    let fits = newest_first.iter().take_while(|found| {
        bytes += found.record.len();
        bytes <= BODY_BYTES_MAX
    });
    fits.count().max(1)
}

fn read_query(core: &Core, request: &Request) -> Result<Query, Refusal> {
    let fields = &request.command.fields;
    let is_unique = fields.get("_UNIQUE_KEY_QUERY").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let asked: i32 = fields.required("maxNum")?;
    let time = |name| fields.required::<i64>(name).map(|ms| ms.max(0) as u64);
    let count = if is_unique { core.config().consumers.query_messages_max as usize } else { asked.max(0) as usize };
    Ok(Query {
        topic: fields.required("topic")?,
        key: fields.required("key")?,
        times_ms: (time("beginTimestamp")?, time("endTimestamp")?),
        is_unique,
        count_max: count.min(MESSAGES_MAX),
    })
}

/// The newest matches in each log of one core.
async fn search(core: Rc<Core>, query: Query) -> Result<Vec<Match>, Refusal> {
    let refused = |error: storage::StorageError| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string());
    let hash = key_hash(&query.topic, &query.key);
    let mut matches = Vec::new();
    for log in core.own_logs() {
        let (mut left, mut before) = (query.count_max, LogOffset(u64::MAX));
        for _ in 0..PAGES_MAX {
            let page = log.find_keys(hash, query.times_ms, before, left).await.map_err(refused)?;
            let is_last = page.len() < left;
            for offset in page {
                before = offset;
                let Some(record) = log.record_at(offset).await.map_err(refused)? else { continue };
                if let Some(found) = matching(&query, record.into()) {
                    matches.push(found);
                    left -= 1;
                }
            }
            if is_last || left == 0 {
                break;
            }
        }
    }
    Ok(matches)
}

/// Hashes may be equal by chance: the record itself decides.
fn matching(query: &Query, record: Bytes) -> Option<Match> {
    let view = RecordView::decode(&record).ok()?;
    let store_timestamp_ms = view.store_timestamp_ms();
    let physical_offset = view.physical_offset().0;
    let text = view.properties();
    let has_key = properties::get(text, UNIQUE_KEY) == Some(&*query.key)
        || (!query.is_unique
            && properties::get(text, KEYS).is_some_and(|keys| keys.split(' ').any(|key| key == &*query.key)));
    (view.topic() == &*query.topic && has_key).then_some(Match { store_timestamp_ms, physical_offset, record })
}
