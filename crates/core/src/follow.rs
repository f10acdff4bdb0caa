//! The follower of a change stream, for patterns that keep one collection up to date with the writes of other programs to
//! another.
//!
//! # Design
//!
//! ## Why is the position stored after the effects of the changes, both with the write concern `majority`?
//!
//! The effects of a change are idempotent, so a change that is processed twice does no harm. An effect that is lost would
//! never be repaired: if its position was stored before it, or if a failover has rolled it back.
//!
//! ## Why is a follower current at a cluster time, and not when no changes arrive?
//!
//! An empty batch does not show up to which time the server has read. The token of a change stream does.
//!
//! ## Why do several collections share one change stream?
//!
//! The stream of their database has one position and one order of all changes. The server filters it by collection, so a
//! drop of another collection does not end it.

mod backoff;
mod commands;
mod follower;
mod options;
mod position;
mod record;
mod setup;
mod stream;
mod until;

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocument, RawDocumentBuf};
use mongodb::options::{CollectionOptions, WriteConcern};

pub use self::options::{FollowOptions, Followed, OnFollowed};
pub use self::record::followers_of;
pub use self::until::Until;
use crate::error::Result;

/// What a follower does with the changes of one or several collections.
///
/// It collects the changes that arrive together.
pub trait Target: Send + Sync {
    /// Returns the collection whose changes are followed.
    fn watched(&self) -> &Collection<RawDocumentBuf>;

    /// Returns the names of further collections of its database whose changes are followed too.
    fn further(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Returns the pipeline of the change stream, after the filter of the collections.
    fn pipeline(&self) -> Vec<Document>;

    /// Returns the settings that all followers of one name share.
    fn record_settings(&self) -> Document;

    /// Returns the texts of the errors.
    fn texts(&self) -> &'static Texts;

    /// Checks the settings and the indexes.
    fn check(&self) -> BoxFuture<'_, Result<()>>;

    /// Does what all changes before the start of the change stream, or lost changes, require. Returns the number of written
    /// documents.
    fn rebuild(&self) -> BoxFuture<'_, Result<u64>>;

    /// Adds a change to the collected changes. Does nothing with it unless the effect is [`Effect::Added`].
    fn add(&mut self, event: &RawDocument) -> Result<Effect>;

    /// Applies the collected changes, and collects from scratch. Idempotent. Returns the number of written documents.
    fn apply(&mut self) -> BoxFuture<'_, Result<u64>>;

    /// Forgets the collected changes, which arrive again.
    fn clear(&mut self);
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is in the batch, or has no effect.
    Added,
    /// An image of the document is missing, so its effect is unknown.
    Unknown,
    /// A collection was dropped or renamed.
    Dropped,
}

impl Effect {
    /// Returns whether a change, by the name of its operation, ends the stream.
    pub fn is_drop(operation: &str) -> bool {
        matches!(operation, "drop" | "rename" | "dropDatabase" | "invalidate")
    }
}

/// Returns a collection with the write concern `majority`, because a write that is rolled back after its position was stored
/// would never be repaired.
pub fn with_majority(collection: &Collection<RawDocumentBuf>) -> Collection<RawDocumentBuf> {
    let options = CollectionOptions::builder().write_concern(WriteConcern::majority());
    let namespace = collection.namespace();
    let database = collection.client().database(&namespace.db);
    database.collection_with_options(&namespace.coll, options.build())
}

/// The texts of the errors of a follower.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// Pre-images of the collection are disabled. `None` for a target that needs no images of documents.
    pub pre_images_disabled: Option<&'static str>,
    /// Changes are lost.
    pub history_lost: &'static str,
    /// A collection was dropped or renamed.
    pub dropped: &'static str,
    /// A follower of the same name has other settings.
    pub other_settings: &'static str,
}
