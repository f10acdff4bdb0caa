//! The filters, updates, projections and pipelines of this crate, built by pure functions.
//!
//! # Design
//!
//! ## Why does a write filter by the key field beside the `_id` prefix of the manual?
//!
//! With equality on the key, the unique index serves the write at any length of the history, on one shard.
//!
//! ## Why does `page` filter by the `_id` prefix only?
//!
//! The server then skips index entries without fetching documents, and examines one document.
//!
//! ## Why are reads by cursor plain ranges of `_id`?
//!
//! The server would match a regular expression beside the range against every entry.

pub(crate) mod across;
pub(crate) mod append;
pub(crate) mod buckets;
pub(crate) mod chunk;
pub(crate) mod compare;
pub(crate) mod expiry;
pub(crate) mod figures;
pub(crate) mod item;
pub(crate) mod range;
pub(crate) mod summary;
pub(crate) mod time_format;
pub(crate) mod to_buckets;
pub(crate) mod to_flat;
pub(crate) mod totals;

#[cfg(test)]
mod tests {
    use mongodb::bson::{Regex, cstr};

    use mongo_patterns_core::{EncodeKey, EncodedKey};

    pub(super) fn key() -> EncodedKey {
        123_u32.encode_key().unwrap()
    }

    pub(super) fn regex(pattern: &str) -> Regex {
        Regex {
            pattern: pattern.to_owned().try_into().unwrap(),
            options: cstr!("").into(),
        }
    }
}
