//! Time: the wall clock for stamps, a monotonic clock for spans.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::Millis;
use futures_lite::FutureExt;
use nix::time::{ClockId, clock_gettime};

/// The wall clock, in milliseconds since 1970.
pub fn now_ms() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(since.as_millis() as u64)
}

/// The hour of the day here, 0 to 23, by the machine's time zone.
pub fn local_hour(now: Millis) -> u8 {
    let seconds = (now.0 / 1000) as libc::time_t;
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the call, and a structure of zeros is a valid `tm`.
    let parts = unsafe {
        libc::localtime_r(&raw const seconds, parts.as_mut_ptr());
        parts.assume_init()
    };
    parts.tm_hour as u8
}

/// A point on the monotonic clock.
pub fn instant() -> Instant {
    Instant::now()
}

/// A point on the monotonic clock as a number, for those who keep many: nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Stamp {
    pub fn now() -> Stamp {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
        Stamp(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
    }

    /// Nanoseconds from an earlier point to this one; 0 when that is the later.
    pub fn since(self, earlier: Stamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub fn minus(self, nanoseconds: u64) -> Stamp {
        Stamp(self.0.saturating_sub(nanoseconds))
    }

    pub fn plus(self, nanoseconds: u64) -> Stamp {
        Stamp(self.0.saturating_add(nanoseconds))
    }
}

/// The wall clock to the nanosecond, as the kernel stamps what arrives.
pub(crate) fn wall_nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

pub async fn sleep(span: Duration) {
    crate::reactor::sleep(span).await;
}

/// The future's result, or `None` when it took longer than `span`; it is dropped then.
pub async fn within<T>(span: Duration, future: impl Future<Output = T>) -> Option<T> {
    let late = async {
        sleep(span).await;
        None
    };
    async { Some(future.await) }.or(late).await
}
