//! Migrations from references by the source key.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::Problem;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use support::explain::{explained, first};
use support::reference::migrate::*;
use support::reference::migrate_refused::refused;
use support::reference::source_key::*;
use support::reference::*;

#[tokio::test]
async fn values_of_the_key_become_references_with_copies() {
    testkit::run(async |db| {
        let stale = doc! { "_id": 1, "username": "old", "name": "x", "v": 0_i64 };
        let old = [
            doc! { "_id": 1, "author": "ann", "total": 5 },
            doc! { "_id": 2, "members": ["bob", { "username": "ann", "role": "x", "name": "old" }] },
            // The line of a bill has the values of its time.
            doc! { "_id": 3, "payer": { "username": "ann", "name": "paid", "note": 1 } },
            doc! { "_id": 4, "payer": { "username": "bob", "note": 1 }, "author": 7.0 },
            doc! { "_id": 5, "members": [&stale, "bob"], "author": null },
            doc! { "_id": 6, "payer": "bob" },
            // These have nothing to migrate.
            doc! { "_id": 7, "members": [bob()], "payer": { "_id": 1, "name": "paid" } },
            doc! { "_id": 8, "customer": { "_id": 8, "name": "x", "deleted": true } },
        ];
        fill_by_key(db, old.clone()).await;
        let orders = orders_by_key(db);
        let migration = || orders.migrate_from_references().from_field("customer", "author");
        let migrated = migration().await.unwrap();
        assert_eq!(
            (migrated.documents, migrated.skipped.total(), migrated.resumed),
            (6, 0, false)
        );
        assert!(migrated.created_indexes.contains(&"username_1".to_owned()));
        let mut of_member = ann();
        of_member.insert("role", "x");
        let mut of_payer = bob();
        of_payer.insert("note", 1);
        let seven = doc! { "_id": 3, "username": 7_i64, "name": "seven", "v": 0_i64 };
        let mut expected = vec![
            doc! { "_id": 1, "total": 5, "customer": ann() },
            doc! { "_id": 2, "members": [bob(), of_member] },
            doc! { "_id": 3, "payer": { "_id": 1, "username": "ann", "name": "paid", "note": 1 } },
            doc! { "_id": 4, "payer": of_payer, "customer": seven },
            doc! { "_id": 5, "members": [stale, bob()] },
            doc! { "_id": 6, "payer": bob() },
        ];
        expected.extend_from_slice(&old[6..]);
        assert_same(&raw(db, "orders").await, &encoded(&expected));
        assert_eq!(migration().await.unwrap().documents, 0);
    })
    .await;
}

/// The index of the key comes first: without it, the server would read all sources for each order.
#[tokio::test]
async fn the_server_finds_the_sources_by_the_index_of_the_key() {
    testkit::run(async |db| {
        let old = (0..20).map(|id| doc! { "_id": id, "author": if id % 2 == 0 { "ann" } else { "bob" } });
        fill_by_key(db, old).await;
        let others = (100..400).map(|id| person(id, format!("u{id}"), "x"));
        customers(db).insert_many(others).await.unwrap();
        db.recorder().clear();
        let orders = orders_by_key(db);
        let migration = orders.migrate_from_references().from_field("customer", "author");
        assert_eq!(migration.await.unwrap().documents, 20);
        let commands = db.recorder().commands();
        let is_lookup = |text: &str| text.contains("\"foreignField\": \"username\"");
        let lookups = commands.iter().filter(|command| {
            let is_written = command.essence().to_string().contains("\"$merge\"");
            is_lookup(&command.essence().to_string()) && !is_written
        });
        let lookups: Vec<_> = lookups.collect();
        assert!(!lookups.is_empty());
        stored(db)
            .update_many(doc! {}, vec![doc! { "$set": { "author": "ann", "customer": null } }])
            .await
            .unwrap();
        let explained = explained(db, lookups[0]).await;
        let examined = first(&explained, "totalDocsExamined");
        assert!(explained.to_string().contains("username_1"), "{examined:?} {explained}");
        assert_eq!(
            first(&explained, "collectionScans"),
            Some(&Bson::Int64(0)),
            "{explained}"
        );
    })
    .await;
}

/// Without the index of the key, which a run creates and a plan does not, the server would read all sources for each order.
#[tokio::test]
async fn a_plan_needs_the_index_of_the_key_and_refuses_a_key_of_two_sources_as_a_run_does() {
    testkit::run(async |db| {
        fill_by_key(db, [doc! { "_id": 1, "author": "ann" }]).await;
        let orders = orders_by_key(db);
        let migration = || orders.migrate_from_references().from_field("customer", "author");
        db.recorder().clear();
        let refused = migration().plan().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::IndexMissing, "{refused}");
        assert!(refused.to_string().contains("username_1"), "{refused}");
        let commands = db.recorder().commands();
        assert!(
            !commands
                .iter()
                .any(|command| command.command.to_string().contains("$lookup"))
        );
        customers(db)
            .insert_one(person(20, "ann", "another Ann"))
            .await
            .unwrap();
        let planned = migration().plan().await.unwrap_err();
        let run = migration().await.unwrap_err();
        assert_eq!(
            (planned.kind(), run.kind()),
            (ErrorKind::Corrupt, ErrorKind::Corrupt),
            "{planned} {run}"
        );
        customers(db).delete_one(doc! { "_id": 20 }).await.unwrap();
        orders.ensure_indexes().await.unwrap();
        assert_eq!(migration().plan().await.unwrap().migrated.documents, 1);
        assert_eq!(migration().await.unwrap().documents, 1);
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn what_is_not_a_key_of_a_source_is_listed_and_never_guessed() {
    testkit::run(async |db| {
        fill_by_key(db, [doc! { "_id": 1, "author": "ann" }]).await;
        let orders = orders_by_key(db);
        let migration = || orders.migrate_from_references().from_field("customer", "author");
        for (bad, reason, kind) in invalid_by_key() {
            let refused = refused(db, migration, bad.clone(), reason).await;
            assert_eq!(refused.kind(), kind, "{bad}: {refused}");
        }
    })
    .await;
}

#[tokio::test]
async fn sources_with_the_same_key_are_refused() {
    testkit::run(async |db| {
        fill_by_key(db, [doc! { "_id": 1, "author": "ann" }]).await;
        let orders = orders_by_key(db);
        customers(db).insert_one(person(77, "ann", "another")).await.unwrap();
        let before = raw(db, "orders").await;
        let refused = orders
            .migrate_from_references()
            .from_field("customer", "author")
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        assert_same(&raw(db, "orders").await, &before);
        // A value of the key and a document with it are found by `verify` as references that are not migrated.
        customers(db).delete_one(doc! { "_id": 77 }).await.unwrap();
        orders.ensure_indexes().await.unwrap();
        let bare = [
            doc! { "_id": 2, "customer": "ann" },
            doc! { "_id": 3, "customer": { "username": "ann" } },
        ];
        stored(db).insert_many(bare).await.unwrap();
        assert_eq!(problems(&orders).await, [Problem::NotAReference; 2]);
    })
    .await;
}
