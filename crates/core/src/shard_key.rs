//! The shard keys that suit a collection.

use std::fmt;

use mongodb::Namespace;
use mongodb::bson::{Bson, Document, doc};

use crate::value::same::same_fields;

/// The shard keys under which a pattern works, for one collection of a repository; returned by
/// [`Repository::shard_keys`](crate::Repository::shard_keys).
///
/// ```
/// # use mongo_patterns::sharding::ShardKeyChoice;
/// fn show(choices: &[ShardKeyChoice]) {
///     for choice in choices {
///         println!("{}: {}, because {}", choice.namespace, choice.recommended, choice.reason);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShardKeyChoice {
    /// Database and collection.
    pub namespace: Namespace,
    /// The shard key that `ensure_sharded()` uses.
    pub recommended: Document,
    /// The other shard keys that work. The hashed one, `ensure_sharded().hashed()` uses.
    pub others: Vec<Document>,
    /// Why these, and no others.
    pub reason: &'static str,
    /// What does not scale with them, a sentence each.
    pub limits: Vec<&'static str>,
}

impl ShardKeyChoice {
    /// Creates the choice of a collection whose documents are found by one field.
    pub(crate) fn new(namespace: Namespace, field: &str, reason: &'static str) -> Self {
        Self {
            namespace,
            recommended: doc! { field: 1 },
            others: vec![doc! { field: "hashed" }],
            reason,
            limits: Vec::new(),
        }
    }

    /// Returns the recommended key, and the others.
    ///
    /// ```
    /// # use mongo_patterns::sharding::ShardKeyChoice;
    /// fn has_hashed(choice: &ShardKeyChoice) -> bool {
    ///     choice.keys().any(|key| key.values().any(|form| form.as_str() == Some("hashed")))
    /// }
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = &Document> {
        std::iter::once(&self.recommended).chain(&self.others)
    }

    /// Returns the key that a call uses.
    pub(crate) fn key(&self, hashed: bool) -> &Document {
        let hashed_key = self.others.iter().find(|key| hashed && is_hashed(key));
        hashed_key.unwrap_or(&self.recommended)
    }

    /// Returns the problem of an existing key. `None` for a suitable one. A unique shard key would allow one document for
    /// each value.
    pub(crate) fn check(&self, key: &Document, unique: bool) -> Option<UnsuitableShardKey> {
        let is_of_list = self.keys().any(|suitable| same_fields(suitable, key));
        let is_of_one_document = key.len() > 1 || key.contains_key("_id");
        if is_of_list && (!unique || is_of_one_document) {
            return None;
        }
        Some(UnsuitableShardKey {
            namespace: self.namespace.clone(),
            key: key.clone(),
            unique,
            suitable: self.keys().cloned().collect(),
        })
    }
}

/// Returns whether a shard key has a hashed field.
pub(crate) fn is_hashed(key: &Document) -> bool {
    key.values().any(|form| form.as_str() == Some("hashed"))
}

/// A collection that is sharded by a key under which its pattern does not work; returned by `verify_shard_keys()`.
///
/// Its text says what to do, and contains no user value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnsuitableShardKey {
    /// Database and collection.
    pub namespace: Namespace,
    /// The existing shard key.
    pub key: Document,
    /// Whether the shard key is unique.
    pub unique: bool,
    /// The shard keys that work.
    pub suitable: Vec<Document>,
}

impl fmt::Display for UnsuitableShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unique = if self.unique { "the unique key " } else { "" };
        let text = |key: &Document| Bson::Document(key.clone()).to_string();
        let suitable: Vec<String> = self.suitable.iter().map(text).collect();
        write!(
            f,
            "the collection `{}` is sharded by {unique}{}, under which the pattern does not work: shard it by {}, with the command reshardCollection, or by a copy into a new collection",
            self.namespace,
            text(&self.key),
            suitable.join(" or ")
        )
    }
}
