//! The buckets of a key, rewritten: every change that moves items between pages is planned here.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::rewrite::Changes;
use mongo_patterns_core::size::MAX_BYTES;
use mongo_patterns_core::stored::can_be_in;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Result};
use mongodb::bson::raw::{CString, RawArrayBuf};
use mongodb::bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use crate::form::document::id_of;
use crate::form::id::{self, Tail};
use crate::form::item_id::ItemId;
use crate::form::layout::{Page, lay_out};
use crate::form::window::start;
use crate::settings::Settings;

/// Consecutive buckets of one key, oldest first, up to the newest.
pub(crate) struct Chain<'a> {
    settings: &'a Settings,
    key: &'a EncodedKey,
    documents: Vec<RawDocumentBuf>,
    /// Their tails, normalized.
    tails: Vec<String>,
    /// Their windows, if there are windows.
    windows: Vec<Option<i64>>,
}

/// An item, and the bucket that it is in.
#[derive(Clone, Copy)]
pub(crate) struct StoredItem<'c> {
    pub(crate) value: RawBsonRef<'c>,
    /// The number of its bucket in the chain.
    pub(crate) bucket: usize,
    /// The window whose buckets it is put into, if there are windows.
    window: Option<i64>,
}

impl<'a> Chain<'a> {
    /// Creates a chain without buckets.
    pub(crate) fn new(settings: &'a Settings, key: &'a EncodedKey) -> Self {
        Self {
            settings,
            key,
            documents: Vec::new(),
            tails: Vec::new(),
            windows: Vec::new(),
        }
    }

    /// Adds the next bucket.
    pub(crate) fn push(&mut self, document: RawDocumentBuf) -> Result<()> {
        let field = self.settings.items.as_str();
        let id = document.get_str("_id").ok();
        let tail = id.and_then(|id| self.key.tail(id)).and_then(Tail::parse);
        let normalized = tail.and_then(Tail::normalized);
        let corrupt = |field: &str, message| Err(Error::corrupt(id_of(&document), field, message));
        match normalized {
            Some(tail) if id.is_some_and(|id| *id == self.key.id(&tail)) => {
                if document.get_array(field).is_err() {
                    return corrupt(
                        field,
                        "the items of a bucket are not an array, nothing was changed: repair the bucket",
                    );
                }
                self.push_as(document, tail);
                Ok(())
            }
            _ => corrupt(
                "_id",
                "the `_id` of a bucket is not its key, `_`, and a second of ten digits, nothing was changed: repair the bucket",
            ),
        }
    }

    /// Adds a bucket that should have this normalized tail, which is not before the previous one. Its items must be an
    /// array.
    pub(crate) fn push_as(&mut self, document: RawDocumentBuf, tail: String) {
        self.documents.push(document);
        self.windows.push(self.settings.window_of(&tail));
        self.tails.push(tail);
    }

    pub(crate) fn has_open_bucket(&self) -> bool {
        let page_size = i64::from(self.settings.page_size);
        self.documents.iter().any(|document| {
            let count = document.get(self.settings.count.as_str()).ok().flatten();
            count.and_then(stored_integer).is_some_and(|count| count < page_size)
        })
    }

    /// Returns all items, in order.
    pub(crate) fn items(&self) -> mongodb::error::Result<Vec<StoredItem<'_>>> {
        let mut items = Vec::new();
        for (bucket, document) in self.documents.iter().enumerate() {
            let Ok(array) = document.get_array(self.settings.items.as_str()) else {
                continue;
            };
            for value in array {
                items.push(StoredItem {
                    value: value?,
                    bucket,
                    window: self.windows[bucket],
                });
            }
        }
        Ok(items)
    }

    /// Returns whether items are outside of the windows of their buckets.
    pub(crate) fn has_items_outside(&self, items: &[StoredItem<'_>]) -> bool {
        items.iter().any(|item| self.is_outside(item))
    }

    /// Returns whether several buckets of a window are not full.
    pub(crate) fn has_several_open(&self, items: &[StoredItem<'_>]) -> bool {
        let page_size = self.settings.page_size as usize;
        let mut windows = HashSet::new();
        items
            .chunk_by(|one, next| one.bucket == next.bucket)
            .filter(|items| items.len() < page_size)
            .any(|items| !windows.insert(self.windows[items[0].bucket]))
    }

    fn is_outside(&self, item: &StoredItem<'_>) -> bool {
        self.own_window(item) != self.windows[item.bucket]
    }

    /// Returns the window of the time of an item, or of its bucket if it has no time.
    fn own_window(&self, item: &StoredItem<'_>) -> Option<i64> {
        let windows = self.settings.windows.as_ref();
        let own = windows.and_then(|windows| windows.of_item(self.settings, item.value));
        own.or(self.windows[item.bucket])
    }

    /// Puts items that are outside of their windows into them: at the end, by their times.
    pub(crate) fn by_windows<'c>(&self, mut items: Vec<StoredItem<'c>>) -> Vec<StoredItem<'c>> {
        for item in &mut items {
            item.window = self.own_window(item);
        }
        items.sort_by_cached_key(|item| {
            let late = self.is_outside(item).then(|| self.second_of(item.value));
            (item.window, late)
        });
        items
    }

    /// Returns the changes that leave the chain with these items of its own, in order. Then all pages of a window but its
    /// last are full, and their ids ascend. Correct buckets are not written. Refuses to remove a bucket with fields of the
    /// user.
    pub(crate) fn plan(&self, items: &[StoredItem<'_>]) -> Result<Changes> {
        let mut pages = Vec::new();
        let mut offset = 0;
        for of_window in items.chunk_by(|one, next| one.window == next.window) {
            let window = of_window[0].window;
            let first = self.windows.partition_point(|of_bucket| *of_bucket < window);
            let end = self.windows.partition_point(|of_bucket| *of_bucket <= window);
            let origins = of_window.iter().map(|item| match item.bucket {
                bucket if (first..end).contains(&bucket) => bucket - first,
                // A bucket of another window.
                _ => end - first,
            });
            let origins: Vec<usize> = origins.collect();
            let second = |item: usize| {
                let second = self.second_of(of_window[item].value);
                second.filter(|second| self.settings.window_of(second) == window)
            };
            let page_size = self.settings.page_size as usize;
            for page in lay_out(page_size, &self.tails[first..end], &origins, second)? {
                pages.push(Page {
                    items: page.items.start + offset..page.items.end + offset,
                    continues: page.continues.map(|bucket| bucket + first),
                    ..page
                });
            }
            offset += of_window.len();
        }
        self.changes(items, &pages)
    }

    /// Returns the changes that correct the fields of the buckets, and leave each item in its bucket.
    pub(crate) fn plan_in_place(&self, items: &[StoredItem<'_>]) -> Result<Changes> {
        let mut start = 0;
        let pages = self.tails.iter().enumerate().map(|(bucket, tail)| {
            let end = start + items[start..].iter().take_while(|item| item.bucket == bucket).count();
            let page = Page {
                tail: tail.clone(),
                items: start..end,
                continues: Some(bucket),
            };
            start = end;
            page
        });
        self.changes(items, &pages.collect::<Vec<Page>>())
    }

    fn changes(&self, items: &[StoredItem<'_>], pages: &[Page]) -> Result<Changes> {
        let mut changes = Changes::default();
        changes.filter.extend(self.key_filter());
        let mut kept = vec![false; self.documents.len()];
        let mut continued = kept.clone();
        for page in pages {
            let old = page.continues.map(|bucket| &self.documents[bucket]);
            let new = self.bucket(old, page, &items[page.items.clone()])?;
            if let Some(bucket) = page.continues {
                continued[bucket] = true;
                if new.as_bytes() == self.documents[bucket].as_bytes() {
                    kept[bucket] = true;
                    continue;
                }
            }
            if new.as_bytes().len() > MAX_BYTES {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    "a page of these items would exceed MongoDB's limit of 16 MiB, nothing was changed: use a smaller page size",
                )
                .with_key(self.key.text()));
            }
            changes.written.push(new);
        }
        for (bucket, document) in self.documents.iter().enumerate() {
            if !continued[bucket] && self.has_other_fields(document) {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a bucket that would be removed has fields that are not of the pattern, nothing was changed: move them to another bucket of the key, or remove them",
                )
                .of_document(id_of(document), "_id")
                .with_key(self.key.text()));
            }
            if !kept[bucket] {
                changes.removed.push(id_of(document));
            }
        }
        Ok(changes)
    }

    /// Filters the documents by the values of their key fields. Empty if a filter cannot have one.
    fn key_filter(&self) -> Document {
        let field = self.settings.key.as_str();
        let mut values: Vec<Bson> = Vec::new();
        for document in &self.documents {
            let value = match document.get(field).ok().flatten() {
                Some(stored) if self.is_key(stored) => self.key.value().clone(),
                Some(other) => match Bson::try_from(other) {
                    Ok(other) if can_be_in(&other) => other,
                    _ => return Document::new(),
                },
                None => Bson::Null,
            };
            if !values.contains(&value) {
                values.push(value);
            }
        }
        match values.as_slice() {
            [value] if value == self.key.value() => doc! { field: value },
            _ => doc! { field: { "$in": values } },
        }
    }

    fn second_of(&self, item: RawBsonRef<'_>) -> Option<String> {
        let field = self.settings.time.as_ref()?;
        let time = item.as_document()?.get_datetime(field.as_str()).ok()?;
        match &self.settings.windows {
            None => id::second_text(time).ok(),
            Some(_) => Some(id::nearest_second_text(time)),
        }
    }

    fn has_other_fields(&self, document: &RawDocument) -> bool {
        let Settings { key, items, count, .. } = self.settings;
        let own = ["_id", key.as_str(), items.as_str(), count.as_str()];
        let figures = self.settings.figures.as_ref().map(|figures| figures.field.as_str());
        let window = self.settings.windows.as_ref().map(|windows| windows.field.as_str());
        let further = [figures, window];
        let is_own = |name: &str| own.contains(&name) || further.contains(&Some(name));
        document.iter().flatten().any(|(name, _)| !is_own(name.as_str()))
    }

    /// Returns a bucket with these items, based on an old one, whose correct fields stay.
    fn bucket(
        &self,
        old: Option<&RawDocumentBuf>,
        page: &Page,
        items: &[StoredItem<'_>],
    ) -> mongodb::error::Result<RawDocumentBuf> {
        let mut array = RawArrayBuf::new();
        for item in items {
            array.push(item.value);
        }
        let length = i32::try_from(items.len()).unwrap_or(i32::MAX);
        let Settings {
            key,
            items: field,
            count,
            ..
        } = self.settings;
        let figures = self.settings.figures.as_ref();
        let values = items.iter().map(|item| item.value);
        let mut own = vec![
            ("_id", RawBson::String(self.key.id(&page.tail))),
            (key.as_str(), self.key.value().clone().try_into()?),
            (count.as_str(), RawBson::Int32(length)),
            (field.as_str(), RawBson::Array(array)),
        ];
        let window = self.settings.windows.as_ref().zip(self.settings.window_of(&page.tail));
        let window = window.map(|(windows, window)| (windows.field.as_str(), start(window)));
        if let Some((name, start)) = window {
            own.insert(2, (name, RawBson::DateTime(start)));
        }
        if let Some(figures) = figures {
            let computed = Bson::Document(figures.compute(&values));
            own.push((figures.field.as_str(), computed.try_into()?));
        }
        let mut written = vec![false; own.len()];
        let mut document = RawDocumentBuf::new();
        for element in old.into_iter().flat_map(|old| old.iter()) {
            let (name, value) = element?;
            let Some(position) = own.iter().position(|(own, _)| *own == name.as_str()) else {
                document.append(name, value);
                continue;
            };
            let is_figures = figures.filter(|figures| figures.field.as_str() == name.as_str());
            let is_correct = match name.as_str() {
                name if name == key.as_str() => self.is_key(value),
                name if name == count.as_str() => stored_integer(value) == Some(length.into()),
                name if window.is_some_and(|(field, _)| field == name) => {
                    value.as_datetime() == window.map(|(_, start)| start)
                }
                _ => is_figures.is_some_and(|figures| figures.match_items(Some(value), &values)),
            };
            if is_correct {
                document.append(name, value);
            } else if name.as_str() != field.as_str() || !written[position] {
                document.append(name, own[position].1.as_raw_bson_ref());
            }
            written[position] = true;
        }
        for ((name, value), _) in own.into_iter().zip(written).filter(|(_, written)| !written) {
            document.append(CString::try_from(name)?, value);
        }
        Ok(document)
    }

    /// Returns whether a stored key field is the key. A number can have any numeric type.
    fn is_key(&self, stored: RawBsonRef<'_>) -> bool {
        match self.key.value() {
            Bson::Int32(key) => stored_integer(stored) == Some((*key).into()),
            Bson::Int64(key) => stored_integer(stored) == Some(*key),
            key => Bson::try_from(stored).is_ok_and(|stored| stored == *key),
        }
    }
}

/// Returns the first of equal items. `None` when different items have the same id.
pub(crate) fn without_duplicates<'c>(items: Vec<StoredItem<'c>>, field: &str) -> Option<Vec<StoredItem<'c>>> {
    let mut seen: HashMap<ItemId, RawBsonRef<'c>> = HashMap::new();
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        let id = item.value.as_document().and_then(|item| item.get(field).ok().flatten());
        match id.and_then(ItemId::from_stored).map(|id| seen.entry(id)) {
            Some(Entry::Occupied(first)) if *first.get() == item.value => continue,
            Some(Entry::Occupied(_)) => return None,
            Some(Entry::Vacant(vacant)) => {
                vacant.insert(item.value);
            }
            None => {}
        }
        kept.push(item);
    }
    Some(kept)
}
