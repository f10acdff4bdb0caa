//! Buckets that an archive or a trash restores, or that a run archives: they join the stored buckets of their window.
//!
//! # Design
//!
//! ## Why can a window have two open buckets?
//!
//! A late item of a window whose last bucket was archived opens a new bucket. The index of open buckets refuses the first
//! one when it is restored. The `_id`s can be equal too, because each is free in its own collection.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::through::Restores;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::Collection;
use mongodb::bson::{RawDocument, RawDocumentBuf, cstr};

use crate::form::chain::{Chain, without_duplicates};
use crate::form::id::{Tail, key_of_id};
use crate::query::buckets::buckets_of_window;
use crate::repository::{BucketRepository, Shared};
use crate::settings::Settings;

/// Buckets of a [window](crate::BucketRepositoryBuilder::window) join the stored ones: their items are in full pages, in the
/// order of their buckets, and in one open bucket. Of equal items with the same
/// [id](crate::BucketRepositoryBuilder::item_id_field), one is kept; different ones are
/// [`DuplicateKey`](ErrorKind::DuplicateKey), with nothing changed. Buckets without windows stay as they are.
///
/// It takes one round trip for each window, or two if the window has buckets.
// proof: together::late_items::archived_buckets_join_those_of_late_items
impl<K: Key, T> Restores for BucketRepository<K, T> {
    fn restores(&self) -> &Collection<RawDocumentBuf> {
        &self.shared().collection
    }

    fn restore_in<'a>(
        &'a self,
        documents: Vec<RawDocumentBuf>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
        Box::pin(restore::<K>(self.shared(), documents, conn))
    }
}

/// The restored buckets of a window, by their tails.
type OfWindow = (EncodedKey, Vec<(String, RawDocumentBuf)>);

async fn restore<K: Key>(
    shared: &Shared,
    documents: Vec<RawDocumentBuf>,
    conn: &mut Conn<'_>,
) -> Result<Vec<RawDocumentBuf>> {
    let (collection, settings) = shared.parts();
    if settings.windows.is_none() {
        return Ok(documents);
    }
    let mut restored = Vec::new();
    let mut windows: BTreeMap<(String, Option<i64>), OfWindow> = BTreeMap::new();
    for document in documents {
        match placed::<K>(&document) {
            Some((key, tail)) => {
                let window = (key.text().to_owned(), settings.window_of(&tail));
                let (_, buckets) = windows.entry(window).or_insert_with(|| (key, Vec::new()));
                buckets.push((tail, document));
            }
            // Of another program.
            None => restored.push(document),
        }
    }
    for ((_, window), (key, mut buckets)) in windows {
        let of_window = || buckets_of_window(settings, &key, window);
        let present = conn.find_all(collection, of_window(), None).await?;
        if present.is_empty() && buckets.len() == 1 {
            restored.extend(buckets.into_iter().map(|(_, document)| document));
            continue;
        }
        let present_is_empty = present.is_empty();
        for document in present {
            let (_, tail) = placed::<K>(&document).ok_or_else(|| invalid(&document).of_collection(collection))?;
            buckets.push((tail, document));
        }
        if !present_is_empty {
            conn.delete_many(collection, of_window(), None).await?;
        }
        restored.extend(joined(settings, &key, buckets)?);
    }
    Ok(restored)
}

/// Returns the key of a bucket, and the normalized tail of its `_id`.
fn placed<K: Key>(document: &RawDocument) -> Option<(EncodedKey, String)> {
    let (key, tail) = key_of_id::<K>(document.get_str("_id").ok()?)?;
    Some((key, Tail::parse(tail)?.normalized()?))
}

/// Returns buckets of one window with these items. Only the last one is not full.
fn joined(
    settings: &Settings,
    key: &EncodedKey,
    mut buckets: Vec<(String, RawDocumentBuf)>,
) -> Result<Vec<RawDocumentBuf>> {
    // Stable: of two with one tail, the restored one is first.
    buckets.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut chain = Chain::new(settings, key);
    let mut documents: Vec<RawDocumentBuf> = Vec::new();
    let mut last: Option<String> = None;
    for (tail, document) in buckets {
        let tail = match &last {
            Some(last) if tail <= *last => Tail::parse(last).ok_or_else(|| invalid(&document))?.successor()?,
            _ => tail,
        };
        let document = with_id(&document, &key.id(&tail));
        documents.push(document.clone());
        chain.push_as(document, tail.clone());
        last = Some(tail);
    }
    let mut items = chain.items()?;
    if let Some(field) = &settings.item_id {
        items = without_duplicates(items, field.as_str()).ok_or_else(different_items)?;
    }
    let changes = chain.plan(&items)?;
    documents.retain(|document| !changes.removed.contains(&id_of(document)));
    documents.extend(changes.written);
    Ok(documents)
}

/// Returns a bucket with another `_id`.
fn with_id(document: &RawDocument, id: &str) -> RawDocumentBuf {
    let mut renamed = RawDocumentBuf::new();
    renamed.append(cstr!("_id"), id);
    for (name, value) in document.iter().flatten().filter(|(name, _)| *name != "_id") {
        renamed.append(name, value);
    }
    renamed
}

fn invalid(document: &RawDocument) -> Error {
    let message = "the `_id` of a bucket is not its key, `_`, and a second, nothing was changed: repair the bucket";
    Error::corrupt(id_of(document), "_id", message)
}

fn different_items() -> Error {
    let text = "a restored bucket has an item with the id of another item of its window, nothing was changed: remove one of the two";
    Error::new(ErrorKind::DuplicateKey, text)
}
