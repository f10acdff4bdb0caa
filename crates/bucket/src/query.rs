//! The BSON that goes over the wire, built by pure functions.

pub(crate) mod compare;
pub(crate) mod to_buckets;
pub(crate) mod to_flat;

use mongo_patterns_core::{EncodedKey, array};
use mongodb::bson::{Bson, Document, Regex, cstr, doc};

use crate::PageToken;
use crate::form::item_id::ItemId;
use crate::settings::Settings;

/// All ids of the key: `/^123_/`. With the first digits of a tail, those that start with them.
fn id_pattern(key: &EncodedKey, tail: &str) -> Regex {
    let pattern = key.pattern(tail).try_into();
    Regex {
        pattern: pattern.expect("neither the text of a key nor digits have NUL"),
        options: cstr!("").into(),
    }
}

/// The manual's filter for an open bucket, and equality on the key: by it the unique index serves the write, and a
/// sharded cluster can target it.
pub(crate) fn open_bucket(settings: &Settings, key: &EncodedKey) -> Document {
    doc! {
        "_id": id_pattern(key, ""),
        settings.key.as_str(): key.value(),
        settings.count.as_str(): { "$lt": settings.page_size_bson() },
    }
}

/// Any open bucket of the key, whatever its `_id`: what the unique index holds.
pub(crate) fn open_bucket_of_any_id(settings: &Settings, key: &EncodedKey) -> Document {
    doc! {
        settings.key.as_str(): key.value(),
        settings.count.as_str(): { "$lt": settings.page_size_bson() },
    }
}

/// An open bucket that has none of these items.
pub(crate) fn open_bucket_without(settings: &Settings, key: &EncodedKey, ids: &[&ItemId]) -> Document {
    let mut filter = open_bucket(settings, key);
    if let Some(path) = settings.item_id_path() {
        let none = match ids {
            [id] => doc! { "$ne": id.to_bson() },
            ids => doc! { "$nin": ids.iter().map(|id| id.to_bson()).collect::<Vec<Bson>>() },
        };
        filter.insert(path, none);
    }
    filter
}

/// The buckets of the key that have one of these items.
pub(crate) fn buckets_with_items(settings: &Settings, key: &EncodedKey, ids: &[&ItemId]) -> Document {
    let ids: Vec<Bson> = ids.iter().map(|id| id.to_bson()).collect();
    let mut filter = doc! { settings.key.as_str(): key.value() };
    if let Some(path) = settings.item_id_path() {
        filter.insert(path, doc! { "$in": ids });
    }
    filter
}

/// The manual's update.
pub(crate) fn push(settings: &Settings, item: Bson) -> Document {
    // A document with a field such as `$each` would be read as modifiers of the push.
    let has_operators = item
        .as_document()
        .is_some_and(|item| item.keys().any(|field| field.starts_with('$')));
    let item = if has_operators {
        Bson::Document(doc! { "$each": [item] })
    } else {
        item
    };
    doc! {
        "$push": { settings.items.as_str(): item },
        "$inc": { settings.count.as_str(): 1 },
    }
}

/// What the update adds to be able to open a bucket.
pub(crate) fn on_insert(settings: &Settings, key: &EncodedKey, id: &str) -> Document {
    doc! { "_id": id, settings.key.as_str(): key.value() }
}

/// Fills a bucket with as many of the items as there is room for, or, as an upsert, opens one with a page of them.
pub(crate) fn fill(settings: &Settings, key: &EncodedKey, id: Option<&str>, items: Vec<Bson>) -> [Document; 1] {
    let page_size = settings.page_size_bson();
    let count = format!("${}", settings.count);
    let stored = doc! { "$ifNull": [&count, 0] };
    let offered = i32::try_from(items.len()).unwrap_or(i32::MAX);
    let room = doc! { "$toInt": { "$subtract": [page_size, &stored] } };
    let total = doc! { "$min": [page_size, { "$add": [&stored, offered] }] };
    let mut set = Document::new();
    if let Some(id) = id {
        set.insert("_id", doc! { "$ifNull": ["$_id", { "$literal": id }] });
        set.insert(settings.key.as_str(), doc! { "$literal": key.value() });
    }
    set.insert(settings.count.as_str(), total);
    set.insert(
        settings.items.as_str(),
        array::filled(settings.items.as_str(), items, room),
    );
    [doc! { "$set": set }]
}

/// The ids of the buckets that the key opened from one second to another.
pub(crate) fn buckets_between(key: &EncodedKey, first: &str, last: &str) -> Document {
    // '`' is the character after '_', which starts a suffix
    let (first, last) = (key.id(first), key.id(last) + "`");
    doc! { "_id": { "$gte": first, "$lt": last } }
}

/// All buckets of the key, by `_id` alone: then the server skips pages without fetching them.
pub(crate) fn buckets(key: &EncodedKey) -> Document {
    doc! { "_id": id_pattern(key, "") }
}

/// All buckets of the key, targeted at its shard.
pub(crate) fn buckets_of_key(settings: &Settings, key: &EncodedKey) -> Document {
    doc! { "_id": id_pattern(key, ""), settings.key.as_str(): key.value() }
}

/// The buckets of the key beyond a place, which an operator (`$gt`, `$gte`, `$lt` or `$lte`) names.
pub(crate) fn buckets_beyond(settings: &Settings, key: &EncodedKey, operator: &str, token: &PageToken) -> Document {
    let place = (operator, key.id(token.tail()));
    if operator.starts_with("$g") {
        buckets_within(settings, key, place, ("$lt", key.end()))
    } else {
        buckets_within(settings, key, ("$gte", key.id("")), place)
    }
}

/// The buckets of the key between two bounds, each an operator and an `_id`. A range alone is faster than one beside the
/// prefix: the server matches no regular expression.
pub(crate) fn buckets_within(
    settings: &Settings,
    key: &EncodedKey,
    (from, first): (&str, String),
    (to, last): (&str, String),
) -> Document {
    doc! { "_id": { from: first, to: last }, settings.key.as_str(): key.value() }
}

/// The buckets that the key opened in a second.
pub(crate) fn buckets_of_second(settings: &Settings, key: &EncodedKey, second: &str) -> Document {
    doc! { "_id": id_pattern(key, second), settings.key.as_str(): key.value() }
}

/// Sums up the buckets of the key.
pub(crate) fn counts(settings: &Settings, key: &EncodedKey) -> [Document; 2] {
    [
        doc! { "$match": buckets_of_key(settings, key) },
        doc! { "$group": {
            "_id": null,
            "pages": { "$sum": 1 },
            "items": { "$sum": format!("${}", settings.count) },
        } },
    ]
}

/// Those of them that a writer can append to.
pub(crate) fn open_buckets_of_any_form(settings: &Settings, key: &EncodedKey, ids: &[Bson]) -> Document {
    let mut filter = buckets_of_any_form(settings, key, ids);
    filter.insert(settings.count.as_str(), doc! { "$lt": settings.page_size_bson() });
    filter
}

/// All buckets that may be of the key, whoever wrote them: by `_id`, in the encoded form, and in the one of hand-written
/// ids, which have the key as it is.
pub(crate) fn buckets_of_any_form(settings: &Settings, key: &EncodedKey, ids: &[Bson]) -> Document {
    let mut forms = vec![buckets(key)];
    if let Some(raw) = key.value().as_str().filter(|raw| *raw != key.text()) {
        // '`' is the character after '_'
        let range = doc! { "$gte": format!("{raw}_"), "$lt": format!("{raw}`") };
        forms.push(doc! { "_id": range, settings.key.as_str(): raw });
    }
    if !ids.is_empty() {
        forms.push(doc! { "_id": { "$in": ids } });
    }
    doc! { "$or": forms }
}

/// The buckets of the key that a deletion takes: by equality on the key, among the `_id`s of the key as they are encoded,
/// or as people write them.
pub(crate) fn buckets_to_delete(settings: &Settings, key: &EncodedKey) -> Document {
    let range = |first: String, last: String| doc! { "_id": { "$gte": first, "$lt": last } };
    let mut filter = range(key.id(""), key.end());
    if let Some(raw) = key.value().as_str().filter(|raw| *raw != key.text()) {
        // '`' is the character after '_'
        let by_hand = range(format!("{raw}_"), format!("{raw}`"));
        filter = doc! { "$or": [filter, by_hand] };
    }
    filter.insert(settings.key.as_str(), key.value());
    filter
}

/// What verification needs of each bucket, key by key.
pub(crate) fn looks(settings: &Settings, filter: Document) -> Vec<Document> {
    let field = |name: &str| format!("${name}");
    let items = field(settings.items.as_str());
    let if_array = |value: Bson| doc! { "$cond": [{ "$isArray": &items }, value, null] };
    let number = |condition: Document| {
        let such = doc! { "$filter": { "input": &items, "cond": condition } };
        if_array(doc! { "$size": such }.into())
    };
    let is_null = doc! { "$in": [{ "$type": "$$this" }, ["null", "undefined"]] };
    let mut look = doc! {
        // Within a document, since a sort takes an array for its smallest element.
        "key": { "v": field(settings.key.as_str()) },
        "count": field(settings.count.as_str()),
        "items": if_array(doc! { "$size": &items }.into()),
        "nulls": number(is_null.clone()),
    };
    if let Some(time) = &settings.time {
        let is_date = doc! { "$eq": [{ "$type": format!("$$this.{time}") }, "date"] };
        look.insert("timeless", number(doc! { "$not": [{ "$or": [is_null, is_date] }] }));
    }
    if let Some(id) = &settings.item_id {
        // An element for each item, also for those without an id.
        let of_item = doc! { "$ifNull": [format!("$$item.{id}"), null] };
        let ids = doc! { "$map": { "input": &items, "as": "item", "in": of_item } };
        look.insert("ids", if_array(ids.into()));
    }
    vec![
        doc! { "$match": filter },
        doc! { "$project": look },
        doc! { "$sort": { "key": 1, "_id": 1 } },
    ]
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::{EncodeKey, FieldName};

    use super::*;

    fn key() -> EncodedKey {
        123_u32.encode_key().unwrap()
    }

    fn regex(pattern: &str) -> Regex {
        Regex {
            pattern: pattern.to_owned().try_into().unwrap(),
            options: cstr!("").into(),
        }
    }

    #[test]
    fn an_append_is_the_manuals_command() {
        assert_eq!(
            open_bucket(&Settings::example(), &key()),
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
    fn pages_are_found_by_prefix_and_place() {
        assert_eq!(buckets(&key()), doc! { "_id": regex("^123_") });
        let token = PageToken::from_tail("1698335223");
        assert_eq!(
            buckets_beyond(&Settings::example(), &key(), "$gt", &token),
            doc! { "_id": { "$gt": "123_1698335223", "$lt": "123`" }, "customerId": 123 }
        );
        assert_eq!(
            buckets_beyond(&Settings::example(), &key(), "$lt", &token),
            doc! { "_id": { "$gte": "123_", "$lt": "123_1698335223" }, "customerId": 123 }
        );
        assert_eq!(
            buckets_between(&key(), "1698335223", "1698335300"),
            doc! { "_id": { "$gte": "123_1698335223", "$lt": "123_1698335300`" } }
        );
        assert_eq!(
            buckets_of_second(&Settings::example(), &key(), "1698335223"),
            doc! { "_id": regex("^123_1698335223"), "customerId": 123 }
        );
    }

    #[test]
    fn a_deletion_is_by_equality_on_the_key() {
        assert_eq!(
            buckets_to_delete(&Settings::example(), &key()),
            doc! { "_id": { "$gte": "123_", "$lt": "123`" }, "customerId": 123 }
        );
        let named = "12_3".encode_key().unwrap();
        assert_eq!(
            buckets_to_delete(&Settings::example(), &named),
            doc! {
                "$or": [
                    { "_id": { "$gte": "12%5F3_", "$lt": "12%5F3`" } },
                    { "_id": { "$gte": "12_3_", "$lt": "12_3`" } },
                ],
                "customerId": "12_3",
            }
        );
    }

    #[test]
    fn a_fill_takes_what_fits_and_evaluates_nothing_of_the_users() {
        let items = vec![Bson::String("$count".into()), Bson::Int32(2)];
        let [stage] = fill(&Settings::example(), &key(), None, items.clone());
        let stored = doc! { "$ifNull": ["$count", 0] };
        let expected = doc! { "$set": {
            "count": { "$min": [10, { "$add": [&stored, 2] }] },
            "history": { "$concatArrays": [
                { "$ifNull": ["$history", []] },
                { "$slice": [{ "$literal": &items }, { "$toInt": { "$subtract": [10, &stored] } }] },
            ] },
        } };
        assert_eq!(stage, expected);
        let [stage] = fill(&Settings::example(), &key(), Some("123_1698335223"), items);
        let set = stage.get_document("$set").unwrap();
        assert_eq!(
            set.keys().collect::<Vec<_>>(),
            ["_id", "customerId", "count", "history"]
        );
    }

    #[test]
    fn buckets_are_looked_at_without_their_items() {
        let of_key = buckets_of_any_form(&Settings::example(), &key(), &[Bson::Int32(7)]);
        assert_eq!(
            of_key,
            doc! { "$or": [{ "_id": regex("^123_") }, { "_id": { "$in": [7] } }] }
        );
        let named = "12_3".encode_key().unwrap();
        assert_eq!(
            buckets_of_any_form(&Settings::example(), &named, &[]),
            doc! { "$or": [
                { "_id": regex("^12%5F3_") },
                { "_id": { "$gte": "12_3_", "$lt": "12_3`" }, "customerId": "12_3" },
            ] }
        );

        let size = doc! { "$cond": [{ "$isArray": "$history" }, { "$size": "$history" }, null] };
        let number = |condition: Document| {
            let such = doc! { "$filter": { "input": "$history", "cond": condition } };
            doc! { "$cond": [{ "$isArray": "$history" }, { "$size": such }, null] }
        };
        let is_null = doc! { "$in": [{ "$type": "$$this" }, ["null", "undefined"]] };
        let is_date = doc! { "$eq": [{ "$type": "$$this.date" }, "date"] };
        let mut look = doc! {
            "key": { "v": "$customerId" },
            "count": "$count",
            "items": size,
            "nulls": number(is_null.clone()),
            "timeless": number(doc! { "$not": [{ "$or": [is_null, is_date] }] }),
        };
        let expected = |look: &Document| {
            vec![
                doc! { "$match": {} },
                doc! { "$project": look },
                doc! { "$sort": { "key": 1, "_id": 1 } },
            ]
        };
        assert_eq!(looks(&Settings::example(), doc! {}), expected(&look));

        let with_ids = Settings {
            item_id: Some(FieldName::of_element("tradeId").unwrap()),
            ..Settings::example()
        };
        let id = doc! { "$ifNull": ["$$item.tradeId", null] };
        let ids = doc! { "$map": { "input": "$history", "as": "item", "in": id } };
        look.insert("ids", doc! { "$cond": [{ "$isArray": "$history" }, ids, null] });
        assert_eq!(looks(&with_ids, doc! {}), expected(&look));
    }

    #[test]
    fn the_index_is_named_by_its_definition() {
        let plan = Settings::example().index_plan("trades");
        assert_eq!(
            plan.to_string(),
            r#"db.getCollection("trades").createIndex({ "customerId": 1 }, { "name": "customerId_1_count_lt_10", "unique": true, "partialFilterExpression": { "count": { "$lt": 10 } } })"#
        );
    }
}
