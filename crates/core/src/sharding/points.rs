//! The types of split points.

use std::borrow::Borrow;
use std::marker::PhantomData;

use super::ensure::EnsureSharded;
use crate::document_id::DocumentId;
use crate::error::Error;
use crate::into_id::IntoId;
use crate::key::{EncodeKey, Key};

/// The split points of a collection of buckets are keys of this type.
#[derive(Debug)]
pub struct Keys<K>(PhantomData<fn() -> K>);

/// The split points of a collection are the ids of its documents, or of their parents.
#[derive(Debug)]
pub struct Ids;

impl<K: Key> EnsureSharded<'_, Keys<K>> {
    /// Splits the chunks at these keys, and distributes the new chunks over the shards in turn. Otherwise an empty
    /// collection is one chunk on one shard.
    ///
    /// For empty collections: of others, the documents of each new chunk are moved, one chunk after the other. A chunk that
    /// begins at one of the keys already is neither split nor moved. A hashed key cannot have split points, and distributes
    /// the chunks of an empty collection itself.
    ///
    /// # Errors
    /// [`InvalidKey`](crate::ErrorKind::InvalidKey).
    pub fn presplit<'k, Q>(self, keys: impl IntoIterator<Item = &'k Q>) -> Self
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized + 'k,
    {
        let value = |key: &Q| Ok(key.encode_key().map_err(Error::from)?.value().clone());
        let points = keys.into_iter().map(value).collect();
        self.points(points)
    }
}

impl EnsureSharded<'_, Ids> {
    /// Splits the chunks at these ids, and distributes the new chunks over the shards in turn. Otherwise an empty
    /// collection is one chunk on one shard. The ids are those of main documents or parents, for both collections of a
    /// pattern.
    ///
    /// For empty collections: of others, the documents of each new chunk are moved, one chunk after the other. A chunk that
    /// begins at one of the ids already is neither split nor moved. A hashed key cannot have split points, and distributes
    /// the chunks of an empty collection itself.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a value that cannot be an `_id`.
    pub fn presplit<I: IntoId>(self, ids: impl IntoIterator<Item = I>) -> Self {
        let value = |id: I| DocumentId::new(id).map(DocumentId::into_bson);
        let points = ids.into_iter().map(value).collect();
        self.points(points)
    }
}
