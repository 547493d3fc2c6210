//! The priority of a thread among those that want the same CPU.

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
