//! A loose scan of the `_id` index for keys.
//!
//! # Design
//!
//! ## Why does the scan use the `_id` index?
//!
//! No other index has an entry for each key. A read seeks past the other buckets of the last key. It starts at an index
//! bound, because a comparison in a filter matches one type only, and an `_id` of another type must be reported.

use std::collections::VecDeque;
use std::time::Duration;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{EncodedKey, Error, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};
use mongodb::options::{FindOptions, Hint};

use crate::form::id::key_of_id;
use crate::query::buckets::{by_id, only_id};
use crate::repository::Shared;

/// The number of index entries that the first read returns, and the most of a later one.
const FIRST_ENTRIES: u32 = 100;
const MOST_ENTRIES: u32 = 1000;

/// Reads batches of index entries, and skips the rest of the last key.
pub(crate) struct LooseScan<'a, K> {
    shared: &'a Shared,
    session: Option<&'a mut ClientSession>,
    max_time: Option<Duration>,
    /// The smallest `_id` that is still to be read, of any type.
    from: Bson,
    /// The number of entries of the next read.
    entries: u32,
    ready: VecDeque<Result<K>>,
    /// The most keys that are still to be returned.
    left: u32,
    ended: bool,
}

impl<'a, K: Key> LooseScan<'a, K> {
    pub(crate) fn new(
        shared: &'a Shared,
        after: Option<&EncodedKey>,
        limit: Option<u32>,
        session: Option<&'a mut ClientSession>,
        max_time: Option<Duration>,
    ) -> Self {
        Self {
            shared,
            session,
            max_time: max_time.or(shared.settings.max_time),
            from: after.map_or(Bson::MinKey, |after| Bson::String(after.end())),
            entries: FIRST_ENTRIES,
            ready: VecDeque::new(),
            left: limit.unwrap_or(u32::MAX),
            ended: false,
        }
    }

    /// Returns the next key, or the error of the next bucket that has none, if it has been fetched.
    pub(crate) fn pop(&mut self) -> Option<Result<K>> {
        let next = self.ready.pop_front().filter(|_| self.left > 0)?;
        self.left -= u32::from(next.is_ok());
        Some(next)
    }

    /// Fetches more keys, possibly none. Returns `false` at the end. An error ends the scan.
    pub(crate) async fn fetch(&mut self) -> Result<bool> {
        if self.ended || self.left == 0 {
            return Ok(false);
        }
        let read = self.read().await;
        self.ended |= read.is_err();
        read.map(|()| true)
    }

    async fn read(&mut self) -> Result<()> {
        let options = FindOptions::builder()
            .min(doc! { "_id": self.from.clone() })
            .sort(by_id(false))
            .hint(Hint::Keys(by_id(false)))
            .projection(only_id())
            .limit(i64::from(self.entries))
            .batch_size(self.entries)
            .build();
        let mut conn = Conn::to_read(self.session.as_deref_mut(), self.max_time).await?;
        let read = conn.find_all(&self.shared.collection, doc! {}, options).await?;
        drop(conn);
        let mut key_end: Option<String> = None;
        for bucket in &read {
            let Some(id) = bucket.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok()) else {
                continue;
            };
            let Bson::String(text) = &id else {
                self.skip_type(id);
                return Ok(());
            };
            if key_end.as_ref().is_some_and(|end| text < end) {
                continue;
            }
            if let Some((key, encoded)) = key_in_id::<K>(text) {
                let end = encoded.end();
                self.from = Bson::String(end.clone());
                key_end = Some(end);
                self.ready.push_back(Ok(key));
            } else {
                // The first string after this one.
                self.from = Bson::String(format!("{text}\0"));
                self.ready.push_back(Err(no_key(id)));
            }
        }
        self.ended |= read.len() < self.entries as usize;
        self.adapt(read.len());
        Ok(())
    }

    /// Reports an `_id` that is no string, and skips the other types before or after strings.
    fn skip_type(&mut self, id: Bson) {
        let is_before = matches!(
            id,
            Bson::MinKey
                | Bson::Undefined
                | Bson::Null
                | Bson::Int32(_)
                | Bson::Int64(_)
                | Bson::Double(_)
                | Bson::Decimal128(_)
        );
        self.ready.push_back(Err(no_key(id)));
        if is_before {
            self.from = Bson::String(String::new());
        } else {
            self.ended = true;
        }
    }

    /// Reads fewer entries where keys have many buckets, and more where they have few.
    fn adapt(&mut self, read: usize) {
        if self.ready.len() * 16 < read {
            self.entries = (self.entries / 4).max(1);
        } else if self.ready.len() * 2 >= read {
            self.entries = (self.entries * 4).min(MOST_ENTRIES);
        }
    }
}

fn key_in_id<K: Key>(id: &str) -> Option<(K, EncodedKey)> {
    let (encoded, _) = key_of_id::<K>(id)?;
    // A text such as `007` would be taken for 7.
    encoded.tail(id)?;
    Some((K::decode_key(encoded.text())?, encoded))
}

fn no_key(id: Bson) -> Error {
    Error::corrupt(
        id,
        "_id",
        "the `_id` of a bucket is not a key of the repository's type, `_`, and a second: repair the bucket",
    )
}
