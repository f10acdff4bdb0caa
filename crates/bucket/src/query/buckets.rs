//! The buckets of a key.

use mongo_patterns_core::EncodedKey;
use mongo_patterns_core::action::batch_size;
use mongo_patterns_core::stored::can_be_in;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, Regex, Uuid, cstr, doc};
use mongodb::options::FindOptions;

use crate::form::token::PageToken;
use crate::settings::Settings;

/// Matches all ids of the key, such as `/^123_/`. With the first digits of a tail, the ids that start with them.
fn id_pattern(key: &EncodedKey, tail: &str) -> Regex {
    let pattern = key.pattern(tail).try_into();
    Regex {
        pattern: pattern.expect("neither the text of a key nor digits have NUL"),
        options: cstr!("").into(),
    }
}

/// Filters all buckets of the key, by `_id` only.
pub(crate) fn buckets(key: &EncodedKey) -> Document {
    doc! { "_id": id_pattern(key, "") }
}

/// Filters all buckets of the key, targeted at its shard.
pub(crate) fn buckets_of_key(settings: &Settings, key: &EncodedKey) -> Document {
    doc! { "_id": id_pattern(key, ""), settings.key.as_str(): key.value() }
}

/// Filters the buckets of a window of the key, or all of them without windows.
pub(crate) fn buckets_of_window(settings: &Settings, key: &EncodedKey, window: Option<i64>) -> Document {
    match settings.windows.as_ref().zip(window) {
        None => buckets_of_key(settings, key),
        Some((windows, window)) => buckets_in(settings, key, windows.ids(key, window)),
    }
}

/// Filters the buckets of a window of the key from a position on, or all of them without windows.
pub(crate) fn buckets_from(settings: &Settings, key: &EncodedKey, tail: &str, window: Option<i64>) -> Document {
    let windows = settings.windows.as_ref().zip(window);
    let end = windows.map_or_else(|| key.end(), |(windows, window)| windows.ids(key, window).1);
    buckets_in(settings, key, (key.id(tail), end))
}

/// Filters the buckets of the key that can have items of a range of time: its windows, or all buckets without windows.
pub(crate) fn buckets_of_range(
    settings: &Settings,
    key: &EncodedKey,
    from: Option<DateTime>,
    until: Option<DateTime>,
) -> Document {
    match &settings.windows {
        None => buckets_of_key(settings, key),
        Some(windows) => buckets_in(settings, key, windows.ids_of_range(key, from, until)),
    }
}

/// Filters the buckets of the key from one `_id` to before another.
fn buckets_in(settings: &Settings, key: &EncodedKey, (first, end): (String, String)) -> Document {
    buckets_within(settings, key, ("$gte", first), ("$lt", end))
}

/// Filters the buckets that the key opened in a second.
pub(crate) fn buckets_of_second(settings: &Settings, key: &EncodedKey, second: &str) -> Document {
    doc! { "_id": id_pattern(key, second), settings.key.as_str(): key.value() }
}

/// Filters the buckets that the key opened from one second to another.
pub(crate) fn buckets_between(settings: &Settings, key: &EncodedKey, first: &str, last: &str) -> Document {
    let mut filter = ids_between(key, first, last);
    filter.insert(settings.key.as_str(), key.value());
    filter
}

/// Filters the ids of the key from one second to another, of buckets with any key field. Not targeted at a shard.
pub(crate) fn ids_between(key: &EncodedKey, first: &str, last: &str) -> Document {
    // '`' is the character after '_', which starts a suffix.
    let (first, last) = (key.id(first), key.id(last) + "`");
    doc! { "_id": { "$gte": first, "$lt": last } }
}

/// Filters the buckets of the key beyond a position, in the direction of the operator: `$gt`, `$gte`, `$lt` or `$lte`.
pub(crate) fn buckets_beyond(settings: &Settings, key: &EncodedKey, operator: &str, token: &PageToken) -> Document {
    let position = (operator, key.id(token.tail()));
    if operator.starts_with("$g") {
        buckets_within(settings, key, position, ("$lt", key.end()))
    } else {
        buckets_within(settings, key, ("$gte", key.id("")), position)
    }
}

/// Filters the buckets of the key between two bounds, each an operator and an `_id`.
pub(crate) fn buckets_within(
    settings: &Settings,
    key: &EncodedKey,
    (from, first): (&str, String),
    (to, last): (&str, String),
) -> Document {
    doc! { "_id": { from: first, to: last }, settings.key.as_str(): key.value() }
}

/// Buckets of a key that a scan found.
#[derive(Clone, Default)]
pub(crate) struct Documents {
    pub(crate) ids: Vec<Bson>,
    /// The values of their key fields; null for a missing one.
    pub(crate) keys: Vec<Bson>,
}

/// Filters all documents that can be buckets of the key, whichever program wrote them: by an `_id` in the encoded form, and
/// by a hand-written one. Targeted at the shards of the values that their key fields can have.
pub(crate) fn buckets_of_any_form(settings: &Settings, key: &EncodedKey, documents: &Documents) -> Document {
    let mut filter = buckets_of_any_key_field(settings, key, &documents.ids);
    let mut values = key_forms(key);
    values.extend(
        documents
            .keys
            .iter()
            .filter(|value| !values.contains(value))
            .cloned()
            .collect::<Vec<Bson>>(),
    );
    if values.iter().all(can_be_in) {
        filter.insert(settings.key.as_str(), doc! { "$in": values });
    }
    filter
}

/// Filters the same documents, whatever their key fields are. Not targeted at a shard.
pub(crate) fn buckets_of_any_key_field(settings: &Settings, key: &EncodedKey, ids: &[Bson]) -> Document {
    let mut forms = vec![buckets(key)];
    if let Some(raw) = unescaped(key) {
        // '`' is the character after '_'.
        let range = doc! { "$gte": format!("{raw}_"), "$lt": format!("{raw}`") };
        forms.push(doc! { "_id": range, settings.key.as_str(): raw });
    }
    if !ids.is_empty() {
        forms.push(doc! { "_id": { "$in": ids } });
    }
    doc! { "$or": forms }
}

/// Returns the values that the key field can have if the `_id` has the text of the key: the key, a key of another type, or
/// none.
fn key_forms(key: &EncodedKey) -> Vec<Bson> {
    let mut forms = vec![key.value().clone()];
    match key.value() {
        Bson::String(text) => {
            forms.extend(text.parse().ok().map(Bson::Int64));
            forms.extend(ObjectId::parse_str(text).ok().map(Bson::ObjectId));
            forms.extend(Uuid::parse_str(text).ok().map(Bson::from));
        }
        _ => forms.push(key.text().into()),
    }
    forms.push(Bson::Null);
    forms
}

/// Filters the buckets that the deletion of the key deletes: by equality on the key, and by the ids of the key.
pub(crate) fn buckets_to_delete(settings: &Settings, key: &EncodedKey) -> Document {
    let range = |first: String, last: String| doc! { "_id": { "$gte": first, "$lt": last } };
    let mut filter = range(key.id(""), key.end());
    if let Some(raw) = unescaped(key) {
        // '`' is the character after '_'.
        let by_hand = range(format!("{raw}_"), format!("{raw}`"));
        filter = doc! { "$or": [filter, by_hand] };
    }
    filter.insert(settings.key.as_str(), key.value());
    filter
}

/// Returns the key as hand-written ids have it, where that is not the encoded form.
fn unescaped(key: &EncodedKey) -> Option<&str> {
    key.value().as_str().filter(|raw| *raw != key.text())
}

/// Sums the items and pages of the key.
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

/// Orders buckets by `_id`.
pub(crate) fn by_id(descending: bool) -> Document {
    doc! { "_id": if descending { -1 } else { 1 } }
}

/// Returns the options of a read of the first buckets by `_id`, in one batch.
pub(crate) fn first_by_id(descending: bool, limit: u32, projection: Option<Document>) -> FindOptions {
    FindOptions::builder()
        .sort(by_id(descending))
        .limit(i64::from(limit))
        .batch_size(batch_size(limit))
        .projection(projection)
        .build()
}

/// Projects the `_id` only.
pub(crate) fn only_id() -> Document {
    doc! { "_id": 1 }
}

/// Projects the last items of each bucket.
pub(crate) fn last_items(settings: &Settings, items: i32) -> Document {
    doc! { settings.items.as_str(): { "$slice": -items } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::tests::{key, regex};
    use crate::settings::with_windows;
    use mongo_patterns_core::EncodeKey;

    #[test]
    fn pages_are_found_by_prefix_and_position() {
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
            ids_between(&key(), "1698335223", "1698335300"),
            doc! { "_id": { "$gte": "123_1698335223", "$lt": "123_1698335300`" } }
        );
        assert_eq!(
            buckets_between(&Settings::example(), &key(), "1698335223", "1698335300"),
            doc! { "_id": { "$gte": "123_1698335223", "$lt": "123_1698335300`" }, "customerId": 123 }
        );
        assert_eq!(
            buckets_of_second(&Settings::example(), &key(), "1698335223"),
            doc! { "_id": regex("^123_1698335223"), "customerId": 123 }
        );
    }

    #[test]
    fn windows_are_ranges_of_ids() {
        let (settings, plain) = (with_windows(), Settings::example());
        let of_key = doc! { "_id": regex("^123_"), "customerId": 123 };
        let within = |first: &str, end: &str| doc! { "_id": { "$gte": first, "$lt": end }, "customerId": 123 };
        let hour = Some(1_698_332_400);
        assert_eq!(
            buckets_of_window(&settings, &key(), hour),
            within("123_1698332400", "123_1698335999`")
        );
        assert_eq!(buckets_of_window(&plain, &key(), None), of_key);
        assert_eq!(
            buckets_from(&settings, &key(), "1698335223", hour),
            within("123_1698335223", "123_1698335999`")
        );
        assert_eq!(
            buckets_from(&plain, &key(), "1698335223", None),
            within("123_1698335223", "123`")
        );
        let time = |second: i64| Some(DateTime::from_millis(second * 1000));
        assert_eq!(
            buckets_of_range(&settings, &key(), None, time(1_698_332_400)),
            within("123_", "123_1698332399`")
        );
        assert_eq!(buckets_of_range(&plain, &key(), time(1), time(2)), of_key);
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
    fn buckets_are_found_in_any_form() {
        let documents = |key: Bson| Documents {
            ids: vec![Bson::Int32(7)],
            keys: vec![key],
        };
        let ids = doc! { "$or": [{ "_id": regex("^123_") }, { "_id": { "$in": [7] } }] };
        let settings = Settings::example();
        assert_eq!(buckets_of_any_key_field(&settings, &key(), &[Bson::Int32(7)]), ids);
        let with_keys = |keys: Vec<Bson>| {
            let mut filter = ids.clone();
            filter.insert("customerId", doc! { "$in": keys });
            filter
        };
        assert_eq!(
            buckets_of_any_form(&settings, &key(), &documents(true.into())),
            with_keys(vec![123.into(), "123".into(), Bson::Null, true.into()])
        );
        assert_eq!(
            buckets_of_any_form(&settings, &key(), &documents(123.into())),
            with_keys(vec![123.into(), "123".into(), Bson::Null])
        );
        for no_value in [Bson::Undefined, regex("^1").into(), doc! { "$gt": 1 }.into()] {
            assert_eq!(buckets_of_any_form(&settings, &key(), &documents(no_value)), ids);
        }
        let named = "12_3".encode_key().unwrap();
        assert_eq!(
            buckets_of_any_form(&settings, &named, &Documents::default()),
            doc! {
                "$or": [
                    { "_id": regex("^12%5F3_") },
                    { "_id": { "$gte": "12_3_", "$lt": "12_3`" }, "customerId": "12_3" },
                ],
                "customerId": { "$in": ["12_3", null] },
            }
        );
    }

    #[test]
    fn a_text_can_be_that_of_a_key_of_another_type() {
        let forms = |text: &str| key_forms(&text.encode_key().unwrap());
        assert_eq!(forms("12"), ["12".into(), Bson::Int64(12), Bson::Null]);
        let id = ObjectId::new();
        assert_eq!(forms(&id.to_hex()), [id.to_hex().into(), id.into(), Bson::Null]);
        assert_eq!(
            key_forms(&id.encode_key().unwrap()),
            [id.into(), id.to_hex().into(), Bson::Null]
        );
        let id = Uuid::new();
        assert_eq!(forms(&id.to_string()), [id.to_string().into(), id.into(), Bson::Null]);
    }
}
