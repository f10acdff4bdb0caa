//! Dates in text.

use jiff::Timestamp;
use jiff::civil;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use mongodb::bson::DateTime;

/// The formats of dates that are common in files. An error names those that a value has.
const COMMON: [&str; 10] = [
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%b %d, %Y",
];
/// The times that can follow a date.
const TIMES: [&str; 5] = ["", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p"];

/// A checked format of dates, as strftime has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format(String);

impl Format {
    /// Checks the format: a date must survive it.
    pub(super) fn new(format: &str) -> Result<Self, String> {
        let sample = civil::date(2023, 10, 26).at(15, 47, 3, 0).to_zoned(TimeZone::UTC);
        let sample = sample.map_err(|error| error.to_string())?;
        let this = Self(format.to_owned());
        let text = BrokenDownTime::from(&sample)
            .to_string(format)
            .map_err(|error| error.to_string())?;
        let parsed = this
            .parse(&text)
            .and_then(|parsed| Timestamp::from_millisecond(parsed.timestamp_millis()).ok())
            .map(|parsed| parsed.to_zoned(TimeZone::UTC).date());
        if parsed != Some(sample.date()) {
            return Err(
                "it must contain a year, a month and a day, such as %d.%m.%Y, or %s for Unix seconds".to_owned(),
            );
        }
        Ok(this)
    }

    /// Parses a date. Without an offset it is in UTC, and without a time at midnight.
    pub(super) fn parse(&self, text: &str) -> Option<DateTime> {
        let parsed = BrokenDownTime::parse(&self.0, text.trim()).ok()?;
        if let Ok(timestamp) = parsed.to_timestamp() {
            return Some(stored(timestamp));
        }
        if parsed.offset().is_some() {
            return None;
        }
        let has_time = parsed.hour().is_some();
        let date = parsed.to_date().ok()?;
        let time = if has_time {
            parsed.to_time().ok()?
        } else {
            civil::Time::midnight()
        };
        in_utc(date.to_datetime(time))
    }
}

/// Parses an ISO 8601 date, or a date and a time, in UTC unless it has an offset.
pub(super) fn iso(text: &str) -> Option<DateTime> {
    const DATE: usize = "2023-10-26".len();
    let text = text.trim();
    let rest = text.get(DATE..)?;
    if text.as_bytes().get(4) != Some(&b'-') || rest.contains('[') {
        return None;
    }
    if rest.contains(['Z', 'z', '+', '-']) {
        return text.parse::<Timestamp>().ok().map(stored);
    }
    in_utc(text.parse::<civil::DateTime>().ok()?)
}

/// Returns the formats of a date that is not ISO 8601, as advice. The date itself is not in it.
pub(super) fn advice(column: &str, text: &str) -> String {
    let digits = text.trim().trim_start_matches('-');
    if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return match digits.len() {
            8 => format!("pass --date-format '{column}=%Y%m%d'"),
            ..12 => format!("pass --date-format '{column}=%s', if it is in Unix seconds"),
            _ => "convert it to ISO 8601, or to Unix seconds if it is in a fraction of them".to_owned(),
        };
    }
    let formats: Vec<String> = COMMON
        .iter()
        .flat_map(|date| TIMES.iter().map(move |time| format!("{date}{time}")))
        .filter(|format| Format(format.clone()).parse(text).is_some())
        .collect();
    match &formats[..] {
        [] => format!("pass --date-format '{column}=FORMAT', such as %d.%m.%Y"),
        [format] => format!("pass --date-format '{column}={format}'"),
        formats => {
            let formats: Vec<_> = formats.iter().map(|format| format!("'{column}={format}'")).collect();
            format!(
                "it has several possible formats: pass --date-format {}",
                formats.join(" or ")
            )
        }
    }
}

fn in_utc(date: civil::DateTime) -> Option<DateTime> {
    Some(stored(date.to_zoned(TimeZone::UTC).ok()?.timestamp()))
}

/// MongoDB stores milliseconds.
fn stored(timestamp: Timestamp) -> DateTime {
    DateTime::from_millis(timestamp.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: DateTime = DateTime::from_millis(1_698_335_223_000);
    const MIDNIGHT: DateTime = DateTime::from_millis(1_698_278_400_000);

    #[test]
    fn iso_dates_are_parsed_with_and_without_time_and_offset() {
        for text in [
            "2023-10-26T15:47:03Z",
            "2023-10-26 15:47:03",
            "2023-10-26T17:47:03+02:00",
            " 2023-10-26T15:47:03 ",
        ] {
            assert_eq!(iso(text), Some(SECOND), "{text}");
        }
        assert_eq!(
            iso("2023-10-26 15:47:03.25"),
            Some(DateTime::from_millis(1_698_335_223_250))
        );
        assert_eq!(iso("2023-10-26"), Some(MIDNIGHT));
        for text in ["yesterday", "2023-13-26", "20231026", "", "2023-10-26 x", "é023-10-26"] {
            assert_eq!(iso(text), None, "{text}");
        }
    }

    #[test]
    fn formats_are_those_of_strftime() {
        let parse = |format: &str, text: &str| Format::new(format).unwrap().parse(text);
        assert_eq!(parse("%d.%m.%Y", "26.10.2023"), Some(MIDNIGHT));
        assert_eq!(parse("%m/%d/%y", "10/26/23"), Some(MIDNIGHT));
        assert_eq!(parse("%d/%m/%Y %H:%M:%S", "26/10/2023 15:47:03"), Some(SECOND));
        assert_eq!(parse("%m/%d/%Y %I:%M:%S %p", "10/26/2023 03:47:03 PM"), Some(SECOND));
        assert_eq!(parse("%Y-%m-%d %H:%M:%S %z", "2023-10-26 17:47:03 +0200"), Some(SECOND));
        assert_eq!(parse("%s", "1698335223"), Some(SECOND));
        assert_eq!(parse("%d.%m.%Y", "2023-10-26"), None);
        for invalid in ["%H:%M", "%d.%m", "x", "%J"] {
            assert!(Format::new(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_advice_names_the_formats_of_a_value_and_not_the_value() {
        assert!(advice("d", "26.10.2023").contains("'d=%d.%m.%Y'"));
        assert!(advice("d", "26/10/2023 15:47").contains("'d=%d/%m/%Y %H:%M'"));
        let both = advice("d", "01/02/2023");
        assert!(both.contains("%m/%d/%Y") && both.contains("%d/%m/%Y"), "{both}");
        assert!(advice("d", "1698335223").contains("%s"));
        assert!(advice("d", "1698335223000").contains("fraction"));
        assert!(advice("d", "20231026").contains("%Y%m%d"));
        assert!(!advice("d", "secret").contains("secret"));
    }
}
