//! The commands of a sharded cluster, as steps.

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, FindOptions, ReadConcern};
use mongodb::{Collection, Namespace};

use crate::error::{CommandError, Error, ErrorKind, code};
use crate::migration::Step;

type Raw = Collection<RawDocumentBuf>;

const UNAUTHORIZED: i32 = 13;

/// Reads documents of collections in `config.collections`.
pub(super) fn find_collections(purpose: &'static str, on: &Raw, filter: Document) -> Step {
    let fields = doc! { "key": 1, "unique": 1, "uuid": 1, "dropped": 1, "unsplittable": 1 };
    find(purpose, on, "collections", filter, fields)
}

/// Reads the chunks that begin at some keys.
pub(super) fn find_chunks(purpose: &'static str, on: &Raw, filter: Document) -> Step {
    find(purpose, on, "chunks", filter, doc! { "_id": 0, "min": 1, "shard": 1 })
}

fn find(purpose: &'static str, on: &Raw, name: &str, filter: Document, projection: Document) -> Step {
    // A key that a majority of the config servers does not have yet can be rolled back.
    let majority = CollectionOptions::builder().read_concern(ReadConcern::majority());
    let config = on.client().database("config");
    let collection = config.collection_with_options(name, majority.build());
    Step::find(
        purpose,
        &collection,
        filter,
        FindOptions::builder().projection(projection).build(),
    )
}

pub(super) fn list_shards(on: &Raw) -> Step {
    Step::admin("list the shards", on, doc! { "listShards": 1 })
}

/// Needed before MongoDB 6.0, and without effect later.
pub(super) fn enable_sharding(on: &Raw) -> Step {
    let database = on.namespace().db;
    Step::admin(
        "allow sharded collections in the database",
        on,
        doc! { "enableSharding": database },
    )
}

pub(super) fn shard_collection(on: &Raw, key: &Document) -> Step {
    let command = doc! { "shardCollection": on.namespace().to_string(), "key": key.clone() };
    Step::admin("shard the collection", on, command)
}

pub(super) fn split(on: &Raw, middle: &Document) -> Step {
    let command = doc! { "split": on.namespace().to_string(), "middle": middle.clone() };
    Step::admin("split a chunk", on, command)
}

pub(super) fn move_chunk(on: &Raw, min: &Document, shard: &str) -> Step {
    let equal = |(field, value): (&String, &Bson)| match value {
        // Its fields must not be taken for operators.
        Bson::Document(_) => (field.clone(), Bson::from(doc! { "$eq": value.clone() })),
        value => (field.clone(), value.clone()),
    };
    let find: Document = min.iter().map(equal).collect();
    let command = doc! { "moveChunk": on.namespace().to_string(), "find": find, "to": shard };
    Step::admin("move the new chunk to another shard", on, command)
}

/// Returns the filter of the chunks of a collection that begin at some keys. Chunks have the name of their collection
/// before MongoDB 5.0, and its id since then.
pub(super) fn of_chunks(namespace: &Namespace, uuid: Option<&Bson>, starts: &[Document]) -> Document {
    let mut of_collection = vec![doc! { "ns": namespace.to_string() }];
    of_collection.extend(uuid.map(|uuid| doc! { "uuid": uuid.clone() }));
    doc! { "$or": of_collection, "min": { "$in": starts } }
}

/// Names the privileges that a command of this module needs.
pub(super) fn explained(error: CommandError) -> Error {
    if code(&error) != Some(UNAUTHORIZED) {
        return error.into();
    }
    let text = "the user lacks a privilege of the cluster for this command, which had no effect: grant the role `clusterManager` on `admin`, which can read `config.collections` and shard collections, beside `readWrite` on the database";
    Error::from_driver(ErrorKind::Unauthorized, text, error)
}
