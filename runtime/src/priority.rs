//! The priority of a thread among those that want the same CPU, and of those that it starts meanwhile.

/// The thread that made it goes before all that has no real-time priority, where that is permitted, and wakes at the very time
/// that it asked for, until it drops it.
#[derive(Debug)]
pub struct RealTime {
    /// Another priority was given before, and stays.
    is_ours: bool,
}

impl RealTime {
    pub fn begin() -> RealTime {
        wake_within(1);
        // SAFETY: the call has no pointers.
        let is_ordinary = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
        let first = libc::sched_param { sched_priority: 1 };
        RealTime { is_ours: is_ordinary && set(libc::SCHED_RR, &first) }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // 0: as late as before.
        wake_within(0);
        if self.is_ours {
            set(libc::SCHED_OTHER, &libc::sched_param { sched_priority: 0 });
        }
    }
}

/// How late this thread may wake, so that the kernel wakes several together. Threads with real-time priority are never late.
fn wake_within(nanoseconds: libc::c_ulong) {
    // SAFETY: the call has no pointers. It is refused nowhere.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) };
}

/// The thread that made it runs as most threads do until it drops it, though its process was given real-time priority.
#[derive(Debug)]
pub struct Ordinary {
    /// Policy and parameters from before, where they were others.
    before: Option<(libc::c_int, libc::sched_param)>,
}

impl Ordinary {
    pub fn begin() -> Ordinary {
        // SAFETY: the call has no pointers.
        let policy = unsafe { libc::sched_getscheduler(0) };
        let mut before = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameters outlive the call.
        let is_known = policy > libc::SCHED_OTHER && unsafe { libc::sched_getparam(0, &raw mut before) } == 0;
        let ordinary = libc::sched_param { sched_priority: 0 };
        // Nobody is refused less than he has.
        let is_set = is_known && set(libc::SCHED_OTHER, &ordinary);
        Ordinary { before: is_set.then_some((policy, before)) }
    }
}

impl Drop for Ordinary {
    fn drop(&mut self) {
        if let Some((policy, parameters)) = &self.before {
            // Where it is not permitted any more, the thread stays as it is.
            set(*policy, parameters);
        }
    }
}

fn set(policy: libc::c_int, parameters: &libc::sched_param) -> bool {
    // SAFETY: the parameters outlive the call.
    unsafe { libc::sched_setscheduler(0, policy, parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: the call has no pointers.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_goes_first_for_a_while_and_so_do_those_it_starts() {
        let policy_of_other = || std::thread::spawn(policy).join().expect("it does not panic");
        std::thread::spawn(move || {
            let permitted = set(libc::SCHED_RR, &libc::sched_param { sched_priority: 1 });
            assert!(!permitted || set(libc::SCHED_OTHER, &libc::sched_param { sched_priority: 0 }));
            let first = RealTime::begin();
            let expected = if permitted { libc::SCHED_RR } else { libc::SCHED_OTHER };
            assert_eq!((policy(), policy_of_other()), (expected, expected));
            drop(RealTime::begin());
            assert_eq!(policy(), expected, "what was given before stays");
            let ordinary = Ordinary::begin();
            assert_eq!((policy(), policy_of_other()), (libc::SCHED_OTHER, libc::SCHED_OTHER));
            drop(ordinary);
            assert_eq!(policy(), expected);
            drop(first);
            assert_eq!((policy(), policy_of_other()), (libc::SCHED_OTHER, libc::SCHED_OTHER));
        })
        .join()
        .expect("it does not panic");
    }

    #[test]
    fn a_thread_is_ordinary_for_a_while() {
        std::thread::spawn(|| {
            let first = libc::sched_param { sched_priority: 1 };
            let permitted = set(libc::SCHED_RR, &first);
            let before = policy();
            assert_eq!(before == libc::SCHED_RR, permitted);
            let ordinary = Ordinary::begin();
            assert_eq!(policy(), libc::SCHED_OTHER);
            drop(ordinary);
            assert_eq!(policy(), before);
        })
        .join()
        .expect("it does not panic");
    }
}
