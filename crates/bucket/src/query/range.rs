//! The projections of reads by a range of time.

use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::settings::Settings;

/// Returns the items from one time, and before another, as an expression. Leaves a value other than an array unchanged.
pub(crate) fn items_between(settings: &Settings, from: Option<DateTime>, until: Option<DateTime>) -> Bson {
    let array = format!("${}", settings.items);
    let time = format!("$$this.{}", time_field(settings));
    // Both bounds are always there, because a value of another type is before or after all dates.
    let from = from.unwrap_or(DateTime::MIN);
    let until = match until {
        Some(until) => doc! { "$lt": [&time, until] },
        None => doc! { "$lte": [&time, DateTime::MAX] },
    };
    let cond = doc! { "$and": [{ "$gte": [&time, from] }, until] };
    let filtered = doc! { "$filter": { "input": &array, "cond": cond } };
    doc! { "$cond": [{ "$isArray": [&array] }, filtered, &array] }.into()
}

pub(crate) fn all_items(settings: &Settings) -> Bson {
    format!("${}", settings.items).into()
}

/// Projects a bucket with these items.
pub(crate) fn with_items(settings: &Settings, items: Bson) -> Document {
    doc! { settings.key.as_str(): 1, settings.count.as_str(): 1, settings.items.as_str(): items }
}

/// Projects the number of these items in place of the items.
pub(crate) fn sizes(settings: &Settings, items: Bson) -> Document {
    let is_array = doc! { "$isArray": [format!("${}", settings.items)] };
    doc! {
        settings.count.as_str(): 1,
        settings.items.as_str(): { "$cond": [is_array, { "$size": items }, null] },
    }
}

/// Projects the time of the first item that has one in place of the items.
pub(crate) fn first_times(settings: &Settings) -> Document {
    let array = format!("${}", settings.items);
    let times = format!("{array}.{}", time_field(settings));
    let first = doc! { "$arrayElemAt": [times, 0] };
    doc! { settings.items.as_str(): { "$cond": [{ "$isArray": [array] }, first, null] } }
}

fn time_field(settings: &Settings) -> &str {
    settings.time.as_ref().map_or("", |time| time.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_filters_items_by_date_only() {
        let expected = |until: Document| {
            let cond = doc! { "$and": [{ "$gte": ["$$this.date", DateTime::from_millis(5000)] }, until] };
            let filtered = doc! { "$filter": { "input": "$history", "cond": cond } };
            Bson::from(doc! { "$cond": [{ "$isArray": ["$history"] }, filtered, "$history"] })
        };
        let settings = Settings::example();
        let second = |second: i64| Some(DateTime::from_millis(second * 1000));
        assert_eq!(
            items_between(&settings, second(5), second(7)),
            expected(doc! { "$lt": ["$$this.date", DateTime::from_millis(7000)] })
        );
        assert_eq!(
            items_between(&settings, second(5), None),
            expected(doc! { "$lte": ["$$this.date", DateTime::MAX] })
        );
        let is_array = doc! { "$isArray": ["$history"] };
        assert_eq!(
            sizes(&settings, all_items(&settings)),
            doc! { "count": 1, "history": { "$cond": [&is_array, { "$size": "$history" }, null] } }
        );
        assert_eq!(
            first_times(&settings),
            doc! { "history": { "$cond": [is_array, { "$arrayElemAt": ["$history.date", 0] }, null] } }
        );
    }
}
