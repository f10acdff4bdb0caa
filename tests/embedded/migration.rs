//! Migrations from references to embedded children.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::embedded::{EmbeddedRepository, Finding, Migrated};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::{all, pause};
use support::embedded::migration::*;
use support::embedded::{Patrons, array, stored};
use support::random::random;

/// Children that keep their `_id`.
pub fn patrons(db: &TestDatabase) -> Patrons {
    EmbeddedRepository::builder(db.collection::<Document>("patron"))
        .children_field("addresses")
        .build()
        .unwrap()
}

/// Stores patrons, every twentieth without an address, the others with 1, 2, 3, 4 or 5 in turn. Returns the expected
/// result of the migration.
async fn fill(db: &TestDatabase, patrons: i32) -> Vec<Document> {
    let (mut expected, mut documents) = (Vec::new(), Vec::new());
    for patron in 0..patrons {
        let number = if patron % 20 == 7 { 0 } else { patron % 5 + 1 };
        let mut embedded: Vec<Document> = (0..number).map(|n| referring(patron + n * 1_000_000, patron)).collect();
        documents.extend(embedded.clone());
        embedded.iter_mut().for_each(|child| drop(child.remove("patron_id")));
        expected.push(doc! { "_id": patron, "name": "Joe", "addresses": embedded });
    }
    let bare = (0..patrons).map(|patron| doc! { "_id": patron, "name": "Joe" });
    stored(db).insert_many(bare).await.unwrap();
    random(patrons).shuffle(&mut documents);
    addresses(db).insert_many(documents).await.unwrap();
    index_reference(db).await;
    expected
}

/// References to patrons that do not exist.
fn orphaned() -> Vec<Document> {
    let mut none = referring(-4, 0);
    none.remove("patron_id");
    vec![
        referring(-1, "nobody"),
        referring(-2, vec![0, 1]),
        referring(-3, Bson::Null),
        none,
        referring(-5, "0"),
        referring(-6, doc! { "$gt": -1 }),
    ]
}

async fn orphans(db: &TestDatabase) -> Vec<Finding> {
    let source = db.collection::<Document>("address");
    let patrons = patrons(db);
    let orphans = patrons.orphans(&source, "patron_id").stream();
    let mut orphans: Vec<Finding> = orphans.try_collect().await.unwrap();
    orphans.sort_by_key(|orphan| -orphan.document_id.as_i32().unwrap());
    orphans
}

async fn migrate(db: &TestDatabase) -> Result<Migrated, Error> {
    let source = db.collection::<Document>("address");
    patrons(db).migrate_from_references(&source, "patron_id").await
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn six_thousand_addresses_are_migrated() {
    testkit::run(async |db| {
        let expected = fill(db, 2100).await;
        let children = expected
            .iter()
            .map(|patron| patron.get_array("addresses").unwrap().len());
        let children = children.sum::<usize>() as u64;
        assert!(children >= 5900, "{children}");
        let orphaned = orphaned();
        addresses(db).insert_many(&orphaned).await.unwrap();
        db.recorder().clear();
        let migrated = migrate(db).await.unwrap();
        assert_eq!((migrated.documents, migrated.children), (2100, children));
        assert_eq!(migrated.orphans, orphaned.len() as u64);
        let names = db.recorder().names();
        let number = |name: &str| names.iter().filter(|sent| *sent == name).count();
        // The settings before and after they are stored and confirmed, and the ids.
        let set_up = ["listIndexes", "find", "update"].map(number);
        assert_eq!(set_up, [1, 3, 2], "{names:?}");
        // Two checks, a chunk for each 1000 patrons, two counts and a comparison; the ids are read 1000 in each round trip.
        assert_eq!(number("aggregate"), 2 + 3 + 3, "{names:?}");
        assert!((2..=3).contains(&number("getMore")), "{names:?}");
        assert_eq!(names.len(), 1 + 3 + 2 + 8 + number("getMore"), "{names:?}");
        // Each parent has its children in order, or an empty array.
        assert!(all(&stored(db)).await == expected);
        let left = addresses(db).count_documents(doc! {}).await.unwrap();
        assert_eq!(left, children + migrated.orphans);
        let listed = orphans(db).await.into_iter();
        let listed: Vec<_> = listed.map(|orphan| (orphan.document_id, orphan.related_id)).collect();
        let id_and_reference =
            |document: &Document| (document.get("_id").unwrap().clone(), document.get("patron_id").cloned());
        assert_eq!(listed, orphaned.iter().map(id_and_reference).collect::<Vec<_>>());
        let findings: Vec<Finding> = patrons(db).verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);

        // A second migration changes nothing.
        assert_eq!(migrate(db).await.unwrap(), migrated);
        assert!(all(&stored(db)).await == expected);
    })
    .await;
}

#[tokio::test]
async fn children_are_sorted_by_a_field() {
    testkit::run(async |db| {
        fill(db, 10).await;
        let source = db.collection::<Document>("address");
        let patrons = patrons(db);
        let migration = patrons.migrate_from_references(&source, "patron_id");
        migration.sort_by("n").await.unwrap();
        let children = array(db, 4).await;
        let ids = children
            .iter()
            .map(|child| child.as_document().unwrap().get_i32("_id").unwrap());
        let ids: Vec<i32> = ids.collect();
        assert_eq!(ids, [4_000_004, 3_000_004, 2_000_004, 1_000_004, 4]);
    })
    .await;
}

/// The server kills the command in the middle, with some parents migrated and others not.
#[tokio::test]
async fn a_migration_killed_on_the_server_is_finished_by_the_next() {
    testkit::run(async |db| {
        let expected = fill(db, 300).await;
        let begun = async {
            let begun = || doc! { "addresses.0": { "$exists": true } };
            while stored(db).find_one(begun()).await.unwrap().is_none() {
                pause().await;
            }
            let commands = db.recorder().commands().into_iter();
            let sessions: Vec<Bson> = commands.filter_map(|sent| sent.command.get("lsid").cloned()).collect();
            let admin = db.plain_client().database("admin");
            admin.run_command(doc! { "killSessions": sessions }).await.unwrap();
        };
        // The kill may come too late.
        let source = db.collection::<Document>("address");
        let in_chunks = patrons(db);
        let first = in_chunks.migrate_from_references(&source, "patron_id").chunk(100);
        let (_ended, ()) = futures::join!(first.into_future(), begun);
        // So some are reset, to have unfinished parents in any case.
        let odd = doc! { "$expr": { "$eq": [{ "$mod": ["$_id", 2] }, 1] } };
        let update = doc! { "$unset": { "addresses": "" } };
        stored(db).update_many(odd, update).await.unwrap();
        migrate(db).await.unwrap();
        assert!(all(&stored(db)).await == expected);
    })
    .await;
}

/// A concurrent write of another program to a parent is kept.
#[tokio::test]
async fn a_concurrently_added_child_is_kept_and_its_parent_named() {
    testkit::run(async |db| {
        fill(db, 20).await;
        db.recorder().clear();
        let fault = FailPoint::on(&[]).times(1).block(Duration::from_secs(1)).plan(db, 5);
        let (migrated, ()) = futures::join!(migrate(db), async {
            db.recorder().sent(6).await;
            let push = doc! { "$push": { "addresses": { "_id": "new" } } };
            stored(db).update_one(doc! { "_id": 4 }, push).await.unwrap();
        });
        fault.end();
        assert_eq!(migrated.unwrap_err().kind(), ErrorKind::CountMismatch);
        assert_eq!(array(db, 4).await, [doc! { "_id": "new" }.into()]);
        let error = migrate(db).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TargetNotEmpty);
        assert_eq!(error.document_id(), Some(&4.into()));
    })
    .await;
}

/// Ids, references and fields that look like operators, paths or expressions are migrated literally.
#[tokio::test]
async fn hostile_ids_and_fields_are_migrated_literally() {
    testkit::run(async |db| {
        let parents: Vec<Bson> = vec![
            "$name".into(),
            "$$ROOT".into(),
            1.into(),
            doc! { "a": 1, "b": ["c"] }.into(),
            mongodb::bson::oid::ObjectId::from_bytes([7; 12]).into(),
        ];
        let bare = parents.iter().map(|id| doc! { "_id": id, "name": "secret", "a.b": 1 });
        stored(db).insert_many(bare).await.unwrap();
        let mut documents = Vec::new();
        for (n, parent) in parents.iter().enumerate() {
            let fields = [
                doc! { "a.b": 1, "c": { "$gt": "", "d.e": ["$name"] } },
                doc! { "$set": { "x": "$name" }, "$x": 1, "": "empty", "4": 4 },
            ];
            for (m, fields) in fields.into_iter().enumerate() {
                let id = Bson::String(format!("${n}.{m}"));
                let mut document = doc! { "_id": id, "patron_id": parent };
                document.extend(fields);
                documents.push(document);
            }
        }
        addresses(db).insert_many(&documents).await.unwrap();
        index_reference(db).await;
        let migrated = migrate(db).await.unwrap();
        assert_eq!((migrated.documents, migrated.children, migrated.orphans), (5, 10, 0));
        for (n, parent) in parents.iter().enumerate() {
            let found = stored(db).find_one(doc! { "_id": { "$eq": parent } }).await.unwrap();
            let mut expected = documents[2 * n..2 * n + 2].to_vec();
            expected.iter_mut().for_each(|child| drop(child.remove("patron_id")));
            let expected = doc! { "_id": parent, "name": "secret", "a.b": 1, "addresses": expected };
            assert_eq!(found, Some(expected));
        }
        assert_eq!(migrate(db).await.unwrap(), migrated);
    })
    .await;
}

#[tokio::test]
async fn children_of_more_than_8_mib_are_migrated_and_compared() {
    testkit::run(async |db| {
        // One patron has a single address of 9 MB, and the other several.
        for (patron, children, bytes) in [(0, 1, 9_000_000), (1, 5, 1_900_000)] {
            let new = doc! { "_id": patron, "name": "Joe" };
            stored(db).insert_one(new).await.unwrap();
            for n in 0..children {
                let mut address = referring(patron * 10 + n, patron);
                address.insert("street", "x".repeat(bytes));
                addresses(db).insert_one(address).await.unwrap();
            }
        }
        index_reference(db).await;
        let source = db.collection::<Document>("address");
        for _ in 0..2 {
            let patrons = patrons(db);
            patrons.migrate_from_references(&source, "patron_id").await.unwrap();
        }
        let embedded = all(&stored(db)).await;
        let number = |patron: &Document| patron.get_array("addresses").unwrap().len();
        assert_eq!(embedded.iter().map(number).collect::<Vec<_>>(), [1, 5]);
    })
    .await;
}
