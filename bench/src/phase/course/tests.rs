use std::net::TcpListener;

use runtime::process::StopSignal;

use super::*;
use crate::plan;
use crate::target::TopicForm;

/// Far below what a question to a target that stands still takes.
const SOON: Duration = Duration::from_secs(4);

/// Phases that ask nothing of a target before they send, at one that stands still: connections come about, and nothing is read or
/// answered. A stop is asked for when so much of the measured span is over.
fn stopped_after(span: Duration, settings: &[&str]) -> (Measured, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let args = TargetArgs::of(listener.local_addr().unwrap());
    let topic = TopicForm { name: Some("T".to_owned()), create: false, check_offsets: false, ..TopicForm::own() };
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let phase = &plan::single("send", &settings, &[], &topic).unwrap()[0];
    let stop = StopSignal::new();
    let mut desk = Desk { stop: stop.clone(), files: None, live: None, outage: None };
    let asks = std::thread::spawn(move || {
        std::thread::sleep(span);
        stop.ask();
        runtime::clock::instant()
    });
    let measured = run(phase, &args, 1, &mut desk).unwrap();
    let ended = runtime::clock::instant();
    (measured, ended.saturating_duration_since(asks.join().unwrap()))
}

#[test]
fn a_stop_ends_a_phase_whose_target_stands_still_and_leaves_nothing_out() {
    let settings = ["rate=200000", "size=100", "warmup=0", "duration=60s"];
    let (measured, after) = stopped_after(Duration::from_millis(700), &settings);
    assert!(after < SOON, "it ends {after:?} after the stop");
    let told = measured.report.json();
    let (figures, faults) = (&told["figures"], told["faults"].to_string());
    assert!(faults.contains("stopped after 0.") && faults.contains("never_sent: "), "{told:#}");
    let number = |path: &str| figures.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or(-1.0);
    // Everything that was due by the stop is in the times, whether it was sent or not.
    let (due, count) = (number("/rate_asked") * number("/seconds"), number("/latency_us/count"));
    assert!(due > 20_000.0 && count > due * 0.99, "{due} due: {figures:#}");
    assert_eq!(count, number("/lost") + number("/never_sent"), "{figures:#}");
    assert!(number("/latency_us/p50") > 100_000.0 && number("/generator_cores") > 0.0, "{figures:#}");
    assert!(told["warnings"].to_string().contains("did not answer where its time goes"), "{told:#}");
}

#[test]
fn a_closed_loop_at_a_target_that_stands_still_is_stopped_as_soon() {
    let (measured, after) = stopped_after(Duration::from_millis(300), &["window=4", "warmup=0", "duration=60s"]);
    assert!(after < SOON, "it ends {after:?} after the stop");
    assert_eq!(measured.report.value("lost"), Some(32.0));
}
