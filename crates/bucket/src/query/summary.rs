//! The pipeline of verification.

use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;

/// Returns a summary of each bucket, ordered by key.
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
        summary.insert("timeless", number(doc! { "$not": [{ "$or": [is_null, is_date] }] }));
    }
    if let Some(id) = &settings.item_id {
        // One element for each item, also for an item without an id.
        let of_item = doc! { "$ifNull": [format!("$$item.{id}"), null] };
        let ids = doc! { "$map": { "input": &items, "as": "item", "in": of_item } };
        summary.insert("ids", if_array(ids.into()));
    }
    vec![
        doc! { "$match": filter },
        doc! { "$project": summary },
        doc! { "$sort": { "key": 1, "_id": 1 } },
    ]
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::FieldName;

    use super::*;

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
        let expected = |summary: &Document| {
            vec![
                doc! { "$match": {} },
                doc! { "$project": summary },
                doc! { "$sort": { "key": 1, "_id": 1 } },
            ]
        };
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
