//! What one connection sends to one queue without waiting for answers lies there in the order in which it was sent, also
//! where sends have to wait for the log's next segment.

use harness::connection::Connection;
use harness::process::Dev;
use harness::request::{Queue, create_topic, read_queue_of, send};
use harness::target::TARGET_VARIABLE;
use harness::{left_out, unique_name};

const MESSAGES: u64 = 6_000;
const BYTES: usize = 3_000;
const IN_FLIGHT: u64 = 64;

#[test]
fn sends_of_one_connection_stay_in_order_through_rolls() {
    if std::env::var_os(TARGET_VARIABLE).is_some() {
        return left_out("sends_of_one_connection_stay_in_order_through_rolls", "it chooses the size of segments");
    }
    for flush in ["SYNC_FLUSH", "ASYNC_FLUSH"] {
        let property = format!("flushDiskType={flush}");
        let dev = Dev::new("order").property("mapedFileSizeCommitLog=1048576").property(&property);
        let _running = dev.start();
        let mut connection = Connection::open(&dev.broker).expect("it listens");
        let topic = unique_name("order");
        connection.call_ok(&create_topic(&topic, 1)).expect("made");
        let queue = Queue::new(&topic, 0);
        let body = |number: u64| format!("{number:0BYTES$}");
        for number in 0..MESSAGES + IN_FLIGHT {
            if number < MESSAGES {
                connection.send(&send(&queue, body(number), "")).expect("sent");
            }
            if number >= IN_FLIGHT {
                assert_eq!(connection.receive().expect("answered").code, 0);
            }
        }
        let records = read_queue_of(&mut connection, &queue, MESSAGES as usize);
        let wrong: Vec<_> =
            (0_u64..).zip(&records).filter(|(number, record)| record.body != body(*number).as_bytes()).collect();
        assert!(
            records.len() as u64 == MESSAGES && wrong.is_empty(),
            "{flush}: {} of {} are elsewhere",
            wrong.len(),
            records.len()
        );
    }
}
