//! Which items are wanted by their time, and which pages can hold them.
//!
//! Items of a key are appended in the order of their times, but for [`allowed_lateness`](TimeRange::allowed_lateness): what is appended
//! after an item is not older than it by more. From that follows:
//!
//! - A page is named by the item that opened it, and the name stays when items move up. So the name is never later than
//!   the time of an item in it by more than `allowed_lateness`, and no page with a later name is of the range.
//! - The name can be much earlier than the items: pages keep their names when those before them are emptied, and a late
//!   item opens a page among older ones, to which new items are appended. So the start is found by the items: take an
//!   item `f` older than `from` by more than `allowed_lateness`, and before it in the history an item `g`, older than `f` by more
//!   than twice as much and a second. What stands before `g` is older than `from`. For, if an item of the range did, it was appended
//!   after `f`, to a page that was opened after `f` too, so at `f - allowed_lateness` at the earliest, and that page stands
//!   before the one of `g`, whose name is the second of `g + allowed_lateness` at the latest.

use std::time::Duration;

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::form::id::{LAST_SECOND, SECOND_DIGITS};
use crate::settings::Settings;

#[derive(Clone, Debug)]
pub(crate) struct TimeRange {
    /// The first time that is wanted.
    pub(crate) from: Option<DateTime>,
    /// The first time after it that is not.
    pub(crate) until: Option<DateTime>,
    /// How far items may be out of time order.
    pub(crate) allowed_lateness: Duration,
}

impl TimeRange {
    /// Whether all times are wanted.
    pub(crate) fn is_everything(&self) -> bool {
        self.from.is_none() && self.until.is_none()
    }

    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) without a time field, [`InvalidArgument`](ErrorKind::InvalidArgument)
    /// for a range that nothing can be in.
    pub(crate) fn check(&self, settings: &Settings) -> Result<()> {
        if settings.time.is_none() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "a range of time needs the field of an item that holds its time: call time_field(..) on the builder",
            ));
        }
        match (self.from, self.until) {
            (Some(from), Some(until)) if from >= until => Err(Error::new(
                ErrorKind::InvalidArgument,
                "a range of time must end after its start",
            )),
            _ => Ok(()),
        }
    }

    /// In milliseconds.
    fn allowed_lateness(&self) -> i64 {
        i64::try_from(self.allowed_lateness.as_millis()).unwrap_or(i64::MAX)
    }

    /// The last second that the name of a page of the range can have; `None` when it can have any.
    pub(crate) fn last_second(&self) -> Option<String> {
        let last = self.until?.timestamp_millis().saturating_add(self.allowed_lateness());
        let second = last.div_euclid(1000);
        (second <= LAST_SECOND).then(|| second_text(second))
    }

    /// The first second from which on all names are of pages that may be of the range; `None` when all are.
    pub(crate) fn first_second(&self) -> Option<String> {
        let second = self.certainly_before()?.div_euclid(1000);
        (second > 0).then(|| second_text(second))
    }

    /// Items before this time are followed by none that are older than they are and of the range.
    fn certainly_before(&self) -> Option<i64> {
        Some(self.from?.timestamp_millis().saturating_sub(self.allowed_lateness()))
    }

    /// The items of the range, as an expression. What is no array stays as it is, for the reader to refuse.
    pub(crate) fn items(&self, settings: &Settings) -> Bson {
        let array = format!("${}", settings.items);
        let time = format!("$$this.{}", settings.time.as_ref().map_or("", |time| time.as_str()));
        // Dates are compared with dates only, as what is of another type is before or after all of them: both bounds
        // are always there.
        let from = self.from.unwrap_or(DateTime::MIN);
        let until = match self.until {
            Some(until) => doc! { "$lt": [&time, until] },
            None => doc! { "$lte": [&time, DateTime::MAX] },
        };
        let cond = doc! { "$and": [{ "$gte": [&time, from] }, until] };
        let filtered = doc! { "$filter": { "input": &array, "cond": cond } };
        doc! { "$cond": [{ "$isArray": [&array] }, filtered, &array] }.into()
    }
}

fn second_text(second: i64) -> String {
    format!("{:0SECOND_DIGITS$}", second.clamp(0, LAST_SECOND))
}

/// A projection that has the number of these items in place of the items.
pub(crate) fn sizes(settings: &Settings, items: Bson) -> Document {
    let is_array = doc! { "$isArray": [format!("${}", settings.items)] };
    doc! {
        settings.count.as_str(): 1,
        settings.items.as_str(): { "$cond": [is_array, { "$size": items }, null] },
    }
}

/// A projection that has the time of the first item with one in place of the items.
pub(crate) fn first_times(settings: &Settings) -> Document {
    let array = format!("${}", settings.items);
    let times = format!("{array}.{}", settings.time.as_ref().map_or("", |time| time.as_str()));
    let first = doc! { "$arrayElemAt": [times, 0] };
    doc! { settings.items.as_str(): { "$cond": [{ "$isArray": [array] }, first, null] } }
}

/// Looks for the items `f` and `g` of the [module](self) from the newest to the oldest.
#[derive(Debug)]
pub(crate) struct Start {
    certainly_before: i64,
    allowed_lateness: i64,
    f: Option<i64>,
}

impl Start {
    /// `None` when the range has no start.
    pub(crate) fn of(range: &TimeRange) -> Option<Self> {
        Some(Self {
            certainly_before: range.certainly_before()?,
            allowed_lateness: range.allowed_lateness(),
            f: None,
        })
    }

    /// Whether no page before that of this item is of the range.
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

    /// Where the item `g` should be looked for: before the pages that are named by this second.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(second_text(self.before_f()?.div_euclid(1000)))
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
    fn names_are_bounded_by_the_range_and_what_is_late() {
        let names = |from, until| {
            let range = range(from, until);
            (range.first_second(), range.last_second())
        };
        let text = |second: &str| Some(second.to_owned());
        assert_eq!(
            names(Some(1_698_335_223), Some(1_698_335_323)),
            (text("1698335123"), text("1698335423"))
        );
        assert_eq!(names(None, None), (None, None));
        assert_eq!(
            names(Some(50), Some(-1000)),
            (None, text("0000000000")),
            "no page is named before 1970"
        );
        assert_eq!(names(None, Some(9_999_999_950)), (None, None), "nor after 2286");
    }

    #[test]
    fn the_server_filters_items_by_date_alone() {
        let expected = |until: Document| {
            let cond = doc! { "$and": [{ "$gte": ["$$this.date", DateTime::from_millis(5000)] }, until] };
            let filtered = doc! { "$filter": { "input": "$history", "cond": cond } };
            Bson::from(doc! { "$cond": [{ "$isArray": ["$history"] }, filtered, "$history"] })
        };
        let settings = Settings::example();
        assert_eq!(
            range(Some(5), Some(7)).items(&settings),
            expected(doc! { "$lt": ["$$this.date", DateTime::from_millis(7000)] })
        );
        assert_eq!(
            range(Some(5), None).items(&settings),
            expected(doc! { "$lte": ["$$this.date", DateTime::MAX] })
        );
        let is_array = doc! { "$isArray": ["$history"] };
        assert_eq!(
            sizes(&settings, "$history".into()),
            doc! { "count": 1, "history": { "$cond": [&is_array, { "$size": "$history" }, null] } }
        );
        assert_eq!(
            first_times(&settings),
            doc! { "history": { "$cond": [is_array, { "$arrayElemAt": ["$history.date", 0] }, null] } }
        );
    }

    #[test]
    fn the_start_is_before_an_item_that_is_old_enough_before_another() {
        let mut start = Start::of(&range(Some(10_000), None)).unwrap();
        let mut is_reached = |second: i64| start.is_reached(DateTime::from_millis(second * 1000));
        assert!(!is_reached(10_000) && !is_reached(9_900), "these are too near to tell");
        assert!(!is_reached(9_800), "this is `f`");
        assert!(!is_reached(9_700) && !is_reached(9_600) && !is_reached(9_599));
        assert!(is_reached(9_598), "this is `g`");
        assert_eq!(start.hint().as_deref(), Some("0000009599"));
        assert!(Start::of(&range(None, Some(5))).is_none());
    }
}
