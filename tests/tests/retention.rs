//! Old segments go, what is still needed of them does not, and who reads too late is told.

use std::thread;
use std::time::{Duration, Instant};

use harness::connection::Connection;
use harness::frame::Frame;
use harness::mounted::used_percent;
use harness::pop::{Popped, pop};
use harness::process::{Dev, Running};
use harness::request::{
    CODE_OK, CODE_PULL_NOT_FOUND, CODE_PULL_OFFSET_MOVED, MAX_OFFSET, MIN_OFFSET, Pulled, Queue, await_count,
    create_topic, heartbeat, offset_of, pull, read_queue, recall, runtime_number, runtime_text, send,
};
use harness::target::TARGET_VARIABLE;
use harness::transaction::{COMMIT, Half, half};
use harness::{left_out, now_ms, patterned_body, unique_name};

const CLEAN_EXPIRED_QUEUES: i32 = 306;
const DELETE_EXPIRED: i32 = 329;
const BODY_BYTES: usize = 50_000;
/// More than three segments of 1 MiB.
const FILLERS: u32 = 70;
/// How long a round of cleaning may take on a busy machine.
const CLEANED_WITHIN: Duration = Duration::from_secs(20);

/// A broker with one log of small segments that keeps messages for an hour.
fn dev(stem: &str) -> Dev {
    let mut dev = Dev::new(stem).property("mapedFileSizeCommitLog=1048576").property("fileReservedTime=1");
    dev = dev.property("cleanResourceInterval=200").property("deleteCommitLogFilesInterval=1");
    (dev.cores, dev.logs) = (1, 1);
    dev
}

fn is_given(test: &str) -> bool {
    let given = std::env::var_os(TARGET_VARIABLE).is_some();
    if given {
        left_out(test, "the age of segments is changed, so the store must be ours");
    }
    given
}

fn connect(dev: &Dev) -> Connection {
    Connection::open(&dev.broker).expect("the broker takes connections")
}

fn fill(connection: &mut Connection, queue: &Queue, count: u32) {
    for number in 0..count {
        let body = [&number.to_be_bytes()[..], &patterned_body(BODY_BYTES)].concat();
        connection.call_ok(&send(queue, body, "")).expect("stored");
    }
}

fn clean(connection: &mut Connection) {
    connection.call_ok(&Frame::request(DELETE_EXPIRED)).expect("accepted");
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + CLEANED_WITHIN;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come in time");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Lets what is there by now expire, and waits until the first of it is gone.
fn expire(dev: &Dev, connection: &mut Connection) {
    let first = dev.numbered_files("commitlog").into_iter().next().expect("a segment");
    dev.age_segments();
    until("the end of the first segment", || {
        clean(connection);
        !first.exists()
    });
}

/// A18 in the list of public faults.
#[test]
fn who_reads_too_late_is_told_once_and_goes_on() {
    if is_given("who_reads_too_late_is_told_once_and_goes_on") {
        return;
    }
    let dev = dev("retention-late");
    let running = dev.start();
    let mut connection = connect(&dev);
    let (queue, old) = (Queue::new(&unique_name("late"), 0), Queue::new(&unique_name("old"), 0));
    for queue in [&queue, &old] {
        connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    }
    connection.call_ok(&send(&old, "the only one", "")).expect("stored");
    fill(&mut connection, &queue, FILLERS);
    assert!(await_count(&mut connection, &queue, i64::from(FILLERS)));
    clean(&mut connection);
    assert_eq!(offset_of(&mut connection, MIN_OFFSET, &queue).expect("known"), 0, "nothing has expired");
    expire(&dev, &mut connection);
    until("the end of all that expired", || runtime_number(&mut connection, "droppedSegmentsTotal") >= 3);
    let min = offset_of(&mut connection, MIN_OFFSET, &queue).expect("known");
    let max = offset_of(&mut connection, MAX_OFFSET, &queue).expect("known");
    assert!(min > 40 && min < max && max == i64::from(FILLERS), "{min} to {max}");
    let pulled = Pulled::of(&connection.call(&pull("late", &queue, 0, 32)).expect("answered")).expect("a pull");
    assert_eq!((pulled.code, pulled.next_offset, pulled.min_offset), (CODE_PULL_OFFSET_MOVED, min, min));
    assert_eq!(runtime_number(&mut connection, "skippedMessagesTotal"), min as u64);
    let rest = read_queue(&mut connection, &queue, min).expect("the rest is read");
    assert_eq!(
        rest.iter().map(|record| record.queue_offset as i64).collect::<Vec<_>>(),
        (min..max).collect::<Vec<_>>()
    );
    assert!(rest.iter().all(|record| record.body[..4] == (record.queue_offset as u32).to_be_bytes()));
    // Entries go with their records: a queue that has lost all its messages goes on where it was.
    connection.call_ok(&Frame::request(CLEAN_EXPIRED_QUEUES)).expect("accepted");
    drop(running);
    let _running = dev.start();
    let mut connection = connect(&dev);
    let ends = [MIN_OFFSET, MAX_OFFSET].map(|code| offset_of(&mut connection, code, &old).expect("known"));
    assert_eq!(ends, [1, 1]);
    assert_eq!(connection.call_ok(&send(&old, "next", "")).expect("stored").number("queueOffset").expect("given"), 1);
    assert_eq!(offset_of(&mut connection, MIN_OFFSET, &queue).expect("known"), min, "after a kill");
    assert_eq!(read_queue(&mut connection, &queue, min).expect("read").len() as i64, max - min);
    let stored = connection.call_ok(&send(&queue, "next", "")).expect("stored");
    assert_eq!(stored.number("queueOffset").expect("an offset"), max);
}

/// The table of such pulls whose minimum is 0 is in `offsets.rs`.
#[test]
fn b1_a_pull_in_front_of_the_minimum_leads_to_it_and_one_behind_the_end_to_the_end() {
    if is_given("b1_a_pull_in_front_of_the_minimum_leads_to_it_and_one_behind_the_end_to_the_end") {
        return;
    }
    let dev = dev("retention-pulls");
    let _running = dev.start();
    let mut connection = connect(&dev);
    let queue = Queue::new(&unique_name("pulls"), 0);
    connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    fill(&mut connection, &queue, FILLERS);
    assert!(await_count(&mut connection, &queue, i64::from(FILLERS)));
    expire(&dev, &mut connection);
    until("the end of all that expired", || runtime_number(&mut connection, "droppedSegmentsTotal") >= 3);
    let min = offset_of(&mut connection, MIN_OFFSET, &queue).expect("known");
    let max = i64::from(FILLERS);
    assert!(min > 1 && min < max, "{min}");
    for (offset, code, next) in [
        (-1, CODE_PULL_OFFSET_MOVED, min),
        (0, CODE_PULL_OFFSET_MOVED, min),
        (min - 1, CODE_PULL_OFFSET_MOVED, min),
        (min, CODE_OK, min + 1),
        (max - 1, CODE_OK, max),
        (max, CODE_PULL_NOT_FOUND, max),
        (max + 1, CODE_PULL_OFFSET_MOVED, max),
        (max + 1_000_000, CODE_PULL_OFFSET_MOVED, max),
    ] {
        let pulled = Pulled::of(&connection.call(&pull("late", &queue, offset, 1)).expect("answered")).expect("a pull");
        let told = (pulled.code, pulled.next_offset, pulled.min_offset, pulled.max_offset);
        assert_eq!(told, (code, next, min, max), "at {offset}");
    }
}

#[test]
fn what_waits_for_its_time_outlives_its_segment() {
    const WAITING: u64 = 30;
    if is_given("what_waits_for_its_time_outlives_its_segment") {
        return;
    }
    let dev = dev("retention-delay").property("recallMessageEnable=true");
    let mut running = dev.start();
    let mut connection = connect(&dev);
    let (queue, filler) = (Queue::new(&unique_name("wait"), 0), Queue::new(&unique_name("fill"), 0));
    for queue in [&queue, &filler] {
        connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    }
    let due = now_ms() + 30_000;
    let mut handles = Vec::new();
    for number in 0..WAITING {
        let properties = format!("UNIQ_KEY\u{1}key{number}\u{2}TIMER_DELIVER_MS\u{1}{}\u{2}", due + number);
        let answer = connection.call_ok(&send(&queue, format!("m{number}"), &properties)).expect("held");
        handles.push(answer.text("recallHandle").expect("a handle").to_owned());
    }
    connection.call_ok(&recall(&queue.topic, &handles[7])).expect("taken back");
    fill(&mut connection, &filler, FILLERS);
    expire(&dev, &mut connection);
    // One is taken back under its new key, and what is held anew is held anew once more.
    connection.call_ok(&recall(&queue.topic, &handles[9])).expect("taken back");
    running.kill();
    running = dev.start();
    let mut connection = connect(&dev);
    fill(&mut connection, &filler, FILLERS);
    expire(&dev, &mut connection);
    assert!(now_ms() < due, "the machine is too slow for this test: the messages are due already");
    running.kill();
    let _running = dev.start();
    let mut connection = connect(&dev);
    let min = offset_of(&mut connection, MIN_OFFSET, &queue).expect("known");
    thread::sleep(Duration::from_millis((due + WAITING + 200).saturating_sub(now_ms())));
    assert!(await_count(&mut connection, &queue, WAITING as i64 - 2));
    let came = read_queue(&mut connection, &queue, min).expect("read");
    let bodies: Vec<_> = came.iter().map(|record| String::from_utf8_lossy(&record.body).into_owned()).collect();
    let expected: Vec<_> = (0..WAITING).filter(|number| ![7, 9].contains(number)).map(|n| format!("m{n}")).collect();
    assert_eq!(bodies, expected, "each once, in the order of their times");
    assert!(came.iter().all(|record| record.store_ms >= due), "none early");
}

#[test]
fn a_half_message_holds_its_segment_until_it_is_ended() {
    if is_given("a_half_message_holds_its_segment_until_it_is_ended") {
        return;
    }
    let dev = dev("retention-half").property("transactionTimeOut=600000");
    let mut running = dev.start();
    let mut connection = connect(&dev);
    let (queue, filler) = (Queue::new(&unique_name("half"), 0), Queue::new(&unique_name("fill"), 0));
    for queue in [&queue, &filler] {
        connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    }
    let pending = Half::of(&connection.call(&half(&queue, "committed", "")).expect("answered")).expect("stored");
    fill(&mut connection, &filler, FILLERS);
    let first = dev.numbered_files("commitlog").into_iter().next().expect("a segment");
    dev.age_segments();
    clean(&mut connection);
    running.await_line("transactions in it are not ended", CLEANED_WITHIN).expect("the reason is told");
    assert_eq!((runtime_number(&mut connection, "logsHeldBack"), first.exists()), (1, true));
    let by = runtime_text(&mut connection, "logsHeldBackBy").expect("it is told what holds it back");
    assert!(by.contains("oldest segment of log 0") && by.contains("transactions in it are not ended (1)"), "{by}");
    assert_eq!(connection.call(&pending.end(COMMIT)).expect("answered").code, CODE_OK);
    expire(&dev, &mut connection);
    until("a log that is held back no more", || runtime_number(&mut connection, "logsHeldBack") == 0);
    assert_eq!(runtime_text(&mut connection, "logsHeldBackBy"), None);
    running.kill();
    let _running = dev.start();
    let mut connection = connect(&dev);
    let came = read_queue(&mut connection, &queue, 0).expect("read");
    assert_eq!(came.iter().map(|record| &record.body[..]).collect::<Vec<_>>(), [b"committed"]);
    let again = connection.call(&pending.end(COMMIT)).expect("answered");
    assert_ne!(again.code, CODE_OK, "it was ended before: the journal outlives its segment");
}

#[test]
fn what_is_popped_comes_again_before_its_segment_goes() {
    if is_given("what_is_popped_comes_again_before_its_segment_goes") {
        return;
    }
    let dev = dev("retention-pop");
    let running = dev.start();
    let mut connection = connect(&dev);
    let (queue, filler) = (Queue::new(&unique_name("pop"), 0), Queue::new(&unique_name("fill"), 0));
    let group = unique_name("group");
    for queue in [&queue, &filler] {
        connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    }
    connection.call_ok(&heartbeat("popper", &group)).expect("the group is made");
    for number in 0..6 {
        connection.call_ok(&send(&queue, format!("m{number}"), "")).expect("stored");
    }
    let popped = |connection: &mut Connection, invisible_ms: u64| {
        let answer = connection.call(&pop(&group, &queue.topic, invisible_ms, 1_000)).expect("answered");
        Popped::all_of(&answer).expect("a pop")
    };
    let first = popped(&mut connection, 8_000);
    assert_eq!(first.len(), 6);
    for message in &first[..3] {
        connection.call_ok(&message.ack(&group)).expect("acknowledged");
    }
    fill(&mut connection, &filler, FILLERS);
    dev.age_segments();
    clean(&mut connection);
    running.await_line("popped and not acknowledged", CLEANED_WITHIN).expect("the reason is told");
    expire(&dev, &mut connection);
    let mut again = Vec::new();
    until("what was not acknowledged", || {
        again.extend(popped(&mut connection, 60_000).iter().map(Popped::body));
        again.len() >= 3
    });
    again.sort();
    assert_eq!(again, ["m3", "m4", "m5"]);
}

/// What waits is held anew, and its segment is still there when the broker dies: each comes once all the same.
#[test]
fn a_kill_between_holding_anew_and_dropping_loses_and_doubles_none() {
    const NAME: &str = "a_kill_between_holding_anew_and_dropping_loses_and_doubles_none";
    const WAITING: u64 = 20;
    if is_given(NAME) {
        return;
    }
    let dev = dev("retention-kill");
    let mut running = dev.start();
    let mut connection = connect(&dev);
    let (queue, filler) = (Queue::new(&unique_name("wait"), 0), Queue::new(&unique_name("fill"), 0));
    let (popped, group) = (Queue::new(&unique_name("pop"), 0), unique_name("group"));
    for queue in [&queue, &filler, &popped] {
        connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    }
    connection.call_ok(&heartbeat("popper", &group)).expect("the group is made");
    let due = now_ms() + 40_000;
    for number in 0..WAITING {
        let properties = format!("TIMER_DELIVER_MS\u{1}{}\u{2}", due + number);
        connection.call_ok(&send(&queue, format!("m{number}"), &properties)).expect("held");
    }
    // What is popped holds the segment back after what waits was held anew.
    connection.call_ok(&send(&popped, "p", "")).expect("stored");
    let answer = connection.call(&pop(&group, &popped.topic, 300_000, 1_000)).expect("answered");
    assert_eq!(Popped::all_of(&answer).expect("a pop").len(), 1);
    let first = dev.numbered_files("commitlog").into_iter().next().expect("a segment");
    for round in 0..2 {
        fill(&mut connection, &filler, FILLERS);
        let end = runtime_number(&mut connection, "commitLogMaxOffset");
        dev.age_segments();
        clean(&mut connection);
        running.await_line("popped and not acknowledged", CLEANED_WITHIN).expect("the reason is told");
        let is_longer = runtime_number(&mut connection, "commitLogMaxOffset") > end;
        assert!(first.exists() && (is_longer || round > 0), "nothing was held anew in round {round}");
        running.kill();
        running = dev.start();
        connection = connect(&dev);
    }
    assert!(now_ms() < due, "the machine is too slow for this test: the messages are due already");
    thread::sleep(Duration::from_millis((due + WAITING + 500).saturating_sub(now_ms())));
    assert!(await_count(&mut connection, &queue, WAITING as i64));
    let came = read_queue(&mut connection, &queue, 0).expect("read");
    let bodies: Vec<_> = came.iter().map(|record| String::from_utf8_lossy(&record.body).into_owned()).collect();
    assert_eq!(bodies, (0..WAITING).map(|number| format!("m{number}")).collect::<Vec<_>>(), "each once");
}

/// A process that is running, to be looked at when its log tells of cleaning.
fn dropped_at_start(running: &Running) -> bool {
    running.log().contains("is gone: the disk fills")
}

/// A11 in the list of public faults.
#[test]
fn a_disk_that_is_too_full_refuses_sends_with_the_cause() {
    if is_given("a_disk_that_is_too_full_refuses_sends_with_the_cause") {
        return;
    }
    let used = used_percent(&std::env::temp_dir());
    if used <= 36 {
        return left_out("a_disk_that_is_too_full_refuses_sends_with_the_cause", "the disk is emptier than 36%");
    }
    let dev =
        dev("retention-ratio").property("cleanFileForciblyEnable=false").property("diskSpaceWarningLevelRatio=35");
    let dev = dev.property("diskSpaceCleanForciblyRatio=30");
    let running = dev.start();
    let mut connection = connect(&dev);
    let queue = Queue::new(&unique_name("ratio"), 0);
    connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    running.await_line("sends are refused", CLEANED_WITHIN).expect("the state is told");
    let refused = connection.call(&send(&queue, "x", "")).expect("answered");
    assert_eq!(refused.code, 14, "{}", refused.remark);
    assert!(refused.remark.contains("above 35% (diskSpaceWarningLevelRatio)"), "{}", refused.remark);
    assert!(!dropped_at_start(&running), "cleanFileForciblyEnable is false");
    let raise = Frame::request(25).body("diskSpaceWarningLevelRatio=90\ndiskSpaceCleanForciblyRatio=85\n");
    connection.call_ok(&raise).expect("updated");
    until("sends after the limit is raised", || connection.call(&send(&queue, "x", "")).expect("answered").code == 0);
}

#[test]
fn a_refused_send_is_told_what_holds_old_segments_back() {
    let name = "a_refused_send_is_told_what_holds_old_segments_back";
    if is_given(name) {
        return;
    }
    if used_percent(&std::env::temp_dir()) <= 36 {
        return left_out(name, "the disk is emptier than 36%");
    }
    let dev = dev("retention-held").property("transactionTimeOut=600000").property("cleanFileForciblyEnable=true");
    let _running = dev.start();
    let mut connection = connect(&dev);
    let (queue, filler) = (Queue::new(&unique_name("held"), 0), Queue::new(&unique_name("fill"), 0));
    for queue in [&queue, &filler] {
        connection.call_ok(&create_topic(&queue.topic, 1)).expect("made");
    }
    let pending = Half::of(&connection.call(&half(&queue, "pending", "")).expect("answered")).expect("stored");
    fill(&mut connection, &filler, FILLERS);
    let lower = Frame::request(25).body("diskSpaceCleanForciblyRatio=30\ndiskSpaceWarningLevelRatio=35\n");
    connection.call_ok(&lower).expect("updated");
    until("a remark that names the transaction", || {
        let answer = connection.call(&send(&filler, "x", "")).expect("answered");
        answer.code == 14 && answer.remark.contains("transactions in it are not ended (1)")
    });
    let raise = Frame::request(25).body("diskSpaceWarningLevelRatio=90\ndiskSpaceCleanForciblyRatio=85\n");
    connection.call_ok(&raise).expect("updated");
    until("sends after the limit is raised", || connection.call(&send(&filler, "x", "")).expect("answered").code == 0);
    assert_eq!(connection.call(&pending.end(COMMIT)).expect("answered").code, CODE_OK);
}
