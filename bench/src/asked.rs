//! A question to the target that is asked beside, on a thread of its own: whoever measures goes on meanwhile, and decides when
//! waiting for the answer is no use any more.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often whoever waits looks whether waiting is still of use.
const PERIOD: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Asked<T> {
    answer: Receiver<T>,
}

impl<T: Send + 'static> Asked<T> {
    /// The question ends by itself, after the client's own limits at the latest; nobody waits for its thread.
    ///
    /// # Errors
    /// When no thread can be made.
    pub(crate) fn ask(question: impl FnOnce() -> T + Send + 'static) -> io::Result<Asked<T>> {
        let (told, answer) = channel();
        // An answer that nobody waits for any more is dropped.
        runtime::core::thread("asks", move || drop(told.send(question())))?;
        Ok(Asked { answer })
    }

    /// Asks and waits. `None`: it was not answered, or refused, or waiting is of no use any more.
    pub(crate) fn found<E: Send + 'static>(
        question: impl FnOnce() -> Result<T, E> + Send + 'static,
        may_wait: &dyn Fn() -> bool,
    ) -> Option<T> {
        Asked::ask(question).ok()?.answer(may_wait)?.ok()
    }

    /// What was answered. `None`: nothing was, and waiting is of no use any more.
    pub(crate) fn answer(self, may_wait: &dyn Fn() -> bool) -> Option<T> {
        loop {
            match self.answer.recv_timeout(PERIOD) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if may_wait() => {}
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_an_answer_longer_than_is_of_use() {
        assert_eq!(Asked::ask(|| 7).unwrap().answer(&|| true), Some(7));
        let (hold, held) = channel::<()>();
        let asked = Asked::ask(move || held.recv().is_err()).unwrap();
        assert_eq!(asked.answer(&|| false), None);
        drop(hold);
    }
}
