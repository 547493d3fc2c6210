//! What comes once the imported store is served: everything that waited, once, and nothing that was done.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use super::fill::{Filled, INNER, POP_GROUP};
use crate::connection::Connection;
use crate::frame::Frame;
use crate::now_ms;
use crate::pop::{Popped, pop};
use crate::record::Record;
use crate::request::{Queue, heartbeat, heartbeat_of, pull_waiting, read_queue, send};
use crate::transaction::{CHECK_TRANSACTION, COMMIT, END_TRANSACTION};

/// How much later than its time, or than the start, a message may come here.
const LATE_MAX: Duration = Duration::from_secs(30);
/// Apache rounds times down, and loses a second of some.
const EARLY_MS_MAX: u64 = 2000;
/// How long it is watched whether anything comes again.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// # Errors
/// What did not come, came twice, or too early.
pub fn check(broker: &str, filled: &Filled, recent: &[(Queue, u64)]) -> Result<(), String> {
    let run = || -> io::Result<()> {
        let mut connection = Connection::open(broker)?;
        pending_half(broker, &filled.half_topic)?;
        inner_batches(&mut connection)?;
        waiting(&mut connection, filled)?;
        popped(&mut connection, filled)?;
        std::thread::sleep(AFTERWARDS);
        for (queue, count) in recent {
            let records = read_queue(&mut connection, queue, 0)?;
            let bodies = counts(&records);
            if records.len() as u64 != *count || bodies.len() != records.len() {
                return Err(io::Error::other(format!(
                    "{queue:?}: {count} were delivered before, now there are {bodies:?}"
                )));
            }
        }
        let later = (0..4).map(|id| read_queue(&mut connection, &Queue::new("Import-later", id), 0));
        let later = later.collect::<io::Result<Vec<_>>>()?.concat();
        if later.len() != 40 {
            return Err(io::Error::other(format!("40 messages waited, there are {:?}", counts(&later))));
        }
        new_messages_go_on(&mut connection)
    };
    run().map_err(|error| error.to_string())
}

fn counts(records: &[Record]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for record in records {
        *counts.entry(String::from_utf8_lossy(&record.body).into_owned()).or_default() += 1;
    }
    counts
}

/// Batches of five that were one record each.
fn inner_batches(connection: &mut Connection) -> io::Result<()> {
    let records = read_queue(connection, &Queue::new(INNER, 1), 0)?;
    let found: Vec<_> = records
        .iter()
        .map(|record| (record.queue_offset, String::from_utf8_lossy(&record.body).into_owned()))
        .collect();
    let expected: Vec<_> = (0..15).map(|offset| (offset, format!("batched {}", offset % 5))).collect();
    if found != expected {
        return Err(io::Error::other(format!("inner batches became {found:?}")));
    }
    Ok(())
}

/// The producers of a half message are asked about it, and their word counts.
fn pending_half(broker: &str, topic: &str) -> io::Result<()> {
    let mut producer = Connection::open(broker)?;
    producer.call_ok(&heartbeat("import-producer", "Import-other"))?;
    let question = loop {
        let frame = producer.receive()?;
        if frame.code == CHECK_TRANSACTION && !frame.is_answer() {
            break frame;
        }
    };
    let end = Frame::request(END_TRANSACTION)
        .field("producerGroup", crate::transaction::PRODUCER_GROUP)
        .field("tranStateTableOffset", question.number("tranStateTableOffset")?)
        .field("commitLogOffset", question.number("commitLogOffset")?)
        .field("commitOrRollback", COMMIT)
        .field("fromTransactionCheck", true)
        .field("msgId", question.text("msgId")?)
        .field("transactionId", question.text("transactionId")?);
    producer.call_ok(&end)?;
    let records = read_queue(&mut producer, &Queue::new(topic, 2), 0)?;
    let bodies: Vec<_> = records.iter().map(|record| String::from_utf8_lossy(&record.body).into_owned()).collect();
    if bodies != ["committed", "pending"] {
        return Err(io::Error::other(format!("the halves became {bodies:?}")));
    }
    Ok(())
}

fn waiting(connection: &mut Connection, filled: &Filled) -> io::Result<()> {
    for (queue, body, due_ms) in &filled.waiting {
        let deadline = Instant::now() + Duration::from_millis(due_ms.saturating_sub(now_ms())) + LATE_MAX;
        let record = loop {
            let found = read_queue(connection, queue, 0)?.into_iter().filter(|record| record.body == body.as_bytes());
            let found: Vec<_> = found.collect();
            match found.len() {
                // A message that came again and waits once more is there with the tries before.
                0 if Instant::now() < deadline => {}
                0 => return Err(io::Error::other(format!("{queue:?}: {body:?} does not come"))),
                1 => break found[0].clone(),
                more => return Err(io::Error::other(format!("{queue:?}: {body:?} came {more} times"))),
            }
            let held = pull_waiting("harness-reader", queue, record_end(connection, queue)?, 500);
            connection.call(&held)?;
        };
        if record.store_ms + EARLY_MS_MAX < *due_ms {
            return Err(io::Error::other(format!("{body:?} was due at {due_ms} and came at {}", record.store_ms)));
        }
    }
    Ok(())
}

fn record_end(connection: &mut Connection, queue: &Queue) -> io::Result<i64> {
    super::fill::max_offset(connection, queue)
}

/// What was popped and not acknowledged comes again, and nothing else.
fn popped(connection: &mut Connection, filled: &Filled) -> io::Result<()> {
    let topic = &filled.pop_topic;
    connection.call_ok(&heartbeat_of("import-popper", POP_GROUP, "CLUSTERING", &[(topic.as_str(), "*", 1)]))?;
    let deadline = Instant::now() + LATE_MAX + Duration::from_secs(240);
    let mut again = Vec::new();
    while again.len() < filled.unacknowledged.len() && Instant::now() < deadline {
        again.extend(Popped::all_of(&connection.call(&pop(POP_GROUP, topic, 60_000, 1000))?)?);
    }
    again.extend(Popped::all_of(&connection.call(&pop(POP_GROUP, topic, 60_000, 1000))?)?);
    let mut bodies: Vec<_> = again.iter().map(Popped::body).collect();
    let mut expected = filled.unacknowledged.clone();
    bodies.sort();
    expected.sort();
    if bodies != expected {
        return Err(io::Error::other(format!("popped again were {bodies:?}, not {expected:?}")));
    }
    Ok(())
}

/// A queue whose messages are all gone gives the next offset to the next message.
fn new_messages_go_on(connection: &mut Connection) -> io::Result<()> {
    let queue = Queue::new("Import-gone", 0);
    let max = super::fill::max_offset(connection, &queue)?;
    let stored = connection.call_ok(&send(&queue, "new", ""))?.number("queueOffset")?;
    if max != 50 || stored != max {
        return Err(io::Error::other(format!("{queue:?} ended at {max}, and the next message got {stored}")));
    }
    Ok(())
}
