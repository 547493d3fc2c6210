//! Prints the time of a frame on the hot path: a 1 KB send decoded, its header read, its record written, its reply
//! encoded. The only argument is the number of calls a round. Run it in release. It counts the time spent on a core, so that others on the machine disturb it less.

use std::hint::black_box;

use base::{PhysicalOffset, QueueId, QueueOffset};
use bytes::BytesMut;
use remoting::header::send::{REGION_DEFAULT, SendMessage, SendMessageResponse};
use remoting::record::{Placement, RecordDraft, encode, record_bytes};
use remoting::{Command, Fields, HeaderEncoding, RequestCode, ResponseCode, Text, frame};

const BODY_BYTES: usize = 1024;
const CALLS_DEFAULT: u32 = 200_000;
const ROUNDS: usize = 9;

fn main() {
    let calls =
        std::env::args().nth(1).map_or(CALLS_DEFAULT, |calls| calls.parse().expect("a number of calls a round"));
    let json = send_frame(HeaderEncoding::Json);
    let compact = send_frame(HeaderEncoding::Compact);
    let command = Command::decode(json.clone()).expect("our own frame");
    let header = SendMessage::decode(&command.fields).expect("our own header");
    println!("frame of {} bytes, header of {}", json.len() + 4, json.len() - 4 - BODY_BYTES);
    report(calls, "copy and decode, JSON", || Command::decode(json.clone()));
    report(calls, "copy and decode, compact", || Command::decode(compact.clone()));
    report(calls, "copy, decode, JSON, and read the header", || {
        let command = Command::decode(json.clone()).expect("our own frame");
        SendMessage::decode(&command.fields)
    });
    let mut out = BytesMut::with_capacity(4096);
    report(calls, "build and encode a reply, JSON", || {
        out.clear();
        reply(command.opaque).encode(&mut out);
    });
    let ready = reply(command.opaque);
    report(calls, "encode a ready reply, JSON", || {
        out.clear();
        ready.encode_header(0, &mut out);
    });
    let draft = draft(&header, &command.body);
    let mut record = vec![0; record_bytes(&draft)];
    report(calls, "write the record", || encode(&draft, placement(), &mut record));
}

fn report<T>(calls: u32, what: &str, mut call: impl FnMut() -> T) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start_ns = core_ns();
            for _ in 0..calls {
                black_box(call());
            }
            (core_ns() - start_ns) as f64 / f64::from(calls)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{what:<36} {:7.1} ns  (best {:.1})", rounds[ROUNDS / 2], rounds[0]);
}

/// Nanoseconds that this thread has spent on a core, as the kernel counts them.
fn core_ns() -> u64 {
    let counters = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel counts them");
    let spent = counters.split(' ').next().and_then(|spent| spent.parse().ok());
    spent.expect("the first counter is a number")
}

/// A send as a Java producer writes it.
fn send_frame(encoding: HeaderEncoding) -> BytesMut {
    let header = SendMessage {
        producer_group: Text::from("please_rename_unique_group_name"),
        topic: Text::from("TopicTest"),
        default_topic: Text::from("TBW102"),
        default_topic_queue_nums: 4,
        queue_id: 3,
        sys_flag: 0,
        born_timestamp_ms: 1_700_000_000_000,
        flag: 0,
        properties: Text::from(
            "KEYS\u{1}order-1234567\u{2}UNIQ_KEY\u{1}7F000001ABCD18B4AAC2000000000001\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}",
        ),
        reconsume_times: 0,
        unit_mode: false,
        max_reconsume_times: None,
        batch: false,
        broker_name: Some(Text::from("broker-a")),
    };
    let mut fields = Fields::new();
    header.encode_short(&mut fields);
    let mut command = Command::request(RequestCode::SEND_MESSAGE_V2, fields).with_body(vec![7; BODY_BYTES]);
    (command.opaque, command.encoding) = (123_456, encoding);
    let mut stream = BytesMut::new();
    command.encode(&mut stream);
    frame::split(&mut stream).expect("our own frame").expect("a whole frame")
}

fn reply(opaque: i32) -> Command {
    let response = SendMessageResponse {
        msg_id: Text::from_static("7F00000100002A9F0000000000001234"),
        queue_id: 3,
        queue_offset: 123_456,
        transaction_id: None,
        batch_uniq_id: None,
        recall_handle: None,
        region: Text::from_static(REGION_DEFAULT),
        trace_on: true,
    };
    Command::reply(opaque, ResponseCode::SUCCESS).with_fields(response.to_fields())
}

fn draft<'a>(header: &'a SendMessage, body: &'a [u8]) -> RecordDraft<'a> {
    RecordDraft {
        topic: &header.topic,
        queue_id: QueueId(3),
        flag: header.flag,
        sys_flag: header.sys_flag,
        born_timestamp_ms: header.born_timestamp_ms,
        born_host: ([127, 0, 0, 1], 40_000).into(),
        store_host: ([127, 0, 0, 1], 10_911).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: &header.properties,
    }
}

fn placement() -> Placement {
    Placement {
        queue_offset: QueueOffset(123_456),
        physical_offset: PhysicalOffset(0x1234),
        store_timestamp_ms: 1_700_000_000_001,
    }
}
