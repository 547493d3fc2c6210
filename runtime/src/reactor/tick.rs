//! A clock beside the cores that wakes each of them now and then.
//!
//! An executor of glommio 0.9 that is kept off its CPU in the wrong instant parks although tasks are queued; a timer of
//! its own does not help, as the timer's task can be among those. A wake from another thread always gets through. It
//! comes from one thread a process and costs a parked core one wake a tick, an awake one nothing.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::task::{Poll, Waker};
use std::time::Duration;

/// How long a core can be parked with work queued.
const TICK: Duration = Duration::from_millis(2);
/// A core that has not taken its last tick gets only every so manieth: wakes that nobody takes must not pile up.
const TICKS_UNTAKEN: u32 = 16;

struct Ticked {
    number: u64,
    waker: Waker,
    taken: Arc<AtomicBool>,
}

#[derive(Default)]
struct Ticker {
    cores: Vec<Ticked>,
    next_number: u64,
}

static TICKER: Mutex<Ticker> = Mutex::new(Ticker { cores: Vec::new(), next_number: 0 });
static START: Once = Once::new();

/// A core's place with the ticker; it gets ticks until this is dropped, which must be on the same core.
pub(crate) struct Ticks {
    number: u64,
}

impl Ticks {
    /// Takes a place for the core of the calling task, which gives `waker`.
    fn new(waker: &Waker, taken: Arc<AtomicBool>) -> Ticks {
        START.call_once(|| {
            std::thread::Builder::new().name("ticker".to_owned()).spawn(tick).expect("one more thread can be started");
        });
        let mut ticker = TICKER.lock().expect("nobody panics with the ticker's lock");
        let number = ticker.next_number;
        ticker.next_number += 1;
        ticker.cores.push(Ticked { number, waker: waker.clone(), taken });
        Ticks { number }
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        TICKER.lock().expect("nobody panics with the ticker's lock").cores.retain(|core| core.number != self.number);
    }
}

/// Takes the ticks of this core for as long as it is polled.
pub(crate) async fn take_ticks() {
    let taken = Arc::new(AtomicBool::new(true));
    let mut place = None;
    poll_fn(|context| {
        taken.store(true, Ordering::Relaxed);
        place.get_or_insert_with(|| Ticks::new(context.waker(), taken.clone()));
        Poll::<()>::Pending
    })
    .await;
}

fn tick() {
    for number in 0_u32.. {
        std::thread::sleep(TICK);
        for core in &TICKER.lock().expect("nobody panics with the ticker's lock").cores {
            if core.taken.swap(false, Ordering::Relaxed) || number.is_multiple_of(TICKS_UNTAKEN) {
                core.waker.wake_by_ref();
            }
        }
    }
}
