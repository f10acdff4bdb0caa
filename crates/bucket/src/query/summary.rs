//! The pipeline of verification.

use mongodb::bson::{Bson, Document, doc};

use crate::form::id::LAST_SECOND;
use crate::form::window::start;
use crate::query::figures::{are_correct, has_values};
use crate::settings::Settings;

/// Returns a summary of each bucket.
pub(crate) fn summaries(settings: &Settings, filter: Document) -> Vec<Document> {
    let field = |name: &str| format!("${name}");
    let items = field(settings.items.as_str());
    let if_array = |value: Bson| doc! { "$cond": [{ "$isArray": &items }, value, null] };
    let number = |condition: Document| {
        let such = doc! { "$filter": { "input": &items, "cond": condition } };
        if_array(doc! { "$size": such }.into())
    };
    let is_null = doc! { "$in": [{ "$type": "$$this" }, ["null", "undefined"]] };
    let mut summary = doc! {
        // Within a document, because a sort takes an array for its smallest element.
        "key": { "v": field(settings.key.as_str()) },
        "count": field(settings.count.as_str()),
        "items": if_array(doc! { "$size": &items }.into()),
        "nulls": number(is_null.clone()),
    };
    if let Some(time) = &settings.time {
        let is_date = doc! { "$eq": [{ "$type": format!("$$this.{time}") }, "date"] };
        summary.insert("timeless", number(doc! { "$not": [{ "$or": [&is_null, is_date] }] }));
    }
    if let (Some(windows), Some(time)) = (&settings.windows, &settings.time) {
        let (window, date) = (field(windows.field.as_str()), format!("$$this.{time}"));
        let is_date = |value: &str| doc! { "$eq": [{ "$type": value }, "date"] };
        // A time that no `_id` can have is in the first or the last window.
        let nearest = doc! { "$max": [start(0), { "$min": [start(LAST_SECOND), &date] }] };
        let end = doc! { "$add": [&window, i64::from(windows.seconds) * 1000] };
        let is_within = doc! { "$and": [{ "$gte": [&nearest, &window] }, { "$lt": [&nearest, end] }] };
        let outside = number(doc! { "$and": [is_date(&date), { "$not": [is_within] }] });
        summary.insert("outside", doc! { "$cond": [is_date(&window), outside, 0] });
        summary.insert("window", window);
    }
    if let Some(figures) = &settings.figures {
        let has_values = has_values(figures, "$$this");
        summary.insert(
            "valueless",
            number(doc! { "$not": [{ "$or": [&is_null, has_values] }] }),
        );
        summary.insert("figures", if_array(are_correct(figures, &items.clone().into()).into()));
    }
    if let Some(id) = &settings.item_id {
        // One element for each item, also for an item without an id.
        let of_item = doc! { "$ifNull": [format!("$$item.{id}"), null] };
        let ids = doc! { "$map": { "input": &items, "as": "item", "in": of_item } };
        summary.insert("ids", if_array(ids.into()));
    }
    vec![doc! { "$match": filter }, doc! { "$project": summary }]
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::FieldName;

    use super::*;
    use crate::settings::with_windows;

    #[test]
    fn items_are_compared_with_the_stored_window() {
        let with_windows = with_windows();
        let stages = summaries(&with_windows, doc! {});
        let summary = stages[1].get_document("$project").unwrap();
        assert_eq!(summary.get_str("window").unwrap(), "$window");
        let outside = summary.get_document("outside").unwrap().get_array("$cond").unwrap();
        let is_date = doc! { "$eq": [{ "$type": "$window" }, "date"] };
        assert_eq!((&outside[0], &outside[2]), (&Bson::from(is_date), &Bson::Int32(0)));
        let plain = summaries(&Settings::example(), doc! {});
        assert!(!plain[1].get_document("$project").unwrap().contains_key("outside"));
    }

    #[test]
    fn a_summary_has_no_items() {
        let size = doc! { "$cond": [{ "$isArray": "$history" }, { "$size": "$history" }, null] };
        let number = |condition: Document| {
            let such = doc! { "$filter": { "input": "$history", "cond": condition } };
            doc! { "$cond": [{ "$isArray": "$history" }, { "$size": such }, null] }
        };
        let is_null = doc! { "$in": [{ "$type": "$$this" }, ["null", "undefined"]] };
        let is_date = doc! { "$eq": [{ "$type": "$$this.date" }, "date"] };
        let mut summary = doc! {
            "key": { "v": "$customerId" },
            "count": "$count",
            "items": size,
            "nulls": number(is_null.clone()),
            "timeless": number(doc! { "$not": [{ "$or": [is_null, is_date] }] }),
        };
        let expected = |summary: &Document| vec![doc! { "$match": {} }, doc! { "$project": summary }];
        assert_eq!(summaries(&Settings::example(), doc! {}), expected(&summary));

        let with_ids = Settings {
            item_id: Some(FieldName::of_element("tradeId").unwrap()),
            ..Settings::example()
        };
        let id = doc! { "$ifNull": ["$$item.tradeId", null] };
        let ids = doc! { "$map": { "input": "$history", "as": "item", "in": id } };
        summary.insert("ids", doc! { "$cond": [{ "$isArray": "$history" }, ids, null] });
        assert_eq!(summaries(&with_ids, doc! {}), expected(&summary));
    }
}
