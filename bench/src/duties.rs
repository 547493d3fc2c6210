//! What official clients do besides sending and pulling: a heartbeat every 30 s, and every 5 s the offsets they came to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use remoting::body::heartbeat::{ConsumerData, Heartbeat, ProducerData};
use remoting::code::RequestCode;
use remoting::command::{Command, HeaderEncoding};
use remoting::fields::Fields;
use remoting::header::consumer_offset::UpdateConsumerOffset;
use remoting::json;
use remoting::subscription::{EXPRESSION_TAG, SubscriptionData};
use remoting::text::Text;

use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::wire::Link;

/// The opaque of heartbeats: no other request has it, and its answer tells nothing.
pub(crate) const DUTY_OPAQUE: i32 = 1;
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(30);
const COMMIT_PERIOD: Duration = Duration::from_secs(5);
/// How often it is looked whether something is to be done.
const PERIOD: Duration = Duration::from_millis(20);

/// A client with one connection.
pub(crate) struct Member {
    pub(crate) link: Arc<Link>,
    pub(crate) heartbeat: Command,
    pub(crate) commits: Vec<Commit>,
}

/// A queue whose offset a member commits.
pub(crate) struct Commit {
    pub(crate) group: Text,
    pub(crate) topic: Text,
    pub(crate) queue_id: i32,
    pub(crate) encoding: HeaderEncoding,
    /// Behind the last message that was consumed.
    pub(crate) offset: Arc<AtomicI64>,
    pub(crate) committed: i64,
}

impl Commit {
    /// Appends the request if there is anything new. It is one that nobody answers.
    fn write(&mut self, out: &mut BytesMut) {
        let offset = self.offset.load(Ordering::Relaxed);
        if offset == self.committed {
            return;
        }
        self.committed = offset;
        let (consumer_group, topic, queue_id) = (self.group.clone(), self.topic.clone(), self.queue_id);
        let header = UpdateConsumerOffset { consumer_group, topic, queue_id, commit_offset: offset };
        let mut command = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET, header.to_fields()).oneway();
        command.encoding = self.encoding;
        command.encode(out);
    }
}

/// What a producer says of itself.
pub(crate) fn producer_heartbeat(client_id: String, group: &Text) -> Command {
    let producers = vec![ProducerData { group_name: group.clone() }];
    heartbeat(&Heartbeat { client_id: Text::from(client_id), producer_data_set: producers, ..Heartbeat::default() })
}

/// What a consumer of these topics says of itself.
pub(crate) fn consumer_heartbeat(client_id: String, group: &Text, topics: impl Iterator<Item = Text>) -> Command {
    let subscription = |topic| SubscriptionData {
        topic,
        sub_string: Text::from_static("*"),
        expression_type: Text::from_static(EXPRESSION_TAG),
        sub_version: runtime::clock::now_ms().0 as i64,
        ..SubscriptionData::default()
    };
    let consumer = ConsumerData {
        group_name: group.clone(),
        subscription_data_set: topics.map(subscription).collect(),
        ..ConsumerData::default()
    };
    heartbeat(&Heartbeat {
        client_id: Text::from(client_id),
        consumer_data_set: vec![consumer],
        ..Heartbeat::default()
    })
}

fn heartbeat(body: &Heartbeat) -> Command {
    let mut command = Command::request(RequestCode::HEART_BEAT, Fields::new()).with_body(json::encode(body));
    command.opaque = DUTY_OPAQUE;
    command
}

/// The thread that does all that for the members of a phase.
pub(crate) struct Duties {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Duties {
    pub(crate) fn start(mut members: Vec<Member>, clock: RunClock) -> Result<Duties, BenchError> {
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let work = move || {
            let mut heartbeat_ns = clock.now_ns();
            let mut commit_ns = heartbeat_ns + nanoseconds(COMMIT_PERIOD);
            loop {
                let (now_ns, is_over) = (clock.now_ns(), told.load(Ordering::Acquire));
                let (beats, commits) = (now_ns >= heartbeat_ns, now_ns >= commit_ns || is_over);
                members.iter_mut().filter(|member| !member.link.is_broken()).for_each(|member| {
                    member.act(beats, commits);
                });
                if is_over {
                    return;
                }
                if beats {
                    heartbeat_ns += nanoseconds(HEARTBEAT_PERIOD);
                }
                if commits {
                    commit_ns += nanoseconds(COMMIT_PERIOD);
                }
                clock.sleep(PERIOD);
            }
        };
        let thread = runtime::core::thread("duties", work).map_err(BenchError::Executor)?;
        Ok(Duties { over, thread })
    }

    /// Commits what there is, and ends.
    pub(crate) fn finish(self) {
        self.over.store(true, Ordering::Release);
        self.thread.join().expect("a thread that panics ends the process");
    }
}

impl Member {
    fn act(&mut self, beats: bool, commits: bool) {
        let mut out = BytesMut::new();
        if beats {
            self.heartbeat.encode(&mut out);
        }
        if commits {
            self.commits.iter_mut().for_each(|commit| commit.write(&mut out));
        }
        if !out.is_empty() {
            self.link.send(&out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_committed_when_it_moved() {
        let offset = Arc::new(AtomicI64::new(7));
        let [group, topic] = ["G", "T"].map(Text::from);
        let encoding = HeaderEncoding::Json;
        let mut commit = Commit { group, topic, queue_id: 2, encoding, offset: offset.clone(), committed: 7 };
        let mut out = BytesMut::new();
        commit.write(&mut out);
        assert!(out.is_empty());
        offset.store(9, Ordering::Relaxed);
        commit.write(&mut out);
        let command = Command::decode(remoting::frame::split(&mut out).unwrap().unwrap()).unwrap();
        let header = UpdateConsumerOffset::decode(&command.fields).unwrap();
        assert_eq!((command.code, command.is_oneway(), header.queue_id, header.commit_offset), (15, true, 2, 9));
        commit.write(&mut out);
        assert!(out.is_empty());
    }
}
