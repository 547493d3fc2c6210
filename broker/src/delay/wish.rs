//! When a message is to be delivered, by what its properties ask. Pure.

use base::Millis;
use remoting::code::ResponseCode;
use remoting::properties::{
    DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELAY_SECONDS, TIMER_DELETE_UNIQUE_KEY, TIMER_DELIVER_MS,
};

use crate::call::Refusal;
use crate::config::Delays;

/// The properties of a message that ask for a later delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish<'a> {
    pub(crate) level: Option<&'a str>,
    pub(crate) delay_seconds: Option<&'a str>,
    pub(crate) delay_ms: Option<&'a str>,
    pub(crate) deliver_ms: Option<&'a str>,
    /// The message is none, but takes back the timed message with this unique key.
    pub(crate) deletes: Option<&'a str>,
}

/// When to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// After the delay of a level.
    Level(Millis),
    /// At a time of the sender's choice.
    Timer(Millis),
}

impl Due {
    /// Now, when the message is not held.
    pub(crate) fn later(self) -> Option<Millis> {
        match self {
            Due::Now => None,
            Due::Level(due) | Due::Timer(due) => Some(due),
        }
    }

    /// After the delay of a level; a level above the last means the last.
    pub(crate) fn after_level(level: i64, delays: &Delays, now: Millis) -> Due {
        let Some(index) = usize::try_from(level).ok().and_then(|level| level.checked_sub(1)) else { return Due::Now };
        let delay = delays.levels[index.min(delays.levels.len() - 1)];
        Due::Level(Millis(now.0 + delay.0))
    }
}

impl Wish<'_> {
    /// Whether it asks for any delay, be it none.
    pub(crate) fn is_any(&self) -> bool {
        [self.level, self.delay_seconds, self.delay_ms, self.deliver_ms].iter().any(Option::is_some)
    }

    /// A level counts before a time; of several times the first in the order of the fields.
    ///
    /// # Errors
    /// When a number is none, or the time is too far ahead, or times are switched off.
    pub(crate) fn due(&self, delays: &Delays, now: Millis) -> Result<Due, Refusal> {
        if let Some(text) = self.level {
            let due = Due::after_level(level(text)?, delays, now);
            if due != Due::Now {
                return Ok(due);
            }
        }
        let wanted = match (self.delay_seconds, self.delay_ms, self.deliver_ms) {
            (Some(text), _, _) => after(now, number(TIMER_DELAY_SECONDS, text)?.saturating_mul(1000)),
            (None, Some(text), _) => after(now, number(TIMER_DELAY_MS, text)?),
            (None, None, Some(text)) => number(TIMER_DELIVER_MS, text)?,
            (None, None, None) => return Ok(Due::Now),
        };
        if !delays.timers {
            let remark = "timed messages are switched off on this broker (timerWheelEnable=false): nothing was stored";
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
        if self.deletes.is_some() {
            // Delivered as a message it would do harm.
            let remark =
                format!("{TIMER_DELETE_UNIQUE_KEY} is not served: take the message back by its recall handle (370)");
            return Err(illegal(remark));
        }
        let wanted = u64::try_from(wanted).unwrap_or(0);
        let ahead = wanted.saturating_sub(now.0);
        if ahead > delays.timer_delay_max.0 {
            return Err(illegal(format!(
                "timer message illegal, the delay time should not be bigger than the max delay {}ms \
                 (timerMaxDelaySec): the message is to be delivered in {ahead} ms",
                delays.timer_delay_max.0
            )));
        }
        Ok(if ahead == 0 { Due::Now } else { Due::Timer(Millis(wanted)) })
    }
}

fn after(now: Millis, delay_ms: i64) -> i64 {
    i64::try_from(now.0).unwrap_or(i64::MAX).saturating_add(delay_ms)
}

/// A level is a number of 32 bits, and another text no message of any kind: so says the code that clients know.
fn level(text: &str) -> Result<i64, Refusal> {
    text.parse::<i32>().map(i64::from).map_err(|_| {
        let remark = format!("the property {DELAY_LEVEL} is {text:?}: it must be a whole number of 32 bits");
        Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
    })
}

fn number(name: &str, text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| illegal(format!("the property {name} is {text:?}: it must be a whole number")))
}

fn illegal(remark: String) -> Refusal {
    Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000_000);

    fn delays() -> Delays {
        Delays {
            levels: vec![Millis(1000), Millis(5000), Millis(10_000)],
            timers: true,
            timer_delay_max: Millis(60_000),
            recall: false,
            recall_when_not_writable: true,
        }
    }

    #[test]
    fn each_wish_has_its_time() {
        let at = |delay_ms| Millis(NOW.0 + delay_ms);
        let none = Wish::default();
        let level = |text| Wish { level: Some(text), ..none };
        let cases = [
            (none, Ok(Due::Now)),
            (level("1"), Ok(Due::Level(at(1000)))),
            (level("3"), Ok(Due::Level(at(10_000)))),
            (level("99"), Ok(Due::Level(at(10_000)))),
            (level("0"), Ok(Due::Now)),
            (level("-1"), Ok(Due::Now)),
            (level("2147483647"), Ok(Due::Level(at(10_000)))),
            (level("-2147483648"), Ok(Due::Now)),
            (Wish { delay_seconds: Some("2"), ..none }, Ok(Due::Timer(at(2000)))),
            (Wish { delay_ms: Some("3200"), ..none }, Ok(Due::Timer(at(3200)))),
            (Wish { deliver_ms: Some("1000001"), ..none }, Ok(Due::Timer(at(1)))),
            (Wish { deliver_ms: Some("1000000"), ..none }, Ok(Due::Now)),
            (Wish { deliver_ms: Some("7"), ..none }, Ok(Due::Now)),
            (Wish { delay_ms: Some("-7"), ..none }, Ok(Due::Now)),
            (Wish { delay_ms: Some("60000"), ..none }, Ok(Due::Timer(at(60_000)))),
            (Wish { delay_ms: Some("60001"), ..none }, Err(())),
            (Wish { delay_seconds: Some("9223372036854775807"), ..none }, Err(())),
            (Wish { delay_ms: Some("1.5"), ..none }, Err(())),
            (
                Wish { delay_seconds: Some("1"), delay_ms: Some("9"), deliver_ms: Some("x"), ..none },
                Ok(Due::Timer(at(1000))),
            ),
            (Wish { deletes: Some("T+key"), delay_ms: Some("9"), ..none }, Err(())),
            (Wish { deletes: Some("T+key"), level: Some("2"), ..none }, Ok(Due::Level(at(5000)))),
            (Wish { delay_ms: Some("9"), deliver_ms: Some("x"), ..none }, Ok(Due::Timer(at(9)))),
            (Wish { level: Some("2"), deliver_ms: Some("x"), ..none }, Ok(Due::Level(at(5000)))),
            (Wish { level: Some("0"), delay_ms: Some("9"), ..none }, Ok(Due::Timer(at(9)))),
        ];
        for (wish, due) in cases {
            let found = wish.due(&delays(), NOW).map_err(|refusal| {
                assert_eq!(refusal.code, ResponseCode::MESSAGE_ILLEGAL, "{wish:?}");
            });
            assert_eq!(found, due, "{wish:?}");
        }
    }

    #[test]
    fn a_level_that_is_none_is_refused_as_clients_know_it() {
        for text in ["two", "1.5", "", " 3", "2147483648", "99999999999999999999"] {
            let refusal = Wish { level: Some(text), ..Wish::default() }.due(&delays(), NOW).unwrap_err();
            assert_eq!(refusal.code, ResponseCode::SYSTEM_ERROR, "{text}");
        }
    }

    #[test]
    fn times_can_be_switched_off_and_levels_stay() {
        let off = Delays { timers: false, ..delays() };
        let refusal = Wish { delay_ms: Some("9"), ..Wish::default() }.due(&off, NOW).unwrap_err();
        assert_eq!(refusal.code, ResponseCode::SYSTEM_ERROR);
        assert!(refusal.remark.contains("timerWheelEnable"), "{}", refusal.remark);
        assert!(Wish { level: Some("1"), ..Wish::default() }.due(&off, NOW).is_ok());
    }
}
