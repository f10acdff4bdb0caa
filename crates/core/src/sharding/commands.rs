//! The commands of a sharded cluster, as steps.

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{FindOptions, ReadConcern};

use crate::error::{CommandError, Error, ErrorKind, code};
use crate::send::Step;

type Raw = Collection<RawDocumentBuf>;

const UNAUTHORIZED: i32 = 13;

/// Reads documents of collections in `config.collections`.
pub(super) fn find_collections(purpose: &'static str, on: &Raw, filter: Document) -> Step {
    // A key that a majority of the config servers does not have yet can be rolled back.
    let options = FindOptions::builder()
        .projection(doc! { "key": 1, "unique": 1, "unsplittable": 1 })
        .read_concern(ReadConcern::majority())
        .build();
    let collection = on.client().database("config").collection("collections");
    Step::find(purpose, &collection, filter, options)
}

pub(super) fn shard_collection(on: &Raw, key: &Document) -> Step {
    let command = doc! { "shardCollection": on.namespace().to_string(), "key": key.clone() };
    Step::admin("shard the collection", on, command)
}

/// Names the privileges that a command of this module needs.
pub(super) fn explained(error: CommandError) -> Error {
    if code(&error) != Some(UNAUTHORIZED) {
        return error.into();
    }
    let text = "the user lacks a privilege of the cluster for this command, which had no effect: grant the role `clusterManager` on `admin`, which can read `config.collections` and shard collections, beside `readWrite` on the database";
    Error::from_driver(ErrorKind::Unauthorized, text, error)
}
