//! Points in time as the tools write and read them. All are UTC.

const DAY_MS: i64 = 86_400_000;
const DAYS_FROM_MARCH_0000: i64 = 719_468;
const DAYS_IN_400_YEARS: i64 = 146_097;

/// `yyyy-MM-dd HH:mm:ss,SSS` of milliseconds since 1970.
pub(crate) fn text(timestamp_ms: i64) -> String {
    let (days, ms) = (timestamp_ms.div_euclid(DAY_MS), timestamp_ms.rem_euclid(DAY_MS));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{:03}", ms % 1000)
}

/// As [`text`]; empty of 0, which stands for "never".
pub(crate) fn text_unless_zero(timestamp_ms: i64) -> String {
    if timestamp_ms <= 0 { String::new() } else { text(timestamp_ms) }
}

/// Milliseconds since 1970, written as such or as `yyyy-MM-dd#HH:mm:ss:SSS`.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    if let Ok(timestamp_ms) = text.parse::<i64>() {
        return Ok(timestamp_ms);
    }
    parse_date(text)
        .ok_or_else(|| format!("\"{text}\" is no time; write milliseconds since 1970 or yyyy-MM-dd#HH:mm:ss:SSS (UTC)"))
}

fn parse_date(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('#')?;
    let date: Vec<i64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let time: Vec<i64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (&[year, month, day], &[hour, minute, second, ms]) = (&date[..], &time[..]) else { return None };
    let days = days(year, month, day);
    let in_range = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !in_range || !(0..1000).contains(&ms) || self::date(days) != (year, month, day) {
        return None;
    }
    Some(days * DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1000 + ms)
}

/// Year, month and day of a day counted from 1970. Years that start in March end with the odd February, so a day's
/// month is a plain division.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + DAYS_FROM_MARCH_0000;
    let (era, day_of_era) = (shifted.div_euclid(DAYS_IN_400_YEARS), shifted.rem_euclid(DAYS_IN_400_YEARS));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year.clamp(0, 9999) - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9).rem_euclid(12);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * DAYS_IN_400_YEARS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year
        - DAYS_FROM_MARCH_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read_back() {
        for (timestamp_ms, written) in [
            (0, "1970-01-01 00:00:00,000"),
            (951_782_400_000, "2000-02-29 00:00:00,000"),
            (1_796_025_468_962, "2026-11-30 07:57:48,962"),
            (1_735_689_599_999, "2024-12-31 23:59:59,999"),
        ] {
            assert_eq!(text(timestamp_ms), written);
            let typed = written.replace(' ', "#").replace(',', ":");
            assert_eq!(parse(&typed), Ok(timestamp_ms), "{typed}");
        }
        assert_eq!(parse("1796025468962"), Ok(1_796_025_468_962));
        assert_eq!(text_unless_zero(0), "");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in
            ["", "now", "2026-02-29#00:00:00:000", "2026-13-01#00:00:00:000", "2026-01-01", "2026-01-01#24:00:00:000"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
