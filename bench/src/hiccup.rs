//! What the machine alone does to a latency: a thread that sleeps 1 ms again and again, and how much longer it slept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::{RunClock, nanoseconds};
use crate::error::BenchError;
use crate::record::{Kind, Shelf};

const SLEEP: Duration = Duration::from_millis(1);
/// Sleeps between two times of handing over.
const SLEEPS_A_BATCH: usize = 20;

pub(crate) struct HiccupMeter {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl HiccupMeter {
    pub(crate) fn start(shelf: &Arc<Shelf>, clock: RunClock) -> Result<HiccupMeter, BenchError> {
        let over = Arc::new(AtomicBool::new(false));
        let (mut recorder, told, from_ns) = (shelf.recorder(), over.clone(), shelf.span_ns().start);
        let sleep = move || {
            while !told.load(Ordering::Relaxed) {
                for _ in 0..SLEEPS_A_BATCH {
                    let wake_ns = clock.now_ns() + nanoseconds(SLEEP);
                    clock.sleep_until(wake_ns);
                    if wake_ns >= from_ns {
                        recorder.record(Kind::Hiccup, clock.now_ns().saturating_sub(wake_ns));
                    }
                }
                recorder.hand_over();
            }
        };
        let thread = runtime::core::thread("hiccups", sleep).map_err(BenchError::Executor)?;
        Ok(HiccupMeter { over, thread })
    }

    pub(crate) fn finish(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("a thread that panics ends the process");
    }
}
