//! The commands of appends.

use mongo_patterns_core::{EncodedKey, array};
use mongodb::bson::{Bson, Document, doc};

use crate::form::item_id::ItemId;
use crate::form::window::start;
use crate::query::buckets::buckets_of_window;
use crate::query::figures::{count_item, recomputed};
use crate::settings::Settings;

/// Filters the open bucket of a window, or of the key without windows: the manual's filter, and equality on the key.
pub(crate) fn open_bucket(settings: &Settings, key: &EncodedKey, window: Option<i64>) -> Document {
    open(settings, buckets_of_window(settings, key, window), window)
}

/// Filters the open bucket with any `_id`: the entry of the unique index. Without a window, the open buckets of all windows.
pub(crate) fn open_bucket_of_any_id(settings: &Settings, key: &EncodedKey, window: Option<i64>) -> Document {
    open(settings, doc! { settings.key.as_str(): key.value() }, window)
}

fn open(settings: &Settings, mut filter: Document, window: Option<i64>) -> Document {
    if let Some((windows, window)) = settings.windows.as_ref().zip(window) {
        filter.insert(windows.field.as_str(), start(window));
    }
    filter.insert(settings.count.as_str(), doc! { "$lt": settings.page_size_bson() });
    filter
}

/// Filters the open bucket if it has none of these items.
pub(crate) fn open_bucket_without(
    settings: &Settings,
    key: &EncodedKey,
    window: Option<i64>,
    ids: &[&ItemId],
) -> Document {
    let mut filter = open_bucket(settings, key, window);
    if let Some(path) = settings.item_id_path() {
        let none = match ids {
            [id] => doc! { "$ne": id.to_bson() },
            ids => doc! { "$nin": ids.iter().map(|id| id.to_bson()).collect::<Vec<Bson>>() },
        };
        filter.insert(path, none);
    }
    filter
}

/// Appends one item: the manual's update.
pub(crate) fn push(settings: &Settings, item: Bson) -> Document {
    // The server would take a document with a field such as `$each` for modifiers of the push.
    let has_operators = item
        .as_document()
        .is_some_and(|item| item.keys().any(|field| field.starts_with('$')));
    let mut update = doc! {
        "$push": {},
        "$inc": { settings.count.as_str(): 1 },
    };
    if let Some(figures) = &settings.figures {
        count_item(&mut update, figures, &item);
    }
    let item = if has_operators {
        Bson::Document(doc! { "$each": [item] })
    } else {
        item
    };
    update.insert("$push", doc! { settings.items.as_str(): item });
    update
}

/// Returns the `$setOnInsert` with which the update opens a bucket. The server takes its window from the filter.
pub(crate) fn on_insert(settings: &Settings, key: &EncodedKey, id: &str) -> Document {
    doc! { "_id": id, settings.key.as_str(): key.value() }
}

/// Fills a bucket with as many of the items as it has room for. As an upsert, opens a bucket with a page of them.
pub(crate) fn fill(settings: &Settings, key: &EncodedKey, id: Option<&str>, items: Vec<Bson>) -> Vec<Document> {
    let page_size = settings.page_size_bson();
    let count = format!("${}", settings.count);
    let stored = doc! { "$ifNull": [&count, 0] };
    let offered = i32::try_from(items.len()).unwrap_or(i32::MAX);
    let room = doc! { "$subtract": [page_size, &stored] };
    let total = doc! { "$min": [page_size, { "$add": [&stored, offered] }] };
    let mut set = Document::new();
    if let Some(id) = id {
        set.insert("_id", doc! { "$ifNull": ["$_id", { "$literal": id }] });
        set.insert(settings.key.as_str(), doc! { "$literal": key.value() });
    }
    let items_field = settings.items.as_str();
    set.insert(settings.count.as_str(), total);
    set.insert(items_field, array::filled(items_field, items, doc! { "$toInt": room }));
    [doc! { "$set": set }].into_iter().chain(recomputed(settings)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::tests::{key, regex};
    use crate::settings::with_windows;

    #[test]
    fn an_append_is_the_manuals_command() {
        assert_eq!(
            open_bucket(&Settings::example(), &key(), None),
            doc! { "_id": regex("^123_"), "customerId": 123, "count": { "$lt": 10 } }
        );
        assert_eq!(
            push(&Settings::example(), Bson::Document(doc! { "ticker": "MSFT" })),
            doc! { "$push": { "history": { "ticker": "MSFT" } }, "$inc": { "count": 1 } }
        );
        assert_eq!(
            on_insert(&Settings::example(), &key(), "123_1698939791"),
            doc! { "_id": "123_1698939791", "customerId": 123 }
        );
    }

    #[test]
    fn an_append_to_a_window_is_by_equality_on_its_start() {
        let settings = with_windows();
        let window = Some(1_698_332_400);
        let of_index = doc! { "customerId": 123, "window": start(1_698_332_400), "count": { "$lt": 10 } };
        assert_eq!(open_bucket_of_any_id(&settings, &key(), window), of_index);
        let mut filter = doc! { "_id": { "$gte": "123_1698332400", "$lt": "123_1698335999`" } };
        filter.extend(of_index);
        assert_eq!(open_bucket(&settings, &key(), window), filter);
        assert_eq!(
            open_bucket_of_any_id(&settings, &key(), None),
            doc! { "customerId": 123, "count": { "$lt": 10 } }
        );
    }

    #[test]
    fn an_item_with_operators_stays_a_value() {
        let hostile = doc! { "ticker": "MSFT", "$each": [1, 2, 3] };
        assert_eq!(
            push(&Settings::example(), Bson::Document(hostile.clone())),
            doc! { "$push": { "history": { "$each": [hostile] } }, "$inc": { "count": 1 } }
        );
        let array = Bson::Array(vec![Bson::Document(doc! { "$each": 1 })]);
        assert_eq!(
            push(&Settings::example(), array.clone())
                .get_document("$push")
                .unwrap()
                .get("history"),
            Some(&array)
        );
    }

    #[test]
    fn a_fill_takes_as_many_items_as_fit_and_evaluates_none() {
        let items = vec![Bson::String("$count".into()), Bson::Int32(2)];
        let stages = fill(&Settings::example(), &key(), None, items.clone());
        let stored = doc! { "$ifNull": ["$count", 0] };
        let expected = doc! { "$set": {
            "count": { "$min": [10, { "$add": [&stored, 2] }] },
            "history": { "$concatArrays": [
                { "$ifNull": ["$history", []] },
                { "$slice": [{ "$literal": &items }, { "$toInt": { "$subtract": [10, &stored] } }] },
            ] },
        } };
        assert_eq!(stages, [expected]);
        let stages = fill(&Settings::example(), &key(), Some("123_1698335223"), items);
        let set = stages[0].get_document("$set").unwrap();
        assert_eq!(
            set.keys().collect::<Vec<_>>(),
            ["_id", "customerId", "count", "history"]
        );
    }
}
