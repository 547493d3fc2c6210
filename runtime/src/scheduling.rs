//! How the kernel shares CPUs among our threads and its own: helpers give way to cores, a core leaves a CPU that others keep
//! busy, and where threads of the kernel have to wait for one, ours do their work.
//!
//! A pinned thread wastes no cache and is never in the way of another core. But it has to wait for whoever else computes on
//! its CPU, and kernels that preempt lazily let it wait to the next tick: 3 ms for each message. So a core that has to wait
//! gives up its place, and the kernel finds it a CPU that is free.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::clock::Stamp;
use crate::{clock, console};

/// Where a helper and a core want the same CPU, the core goes first.
const HELPER_NICENESS: libc::c_int = 10;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A core that waited longer than this, that often in a row, leaves its CPU.
const WAITED_MAX: Duration = Duration::from_millis(50);
const LOOKS: u32 = 3;

/// A write that takes longer is late: a disk seldom takes so long, a thread of the kernel that waits for a CPU often does.
pub(crate) const LATE: Duration = Duration::from_millis(50);
/// After a late write, writes are calls for so long: each time twice as long, if it comes again soon after, as it does where
/// CPUs stay busy. After a load that has ended, or a disk that stood still once, a call is but slower.
const CALLS_FOR_MIN: Duration = Duration::from_secs(10);
const CALLS_FOR_MAX: Duration = Duration::from_secs(600);

/// In nanoseconds of the monotonic clock.
static CALLS_UNTIL: AtomicU64 = AtomicU64::new(0);
static CALLS_FOR: AtomicU64 = AtomicU64::new(0);

/// Notes that a write was late.
pub(crate) fn note_late() {
    let (now, until) = (now_ns(), CALLS_UNTIL.load(Ordering::Relaxed));
    // Those that were under way with the first one tell nothing new.
    if until <= now {
        let span = calls_for(CALLS_FOR.load(Ordering::Relaxed), now - until);
        // Of several cores that see it at once, one counts.
        if CALLS_UNTIL.compare_exchange(until, now + span, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            CALLS_FOR.store(span, Ordering::Relaxed);
        }
    }
}

/// Whether a write was late not long ago, so that threads of ours had better do what threads of the kernel would end.
pub(crate) fn was_late() -> bool {
    let until = CALLS_UNTIL.load(Ordering::Relaxed);
    until > 0 && until > now_ns()
}

fn now_ns() -> u64 {
    Stamp::now().since(Stamp::default())
}

/// For how long writes are calls now, when they were for `before` and then were not for `pause`. Nanoseconds.
fn calls_for(before: u64, pause: u64) -> u64 {
    let [min, max] = [CALLS_FOR_MIN, CALLS_FOR_MAX].map(|span| span.as_nanos() as u64);
    if pause < before { (2 * before).min(max) } else { min }
}

/// This thread works for cores. It inherits their real-time priority if they have one, and gives that up.
pub(crate) fn as_helper() {
    let no_priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: plain calls about this thread. Where they are refused, all threads are equal.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const no_priority);
        libc::setpriority(libc::PRIO_PROCESS, 0, HELPER_NICENESS);
    }
}

/// Watches a core that is pinned to `cpu`, from one of its own tasks, until it has left.
pub(crate) async fn leave_when_busy(cpu: usize) {
    let Some(mut before) = waited() else { return };
    let mut in_a_row = 0;
    while in_a_row < LOOKS {
        clock::sleep(LOOK_EVERY).await;
        let Some(now) = waited() else { return };
        in_a_row = if now.saturating_sub(before) > WAITED_MAX { in_a_row + 1 } else { 0 };
        before = now;
    }
    if leave().is_ok() {
        console::tell(format_args!(
            "ringmq: CPU {cpu} is kept busy by others: the core on it runs where there is room from now on"
        ));
    }
}

/// How long this thread was ready and did not run, since its start.
pub(crate) fn waited() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    waited_in(&text)
}

/// The second of three numbers: nanoseconds on a CPU, nanoseconds waiting for one, turns.
fn waited_in(text: &str) -> Option<Duration> {
    text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Lets this thread run wherever the process may.
pub(crate) fn leave() -> nix::Result<()> {
    let allowed: CpuSet = sched_getaffinity(Pid::this())?;
    sched_setaffinity(Pid::from_raw(0), &allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_calls_for_longer_only_when_they_are_late_again_and_again() {
        let second = 1_000_000_000;
        let mut span = 0;
        let mut spans = Vec::new();
        for pause in [u64::MAX, 1, 1, 1, 1, 1, 1, 1, 600, 599] {
            span = calls_for(span, pause.saturating_mul(second));
            spans.push(span / second);
        }
        assert_eq!(spans, [10, 20, 40, 80, 160, 320, 600, 600, 10, 10]);
    }

    #[test]
    fn waiting_is_read() {
        assert_eq!(waited_in("12 3400 5\n"), Some(Duration::from_nanos(3400)));
        assert_eq!(waited_in("12"), None);
        assert!(waited().is_some(), "the kernel counts it");
    }

    /// Two threads pinned to one CPU, one of which computes without end: the other leaves.
    #[test]
    fn a_core_leaves_a_busy_cpu() {
        let allowed = sched_getaffinity(Pid::this()).expect("known");
        let cpu = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu) == Ok(true)).expect("one at least");
        let mut one = CpuSet::new();
        one.set(cpu).expect("a CPU that is there");
        let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let hog = {
            let ended = ended.clone();
            std::thread::spawn(move || {
                sched_setaffinity(Pid::from_raw(0), &one).expect("pinned");
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let core = std::thread::spawn(move || {
            sched_setaffinity(Pid::from_raw(0), &one).expect("pinned");
            crate::run_here(async move {
                crate::spawn(async {
                    loop {
                        // As much as its CPU gives.
                        let began = std::time::Instant::now();
                        while began.elapsed() < Duration::from_millis(1) {
                            std::hint::spin_loop();
                        }
                        crate::yield_now().await;
                    }
                });
                leave_when_busy(cpu).await;
                sched_getaffinity(Pid::from_raw(0)).expect("known")
            })
        });
        let now = core.join().expect("no panic").expect("an executor");
        ended.store(true, Ordering::Relaxed);
        hog.join().expect("no panic");
        assert!((0..CpuSet::count()).all(|cpu| now.is_set(cpu) == allowed.is_set(cpu)), "it may run anywhere");
    }
}
