//! References that a migration refuses or skips.

use mongo_patterns::reference::action::MigrateFromReferences;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, Regex, doc};

use crate::reference::migrate::*;
use crate::reference::*;

pub fn regex() -> Bson {
    Bson::RegularExpression(Regex {
        pattern: "a".try_into().unwrap(),
        options: "".try_into().unwrap(),
    })
}

/// Documents that cannot be migrated, with the reason and the kind of the error. Those without `customer` have the id in
/// `customerId`.
pub fn invalid() -> Vec<(Document, &'static str, ErrorKind)> {
    use ErrorKind::{Corrupt, InvalidItemId, NotFound, TargetNotEmpty};
    let copy = doc! { "_id": 1, "name": "Ann", "v": 0_i64 };
    vec![
        (doc! { "products": 1 }, "no_array", Corrupt),
        (doc! { "products": { "_id": 1 } }, "no_array", Corrupt),
        (doc! { "customerId": [1] }, "not_an_id", InvalidItemId),
        (doc! { "customerId": regex() }, "not_an_id", InvalidItemId),
        (doc! { "customerId": Bson::MinKey }, "not_an_id", InvalidItemId),
        (doc! { "customerId": { "_id": null } }, "not_an_id", InvalidItemId),
        (doc! { "products": [1, null] }, "not_an_id", InvalidItemId),
        (doc! { "products": [[1]] }, "not_an_id", InvalidItemId),
        (doc! { "products": [regex()] }, "not_an_id", InvalidItemId),
        (doc! { "products": [1, { "_id": 1.0 }] }, "twice", InvalidItemId),
        (doc! { "products": [1, 2, 1_i64] }, "twice", InvalidItemId),
        (doc! { "customer": 2, "customerId": 1 }, "other_value", TargetNotEmpty),
        (doc! { "customer": "Ann" }, "other_value", TargetNotEmpty),
        (doc! { "customer": { "name": "Ann" } }, "other_value", TargetNotEmpty),
        (
            doc! { "customer": copy, "customerId": 2 },
            "other_reference",
            TargetNotEmpty,
        ),
        (
            doc! { "customer": { "_id": 1 }, "customerId": "1" },
            "other_reference",
            TargetNotEmpty,
        ),
        (
            doc! { "customer": { "_id": 1 }, "customerId": [1] },
            "other_reference",
            TargetNotEmpty,
        ),
        (doc! { "customerId": 8 }, "source_missing", NotFound),
        (doc! { "customerId": { "$gt": 0 } }, "without_id", InvalidItemId),
        (
            doc! { "customerId": { "id": 1, "name": "Ann" } },
            "without_id",
            InvalidItemId,
        ),
        (doc! { "customerId": {} }, "without_id", InvalidItemId),
        (doc! { "products": [1, { "id": 2 }, 8] }, "without_id", InvalidItemId),
        (
            doc! { "customerId": { "$ref": "customers", "$id": 1 } },
            "db_ref",
            InvalidItemId,
        ),
        (
            doc! { "customerId": { "$ref": "customers", "$id": 1, "$db": "shop", "name": "Ann" } },
            "db_ref",
            InvalidItemId,
        ),
        (
            doc! { "products": [{ "$ref": "customers", "$id": 1 }, { "id": 2 }, 8] },
            "db_ref",
            InvalidItemId,
        ),
        (doc! { "customerId": "$_id" }, "source_missing", NotFound),
        (
            doc! { "customerId": { "_id": 1, "x": 1 }, "products": [8] },
            "source_missing",
            NotFound,
        ),
        (doc! { "customerId": 1.5 }, "source_missing", NotFound),
        (
            doc! { "products": [1, { "_id": 8, "quantity": 1 }] },
            "source_missing",
            NotFound,
        ),
        (doc! { "customerId": 90 }, "source_version", Corrupt),
        (doc! { "products": [1, 91] }, "source_version", Corrupt),
        (doc! { "customerId": 92 }, "source_version", Corrupt),
    ]
}

pub async fn fill(db: &TestDatabase, old: impl IntoIterator<Item = Document>) -> Orders {
    unmigrated(db, old).await;
    add_customers(db, 1..=2).await;
    let wrong = |id: i32, version: Bson| doc! { "_id": id, "name": "x", "v": version };
    let wrong = [wrong(90, "1".into()), wrong(91, (-1).into()), wrong(92, 0.5.into())];
    customers(db).insert_many(wrong).await.unwrap();
    several(builder(db.database())).build().unwrap()
}

/// Checks that a document is refused by an error that names it, is listed for this reason, and that nothing is written. Returns the
/// error.
pub async fn refused<'a>(
    db: &TestDatabase,
    migration: impl Fn() -> MigrateFromReferences<'a>,
    mut invalid: Document,
    reason: &str,
) -> Error {
    invalid.insert("_id", "bad");
    stored(db).insert_one(&invalid).await.unwrap();
    let before = raw(db, "orders").await;
    let refused = migration().await.unwrap_err();
    assert_eq!(refused.document_id(), Some(&"bad".into()), "{invalid}: {refused}");
    assert!(refused.to_string().contains("nothing was migrated"), "{refused}");
    let plan = migration().skip_invalid(&skip_list(db)).plan().await.unwrap();
    let found = plan.migrated.skipped.iter().filter(|(_, number)| *number > 0);
    assert_eq!(found.collect::<Vec<_>>(), [(reason, 1)], "{invalid}");
    assert_same(&raw(db, "orders").await, &before);
    stored(db).delete_one(doc! { "_id": "bad" }).await.unwrap();
    refused
}
