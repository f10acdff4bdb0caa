//! The commands on one item, which its id identifies.

use mongo_patterns_core::{EncodedKey, FieldName};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::UpdateModifications;

use crate::form::item_id::ItemId;
use crate::query::figures::recomputed;
use crate::settings::Settings;

/// Filters the bucket of the key that has the item. `path` is the path of the item ids.
pub(crate) fn bucket_with(settings: &Settings, key: &EncodedKey, path: &str, id: &ItemId) -> Document {
    doc! { settings.key.as_str(): key.value(), path: id.to_bson() }
}

/// Filters the buckets of the key that have one of these items.
pub(crate) fn buckets_with_items(settings: &Settings, key: &EncodedKey, ids: &[&ItemId]) -> Document {
    let ids: Vec<Bson> = ids.iter().map(|id| id.to_bson()).collect();
    let mut filter = doc! { settings.key.as_str(): key.value() };
    if let Some(path) = settings.item_id_path() {
        filter.insert(path, doc! { "$in": ids });
    }
    filter
}

pub(crate) fn only_item_ids(path: &str) -> Document {
    doc! { "_id": 0, path: 1 }
}

pub(crate) fn only_item(settings: &Settings, field: &FieldName, id: &ItemId) -> Document {
    doc! { settings.items.as_str(): { "$elemMatch": { field.as_str(): id.to_bson() } } }
}

/// Projects the count and the window of the bucket.
pub(crate) fn without_items(settings: &Settings) -> Document {
    let mut projection = only_count(settings);
    projection.extend(
        settings
            .windows
            .iter()
            .map(|windows| (windows.field.to_string(), 1.into())),
    );
    projection
}

/// Projects the count of the bucket.
pub(crate) fn only_count(settings: &Settings) -> Document {
    doc! { settings.count.as_str(): 1 }
}

/// Replaces the item with this id, which the filter matches.
pub(crate) fn replace(settings: &Settings, field: &FieldName, id: &ItemId, item: Bson) -> UpdateModifications {
    let Some(figures) = recomputed(settings) else {
        // `$` is the position of the element that the path in the filter matched.
        return UpdateModifications::Document(doc! { "$set": { format!("{}.$", settings.items): item } });
    };
    let is_item = doc! { "$eq": [format!("$$this.{field}"), { "$literal": id.to_bson() }] };
    let replaced = doc! { "$cond": [is_item, { "$literal": item }, "$$this"] };
    let items = doc! { "$map": { "input": format!("${}", settings.items), "in": replaced } };
    let replaced = doc! { "$set": { settings.items.as_str(): items } };
    UpdateModifications::Pipeline(vec![replaced, figures])
}

/// Removes the item from its bucket.
pub(crate) fn pull(settings: &Settings, field: &FieldName, id: &ItemId) -> UpdateModifications {
    let Some(figures) = recomputed(settings) else {
        return UpdateModifications::Document(doc! {
            "$pull": { settings.items.as_str(): { field.as_str(): id.to_bson() } },
            "$inc": { settings.count.as_str(): -1 },
        });
    };
    let other = doc! { "$ne": [format!("$$this.{field}"), { "$literal": id.to_bson() }] };
    let others = doc! { "$filter": { "input": format!("${}", settings.items), "cond": other } };
    let less = doc! { "$subtract": [format!("${}", settings.count), 1] };
    let removed = doc! { "$set": { settings.items.as_str(): others, settings.count.as_str(): less } };
    UpdateModifications::Pipeline(vec![removed, figures])
}

/// Restricts a filter to this bucket, with a condition on its count.
pub(crate) fn in_bucket(settings: &Settings, filter: Document, bucket: &Bson, count: Document) -> Document {
    let mut restricted = doc! { "_id": bucket };
    restricted.extend(filter);
    restricted.insert(settings.count.as_str(), count);
    restricted
}

/// Matches the count of a bucket with one item.
pub(crate) fn is_single() -> Document {
    doc! { "$eq": 1 }
}

/// Matches the count of an open bucket with several items.
pub(crate) fn is_open_with_others(settings: &Settings) -> Document {
    doc! { "$gt": 1, "$lt": settings.page_size_bson() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::with_figures;
    use mongo_patterns_core::EncodeKey;

    fn sent(update: &UpdateModifications) -> Bson {
        mongodb::bson::serialize_to_bson(update).unwrap()
    }

    #[test]
    fn a_change_computes_the_figures_in_its_command() {
        let settings = with_figures(&["qty"], &[], false);
        let figures = recomputed(&settings).unwrap();
        let (field, id) = (FieldName::new("tradeId").unwrap(), ItemId::String("$count".into()));
        let is_item = doc! { "$eq": ["$$this.tradeId", { "$literal": "$count" }] };
        let replaced = doc! { "$cond": [is_item, { "$literal": { "qty": "$x" } }, "$$this"] };
        let items = doc! { "$map": { "input": "$history", "in": replaced } };
        let item = Bson::Document(doc! { "qty": "$x" });
        assert_eq!(
            sent(&replace(&settings, &field, &id, item)),
            Bson::Array(vec![
                doc! { "$set": { "history": items } }.into(),
                figures.clone().into()
            ])
        );
        let is_other = doc! { "$ne": ["$$this.tradeId", { "$literal": "$count" }] };
        let others = doc! { "$filter": { "input": "$history", "cond": is_other } };
        let removed = doc! { "$set": { "history": others, "count": { "$subtract": ["$count", 1] } } };
        assert_eq!(
            sent(&pull(&settings, &field, &id)),
            Bson::Array(vec![removed.into(), figures.into()])
        );
    }

    #[test]
    fn an_item_is_found_and_removed_by_its_id() {
        let settings = Settings {
            item_id: Some(FieldName::of_element("tradeId").unwrap()),
            ..Settings::example()
        };
        let (field, path) = (settings.item_id.as_ref().unwrap(), settings.item_id_path().unwrap());
        let key = 123_u32.encode_key().unwrap();
        let id = ItemId::Integer(7);
        let filter = bucket_with(&settings, &key, &path, &id);
        assert_eq!(filter, doc! { "customerId": 123, "history.tradeId": 7 });
        assert_eq!(
            in_bucket(&settings, filter, &"123_1".into(), is_open_with_others(&settings)),
            doc! { "_id": "123_1", "customerId": 123, "history.tradeId": 7, "count": { "$gt": 1, "$lt": 10 } }
        );
        assert_eq!(
            sent(&pull(&settings, field, &id)),
            doc! { "$pull": { "history": { "tradeId": 7 } }, "$inc": { "count": -1 } }.into()
        );
        assert_eq!(
            only_item(&settings, field, &id),
            doc! { "history": { "$elemMatch": { "tradeId": 7 } } }
        );
        assert_eq!(
            sent(&replace(&settings, field, &id, Bson::Int32(5))),
            doc! { "$set": { "history.$": 5 } }.into()
        );
    }
}
