//! Deletions and restorations of documents beside repositories that own fields of them, or whose documents depend on them.

use mongo_patterns::history::HistoryRepository;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use super::owners::{One, Place};
use super::replaced::{empty, sent};
use super::replacers::history_of;
use super::repositories::of;
use support::common::{all, contents, patient};

/// Of those on which no other documents depend.
fn without_dependents(place: &Place<'_>) -> Vec<One> {
    vec![place.embedded(), place.counters(), place.references(), place.versions()]
}

async fn revision(db: &TestDatabase, id: i32, revision: i32) -> Document {
    let revisions = db.plain_collection::<Document>("revisions");
    let revision = revisions.find_one(doc! { "documentId": id, "revision": revision });
    revision.await.unwrap().unwrap()
}

#[tokio::test]
async fn a_deleted_document_is_restored_with_what_others_had_at_its_deletion() {
    testkit::run(async |db| {
        let place = Place {
            db,
            collection: "orders",
        };
        let (orders, owners) = (history_of(db), without_dependents(&place));
        orders.ensure_indexes().await.unwrap();
        for owner in &owners {
            owner.repository().ensure_indexes().await.unwrap();
        }
        let insert = async |id: i32| {
            let first = doc! { "_id": id, "name": "first", "schemaVersion": 1 };
            orders.insert(&first).await.unwrap();
            for owner in &owners {
                owner.begin(id).await;
                owner.write(id, 1).await;
                owner.write(id, 2).await;
            }
            orders.replace(id, &doc! { "_id": id, "name": "second" }).await.unwrap();
            for owner in &owners {
                owner.write(id, 3).await;
            }
        };
        let fields = || owners.iter().flat_map(|owner| owner.fields());
        let restore = async |id: i32, (from, to): (u64, u64), written: &[i32]| {
            let restored = orders.restore(id, from).await.unwrap();
            assert_eq!(restored.revision, to);
            for owner in &owners {
                owner.check(id, written).await;
                owner.write(id, 4).await;
                owner.check(id, &[written, &[4]].concat()).await;
            }
        };

        // By the repository: the deletion has the fields, and nothing else of the document.
        insert(1).await;
        let before = place.stored(1).await;
        assert!(orders.delete(1).await.unwrap().found);
        let tombstone = revision(db, 1, 3).await;
        for field in fields().filter(|field| **field != "schemaVersion") {
            assert_eq!(tombstone.get(field), before.get(field), "{field}");
        }
        assert!(!tombstone.contains_key("name") && !tombstone.contains_key("schemaVersion"));
        assert_eq!(orders.at(1, 3).await.unwrap().unwrap().document, None);
        let removed = orders.diff(1, 2, 3).await.unwrap().changes;
        assert!(removed.iter().all(|change| change.after.is_none()), "{removed:?}");
        assert!(
            removed
                .iter()
                .any(|change| change.path == "lines.0._id" || change.path == "lines")
        );
        // A count of a document that was deleted inserts none.
        owners[1].write(1, 9).await;
        let (restored, names, _) = sent(db, orders.restore(1, 2)).await;
        assert_eq!(restored.unwrap().revision, 4);
        assert_eq!(names.len(), 8, "{names:?}");
        let after = place.stored(1).await;
        for field in fields() {
            assert_eq!(after.get(field), before.get(field), "{field}");
        }
        assert_eq!(after.get_str("name").unwrap(), "second");
        assert!(!after.contains_key("mongo_patterns_kept"));

        // By another program: what the last revision had.
        insert(2).await;
        orders.update(2, doc! { "$set": { "name": "third" } }).await.unwrap();
        let plain = db.plain_collection::<Document>("orders");
        plain.delete_one(doc! { "_id": 2 }).await.unwrap();
        restore(2, (2, 4), &[1, 2, 3]).await;

        // Recorded by a follower, and before the others were set up: their fields are those of the last revision.
        insert(3).await;
        orders.update(3, doc! { "$set": { "name": "third" } }).await.unwrap();
        orders.delete(3).await.unwrap();
        let of_deletion = doc! { "documentId": 3, "revision": 4 };
        let kept: Document = fields().map(|field| ((*field).to_owned(), "".into())).collect();
        let mut kept = doc! { "$unset": kept };
        kept.get_document_mut("$unset")
            .unwrap()
            .insert("mongo_patterns_kept", "");
        let revisions = db.plain_collection::<Document>("revisions");
        revisions.update_one(of_deletion.clone(), kept).await.unwrap();
        restore(3, (1, 5), &[1, 2, 3]).await;

        // Without that one, the restored revision has them.
        orders.delete(3).await.unwrap();
        orders.restore(3, 4).await.unwrap_err();
        orders.keep_last(3, 1).await.unwrap();
        let unknown = orders.restore(3, 4).await.unwrap_err();
        assert!([ErrorKind::NotFound, ErrorKind::InvalidArgument].contains(&unknown.kind()));
    })
    .await;
}

/// A revision is whole: without a version it has the first one, whatever the document has now.
#[tokio::test]
async fn the_version_of_the_content_is_that_of_the_new_document() {
    testkit::run(async |db| {
        let place = Place {
            db,
            collection: "orders",
        };
        let orders = history_of(db);
        let contacts = SchemaRepository::<Document>::builder(of(db, "orders")).newest(2);
        let contacts = contacts.retry(patient()).build().unwrap();
        orders.ensure_indexes().await.unwrap();
        contacts.ensure_indexes().await.unwrap();
        orders.insert(&doc! { "_id": 1, "name": "first" }).await.unwrap();
        contacts.replace(1, &doc! { "name": "second" }).await.unwrap();
        let version = async || place.stored(1).await.get("schemaVersion").cloned();
        assert_eq!(version().await, Some(2.into()));
        // A schema replacement keeps the number and the time of the revision.
        assert_eq!(place.stored(1).await.get_i32("revision").unwrap(), 1);
        orders.update(1, doc! { "$set": { "n": 1 } }).await.unwrap();

        orders.replace(1, &doc! { "_id": 1, "name": "third" }).await.unwrap();
        assert_eq!(version().await, Some(2.into()));
        orders.upsert(&doc! { "_id": 1, "schemaVersion": 3 }).await.unwrap();
        assert_eq!(version().await, Some(3.into()));
        orders.restore(1, 2).await.unwrap();
        assert_eq!(version().await, Some(2.into()));
        orders.restore(1, 1).await.unwrap();
        assert_eq!(version().await, None);
        assert_eq!(place.stored(1).await.get_str("name").unwrap(), "first");
    })
    .await;
}

/// A deletion by a repository that does not know what depends on the document names the call that does.
#[tokio::test]
async fn a_document_on_which_others_depend_is_deleted_by_their_call() {
    testkit::run(async |db| {
        let place = Place { db, collection: "orders" };
        let dependents = [
            ("delete", "outlier", place.list()),
            ("delete_parent", "subset", place.subset()),
            ("delete_source", "reference", place.source()),
        ];
        for (call, pattern, owner) in dependents {
            empty(db).await;
            let (orders, contacts) = (history_of(db), SchemaRepository::<Document>::builder(of(db, "orders")));
            let contacts = contacts.newest(1).build().unwrap();
            orders.ensure_indexes().await.unwrap();
            contacts.ensure_indexes().await.unwrap();
            orders.insert(&doc! { "_id": 1, "name": "first" }).await.unwrap();
            owner.repository().ensure_indexes().await.unwrap();
            owner.begin(1).await;
            owner.write(1, 1).await;
            let before = contents(db).await;
            for _ in 0..2 {
                let of_history = orders.delete(1).await.unwrap_err();
                let of_schema = contacts.delete(1).await.unwrap_err();
                let through = ", and pass this one to through(..)";
                for (error, through) in [(of_history, through), (of_schema, "")] {
                    assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{pattern}");
                    let text = format!(
                        "documents of the {pattern} pattern depend on these, nothing was deleted: call {call}(..) of its repository{through}"
                    );
                    assert!(error.to_string().ends_with(&text), "{error}");
                }
            }
            let (_, names, _) = sent(db, orders.delete(1)).await;
            assert_eq!(names, Vec::<String>::new());
            assert_eq!(contents(db).await, before);
        }
        // Without any of them.
        empty(db).await;
        let orders: HistoryRepository<Document> = history_of(db);
        orders.ensure_indexes().await.unwrap();
        orders.insert(&doc! { "_id": 1 }).await.unwrap();
        place.counters().repository().ensure_indexes().await.unwrap();
        assert!(orders.delete(1).await.unwrap().found);
        assert_eq!(all(&db.plain_collection("orders")).await, Vec::<Document>::new());
    })
    .await;
}
