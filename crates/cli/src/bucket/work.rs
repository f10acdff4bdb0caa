//! The repository of the bucket commands.

use std::time::Duration;

use mongo_patterns_bucket::{BucketRepository, Window};
use mongo_patterns_core::Key;
use mongodb::Collection;
use mongodb::bson::Document;

use super::keys::PATTERN;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{BucketSettings, need, with_given};

type Buckets<K> = BucketRepository<K, Document>;

/// The bucket commands, for one type of key.
pub(super) struct Work<'a, K> {
    pub(super) context: &'a Context,
    pub(super) settings: &'a BucketSettings,
    pub(super) buckets: Buckets<K>,
}

impl<'a, K: Key> Work<'a, K> {
    pub(super) fn new(context: &'a Context, settings: &'a BucketSettings) -> Result<Self, Failure> {
        Ok(Self {
            context,
            settings,
            buckets: repository(context, settings)?,
        })
    }

    pub(super) fn flat(&self) -> Result<Collection<Document>, Failure> {
        let name = need(self.settings.flat.as_ref(), PATTERN, "flat")?;
        Ok(self.context.database.collection(name))
    }
}

fn repository<K: Key>(context: &Context, settings: &BucketSettings) -> Result<Buckets<K>, Failure> {
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let builder = BucketRepository::builder(context.database.collection::<Document>(collection))
        .key_field(need(settings.key.as_ref(), PATTERN, "key")?)
        .items_field(need(settings.items.as_ref(), PATTERN, "items")?)
        .page_size(settings.page_size.unwrap_or(10));
    let seconds = |seconds: Option<u32>| seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let mut builder = with_given!(
        builder,
        &settings.count => count_field,
        &settings.time => time_field,
        &settings.item_id => item_id_field,
        seconds(settings.window_seconds).map(Window::every) => window,
        &settings.window_field => window_field,
        seconds(settings.expire_after_seconds) => expire_after,
        &settings.figures => figures_field,
    );
    for field in settings.sum.iter().flatten() {
        builder = builder.sum(field);
    }
    for field in settings.min.iter().flatten() {
        builder = builder.min(field);
    }
    for field in settings.max.iter().flatten() {
        builder = builder.max(field);
    }
    for field in settings.count_by.iter().flatten() {
        builder = builder.count_by(field);
    }
    if settings.first_and_last == Some(true) {
        builder = builder.first_and_last();
    }
    Ok(builder.build()?)
}
