//! When old segments go, and when sends are refused: decisions from numbers. Pure.
//!
//! The numbers are those of RocketMQ: of how full a disk is, whole percents rounded up, without the blocks that the file
//! system keeps for the superuser, as `df` shows it.

use base::Millis;
use runtime::file::Space;

use crate::config::Retention;

const HOUR_MS: u64 = 3_600_000;

/// What part of a disk is used.
pub(crate) fn used_percent(space: Space) -> u8 {
    let used = space.bytes_total.saturating_sub(space.bytes_free);
    let of = used + space.bytes_available;
    if of == 0 { 100 } else { (u128::from(used) * 100).div_ceil(u128::from(of)) as u8 }
}

/// Which of the oldest segments are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    None,
    /// Those that were kept for as long as they should be.
    Expired,
    /// As many as it takes for the disk to have room.
    Any,
}

impl Wanted {
    /// By the disk's filling, the hour of the day, and whether an operator asked for it.
    pub(super) fn of(retention: &Retention, used_percent: u8, hour: u8, is_asked: bool) -> Wanted {
        let fills = used_percent > retention.used_percent_forcing.min(retention.used_percent_refusing);
        if fills && retention.drops_unexpired {
            Wanted::Any
        } else if fills
            || is_asked
            || used_percent > retention.used_percent_max
            || retention.delete_hours.contains(&hour)
        {
            Wanted::Expired
        } else {
            Wanted::None
        }
    }

    /// Whether a segment goes that was written to for the last time at `written`.
    pub(super) fn takes(self, written: Millis, retention: &Retention, now: Millis) -> bool {
        match self {
            Wanted::None => false,
            Wanted::Expired => now.0 >= written.0.saturating_add(retention.keep_hours.saturating_mul(HOUR_MS)),
            Wanted::Any => true,
        }
    }
}

/// Whether sends are refused. In between the two limits they are if they were.
pub(super) fn refuses(retention: &Retention, used_percent: u8, refused: bool) -> bool {
    used_percent > retention.used_percent_refusing || refused && used_percent > retention.used_percent_forcing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retention() -> Retention {
        Retention {
            delete_hours: vec![4, 16],
            keep_hours: 2,
            used_percent_max: 75,
            used_percent_forcing: 85,
            used_percent_refusing: 90,
            drops_unexpired: true,
            interval: Millis(10_000),
            pause: Millis(100),
            segments_max: 10,
        }
    }

    #[test]
    fn a_disk_is_as_full_as_df_says() {
        for (bytes_total, bytes_free, bytes_available, percent) in [
            (1000, 1000, 950, 0),
            (1000, 999, 949, 1),
            (1000, 500, 450, 53),
            (1000, 50, 0, 100),
            (1000, 0, 0, 100),
            (0, 0, 0, 100),
            (1 << 62, 1 << 61, 1 << 61, 50),
        ] {
            assert_eq!(used_percent(Space { bytes_total, bytes_free, bytes_available }), percent, "{bytes_free}");
        }
    }

    #[test]
    fn segments_go_by_hour_by_filling_and_when_asked() {
        let gentle = Retention { drops_unexpired: false, ..retention() };
        // A limit for sends below that for cleaning cleans as well.
        let early = Retention { used_percent_refusing: 40, ..retention() };
        for (retention, used, hour, is_asked, wanted) in [
            (retention(), 50, 5, false, Wanted::None),
            (retention(), 75, 5, false, Wanted::None),
            (retention(), 76, 5, false, Wanted::Expired),
            (retention(), 50, 16, false, Wanted::Expired),
            (retention(), 50, 5, true, Wanted::Expired),
            (retention(), 85, 5, false, Wanted::Expired),
            (retention(), 86, 5, false, Wanted::Any),
            (gentle, 99, 5, false, Wanted::Expired),
            (early, 41, 5, false, Wanted::Any),
        ] {
            assert_eq!(Wanted::of(&retention, used, hour, is_asked), wanted, "{used} {hour} {is_asked}");
        }
    }

    #[test]
    fn a_segment_expires_by_the_time_of_its_last_write() {
        let (written, expires) = (Millis(1000), 1000 + 2 * HOUR_MS);
        for (wanted, now, goes) in [
            (Wanted::None, expires, false),
            (Wanted::Expired, expires - 1, false),
            (Wanted::Expired, expires, true),
            (Wanted::Any, 1000, true),
        ] {
            assert_eq!(wanted.takes(written, &retention(), Millis(now)), goes, "{wanted:?} at {now}");
        }
    }

    #[test]
    fn sends_are_refused_above_one_limit_and_taken_again_below_another() {
        let early = Retention { used_percent_refusing: 40, ..retention() };
        for (retention, used, refused, refuses_now) in [
            (retention(), 90, false, false),
            (retention(), 91, false, true),
            (retention(), 90, true, true),
            (retention(), 86, true, true),
            (retention(), 85, true, false),
            (early.clone(), 41, false, true),
            (early, 40, true, false),
        ] {
            assert_eq!(refuses(&retention, used, refused), refuses_now, "{used} {refused}");
        }
    }
}
