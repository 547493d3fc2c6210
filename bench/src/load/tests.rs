use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use base::Random;
use bytes::BytesMut;
use remoting::command::{Command, HeaderEncoding};
use remoting::fields::Fields;
use remoting::frame;
use remoting::header::send::SendMessage;
use remoting::text::Text;

use super::*;
use crate::payload;
use crate::record::{Gathered, Kind};

/// Which offset a queue's message `count` is told, and by which code.
type Answers = fn(count: i64) -> (i64, i32);

/// A broker of one queue and one connection: it answers every send at once.
fn broker(answers: Answers) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || serve(&listener.accept().unwrap().0, answers));
    address
}

fn serve(mut stream: &TcpStream, answers: Answers) {
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    let mut chunk = vec![0; 64 << 10];
    let mut count = 0;
    while let Ok(received) = stream.read(&mut chunk) {
        if received == 0 {
            return;
        }
        input.extend_from_slice(&chunk[..received]);
        while let Some(frame) = frame::split(&mut input).unwrap() {
            let command = Command::decode(frame).unwrap();
            assert_eq!(SendMessage::decode(&command.fields).unwrap().topic, "T");
            assert!(matches!(payload::read(&command.body), payload::Content::Ours(_)));
            let (offset, code) = answers(count);
            count += 1;
            let mut fields = Fields::new();
            fields.push("queueId", 0);
            fields.push("queueOffset", offset);
            Command::reply(command.opaque, code).with_fields(fields).encode(&mut output);
        }
        if stream.write_all(&output).is_err() {
            return;
        }
        output.clear();
    }
}

/// What came of a load of 100-byte messages over one connection: all of it, and its times.
fn run(answers: Answers, drive: &Drive, warmup_ms: u64, duration_ms: u64) -> (Finished, Gathered) {
    run_at(broker(answers), drive, warmup_ms, duration_ms, &|| true)
}

fn run_at(
    broker: SocketAddr,
    drive: &Drive,
    warmup_ms: u64,
    duration_ms: u64,
    may_wait: &dyn Fn() -> bool,
) -> (Finished, Gathered) {
    let target = Target {
        broker,
        lanes: Lanes { topics: vec![Text::from("T")], queues: 1 },
        server_pid: None,
        slower_than_ns: 0,
        encoding: HeaderEncoding::Json,
        starts: vec![0],
        run: 1,
    };
    let form = target.send_form(vec![payload::blank(100, 1.0, &mut Random::new(1))]);
    let clock = RunClock::start();
    let start_ns = clock.now_ns() + nanoseconds(START_DELAY);
    let from_ns = start_ns + warmup_ms * 1_000_000;
    let shelf = Shelf::new(from_ns..from_ns + duration_ms * 1_000_000);
    let links = Link::open_all(target.broker, 1).unwrap();
    let running = RunningLoad::start(&target, &form, links, drive, start_ns, &shelf, clock).unwrap();
    while clock.now_ns() < shelf.span_ns().end && !running.has_ended() {
        clock.sleep(Duration::from_millis(1));
    }
    let finished = running.finish(may_wait);
    let (mut taken, mut spare) = (Gathered::new(), Gathered::new());
    shelf.take(&mut taken, &mut spare);
    (finished, taken)
}

#[test]
fn a_closed_loop_sends_what_is_asked_for_and_no_more() {
    let drive = Drive::Window { requests: 16, requests_max: 1000 };
    let (Finished { tally, ended_early }, _) = run(|count| (count, 0), &drive, 0, 60_000);
    assert!(ended_early);
    assert_eq!((tally.answered, tally.errors.total(), tally.lost), (1000, 0, 0));
    assert_eq!((tally.strange_answers, tally.unreadable, tally.connections_lost), (0, 0, 0));
    assert_eq!(tally.offsets.unwrap().faults(), Default::default());
}

#[test]
fn refusals_gaps_and_duplicates_of_a_broker_are_found() {
    // Message 10 is refused, 20 is told the offset of 19, and offset 30 is told to nobody.
    let answers = |count| match count {
        10 => (0, 2),
        20 => (18, 0),
        11..30 => (count - 1, 0),
        30.. => (count, 0),
        _ => (count, 0),
    };
    let drive = Drive::Window { requests: 4, requests_max: 100 };
    let tally = run(answers, &drive, 0, 60_000).0.tally;
    let faults = tally.offsets.unwrap().faults();
    assert_eq!((tally.errors.total(), faults.duplicates, faults.gaps), (1, 1, 2));
}

#[test]
fn an_open_loop_sends_at_its_rate_whatever_the_answers_say() {
    let drive = Drive::Rate { arrivals: Arrivals::Even { rate: 1000.0 }, tick_ns: 0 };
    let (Finished { tally, ended_early }, seen) =
        run(|count| (count, if count % 2 == 0 { 0 } else { 2 }), &drive, 100, 400);
    assert!(!ended_early);
    assert_eq!((tally.answered, tally.sent_in_span, tally.errors.total()), (500, 400, 250));
    assert_eq!((seen.times(Kind::Send).len(), seen.times(Kind::SendLag).len() + tally.held_back), (200, 400));
    assert_eq!((tally.strange_answers, tally.lost), (0, 0));
}

#[test]
fn what_was_due_at_a_target_that_takes_nothing_more_is_never_left_out() {
    // Nobody reads what is sent: the sockets are full after some of the 26 MB.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let drive = Drive::Rate { arrivals: Arrivals::Even { rate: 200_000.0 }, tick_ns: 0 };
    let (Finished { tally, .. }, seen) = run_at(listener.local_addr().unwrap(), &drive, 100, 400, &|| false);
    let never_sent = tally.never_sent.unwrap();
    assert_eq!((tally.answered, tally.sent_in_span + never_sent.messages), (0, 80_000));
    assert_eq!((never_sent.held_back, seen.times(Kind::Send).len()), (never_sent.messages, tally.sent_in_span));
    let (longest_ns, _) = never_sent.beyond(0).last().unwrap();
    assert!((1..60_000_000_000).contains(&longest_ns), "{longest_ns}");
    assert_eq!(never_sent.beyond(0).map(|(_, count)| count).sum::<u64>(), never_sent.messages);
    assert!(never_sent.messages > 1000 && tally.lost > 0, "{} never sent, {} lost", never_sent.messages, tally.lost);
}

#[test]
fn what_nobody_answers_has_waited_until_the_end() {
    let answers = |count| {
        std::thread::sleep(Duration::from_millis(if count < 50 { 1 } else { 60_000 }));
        (count, 0)
    };
    for drive in [
        Drive::Window { requests: 4, requests_max: u64::MAX },
        Drive::Rate { arrivals: Arrivals::Even { rate: 500.0 }, tick_ns: 0 },
    ] {
        let (Finished { tally, .. }, seen) = run_at(broker(answers), &drive, 0, 500, &|| false);
        let times = seen.times(Kind::Send);
        assert!(tally.lost >= 4 && times.len() >= tally.lost, "{drive:?}: {} lost", tally.lost);
        assert!(times.max() > 300_000_000, "{drive:?}: the longest of {} is {} ns", times.len(), times.max());
    }
}

#[test]
fn connections_share_the_messages_without_overlap() {
    for (messages, count) in [(10, 3), (0, 2), (8, 8), (1, 4)] {
        let places = (0..count).map(|index| Place { index, count });
        let mut numbers: Vec<u64> =
            places.flat_map(|place| (0..place.share(messages)).map(move |turn| place.number(turn))).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..messages).collect::<Vec<_>>(), "{messages} among {count}");
    }
    let place = Place { index: 2, count: 5 };
    assert_eq!((place.turn(place.number(9)), place.turn(8)), (Some(9), None));
}
