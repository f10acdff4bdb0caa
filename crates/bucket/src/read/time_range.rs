//! A range of time, and the pages that can contain its items.
//!
//! Items of a key are appended in the order of their times, within [`allowed_lateness`](TimeRange::allowed_lateness): an
//! item is at most this much older than any item before it.
//!
//! # Design
//!
//! ## Which pages can contain items of the range?
//!
//! A page is named by the item that opened it, and keeps its `_id` when items move up. So the second in the `_id` is later
//! than the time of an item in the page by at most `allowed_lateness`.
//!
//! ## Why is the start of a range found by items, not by ids?
//!
//! The second in an `_id` can be much earlier than the items. Pages keep their ids when the pages before them are
//! emptied. And a late item opens a page among older ones, to which new items are appended. So the search takes an item
//! `f` that is older than `from` by more than `allowed_lateness`. Before it in the history, it takes an item `g` that
//! is older than `f` by more than twice `allowed_lateness` and a second. All items before `g` are older than `from`.
//!
//! The proof: suppose that an item of the range is before `g`. It was appended after `f`, to a page that was opened after
//! `f` too. So the page was opened at `f - allowed_lateness` at the earliest. But it is before the page of `g`, whose second
//! is at most `g + allowed_lateness`.
//!
//! ## Why is there no search with windows?
//!
//! The buckets of the windows that overlap a range are a range of `_id`, and contain all of its items.

use std::time::Duration;

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, DateTime};

use crate::form::id::{LAST_SECOND, digits};
use crate::query::range::items_between;
use crate::settings::Settings;

#[derive(Clone, Debug)]
pub(crate) struct TimeRange {
    /// The first time of the range.
    pub(crate) from: Option<DateTime>,
    /// The first time after the range.
    pub(crate) until: Option<DateTime>,
    /// How much items can be out of time order.
    pub(crate) allowed_lateness: Duration,
}

impl TimeRange {
    /// Returns whether it has no bounds.
    pub(crate) fn is_unbounded(&self) -> bool {
        self.from.is_none() && self.until.is_none()
    }

    /// Checks the range.
    pub(crate) fn check(&self, settings: &Settings) -> Result<()> {
        if settings.time.is_none() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the repository has no time field, which a range of time needs: call time_field(..) on the builder",
            ));
        }
        match (self.from, self.until) {
            (Some(from), Some(until)) if from >= until => Err(Error::new(
                ErrorKind::InvalidArgument,
                "the range of time is empty: set an end after its start",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the allowed lateness in milliseconds.
    fn allowed_lateness(&self) -> i64 {
        i64::try_from(self.allowed_lateness.as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the last second that the `_id` of a page of the range can have. `None` when it can have any.
    pub(crate) fn last_second(&self) -> Option<String> {
        let last = self.until?.timestamp_millis().saturating_add(self.allowed_lateness());
        let second = last.div_euclid(1000);
        (second <= LAST_SECOND).then(|| clamped_digits(second))
    }

    /// Returns the first second from which on every page can have items of the range. `None` when all can.
    pub(crate) fn first_second(&self) -> Option<String> {
        let second = self.certainly_before()?.div_euclid(1000);
        (second > 0).then(|| clamped_digits(second))
    }

    /// Returns the time before which an item proves that all items appended before it are older than the range.
    fn certainly_before(&self) -> Option<i64> {
        Some(self.from?.timestamp_millis().saturating_sub(self.allowed_lateness()))
    }

    /// Returns the items of the range, as an expression.
    pub(crate) fn items(&self, settings: &Settings) -> Bson {
        items_between(settings, self.from, self.until)
    }
}

fn clamped_digits(second: i64) -> String {
    digits(second.clamp(0, LAST_SECOND))
}

/// The search for the items `f` and `g` of the [module](self), from the newest to the oldest.
#[derive(Debug)]
pub(crate) struct StartSearch {
    certainly_before: i64,
    allowed_lateness: i64,
    f: Option<i64>,
}

impl StartSearch {
    /// Creates the search. `None` when the range has no start.
    pub(crate) fn new(range: &TimeRange) -> Option<Self> {
        Some(Self {
            certainly_before: range.certainly_before()?,
            allowed_lateness: range.allowed_lateness(),
            f: None,
        })
    }

    /// Returns whether no page before the page of this item has items of the range.
    pub(crate) fn is_reached(&mut self, time: DateTime) -> bool {
        let time = time.timestamp_millis();
        if self.before_f().is_some_and(|before| time < before) {
            return true;
        }
        if time < self.certainly_before {
            self.f = self.f.max(Some(time));
        }
        false
    }

    /// Returns the second before whose pages to search for the item `g`.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(clamped_digits(self.before_f()?.div_euclid(1000)))
    }

    fn before_f(&self) -> Option<i64> {
        Some(
            self.f?
                .saturating_sub(self.allowed_lateness.saturating_mul(2).saturating_add(1000)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: Option<i64>, until: Option<i64>) -> TimeRange {
        TimeRange {
            from: from.map(|second| DateTime::from_millis(second * 1000)),
            until: until.map(|second| DateTime::from_millis(second * 1000)),
            allowed_lateness: Duration::from_secs(100),
        }
    }

    #[test]
    fn seconds_are_bounded_by_the_range_and_the_lateness() {
        let seconds = |from, until| {
            let range = range(from, until);
            (range.first_second(), range.last_second())
        };
        let text = |second: &str| Some(second.to_owned());
        assert_eq!(
            seconds(Some(1_698_335_223), Some(1_698_335_323)),
            (text("1698335123"), text("1698335423"))
        );
        assert_eq!(seconds(None, None), (None, None));
        assert_eq!(
            seconds(Some(50), Some(-1000)),
            (None, text("0000000000")),
            "no page has a second before 1970"
        );
        assert_eq!(seconds(None, Some(9_999_999_950)), (None, None), "nor after 2286");
    }

    #[test]
    fn the_start_is_an_item_that_is_old_enough_before_another_one() {
        let mut start = StartSearch::new(&range(Some(10_000), None)).unwrap();
        let mut is_reached = |second: i64| start.is_reached(DateTime::from_millis(second * 1000));
        assert!(
            !is_reached(10_000) && !is_reached(9_900),
            "these are too close to prove it"
        );
        assert!(!is_reached(9_800), "this is `f`");
        assert!(!is_reached(9_700) && !is_reached(9_600) && !is_reached(9_599));
        assert!(is_reached(9_598), "this is `g`");
        assert_eq!(start.hint().as_deref(), Some("0000009599"));
        assert!(StartSearch::new(&range(None, Some(5))).is_none());
    }
}
