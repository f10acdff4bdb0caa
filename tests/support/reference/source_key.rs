//! References by another unique field than `_id`: orders by the name of a person.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::Reference;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use crate::reference::migrate::*;
use crate::reference::*;

/// Orders of customers, by their username in the field `author`, with members in an array, and a payer whose copy stays.
pub fn orders_by_key(db: &TestDatabase) -> Orders {
    let payer = Reference::new("payer").copied_fields(["name"]).snapshot();
    by_username(builder(db.database()))
        .add_reference(payer)
        .build()
        .unwrap()
}

/// Stores orders, and ann with the id 1 and bob with 2, among others.
pub async fn fill_by_key(db: &TestDatabase, old: impl IntoIterator<Item = Document>) {
    unmigrated(db, old).await;
    let mut wrong = person(9, "wrong", "x");
    wrong.insert("v", "1");
    let people = [
        person(1, "ann", "Ann"),
        person(2, "bob", "Bob"),
        person(3, 7_i64, "seven"),
        person(4, vec!["eve", "mallory"], "several"),
        person(5, doc! { "a": 1 }, "document"),
        person("ann", 1.5, "whose id is the key of another one"),
        wrong,
    ];
    customers(db).insert_many(people).await.unwrap();
}

pub fn ann() -> Document {
    doc! { "_id": 1, "username": "ann", "name": "Ann", "v": 0_i64 }
}

pub fn bob() -> Document {
    doc! { "_id": 2, "username": "bob", "name": "Bob", "v": 0_i64 }
}

/// Documents that cannot be migrated, with the reason and the kind of the error.
pub fn invalid_by_key() -> Vec<(Document, &'static str, ErrorKind)> {
    use ErrorKind::{Corrupt, InvalidItemId, NotFound, TargetNotEmpty};
    let stale = doc! { "_id": 1, "username": "old", "name": "x", "v": 0_i64 };
    vec![
        (doc! { "author": "unknown" }, "source_missing", NotFound),
        (doc! { "author": "ANN" }, "source_missing", NotFound),
        (doc! { "author": ".*" }, "source_missing", NotFound),
        (doc! { "author": "$username" }, "source_missing", NotFound),
        // The id of a source, and one of the values of an array.
        (doc! { "author": 1 }, "source_missing", NotFound),
        (doc! { "author": "eve" }, "source_missing", NotFound),
        (
            doc! { "author": { "username": { "a": 1 } } },
            "source_missing",
            NotFound,
        ),
        (
            doc! { "members": ["ann", { "username": "unknown" }] },
            "source_missing",
            NotFound,
        ),
        (doc! { "author": { "a": 1 } }, "without_id", InvalidItemId),
        (doc! { "author": { "name": "Ann" } }, "without_id", InvalidItemId),
        (
            doc! { "author": { "$ref": "customers", "$id": "ann" } },
            "db_ref",
            InvalidItemId,
        ),
        (doc! { "author": { "_id": "ann" } }, "reserved_field", InvalidItemId),
        (
            doc! { "author": { "_id": 1, "username": "ann" } },
            "reserved_field",
            InvalidItemId,
        ),
        (
            doc! { "author": { "username": "ann", "v": 1 } },
            "reserved_field",
            InvalidItemId,
        ),
        (
            doc! { "members": [{ "username": "ann", "deleted": true }] },
            "reserved_field",
            InvalidItemId,
        ),
        (doc! { "author": { "username": null } }, "not_an_id", InvalidItemId),
        (doc! { "author": ["ann"] }, "not_an_id", InvalidItemId),
        (doc! { "members": [null] }, "not_an_id", InvalidItemId),
        (doc! { "members": "ann" }, "no_array", Corrupt),
        (
            doc! { "members": ["ann", { "username": "ann" }] },
            "twice",
            InvalidItemId,
        ),
        (doc! { "members": ["bob", stale, "ann"] }, "twice", InvalidItemId),
        (
            doc! { "customer": ann(), "author": "ann" },
            "other_reference",
            TargetNotEmpty,
        ),
        (
            doc! { "customer": "ann", "author": "ann" },
            "other_value",
            TargetNotEmpty,
        ),
        (doc! { "author": "wrong" }, "source_version", Corrupt),
    ]
}

/// Customers have a username. Members are an array.
pub fn by_username(builder: Builder) -> Builder {
    let members = Reference::new("members").copied_fields(["name"]).array();
    builder.add_reference(members).source_key("username")
}

pub fn person(id: impl Into<Bson>, username: impl Into<Bson>, name: &str) -> Document {
    doc! { "_id": id, "username": username, "name": name }
}
