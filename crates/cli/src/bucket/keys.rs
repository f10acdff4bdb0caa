//! The keys of buckets and of flat documents.

use futures::TryStreamExt;
use mongodb::Database;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Bson, Document, doc};

use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{BucketSettings, KeyType, need};

pub(super) const PATTERN: &str = "bucket";

/// The number of documents that show the type of the keys.
const SAMPLED_KEYS: i64 = 100;

pub(super) fn flat_key(settings: &BucketSettings) -> Result<&str, Failure> {
    match &settings.flat_key {
        Some(field) => Ok(field),
        None => need(settings.key.as_ref(), PATTERN, "key"),
    }
}

/// Returns the type that is set, or that of the first buckets or flat documents.
pub(super) async fn key_type(context: &Context, settings: &BucketSettings) -> Result<KeyType, Failure> {
    if let Some(key_type) = settings.key_type {
        return Ok(key_type);
    }
    let key = need(settings.key.as_ref(), PATTERN, "key")?;
    let database = &context.database;
    let candidates = [(&settings.collection, key), (&settings.flat, flat_key(settings)?)];
    for (collection, field) in candidates {
        if let Some(collection) = collection
            && let Some(value) = typical_value(database, collection, field).await?
        {
            let problem = match &value {
                Bson::Binary(key) if key.subtype == BinarySubtype::UuidOld => {
                    "has UUIDs of the legacy subtype 3, whose order of bytes depends on the driver that wrote them, so they cannot be keys: store them with subtype 4 first, read by the representation of that driver (`javaLegacy`, `csharpLegacy` or `pythonLegacy`)"
                }
                _ => "is not an integer, string, ObjectId or UUID and cannot be a key: check --key",
            };
            return KeyType::of(&value).ok_or_else(|| {
                Failure::usage(format!(
                    "the field `{field}` of {}.{collection} {problem}",
                    database.name()
                ))
            });
        }
    }
    let collections = candidates
        .into_iter()
        .filter_map(|(collection, _)| collection.as_deref());
    let collections = collections.collect::<Vec<_>>().join(" or ");
    Err(Failure::usage(format!(
        "no document of {collections} has a value in `{key}`, which would show the type of the keys: check --key, or pass --key-type"
    )))
}

/// Returns the value of the most common type among the first documents that have the field.
async fn typical_value(database: &Database, collection: &str, field: &str) -> Result<Option<Bson>, Failure> {
    let collection = database.collection::<Document>(collection);
    let found = collection.find(doc! { field: { "$ne": null } }).limit(SAMPLED_KEYS);
    let mut found = found.projection(doc! { field: 1 }).await?;
    let mut values: Vec<(Option<KeyType>, Bson, u32)> = Vec::new();
    while let Some(mut document) = found.try_next().await? {
        let Some(value) = document.remove(field) else { continue };
        let of_value = KeyType::of(&value);
        match values.iter_mut().find(|(of, _, _)| *of == of_value) {
            Some((_, _, number)) => *number += 1,
            None => values.push((of_value, value, 1)),
        }
    }
    let typical = values.into_iter().max_by_key(|(_, _, number)| *number);
    Ok(typical.map(|(_, value, _)| value))
}
