//! The flat documents that cannot become items.

use mongo_patterns_core::Key;
use mongodb::bson::Uuid;
use mongodb::bson::oid::ObjectId;

use super::keys::{flat_key, key_type};
use super::work::Work;
use crate::analyze::invalid::{FEW, Invalid, Reason};
use crate::args::Sample;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{BucketSettings, KeyType};

/// Finds the invalid documents. `None` if the settings do not name key and time, or if no document shows the type of the
/// keys.
pub(super) async fn find(
    context: &Context,
    settings: &BucketSettings,
    sample: Sample,
) -> Result<Option<Invalid>, Failure> {
    let (Some(flat), Some(_), Some(_)) = (&settings.flat, &settings.key, &settings.time) else {
        return Ok(None);
    };
    // Only the flat collection is read.
    let mut settings = settings.clone();
    settings.collection.get_or_insert_with(|| format!("{flat}_buckets"));
    settings.items.get_or_insert_with(|| "items".to_owned());
    let Ok(key_type) = key_type(context, &settings).await else {
        return Ok(None);
    };
    let found = match key_type {
        KeyType::Int => Work::<i64>::new(context, &settings)?.invalid(sample).await?,
        KeyType::String => Work::<String>::new(context, &settings)?.invalid(sample).await?,
        KeyType::ObjectId => Work::<ObjectId>::new(context, &settings)?.invalid(sample).await?,
        KeyType::Uuid => Work::<Uuid>::new(context, &settings)?.invalid(sample).await?,
    };
    Ok(Some(found))
}

impl<K: Key> Work<'_, K> {
    async fn invalid(&self, sample: Sample) -> Result<Invalid, Failure> {
        let flat = self.flat()?;
        let count = flat.estimated_document_count().await;
        let sample = match count.map_err(Failure::on(flat.namespace()))? {
            ..=FEW => None,
            _ => sample.sample,
        };
        let migration = self
            .buckets
            .migrate_from_flat(&flat)
            .key_field(flat_key(self.settings)?);
        let found = migration.find_invalid(sample).await?;
        let (settings, invalid) = (self.settings, found.invalid);
        let of = |name, field: Option<&str>, text| Reason {
            name,
            field: field.unwrap_or_default().to_owned(),
            text,
            documents: invalid.get(name).unwrap_or_default(),
        };
        let figures = [&settings.sum, &settings.min, &settings.max, &settings.count_by];
        let figures: Vec<&str> = figures.into_iter().flatten().flatten().map(String::as_str).collect();
        let mut invalid_documents = Invalid {
            collection: flat.name().to_owned(),
            checked: found.checked,
            is_sample: sample.is_some(),
            reasons: vec![
                of(
                    "key",
                    Some(flat_key(settings)?),
                    "no key of the type --key-type, or one that is out of range or too long",
                ),
                of(
                    "time",
                    settings.time.as_deref(),
                    "no date, or one that is not from 1970 to 2286",
                ),
                of(
                    "item_id",
                    settings.item_id.as_deref(),
                    "no item id, or one of an unsupported type",
                ),
            ],
            filter: found.filter,
        };
        if !figures.is_empty() {
            let text = "no valid value in a field with figures";
            let reason = of("figure", Some(&figures.join(", ")), text);
            invalid_documents.reasons.push(reason);
        }
        Ok(invalid_documents)
    }
}
