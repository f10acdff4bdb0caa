//! The settings of windows of time.

use std::time::Duration;

use mongo_patterns_core::settings::{check_bound, configuration};
use mongo_patterns_core::{FieldName, Result};
use mongodb::bson::{Document, doc};

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

/// The windows of time that have buckets of their own; see [`window`](crate::BucketRepositoryBuilder::window).
///
/// Windows follow each other from 1970-01-01T00:00:00Z on, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// From each full hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// Of this length; see [`every`](Self::every).
    Every(Duration),
}

impl Window {
    /// Returns windows of a length: of whole seconds that divide a day, such as 15 minutes, or of whole days.
    ///
    /// Windows begin as in MongoDB's `$dateTrunc` for lengths up to a day. Windows of seven days begin on a Thursday, as
    /// 1970 did.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mongo_patterns::bucket::Window;
    ///
    /// let quarter_of_an_hour = Window::every(Duration::from_secs(15 * 60));
    /// ```
    #[must_use]
    pub const fn every(length: Duration) -> Self {
        Self::Every(length)
    }

    /// Returns its length in seconds.
    fn seconds(self) -> Result<u32> {
        let length = match self {
            Self::Hour => Duration::from_secs(HOUR),
            Self::Day => Duration::from_secs(DAY),
            Self::Every(length) => length,
        };
        let seconds = u32::try_from(length.as_secs()).unwrap_or(u32::MAX);
        check_bound("number of seconds of a window", seconds)?;
        let of_days = u64::from(seconds);
        if length.subsec_nanos() > 0 || !(DAY.is_multiple_of(of_days) || of_days.is_multiple_of(DAY)) {
            return Err(configuration(
                "the length of the windows is not one of whole seconds that divide a day, nor of whole days: use another one, such as 15 minutes",
            ));
        }
        Ok(seconds)
    }
}

/// The length of the periods of [totals](crate::action::ReadTotals::by), in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeUnit {
    /// From each full hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From the first day of a month to the first day of the next.
    Month,
}

impl TimeUnit {
    /// Returns its name in MongoDB.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Windows {
    /// The field of a bucket that contains the start of its window.
    pub(crate) field: FieldName,
    pub(crate) seconds: u32,
}

impl Windows {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration).
    pub(crate) fn new(window: Window, field: String, time: Option<&FieldName>) -> Result<Self> {
        if time.is_none() {
            return Err(configuration(
                "windows need the time of each item: call time_field(..) on the builder",
            ));
        }
        Ok(Self {
            field: FieldName::new(field)?,
            seconds: window.seconds()?,
        })
    }

    /// Returns the settings, as the catalog stores them.
    pub(crate) fn stored_form(&self) -> Document {
        doc! { "field": self.field.as_str(), "seconds": i64::from(self.seconds) }
    }
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::ErrorKind;

    use super::*;

    fn windows(window: Window) -> Result<Windows> {
        let time = FieldName::new("date").unwrap();
        Windows::new(window, "window".to_owned(), Some(&time))
    }

    #[test]
    fn windows_divide_a_day_or_are_whole_days() {
        let seconds = |window| windows(window).unwrap().seconds;
        assert_eq!((seconds(Window::Hour), seconds(Window::Day)), (3600, 86_400));
        for length in [1, 900, 7200, 86_400, 7 * 86_400] {
            assert_eq!(u64::from(seconds(Window::every(Duration::from_secs(length)))), length);
        }
        let lengths = [
            Duration::ZERO,
            Duration::from_millis(900),
            Duration::from_millis(1500),
            Duration::from_secs(7),
            Duration::from_secs(36 * HOUR),
            Duration::from_secs(u64::MAX),
        ];
        for length in lengths {
            let error = windows(Window::every(length)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{length:?}");
        }
    }

    #[test]
    fn windows_need_a_time_field_and_a_plain_name() {
        let without = Windows::new(Window::Hour, "window".to_owned(), None).unwrap_err();
        assert_eq!(without.kind(), ErrorKind::Configuration);
        let time = FieldName::new("date").unwrap();
        for name in ["", "a.b", "$set", "_id"] {
            let error = Windows::new(Window::Hour, name.to_owned(), Some(&time)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{name:?}");
        }
    }
}
