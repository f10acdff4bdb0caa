//! The commands of a follower.

use mongodb::bson::{Bson, Document, doc};

/// Finds any document. The reply has the time of the last write of the server, or of all shards that have documents.
pub(super) fn any_document(collection: &str) -> Document {
    doc! { "find": collection, "projection": { "_id": 1 }, "limit": 1, "singleBatch": true }
}

/// Matches the changes of some collections in the stream of their database, also a rename of another collection to their
/// name.
pub(super) fn changes_of(collections: &[impl Into<Bson> + Clone]) -> Document {
    let collections: Vec<Bson> = collections.iter().cloned().map(Into::into).collect();
    doc! { "$match": { "$or": [
        { "ns.coll": { "$in": &collections } },
        { "to.coll": { "$in": collections } },
        { "operationType": { "$in": ["dropDatabase", "invalidate"] } },
    ] } }
}

pub(super) fn enable_pre_images(collection: &str) -> Document {
    doc! { "collMod": collection, "changeStreamPreAndPostImages": { "enabled": true } }
}

pub(super) fn record(name: &str) -> Document {
    doc! { "_id": { "kind": "follower", "name": name } }
}

/// Matches the record of a follower with these settings.
pub(super) fn own_record(name: &str, settings: &Document) -> Document {
    doc! { "_id": { "kind": "follower", "name": name }, "settings": settings }
}

/// Stores a position, with the names of the collections that are watched.
pub(super) fn store_position(token: Bson, watched: &[String]) -> Document {
    doc! { "$set": { "token": token, "watched": watched }, "$currentDate": { "updated": true } }
}

/// Matches the records of the followers that watch a collection.
pub(super) fn records_of(watched: &str) -> Document {
    doc! { "_id.kind": "follower", "watched": watched }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_database_has_the_changes_of_the_collections() {
        assert_eq!(
            changes_of(&["orders", "customers"]),
            doc! { "$match": { "$or": [
                { "ns.coll": { "$in": ["orders", "customers"] } },
                { "to.coll": { "$in": ["orders", "customers"] } },
                { "operationType": { "$in": ["dropDatabase", "invalidate"] } },
            ] } }
        );
    }
}
