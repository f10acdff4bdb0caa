//! Existing collections: those of the manual's recipe, documents without a history, and embedded histories.

use mongo_patterns::ErrorKind;
use mongo_patterns::history::Problem;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::history::migrate::*;
use support::history::*;
use support::pace::Pace;

#[tokio::test]
async fn collections_of_the_manuals_recipe_are_migrated() {
    testkit::run(async |db| {
        let policies = by_the_recipe(db).await;
        let migrated = policies.migrate_existing().await.unwrap();
        assert_eq!(
            (migrated.documents, migrated.removed_duplicates),
            (1, 1),
            "{migrated:?}"
        );
        let indexes = ["policyId_1", "policyId_1_revision_1", "policyId_1_dateSet_1_revision_1"];
        for index in indexes {
            let created = &migrated.created_indexes;
            assert!(created.iter().any(|created| created == index), "{created:?}");
        }
        let expected = [vec![1, 2], vec![1, 2, 4], vec![1, 2], vec![1]];
        for (id, expected) in (1..).zip(expected) {
            assert_eq!(numbers(db, id).await, expected, "policy {id}");
            assert_eq!(judge(db, id).await.different, 0);
        }
        // The missing revision is reported, and not invented.
        let found = findings(&policies).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (&found[0].document_id, found[0].problem),
            (&2.into(), Problem::Gap { from: 3, to: 3 })
        );

        for (id, next) in [(1, 3), (2, 5), (3, 3), (4, 2)] {
            assert_eq!(policies.update(id, push("watch")).await.unwrap().revision, next);
        }
        assert_eq!(findings(&policies).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_migrated_is_refused_with_no_effect() {
    testkit::run(async |db| {
        let mut other = at_revision(2, 2);
        other.insert("customerName", "Joe");
        let with = |field: &str, value: Bson| {
            let mut policy = at_revision(5, 1);
            policy.insert(field, value);
            policy
        };
        let refused = [
            // Two revisions with one number, of which one is wrong.
            (false, other),
            (true, with("deleted", false.into())),
            (true, with("revision", "one".into())),
            (true, with("revision", 0.into())),
            (true, with("dateSet", 5.into())),
            (true, with("policyId", Bson::Null)),
        ];
        for (is_current, document) in refused {
            current(db).drop().await.unwrap();
            revisions(db).drop().await.unwrap();
            let policies = by_the_recipe(db).await;
            let collection = if is_current { current(db) } else { revisions(db) };
            collection.insert_one(&document).await.unwrap();
            let before = contents(db).await;
            for error in [
                policies.migrate_existing().await.unwrap_err(),
                policies.migrate_existing().plan().await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{document}: {error:?}");
            }
            assert_eq!(contents(db).await, before, "{document}");
        }
    })
    .await;
}

/// A run refuses both in the middle, where a plan has no index yet.
#[tokio::test]
async fn a_plan_refuses_what_a_run_refuses_by_the_revisions_or_the_index() {
    testkit::run(async |db| {
        let mut without_number = at_revision(1, 2);
        for field in ["revision", "dateSet"] {
            without_number.remove(field);
        }
        let first = at_revision(1, 1);
        for (documents, copies) in [
            // One lost its number, and another one was replaced since its only revision.
            (
                [without_number.clone(), policy(2)],
                vec![first.clone(), at_revision(1, 2)],
            ),
            ([without_number, policy(2)], vec![first]),
            ([policy(3), policy(3)], vec![]),
        ] {
            current(db).drop().await.unwrap();
            revisions(db).drop().await.unwrap();
            current(db).insert_many(documents).await.unwrap();
            if !copies.is_empty() {
                revisions(db).insert_many(copies).await.unwrap();
            }
            let policies = builder(db.database()).build().unwrap();
            let before = contents(db).await;
            let planned = policies.migrate_existing().plan().await.unwrap_err();
            let run = policies.migrate_existing().await.unwrap_err();
            let kinds = (planned.kind(), run.kind());
            assert_eq!(kinds, (ErrorKind::Corrupt, ErrorKind::Corrupt), "{planned} {run}");
            assert_eq!(contents(db).await, before);
        }
    })
    .await;
}

/// More numbers than a batch of the server has are stored twice.
#[tokio::test]
async fn many_equal_revisions_are_deleted_but_for_one_of_each() {
    testkit::run(async |db| {
        let ids = || 1..=300;
        current(db)
            .insert_many(ids().map(|id| at_revision(id, 2)))
            .await
            .unwrap();
        let copies = ids().flat_map(|id| [1, 2, 2, 2].map(|number| at_revision(id, number)));
        revisions(db).insert_many(copies).await.unwrap();
        let policies = builder(db.database()).build().unwrap();
        let plan = policies.migrate_existing().plan().await.unwrap();
        assert_eq!(plan.migrated.removed_duplicates, 600);
        // The last one that the server groups differs: nothing is deleted before it is found.
        let mut differs = at_revision(300, 2);
        differs.insert("customerName", "Joe");
        revisions(db).insert_one(differs).await.unwrap();
        let before = contents(db).await;
        let refused = policies.migrate_existing().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        assert_eq!(contents(db).await, before);
        revisions(db).delete_one(doc! { "customerName": "Joe" }).await.unwrap();
        let migrated = policies.migrate_existing().await.unwrap();
        assert_eq!((migrated.removed_duplicates, migrated.documents), (600, 0));
        for id in ids() {
            assert_eq!(numbers(db, id).await, [1, 2], "policy {id}");
        }
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

/// A repository writes to documents during the migration. Until a document has its number, it is refused; from then on, its first
/// revision is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repositories_write_during_a_migration_and_no_revision_is_lost() {
    testkit::run(async |db| {
        let ids = 60;
        current(db).insert_many((0..ids).map(policy)).await.unwrap();
        let mover = builder(db.database()).build().unwrap();
        mover.ensure_indexes().await.unwrap();
        let database = db.plain_client().database(db.database().name());
        let writer = builder(&database).build().unwrap();
        let pace = Pace::of(0);
        let writers = tokio::spawn({
            let pace = pace.clone();
            async move {
                let mut acknowledged = 0;
                for id in (0..ids).cycle() {
                    if !pace.next().await {
                        break;
                    }
                    match writer.update(id, push("watch")).await {
                        Ok(_) => acknowledged += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotMigrated, "{error}"),
                    }
                }
                acknowledged
            }
        });
        let migration = mover.migrate_existing().chunk(1).into_future();
        pace.beside(db, 5, migration).await.unwrap();
        pace.end();
        let acknowledged: usize = writers.await.unwrap();
        assert!(acknowledged > 0);
        let mut stored = 0;
        for id in 0..ids {
            let numbers = numbers(db, id).await;
            assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>(), "policy {id}");
            stored += numbers.len() - 1;
        }
        assert_eq!(stored, acknowledged);
        assert_eq!(findings(&mover).await, []);
    })
    .await;
}

#[tokio::test]
async fn embedded_histories_become_revisions() {
    testkit::run(async |db| {
        let version = |number: i32| {
            let mut version = at_revision(1, number);
            version.remove("policyId");
            version.remove("revision");
            version
        };
        for (id, versions) in [(1, 2), (2, 0), (3, 1)] {
            let mut now = at_revision(id, versions + 1);
            now.remove("revision");
            now.insert("versions", (1..=versions).map(version).collect::<Vec<_>>());
            current(db).insert_one(now).await.unwrap();
        }
        current(db).insert_one(policy(4)).await.unwrap();
        let policies = builder(db.database()).build().unwrap();
        let migration = || policies.migrate_existing().embedded_versions("versions");
        let before = contents(db).await;
        migration().plan().await.unwrap();
        assert_eq!(contents(db).await, before);

        migration().await.unwrap();
        for (id, revisions) in [(1, 3), (2, 1), (3, 2), (4, 1)] {
            assert_eq!(
                numbers(db, id).await,
                (1..=revisions).collect::<Vec<_>>(),
                "policy {id}"
            );
            for (copy, number) in copies(db, id).await.iter().zip(0..) {
                assert_eq!(items(copy).len(), number, "policy {id}");
                assert!(!copy.contains_key("versions"));
            }
        }
        assert_eq!(findings(&policies).await, []);
        let before = contents(db).await;
        migration().await.unwrap();
        assert_eq!(contents(db).await, before);
        assert_eq!(policies.update(1, push("watch")).await.unwrap().revision, 4);

        // A version that is no document with a time.
        let mut now = policy(5);
        now.insert("versions", vec![doc! { "itemsInsured": [] }]);
        current(db).insert_one(now).await.unwrap();
        let before = contents(db).await;
        let error = migration().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert_eq!(contents(db).await, before);
    })
    .await;
}

/// Updates write the number and the time: a field of the application with one of these names would be lost.
#[tokio::test]
async fn fields_of_the_application_are_not_taken_for_the_number_or_the_time() {
    testkit::run(async |db| {
        let by_default = || {
            let [current, revisions] =
                ["currentPolicies", "policyRevisions"].map(|name| db.database().collection::<Document>(name));
            Policies::builder(current, revisions).id_field("policyId")
        };
        let day = DateTime::from_millis(1_000_000);
        let with = |field: &str, value: Bson| {
            let mut policy = policy(5);
            policy.insert(field, value);
            policy
        };
        for (field, document) in [
            ("time", with("time", day.into())),
            ("revision", with("revision", 7.into())),
            ("revision", with("revision", 7.0.into())),
        ] {
            current(db).drop().await.unwrap();
            revisions(db).drop().await.unwrap();
            db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
            // Of the recipe, and without a history.
            let mut of_recipe = policy(1);
            of_recipe.extend(doc! { "revision": 1, "time": day });
            current(db).insert_many([of_recipe, policy(2), document]).await.unwrap();
            let before = contents(db).await;
            let policies = by_default().build().unwrap();
            let plan = policies.migrate_existing().plan().await.unwrap_err();
            let run = policies.migrate_existing().await.unwrap_err();
            // Settings that are stored already do not make the field one of the pattern.
            policies.ensure_indexes().replace_settings().await.unwrap();
            let with_settings = policies.migrate_existing().await.unwrap_err();
            let five = current(db).find_one(doc! { "policyId": 5 }).await.unwrap().unwrap();
            for refused in [plan, run, with_settings] {
                let found = (refused.kind(), refused.field(), refused.document_id());
                assert_eq!(found, (ErrorKind::Corrupt, Some(field), five.get("_id")), "{refused}");
                let setter = format!("{field}_field(..)");
                assert!(refused.to_string().contains(&setter), "{refused}");
            }
            assert_eq!(contents(db).await, before, "{field}");

            let names = by_default().revision_field("revisionNumber").time_field("recordedAt");
            current(db).delete_one(doc! { "policyId": 1 }).await.unwrap();
            // With its indexes on the other names.
            revisions(db).drop().await.unwrap();
            let policies = names.build().unwrap();
            policies.ensure_indexes().replace_settings().await.unwrap();
            policies.migrate_existing().await.unwrap();
            policies.update(5, push("watch")).await.unwrap();
            let now = current(db).find_one(doc! { "policyId": 5 }).await.unwrap().unwrap();
            assert_eq!(
                now.get(field),
                before[0][2].get(field),
                "the field of the application stays"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn copies_have_the_fields_in_the_order_of_the_document() {
    testkit::run(async |db| {
        let mut first = doc! { "z": 1, "policyId": 1, "customerName": "a", "b": { "z": 1, "a": 2 } };
        first.extend(doc! { "revision": 1, "dateSet": DateTime::from_millis(5), "a": 1 });
        let plain = doc! { "z": 1, "policyId": 2, "y": 2, "a": 3 };
        let version = doc! { "z": 1, "y": 2, "dateSet": DateTime::from_millis(5), "a": 3 };
        let embedding = doc! { "y": 1, "policyId": 3, "x": 2, "versions": [&version], "b": 4 };
        current(db).insert_many([first, plain, embedding]).await.unwrap();
        let policies = builder(db.database()).build().unwrap();
        policies.migrate_existing().embedded_versions("versions").await.unwrap();
        for id in 1..=3 {
            let now = current(db).find_one(doc! { "policyId": id }).await.unwrap().unwrap();
            let copies = copies(db, id).await;
            let copy = copies.last().unwrap();
            let names = |document: &Document| document.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(copy), names(&now), "policy {id}");
            assert!(
                copy.get_object_id("_id").is_ok() && copy.get("_id") != now.get("_id"),
                "policy {id}"
            );
        }
        let names: Vec<String> = copies(db, 3).await[0].keys().cloned().collect();
        assert_eq!(names, ["_id", "z", "y", "dateSet", "a", "policyId", "revision"]);
        assert_eq!(findings(&policies).await, []);
        let before = contents(db).await;
        policies.migrate_existing().embedded_versions("versions").await.unwrap();
        assert_eq!(contents(db).await, before, "stored copies stay as they are");
    })
    .await;
}
