//! Lines for operators, on stderr: one line a fact, written where it is handled.

use std::cell::RefCell;
use std::fmt::Arguments;
use std::time::{Duration, Instant};

use runtime::{clock, console};

/// The same line about what goes wrong again and again is written so often at most …
const SAME_EVERY: Duration = Duration::from_secs(60);
/// … and another one about it so often.
const OTHER_EVERY: Duration = Duration::from_secs(10);

/// Something that happened and needs nobody.
pub(crate) fn note(line: Arguments<'_>) {
    console::tell(format_args!("ringmq: {line}"));
}

/// Something that an operator should look at; the line says what to do.
pub(crate) fn warn(line: Arguments<'_>) {
    console::tell(format_args!("ringmq: warning: {line}"));
}

/// Something that is tried again and again: that it goes wrong is told when it begins, when it changes, and each minute; and
/// that it is over.
#[derive(Default)]
pub(crate) struct Repeated {
    told: RefCell<Option<Told>>,
}

struct Told {
    at: Instant,
    line: String,
    /// How often it went wrong since, untold.
    missed: u64,
}

impl Repeated {
    /// It went wrong, once more perhaps.
    pub(crate) fn warn(&self, line: Arguments<'_>) {
        if let Some(line) = self.line(clock::instant(), line.to_string()) {
            warn(format_args!("{line}"));
        }
    }

    /// It went well. The line is written if it went wrong before.
    pub(crate) fn over(&self, line: Arguments<'_>) {
        if self.told.take().is_some() {
            note(line);
        }
    }

    /// What is to be written now.
    fn line(&self, now: Instant, line: String) -> Option<String> {
        let mut told = self.told.borrow_mut();
        let mut missed = 0;
        if let Some(told) = &mut *told {
            let pause = if told.line == line { SAME_EVERY } else { OTHER_EVERY };
            if now < told.at + pause {
                told.missed += 1;
                return None;
            }
            missed = told.missed;
        }
        *told = Some(Told { at: now, line: line.clone(), missed: 0 });
        Some(if missed == 0 { line } else { format!("{line} ({missed} more since it was told last)") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_again_is_told_now_and_then() {
        let (repeated, start) = (Repeated::default(), clock::instant());
        for (second, line, told) in [
            (0, "full", Some("full")),
            (1, "full", None),
            (2, "gone", None),
            (10, "gone", Some("gone (2 more since it was told last)")),
            (69, "gone", None),
            (70, "gone", Some("gone (1 more since it was told last)")),
            (130, "gone", Some("gone")),
        ] {
            let now = start + Duration::from_secs(second);
            assert_eq!(repeated.line(now, line.to_owned()).as_deref(), told, "second {second}");
        }
        repeated.over(format_args!("over"));
        assert_eq!(repeated.line(start, "gone".to_owned()).as_deref(), Some("gone"), "it begins anew");
    }
}
