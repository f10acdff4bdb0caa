//! Arrays with very many references: no step compares each reference with each source.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::reference::{OnReferences, Problem, Reference, Repaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::reference::migrate::*;
use support::reference::*;

const REFERENCES: i32 = 60_000;
/// A step that compares each reference with each source takes longer alone: 280 s by `$indexOfArray` on a quiet machine. The
/// whole test takes 16 s there.
const LIMIT: Duration = Duration::from_secs(240);

fn of_members(builder: Builder) -> Builder {
    let members = Reference::new("members").copied_fields(["name"]).array();
    builder.add_reference(members)
}

fn groups(db: &TestDatabase) -> Orders {
    of_members(builder(db.database())).build().unwrap()
}

/// Stores sources in an order other than that of their ids.
async fn add_members(db: &TestDatabase, members: i32) {
    for first in 0..10 {
        let sources = (first..members).step_by(10);
        let sources = sources.map(|id| doc! { "_id": id, "name": format!("n{id}") });
        customers(db).insert_many(sources).await.unwrap();
    }
}

fn member(id: impl Into<Bson>, number: i32) -> Document {
    doc! { "_id": id, "name": format!("n{number}"), "v": 0_i64 }
}

async fn members_of(db: &TestDatabase, group: i32) -> Vec<Bson> {
    let group = stored(db).find_one(doc! { "_id": group }).await.unwrap().unwrap();
    group.get_array("members").unwrap().clone()
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_document_with_60_000_references_is_migrated_and_verified() {
    let migration = testkit::run(async |db| {
        let ids: Vec<i32> = (0..REFERENCES).rev().collect();
        let old = [doc! { "_id": 1, "members": &ids }, doc! { "_id": 2, "members": [7] }];
        unmigrated(db, old).await;
        add_members(db, REFERENCES).await;
        let groups = groups(db);
        assert_eq!(number_of(&groups.migrate_from_references().await.unwrap()), 2);
        let expected: Vec<Bson> = ids.iter().map(|id| member(*id, *id).into()).collect();
        assert!(members_of(db, 1).await == expected);
        assert_eq!(members_of(db, 2).await, [Bson::from(member(7, 7))]);
        assert_eq!(findings(&groups).await, []);
    });
    tokio::time::timeout(LIMIT, migration)
        .await
        .expect("a step compares each reference with each source");
}

/// Up to 32 sources are found one by one, and more by a binary search. Both find each source, and no other one.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn each_reference_gets_its_own_source() {
    testkit::run(async |db| {
        for members in [1, 31, 32, 33, 34, 100] {
            // Equal numbers of other types, and ids of several types.
            let id = |n: i32| match n % 4 {
                0 => Bson::from(n),
                1 => Bson::from(f64::from(n)),
                2 => Bson::from(format!("{n}")),
                _ => Bson::from(doc! { "n": n }),
            };
            let stored_id = |n: i32| match n % 4 {
                1 => Bson::from(i64::from(n)),
                _ => id(n),
            };
            let ids: Vec<Bson> = (0..members).map(|n| id(n * 37 % members)).collect();
            unmigrated(db, [doc! { "_id": 1, "members": &ids }]).await;
            let sources = (0..members).map(|n| doc! { "_id": stored_id(n), "name": format!("n{n}") });
            customers(db).insert_many(sources).await.unwrap();
            let groups = groups(db);
            assert_eq!(number_of(&groups.migrate_from_references().await.unwrap()), 1);
            let numbers = (0..members).map(|n| n * 37 % members);
            let expected: Vec<Bson> = numbers.map(|n| member(stored_id(n), n).into()).collect();
            assert_eq!(members_of(db, 1).await, expected, "{members}");
            assert_eq!(findings(&groups).await, [], "{members}");

            // One that has no source, below, between and above the others.
            for missing in [Bson::from(-1), Bson::from(0.5), Bson::from(doc! { "n": 1_000 })] {
                let mut with_missing = ids.clone();
                with_missing.push(missing.clone());
                let set = doc! { "$set": { "members": with_missing } };
                stored(db).update_one(doc! { "_id": 1 }, set).await.unwrap();
                let refused = groups.migrate_from_references().await.unwrap_err();
                let kind = match missing.as_document() {
                    Some(_) => ErrorKind::InvalidItemId,
                    None => ErrorKind::NotFound,
                };
                assert_eq!(
                    (refused.kind(), refused.document_id()),
                    (kind, Some(&1.into())),
                    "{missing}"
                );
            }
        }
    })
    .await;
}

/// Returns how many sources a command finds by their ids, if it does.
fn asked(command: &Document) -> Option<usize> {
    command.get_str("find").ok().filter(|name| *name == "customers")?;
    let ids = command.get_document("filter").ok()?.get("_id")?.as_document();
    let ids = ids.and_then(|ids| ids.get_array("$in").ok());
    Some(ids.map_or(1, Vec::len))
}

/// The number of commands grows with the findings, and not with their square: the sources of a document are not read again
/// for each of its findings.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_repair_reads_one_source_for_each_finding() {
    testkit::run(async |db| {
        const MEMBERS: i32 = 150;
        let groups = ready(db, of_members(builder(db.database()))).await;
        add_members(db, 10).await;
        let members: Vec<Document> = (0..MEMBERS).map(|id| member(id, id)).collect();
        let group = doc! { "_id": 1, "members": members };
        stored(db).insert_one(group).await.unwrap();
        let missing = findings(&groups).await;
        assert_eq!(missing.len(), MEMBERS as usize - 10);
        assert!(missing.iter().all(|finding| finding.problem == Problem::SourceMissing));
        db.recorder().clear();
        let repair = groups.repair().on_missing(OnReferences::KeepCopy);
        let repaired: Vec<Repaired> = repair.stream().try_collect().await.unwrap();
        assert_eq!(repaired.len(), missing.len());
        assert!(repaired.iter().all(|one| one.unrepaired.is_none()));
        // For each the document, its source and the update.
        let commands = db.recorder().commands();
        assert!(commands.len() <= 3 * missing.len() + 20, "{}", commands.len());
        let asked: usize = commands.iter().filter_map(|sent| asked(&sent.command)).sum();
        assert!(asked <= 4 * MEMBERS as usize, "{asked} sources are asked for");
        assert_eq!(findings(&groups).await, []);
    })
    .await;
}
