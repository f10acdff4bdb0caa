//! What a repository owns, in the catalog: two repositories that would write one field, or have one second collection, are
//! refused by `ensure_indexes`, and the call that the error names makes both work.

use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::archive::{Archive, ArchiveBuilder};
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::{Error, ErrorKind, Remedy, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::cases::cases;
use super::repositories::{
    One, archive, buckets, embedded, further, history, intervals, list, of, references, schema, subset, trash,
};
use support::common::contents;

async fn entries(db: &TestDatabase) -> Vec<Document> {
    support::common::all(&db.plain_collection("mongo_patterns")).await
}

#[track_caller]
fn assert_owned(error: &Error, words: &[&str], name: &str) {
    assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{name}: {error:?}");
    assert_eq!(error.remedy(), Some(Remedy::CheckSettings), "{name}: {error:?}");
    for word in words {
        assert!(error.to_string().contains(word), "{name}: no {word} in: {error}");
    }
}

#[tokio::test]
async fn what_another_repository_owns_is_refused_and_another_name_works() {
    testkit::run(async |db| {
        for (name, first, second, words, other) in cases(db) {
            db.plain_client().database(db.database().name()).drop().await.unwrap();
            first.ensure_indexes().await.unwrap();
            let before = contents(db).await;
            let refused = second.ensure_indexes().await.unwrap_err();
            assert_owned(&refused, words, name);
            assert!(refused.to_string().contains("nothing was written"), "{name}: {refused}");
            let replaced = second.ensure_indexes().replace_settings().await.unwrap_err();
            assert_owned(&replaced, words, name);
            assert_eq!(contents(db).await, before, "{name}");
            first.ensure_indexes().await.unwrap();
            other.ensure_indexes().await.unwrap();
            first.ensure_indexes().await.unwrap();
            other.ensure_indexes().await.unwrap();

            // The other way round, and after the entry of a repository that is no longer used was deleted.
            let catalog = db.plain_collection::<Document>("mongo_patterns");
            catalog.delete_many(doc! {}).await.unwrap();
            second.ensure_indexes().await.unwrap();
            let refused = first.ensure_indexes().await.unwrap_err();
            assert_owned(&refused, &[second.pattern()], name);
            let entry = entries(db).await.remove(0);
            catalog.delete_one(doc! { "_id": entry.get("_id") }).await.unwrap();
            first.ensure_indexes().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn two_lists_with_flags_of_their_own_lose_nothing() {
    testkit::run(async |db| {
        let (lines, views) = (list(db, "lines", "has_extras"), list(db, "views", "has_more_views"));
        lines.ensure_indexes().await.unwrap();
        views.ensure_indexes().await.unwrap();
        of(db, "orders").insert_one(doc! { "_id": 1 }).await.unwrap();
        let push = async |list: &OutlierRepository<Document, i32>, from: i32| {
            for n in 0..20 {
                list.push(1, &(from + n)).await.unwrap();
                if n % 7 == 0 {
                    list.refresh(1).await.unwrap();
                }
            }
        };
        let writers = [0, 100, 200].map(|from| join_all([push(&lines, from), push(&views, from)]));
        join_all(writers).await;
        for (array, flag) in [("lines", "has_extras"), ("views", "has_more_views")] {
            let order = db.plain_collection::<Document>("orders");
            let order = order.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
            assert_eq!(order.get(flag), Some(&Bson::Boolean(true)));
            let mut stored: Vec<Bson> = order.get_array(array).unwrap().clone();
            for more in support::common::all(&db.plain_collection(&format!("more_{array}"))).await {
                stored.extend(more.get_array(format!("{array}_extra")).unwrap().clone());
            }
            let mut numbers: Vec<i32> = stored.iter().map(|number| number.as_i32().unwrap()).collect();
            numbers.sort_unstable();
            let expected: Vec<i32> = [0, 100, 200].into_iter().flat_map(|from| from..from + 20).collect();
            assert_eq!(numbers, expected, "{array}");
        }
    })
    .await;
}

#[tokio::test]
async fn patterns_that_work_together_are_accepted() {
    testkit::run(async |db| {
        let history = history(db, "customers", "revisions", "at");
        let orders = ReferenceRepository::<Document, Document>::builder(of(db, "orders"), of(db, "customers"));
        let orders = orders.reference_field("customer").version_field("revision");
        let archived = [
            HistoryRepository::<Document>::builder(of(db, "old_customers"), of(db, "old_revisions"))
                .id_field("_id")
                .time_field("at"),
        ];
        let [archived] = archived.map(|builder| builder.build().unwrap());
        let archive = Archive::<Document>::builder(of(db, "customers"), of(db, "old_customers"));
        let archive = archive.age_field("at").older_than(Duration::from_secs(60));
        let archive = archive.related(of(db, "revisions"), of(db, "old_revisions"), "documentId");
        let together: Vec<One> = vec![
            Box::new(
                subset(db, "notes")
                    .total_field("note_count")
                    .subset(further("first_notes"))
                    .build()
                    .unwrap(),
            ),
            Box::new(subset(db, "reviews").total_field("review_count").build().unwrap()),
            Box::new(embedded(db, "lines")),
            Box::new(list(db, "views", "has_more_views")),
            Box::new(schema(db, "orders", "schemaVersion")),
            Box::new(orders.copied_fields(["name"]).build().unwrap()),
            Box::new(references(db, "payer")),
            Box::new(history),
            Box::new(archived),
            Box::new(archive.build().unwrap()),
            Box::new(trash(db, "orders", "deleted_orders")),
            Box::new(buckets(db, "pages")),
            Box::new(intervals(db, "prices")),
            // During the migration of embedded children, the documents say which pattern they have.
            Box::new(embedded(db, "notes")),
        ];
        for _ in 0..2 {
            for one in &together {
                one.ensure_indexes().await.unwrap();
            }
        }
        assert_eq!(entries(db).await.len(), together.len());
    })
    .await;
}

#[tokio::test]
async fn an_entry_without_it_gets_what_its_repository_owns() {
    testkit::run(async |db| {
        let (lines, views) = (list(db, "lines", "has_extras"), list(db, "views", "has_extras"));
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        let stored = async || catalog.find_one(doc! { "_id.field": "lines" }).await.unwrap().unwrap();
        lines.ensure_indexes().await.unwrap();
        let before = stored().await;
        let owned = |field: &str| doc! { "collection": "orders", "field": field };
        let mut parents = doc! { "collection": "orders", "field": "_id", "shared": "parents" };
        parents.insert("dependents", doc! { "call": "delete", "collection": "more_lines" });
        let overflow = doc! { "collection": "more_lines" };
        let mut documents = doc! { "collection": "more_lines", "field": "_id" };
        documents.insert("shared", "overflow documents");
        let owns = [parents, owned("lines"), owned("has_extras"), overflow, documents];
        assert_eq!(before.get("owns"), Some(&owns.to_vec().into()));

        catalog
            .update_one(doc! {}, doc! { "$unset": { "owns": 1 } })
            .await
            .unwrap();
        lines.ensure_indexes().await.unwrap();
        assert_eq!(stored().await, before);
        db.recorder().clear();
        lines.ensure_indexes().await.unwrap();
        assert!(!db.recorder().names().contains(&"update".to_owned()));

        // A client that stopped before it confirmed its entry.
        catalog
            .update_one(doc! {}, doc! { "$set": { "unconfirmed": true } })
            .await
            .unwrap();
        assert_owned(
            &views.ensure_indexes().await.unwrap_err(),
            &["`has_extras`"],
            "unconfirmed",
        );
        lines.ensure_indexes().await.unwrap();
        assert_eq!(stored().await, before);

        // Two entries of an earlier version, which conflict: the second one to start is refused.
        let mut second = before.clone();
        second.insert(
            "_id",
            doc! { "kind": "outlier", "collection": "orders", "field": "views" },
        );
        let settings = second.get_document_mut("settings").unwrap();
        settings.extend(doc! { "array": "views", "extras": "views_extra", "extras_collection": "more_views" });
        second.remove("owns");
        catalog.insert_one(second).await.unwrap();
        catalog
            .update_many(doc! {}, doc! { "$unset": { "owns": 1 } })
            .await
            .unwrap();
        lines.ensure_indexes().await.unwrap();
        assert_owned(&views.ensure_indexes().await.unwrap_err(), &["`has_extras`"], "earlier");
        let corrected = list(db, "views", "has_more_views");
        corrected.ensure_indexes().replace_settings().await.unwrap();
        lines.ensure_indexes().await.unwrap();
        corrected.ensure_indexes().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_an_archive_keeps_is_a_setting() {
    testkit::run(async |db| {
        let archive = |keep: Option<Document>| {
            let archive = Archive::<Document>::builder(of(db, "orders"), of(db, "old_orders")).age_field("at");
            let archive = archive.older_than(Duration::from_secs(60));
            let archive = keep.into_iter().fold(archive, ArchiveBuilder::keep);
            archive.build().unwrap()
        };
        let permanent = archive(Some(doc! { "$or": [{ "kept": true }, { "n": { "$gt": 5 } }] }));
        permanent.ensure_indexes().await.unwrap();
        let at = DateTime::from_millis(0);
        let order = |id: i32| doc! { "_id": id, "at": at, "n": id, "kept": id == 1 };
        of(db, "orders").insert_many((0..8).map(order)).await.unwrap();
        for other in [archive(None), archive(Some(doc! { "kept": true }))] {
            for error in [
                other.ensure_indexes().await.unwrap_err(),
                other.run().await.unwrap_err(),
                other.run().plan().await.unwrap_err(),
                other.delete_before(DateTime::now()).await.unwrap_err(),
                other.restore_many(doc! {}).await.unwrap_err(),
            ] {
                assert_owned(&error, &["`keep`"], "keep");
            }
        }
        assert_eq!(
            db.plain_collection::<Document>("orders")
                .count_documents(doc! {})
                .await
                .unwrap(),
            8
        );
        assert_eq!(permanent.run().await.unwrap().documents, 5);
        let left = db
            .plain_collection::<Document>("orders")
            .distinct("_id", doc! {})
            .await
            .unwrap();
        assert_eq!(left, [1, 6, 7].map(Bson::from));
        archive(None).ensure_indexes().replace_settings().await.unwrap();
        assert_eq!(archive(None).run().await.unwrap().documents, 3);
    })
    .await;
}

#[tokio::test]
async fn validators_of_one_collection_are_joined() {
    testkit::run(async |db| {
        let (lines, views) = (embedded(db, "lines"), list(db, "views", "has_more_views"));
        let orders = (schema(db, "orders", "schemaVersion"), references(db, "customer"));
        let one: [&dyn Repository; 4] = [&lines, &views, &orders.0, &orders.1];
        for one in one {
            one.ensure_indexes().await.unwrap();
        }
        let of_orders = one.into_iter().flat_map(Repository::validators);
        let of_orders = of_orders.filter(|validator| validator.namespace.coll == "orders");
        let all: Vec<Document> = of_orders.map(|validator| validator.document).collect();
        assert!(all.len() > 2, "{all:?}");
        let joined = doc! { "collMod": "orders", "validator": { "$and": all } };
        db.database().run_command(joined).await.unwrap();

        of(db, "customers")
            .insert_one(doc! { "_id": 7, "name": "Ann" })
            .await
            .unwrap();
        let order = doc! { "_id": 1, "lines": [], "views": [], "customer": { "_id": 7 }, "schemaVersion": 1 };
        orders.1.insert(&order).await.unwrap();
        lines.add_child(1, &doc! { "_id": 1 }).await.unwrap();
        for view in 0..12 {
            views.push(1, &view).await.unwrap();
        }
        let plain = db.plain_collection::<Document>("orders");
        let stored = plain.find_one(doc! {}).await.unwrap().unwrap();
        for (field, value) in [
            ("lines", Bson::from("none")),
            ("views", "none".into()),
            ("schemaVersion", "first".into()),
        ] {
            let mut invalid = stored.clone();
            invalid.extend(doc! { "_id": 2, field: value });
            let refused = plain.insert_one(invalid).await.unwrap_err();
            assert!(refused.to_string().contains("validation"), "{field}: {refused}");
        }
        plain
            .insert_one(Document::from_iter(
                [("_id".to_owned(), 2.into())]
                    .into_iter()
                    .chain(stored.into_iter().skip(1)),
            ))
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn of_repositories_that_conflict_at_most_one_is_set_up() {
    testkit::run(async |db| {
        let mut alone = 0;
        for round in 0..60 {
            let client = db.plain_client().database(db.database().name());
            client
                .collection::<Document>("mongo_patterns")
                .delete_many(doc! {})
                .await
                .unwrap();
            // Two processes of each, of which each calls it until it knows.
            let set_ups = [("lines", 0), ("views", 0), ("lines", 1), ("views", 1)];
            let set_ups = set_ups.map(|(array, process)| async move {
                let list = list(db, array, "has_extras");
                tokio::task::yield_now().await;
                if round % 3 == process {
                    tokio::task::yield_now().await;
                }
                (array, list.ensure_indexes().await.map(drop))
            });
            let ended = join_all(set_ups).await;
            let mut set_up: Vec<&str> = Vec::new();
            for (array, result) in &ended {
                match result {
                    Ok(()) => set_up.push(array),
                    Err(error) => assert_owned(error, &["`has_extras`"], array),
                }
            }
            set_up.sort_unstable();
            set_up.dedup();
            assert!(set_up.len() <= 1, "{ended:?}");
            let stored: Vec<Document> = entries(db).await;
            for entry in &stored {
                assert!(entry.get("unconfirmed").is_none(), "{stored:?}");
            }
            let fields: Vec<&str> = stored
                .iter()
                .map(|entry| entry.get_document("_id").unwrap().get_str("field").unwrap())
                .collect();
            assert_eq!(fields, set_up);
            alone += set_up.len();
            if set_up.is_empty() {
                list(db, "views", "has_extras").ensure_indexes().await.unwrap();
            }
        }
        println!("{alone} of 60 rounds set one up");
    })
    .await;
}

#[tokio::test]
async fn the_catalog_is_no_collection_of_a_pattern() {
    testkit::run(async |db| {
        let orders = list(db, "lines", "has_extras");
        orders.ensure_indexes().await.unwrap();
        let before = contents(db).await;
        let catalog: Vec<One> = vec![
            Box::new(archive(db, "mongo_patterns", "old")),
            Box::new(trash(db, "orders", "mongo_patterns")),
        ];
        for repository in catalog {
            for refused in [
                repository.ensure_indexes().await,
                repository.ensure_indexes().replace_settings().await,
            ] {
                assert!(
                    refused.unwrap_err().to_string().contains("is the catalog"),
                    "{}",
                    repository.pattern()
                );
            }
        }
        assert_eq!(contents(db).await, before);
    })
    .await;
}
