//! Writes the buckets of a key anew, in a transaction: what moves items from page to page goes through here.

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::rewrite::Changes;
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Result, send};
use mongodb::bson::raw::{CString, RawArrayBuf};
use mongodb::bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc};
use mongodb::options::{FindOneOptions, FindOptions};

use crate::form::id::{self, Tail};
use crate::form::layout::{Page, lay_out};
use crate::repository::Shared;
use crate::settings::Settings;
use crate::{PageToken, query};

/// MongoDB's limit of a document.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Buckets of one key, oldest first, from some place to the newest.
pub(crate) struct Chain<'a> {
    settings: &'a Settings,
    key: &'a EncodedKey,
    documents: Vec<RawDocumentBuf>,
    /// Their tails, in the normal form.
    tails: Vec<String>,
}

/// An item, and where it is.
#[derive(Clone, Copy)]
pub(crate) struct StoredItem<'c> {
    pub(crate) value: RawBsonRef<'c>,
    /// Which of the chain's buckets it is in.
    pub(crate) bucket: usize,
}

impl<'a> Chain<'a> {
    /// The buckets from the one with this tail on. Where the key's open bucket is before it, from there: a page that is
    /// not full may come out at the end, and there can only be one. In two round trips at most, or three then.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when one of them is not a bucket of the key, and those of the driver.
    pub(crate) async fn load(
        shared: &'a Shared,
        key: &'a EncodedKey,
        tail: &str,
        session: &mut Session<'_>,
    ) -> Result<Self> {
        let settings = &shared.settings;
        let chain = Self::load_from(shared, key, tail, session).await?;
        let page_size = i64::from(settings.page_size);
        let is_open = |document: &RawDocumentBuf| {
            let count = document.get(settings.count.as_str()).ok().flatten();
            count.and_then(stored_integer).is_some_and(|count| count < page_size)
        };
        if chain.documents.iter().any(is_open) {
            return Ok(chain);
        }
        let first = FindOneOptions::builder()
            .sort(doc! { "_id": 1 })
            .projection(doc! { "_id": 1 })
            .build();
        let open = query::open_bucket(settings, key);
        let open = send::find_one(Some(&mut *session), &shared.collection, open, first).await?;
        let open = open.as_ref().and_then(|open| open.get_str("_id").ok());
        match open.and_then(|id| key.tail(id)) {
            Some(open) => Self::load_from(shared, key, open, session).await,
            None => Ok(chain),
        }
    }

    async fn load_from(shared: &'a Shared, key: &'a EncodedKey, tail: &str, session: &mut Session<'_>) -> Result<Self> {
        let place = PageToken::from_tail(tail);
        let filter = query::buckets_beyond(&shared.settings, key, "$gte", &place);
        let ascending = FindOptions::builder().sort(doc! { "_id": 1 }).build();
        let mut chain = Self::new(&shared.settings, key);
        for document in find_all(Some(session), &shared.collection, filter, ascending).await? {
            chain.push(document)?;
        }
        Ok(chain)
    }

    /// A chain without buckets.
    pub(crate) fn new(settings: &'a Settings, key: &'a EncodedKey) -> Self {
        Self {
            settings,
            key,
            documents: Vec::new(),
            tails: Vec::new(),
        }
    }

    fn push(&mut self, document: RawDocumentBuf) -> Result<()> {
        let field = self.settings.items.as_str();
        let id = document.get_str("_id").ok();
        let tail = id.and_then(|id| self.key.tail(id)).and_then(Tail::parse);
        let normal = tail.and_then(Tail::normal);
        let corrupt = |field: &str, message| Err(Error::corrupt(id_of(&document), field, message));
        match normal {
            Some(tail) if id.is_some_and(|id| *id == self.key.id(&tail)) => {
                if document.get_array(field).is_err() {
                    return corrupt(
                        field,
                        "a bucket's items are not an array, nothing was changed: repair it",
                    );
                }
                self.push_as(document, tail);
                Ok(())
            }
            _ => corrupt(
                "_id",
                "a bucket's `_id` is not its key, `_`, and the second at which it was opened, in ten digits, nothing was changed: repair it",
            ),
        }
    }

    /// Adds a bucket that should have this tail: in the normal form, and not before that of the bucket before it. Its
    /// items must be an array.
    pub(crate) fn push_as(&mut self, document: RawDocumentBuf, tail: String) {
        self.documents.push(document);
        self.tails.push(tail);
    }

    /// The tails of its buckets, in the normal form.
    pub(crate) fn tails(&self) -> &[String] {
        &self.tails
    }

    /// All items, in order.
    ///
    /// # Errors
    /// When a bucket is not valid BSON.
    pub(crate) fn items(&self) -> mongodb::error::Result<Vec<StoredItem<'_>>> {
        let mut items = Vec::new();
        for (bucket, document) in self.documents.iter().enumerate() {
            let Ok(array) = document.get_array(self.settings.items.as_str()) else {
                continue;
            };
            for value in array {
                items.push(StoredItem { value: value?, bucket });
            }
        }
        Ok(items)
    }

    /// What must be written for the chain to hold these items, which are its own, in order, or less: all pages full but
    /// the last, and their names in order. Buckets that are right already stay.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) when a page would pass MongoDB's limit, [`Unsupported`](ErrorKind::Unsupported)
    /// when a bucket would go away that has fields of the user's own.
    pub(crate) fn plan(&self, items: &[StoredItem<'_>]) -> Result<Changes> {
        let origins: Vec<usize> = items.iter().map(|item| item.bucket).collect();
        let page_size = self.settings.page_size as usize;
        let pages = lay_out(page_size, &self.tails, &origins, |item| {
            self.second_of(items[item].value)
        })?;
        self.changes(items, &pages)
    }

    /// What must be written for the chain to be these pages.
    pub(crate) fn changes(&self, items: &[StoredItem<'_>], pages: &[Page]) -> Result<Changes> {
        let key = self.settings.key.as_str();
        let has_key = |document: &RawDocumentBuf| document.get(key).ok().flatten().is_some_and(|key| self.is_key(key));
        let mut changes = Changes::default();
        if self.documents.iter().all(has_key) {
            changes.filter.insert(key, self.key.value());
        }
        let mut kept = vec![false; self.documents.len()];
        let mut continued = kept.clone();
        for page in pages {
            let old = page.continues.map(|bucket| &self.documents[bucket]);
            let new = self.bucket(old, &page.tail, &items[page.items.clone()])?;
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
                    "a page of these items would pass MongoDB's limit of 16 MiB, nothing was changed: use a smaller page size",
                )
                .with_key(self.key.text()));
            }
            changes.written.push(new);
        }
        for (bucket, document) in self.documents.iter().enumerate() {
            if !continued[bucket] && self.has_other_fields(document) {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a bucket would go away that has fields of your own beside those of the pattern, nothing was changed: move them to another bucket of the key, or remove them",
                )
                .at(id_of(document), "_id")
                .with_key(self.key.text()));
            }
            if !kept[bucket] {
                changes.removed.push(id_of(document));
            }
        }
        Ok(changes)
    }

    fn second_of(&self, item: RawBsonRef<'_>) -> Option<String> {
        let field = self.settings.time.as_ref()?;
        let time = item.as_document()?.get_datetime(field.as_str()).ok()?;
        id::second_text(time).ok()
    }

    fn has_other_fields(&self, document: &RawDocument) -> bool {
        let Settings { key, items, count, .. } = self.settings;
        let own = ["_id", key.as_str(), items.as_str(), count.as_str()];
        document.iter().flatten().any(|(name, _)| !own.contains(&name.as_str()))
    }

    /// A bucket with these items, on the base of an old one: what is right in there stays as it is, in its place.
    fn bucket(
        &self,
        old: Option<&RawDocumentBuf>,
        tail: &str,
        items: &[StoredItem<'_>],
    ) -> mongodb::error::Result<RawDocumentBuf> {
        let mut array = RawArrayBuf::new();
        for item in items {
            array.push(item.value);
        }
        let count = i32::try_from(items.len()).unwrap_or(i32::MAX);
        let id = self.key.id(tail);
        let mut array = Some(array);
        let (mut has_id, mut has_key, mut has_count) = (false, false, false);
        let mut document = RawDocumentBuf::new();
        for element in old.into_iter().flat_map(|old| old.iter()) {
            let (name, value) = element?;
            match name.as_str() {
                "_id" => {
                    has_id = true;
                    document.append(name, id.as_str());
                }
                field if field == self.settings.key.as_str() => {
                    has_key = true;
                    if self.is_key(value) {
                        document.append(name, value);
                    } else {
                        document.append(name, RawBson::try_from(self.key.value().clone())?);
                    }
                }
                field if field == self.settings.count.as_str() => {
                    has_count = true;
                    if stored_integer(value) == Some(count.into()) {
                        document.append(name, value);
                    } else {
                        document.append(name, count);
                    }
                }
                field if field == self.settings.items.as_str() => {
                    if let Some(array) = array.take() {
                        document.append(name, array);
                    }
                }
                _ => document.append(name, value),
            }
        }
        let name = |name: &str| CString::try_from(name);
        if !has_id {
            document.append(cstr!("_id"), id);
        }
        if !has_key {
            let value = RawBson::try_from(self.key.value().clone())?;
            document.append(name(self.settings.key.as_str())?, value);
        }
        if !has_count {
            document.append(name(self.settings.count.as_str())?, count);
        }
        if let Some(array) = array {
            document.append(name(self.settings.items.as_str())?, array);
        }
        Ok(document)
    }

    /// Whether a stored key field holds the key; as any numeric type, for a number.
    fn is_key(&self, stored: RawBsonRef<'_>) -> bool {
        match self.key.value() {
            Bson::Int32(key) => stored_integer(stored) == Some((*key).into()),
            Bson::Int64(key) => stored_integer(stored) == Some(*key),
            key => Bson::try_from(stored).is_ok_and(|stored| stored == *key),
        }
    }
}

fn id_of(document: &RawDocument) -> Bson {
    let id = document.get("_id").ok().flatten();
    id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null)
}
