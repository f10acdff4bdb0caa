//! The windows of time of a key, each named by its first second.
//!
//! # Design
//!
//! ## Why are the buckets of a window a range of `_id`?
//!
//! The second in an `_id` is the second of an item of the window. So the `_id`s of windows do not overlap, and have the
//! order of the windows, also if a late item opens a bucket. A read by time needs no other index.

use mongo_patterns_core::EncodedKey;
use mongodb::bson::{DateTime, RawBsonRef};

use crate::form::id::{LAST_SECOND, Tail, digits};
use crate::settings::Settings;
use crate::settings::window::Windows;

impl Windows {
    /// Returns the window of a second. Seconds that no `_id` can have are in the first or the last window.
    pub(crate) fn of_second(&self, second: i64) -> i64 {
        let second = second.clamp(0, LAST_SECOND);
        second - second % i64::from(self.seconds)
    }

    /// Returns the window of a time.
    pub(crate) fn of_time(&self, time: DateTime) -> i64 {
        self.of_second(time.timestamp_millis().div_euclid(1000))
    }

    /// Returns the window of an item, if it has a time.
    pub(crate) fn of_item(&self, settings: &Settings, item: RawBsonRef<'_>) -> Option<i64> {
        let field = settings.time.as_ref()?;
        let time = item.as_document()?.get_datetime(field.as_str()).ok()?;
        Some(self.of_time(time))
    }

    /// Returns the window of a bucket with this tail.
    pub(crate) fn of_tail(&self, tail: &str) -> Option<i64> {
        let second = Tail::parse(tail)?.number();
        let last = if second < 0 { 0 } else { LAST_SECOND };
        Some(self.of_second(i64::try_from(second).unwrap_or(last)))
    }

    /// Returns the ids of the buckets of a window: the first, and the first text after the last.
    pub(crate) fn ids(&self, key: &EncodedKey, window: i64) -> (String, String) {
        let last = (window + i64::from(self.seconds) - 1).min(LAST_SECOND);
        // '`' is the character after '_', which starts a suffix.
        (key.id(&digits(window)), key.id(&digits(last)) + "`")
    }

    /// Returns the ids of the buckets of the windows that overlap a range of time, in the same way.
    pub(crate) fn ids_of_range(
        &self,
        key: &EncodedKey,
        from: Option<DateTime>,
        until: Option<DateTime>,
    ) -> (String, String) {
        let first = from.map_or_else(|| key.id(""), |from| self.ids(key, self.of_time(from)).0);
        let end = until.map_or_else(
            || key.end(),
            |until| {
                let last = DateTime::from_millis(until.timestamp_millis().saturating_sub(1));
                self.ids(key, self.of_time(last)).1
            },
        );
        (first, end)
    }
}

impl Settings {
    /// Returns the window of a bucket with this tail, if there are windows.
    pub(crate) fn window_of(&self, tail: &str) -> Option<i64> {
        self.windows.as_ref()?.of_tail(tail)
    }
}

/// Returns the start of a window, as a bucket has it.
pub(crate) fn start(window: i64) -> DateTime {
    DateTime::from_millis(window * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongo_patterns_core::EncodeKey;
    use mongo_patterns_core::FieldName;

    fn windows(seconds: u32) -> Windows {
        Windows {
            field: FieldName::new("window").unwrap(),
            seconds,
        }
    }

    #[test]
    fn a_window_is_named_by_its_first_second() {
        let hour = windows(3600);
        let of = |millis| hour.of_time(DateTime::from_millis(millis));
        assert_eq!(of(1_698_335_223_434), 1_698_332_400);
        assert_eq!((of(3_599_999), of(3_600_000)), (0, 3600));
        // No `_id` has a second outside of this range.
        assert_eq!((of(-1), of(i64::MIN)), (0, 0));
        assert_eq!((of(i64::MAX), of(9_999_999_999_999)), (9_999_997_200, 9_999_997_200));
        assert_eq!(hour.of_tail("1698335223_000001"), Some(1_698_332_400));
        assert_eq!(hour.of_tail("-5"), Some(0));
        assert_eq!(hour.of_tail("99999999999999999999"), Some(9_999_997_200));
        assert_eq!(hour.of_tail("x"), None);
        assert_eq!(windows(7 * 86_400).of_time(DateTime::from_millis(0)), 0);
    }

    #[test]
    fn the_ids_of_windows_do_not_overlap() {
        let key = 123_u32.encode_key().unwrap();
        let hour = windows(3600);
        assert_eq!(
            hour.ids(&key, 1_698_332_400),
            ("123_1698332400".to_owned(), "123_1698335999`".to_owned())
        );
        assert!(*"123_1698335999_000001" < *hour.ids(&key, 1_698_332_400).1);
        assert!(hour.ids(&key, 1_698_332_400).1 < hour.ids(&key, 1_698_336_000).0);
        let last = hour.of_time(DateTime::MAX);
        assert_eq!(hour.ids(&key, last).1, "123_9999999999`");
    }

    #[test]
    fn a_range_of_time_has_the_ids_of_its_windows() {
        let key = 123_u32.encode_key().unwrap();
        let range = |from: Option<i64>, until: Option<i64>| {
            let time = |millis: Option<i64>| millis.map(DateTime::from_millis);
            windows(3600).ids_of_range(&key, time(from), time(until))
        };
        let ids = |first: &str, end: &str| (first.to_owned(), end.to_owned());
        assert_eq!(range(None, None), ids("123_", "123`"));
        assert_eq!(
            range(Some(3_600_001), Some(7_200_000)),
            ids("123_0000003600", "123_0000007199`"),
            "the end is not in the range"
        );
        assert_eq!(range(Some(0), Some(7_200_001)).1, "123_0000010799`");
        assert_eq!(
            range(Some(i64::MIN), Some(i64::MIN)),
            ids("123_0000000000", "123_0000003599`")
        );
    }
}
