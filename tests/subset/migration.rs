//! The migration of children that are all embedded in their parents.

use futures::TryStreamExt;
use mongo_patterns::subset::{Finding, Migrated, Subset};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, Timestamp, doc, oid::ObjectId};

use support::common::{all, pause};
use support::subset::migration::*;
use support::subset::*;

/// Returns the stored reviews in the order of product and id, without their `_id`.
pub async fn stored(db: &TestDatabase) -> Vec<Document> {
    let reviews = reviews(db);
    let find = reviews.find(doc! {}).sort(doc! { "product_id": 1, "review_id": 1 });
    let find = find.projection(doc! { "_id": 0 });
    find.await.unwrap().try_collect().await.unwrap()
}

pub async fn findings(products: &Products) -> Vec<Finding> {
    products.verify().stream().try_collect().await.unwrap()
}

/// Migrates into a collection that is not empty.
async fn migrate_again(db: &TestDatabase) -> Result<Migrated, Error> {
    let products = unmigrated(db);
    products.migrate_from_embedded().allow_non_empty_target().await
}

#[tokio::test]
async fn all_reviews_are_migrated_and_each_product_keeps_the_first() {
    testkit::run(async |db| {
        let expected = fill(db, 60).await;
        let products = unmigrated(db);
        let moved = products.migrate_from_embedded().chunk(100).await.unwrap();
        let children = expected.len() as u64;
        assert_eq!((moved.documents, moved.children, moved.resumed), (60, children, false));
        assert_eq!(stored(db).await, expected);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        assert_eq!(findings(&products).await, []);
        // Nothing passes through the client.
        for command in db.recorder().commands() {
            let reply = command.reply.unwrap_or_default().to_string();
            assert!(!reply.contains("author"), "{} {reply}", command.name);
        }
        products.insert(&review_of(1, 1000, 99)).await.unwrap();

        // A second call changes nothing.
        let before = (all(&product(db)).await, all(&reviews(db)).await);
        let again = products.migrate_from_embedded().await.unwrap();
        assert_eq!((again.documents, again.children, again.resumed), (0, 0, false));
        assert_eq!((all(&product(db)).await, all(&reviews(db)).await), before);
    })
    .await;
}

/// Ids, values and names that look like operators, paths or expressions are literal.
#[tokio::test]
async fn hostile_ids_values_and_names_are_migrated_literally() {
    testkit::run(async |db| {
        let parents: Vec<Bson> = vec![
            "$name".into(),
            "$$ROOT".into(),
            1.into(),
            doc! { "a": "$name", "b": ["c"] }.into(),
            ObjectId::from_bytes([7; 12]).into(),
        ];
        let hostile = doc! { "a.b": 1, "text": "$name", "c": { "d.e": ["$$REMOVE"], "": 1 }, "$f": { "$gt": "" } };
        let operator = doc! { "$gt": 1 };
        let mut expected = Vec::new();
        for parent in &parents {
            let ids: Vec<Bson> = vec!["$name".into(), "$$ROOT".into(), 2.into(), operator.clone().into()];
            let children: Vec<Document> = ids
                .into_iter()
                .map(|id| {
                    let mut child = doc! { "review_id": id, "published_date": "$published_date" };
                    child.extend(hostile.clone());
                    child
                })
                .collect();
            expected.extend(children.iter().map(|child| of_product(parent.clone(), child)));
            let new = doc! { "_id": parent, "name": "$reviews", "reviews": children };
            product(db).insert_one(new).await.unwrap();
        }
        let products = builder_of::<Document, Document>(db.database(), newest().size(2))
            .build()
            .unwrap();
        let moved = products.migrate_from_embedded().await.unwrap();
        assert_eq!((moved.documents, moved.children), (5, 20));
        let mut found = stored(db).await;
        for document in &expected {
            let position = found.iter().position(|found| found == document);
            found.swap_remove(position.unwrap_or_else(|| panic!("{document} is not in {found:?}")));
        }
        assert_eq!(found, [] as [Document; 0]);
        for parent in all(&product(db)).await {
            assert_eq!(parent.get_array("reviews").unwrap().len(), 2);
            assert_eq!(parent.get_str("name").unwrap(), "$reviews");
        }
        let findings: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
    })
    .await;
}

/// With `_id` as the child's id, and with children that have an `_id` beside their id.
#[tokio::test]
async fn children_keep_their_ids() {
    testkit::run(async |db| {
        let child = |id: i32| doc! { "_id": id, "stars": id };
        let children = |from: i32| (from..from + 3).map(child).collect::<Vec<_>>();
        let parents = [("a", 0), ("b", 10)].map(|(id, from)| doc! { "_id": id, "reviews": children(from) });
        product(db).insert_many(parents).await.unwrap();
        let best = Subset::new("reviews").sort(doc! { "stars": -1 }).size(1);
        let products = builder_of(db.database(), best).child_id_field("_id");
        let products: Any = products.build().unwrap();
        assert_eq!(products.migrate_from_embedded().await.unwrap().children, 6);
        let stored = all(&reviews(db)).await;
        let ids: Vec<i32> = stored.iter().map(|review| review.get_i32("_id").unwrap()).collect();
        assert_eq!(ids, [0, 1, 2, 10, 11, 12]);
        let a = product(db).find_one(doc! { "_id": "a" }).await.unwrap().unwrap();
        assert_eq!(a.get_array("reviews").unwrap(), &[doc! { "_id": 2, "stars": 2 }.into()]);
    })
    .await;
}

#[tokio::test]
async fn invalid_children_are_reported_and_nothing_is_written() {
    testkit::run(async |db| {
        use ErrorKind::{Corrupt, InvalidArgument, InvalidItemId};
        let good = || embedded_review(1, 1);
        let with = |field: &str, value: Bson| {
            let mut review = good();
            review.insert(field, value);
            review
        };
        let kinds = [Corrupt, InvalidItemId, InvalidArgument];
        let cases = invalid().into_iter().zip(0..);
        let mut cases: Vec<_> = cases.map(|((bad, _), number)| (bad, kinds[number / 2])).collect();
        let others: [(Bson, ErrorKind); 7] = [
            (good().into(), Corrupt),
            (vec![Bson::from(good()), Bson::Null].into(), Corrupt),
            (vec![Bson::Array(vec![good().into()])].into(), Corrupt),
            (vec![with("review_id", Bson::Null)].into(), InvalidItemId),
            (vec![with("review_id", vec![1].into())].into(), InvalidItemId),
            (vec![good(), with("review_id", 1.0.into())].into(), InvalidItemId),
            (vec![with("_id", 3.into()), with("_id", 3.into())].into(), InvalidItemId),
        ];
        cases.extend(others.map(|(reviews, kind)| (doc! { "_id": 1, "reviews": reviews }, kind)));
        for (bad, kind) in cases {
            product(db).drop().await.unwrap();
            let parents = [doc! { "_id": 2, "reviews": [good()] }, bad.clone()];
            product(db).insert_many(parents).await.unwrap();
            let before = all(&product(db)).await;
            let error = unmigrated(db).migrate_from_embedded().await.unwrap_err();
            assert_eq!(
                (error.kind(), error.document_id()),
                (kind, bad.get("_id")),
                "{bad}: {error}"
            );
            assert!(!error.to_string().contains("author"), "{error}");
            assert_eq!(all(&product(db)).await, before);
            let database = db.plain_client().database(db.database().name());
            let collections = database.list_collection_names();
            assert_eq!(collections.await.unwrap(), ["product"], "{bad}");
        }
        // The same `_id` in two products.
        product(db).drop().await.unwrap();
        for id in [1, 2] {
            let new = doc! { "_id": id, "reviews": [with("_id", "x".into())] };
            product(db).insert_one(new).await.unwrap();
        }
        let error = unmigrated(db).migrate_from_embedded().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidItemId, "{error}");
        // The parent's own id, with another numeric type.
        product(db).drop().await.unwrap();
        let new = doc! { "_id": 1, "reviews": [with("product_id", 1.0.into())] };
        product(db).insert_one(new).await.unwrap();
        unmigrated(db).migrate_from_embedded().await.unwrap();
        let moved = stored(db).await;
        assert_eq!(moved[0].keys().next().unwrap(), "product_id");
        assert_eq!(moved[0].get("product_id"), Some(&Bson::Int32(1)));
    })
    .await;
}

#[tokio::test]
async fn a_target_that_is_not_empty_must_be_allowed() {
    testkit::run(async |db| {
        let expected = fill(db, 12).await;
        let other = to_document(&review_of(1, 900, 30));
        reviews(db).insert_one(&other).await.unwrap();
        let products = unmigrated(db);
        let error = products.migrate_from_embedded().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TargetNotEmpty);
        assert_eq!(all(&reviews(db)).await.len(), 1);

        // A review that differs from the embedded one.
        let changed = of_product(2, &embedded_review(0, 99));
        reviews(db).insert_one(&changed).await.unwrap();
        let before = (all(&product(db)).await, all(&reviews(db)).await);
        let error = migrate_again(db).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TargetNotEmpty);
        assert_eq!(error.document_id(), Some(&2.into()));
        assert_eq!((all(&product(db)).await, all(&reviews(db)).await), before);

        // A review that equals it.
        let id = reviews(db).find_one(changed).await.unwrap().unwrap();
        reviews(db).delete_one(doc! { "_id": id.get("_id") }).await.unwrap();
        let same = expected
            .iter()
            .find(|review| review.get("product_id") == Some(&Bson::Int32(2)))
            .unwrap();
        reviews(db).insert_one(same).await.unwrap();
        migrate_again(db).await.unwrap();
        assert_eq!(all(&reviews(db)).await.len(), expected.len() + 1);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        let shown = embedded(db).await;
        assert_eq!(shown[0], 900, "the review that was stored before is the newest");
    })
    .await;
}

/// The server replaces a `Timestamp(0, 0)` by the time of the insert. Such a child equals the one in the parent that it
/// was copied from, unless it differs in another field.
#[tokio::test]
async fn an_empty_timestamp_does_not_prevent_the_end_of_a_migration() {
    testkit::run(async |db| {
        let none = Timestamp { time: 0, increment: 0 };
        let fill = async || {
            product(db).delete_many(doc! {}).await.unwrap();
            let mut stamped = embedded_review(1, 1);
            stamped.extend(doc! { "stamp": none, "stamp2": none, "in": { "stamp": none } });
            let reviews = [stamped, embedded_review(2, 2)];
            let product_one = doc! { "_id": 1, "name": "Super Widget", "reviews": reviews.to_vec() };
            product(db).insert_one(product_one).await.unwrap();
        };
        fill().await;
        unmigrated(db).migrate_from_embedded().await.unwrap();
        let moved = stored(db).await;
        let stamp = moved[0].get_timestamp("stamp").unwrap();
        assert_ne!(stamp, none, "the server replaces it");
        let inner = moved[0].get_document("in").unwrap();
        assert_eq!(inner.get_timestamp("stamp").unwrap(), none);

        // As if it had been interrupted before it wrote the parent.
        fill().await;
        migrate_again(db).await.unwrap();
        assert_eq!(stored(db).await, moved);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);

        let set = |fields: Document| doc! { "$set": fields };
        for (change, what) in [
            (set(doc! { "stamp": 5 }), "no timestamp"),
            (set(doc! { "stamp": stamp, "review_author": "x" }), "another field"),
            (set(doc! { "review_author": "author 1", "new": stamp }), "a field more"),
            (doc! { "$unset": { "new": "", "stamp2": "" } }, "a field less"),
        ] {
            fill().await;
            reviews(db).update_one(doc! { "review_id": 1 }, change).await.unwrap();
            let error = migrate_again(db).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TargetNotEmpty, "{what}: {error:?}");
        }
    })
    .await;
}

/// A program that still embeds children causes an error, and its children stay.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn children_that_are_embedded_concurrently_stay_and_are_reported() {
    testkit::run(async |db| {
        let expected = fill(db, 2).await;
        let products = unmigrated(db);
        let late = embedded_review(999, 99);
        // After the copy, and before the product is written.
        let fault = testkit::FailPoint::on(&["aggregate"])
            .skip(4)
            .block(std::time::Duration::from_millis(600))
            .enable(db)
            .await;
        let (moved, ()): (Result<Migrated, Error>, ()) =
            futures::join!(products.migrate_from_embedded().into_future(), async {
                while reviews(db).count_documents(doc! {}).await.unwrap() < expected.len() as u64 {
                    pause().await;
                }
                let push = doc! { "$push": { "reviews": late.clone() } };
                product(db)
                    .update_one(doc! { "_id": 1, "reviews_version": null }, push)
                    .await
                    .unwrap();
            });
        fault.disable().await;
        let error = moved.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CountMismatch, "{error}");
        assert_eq!(error.document_id(), Some(&1.into()));
        let of_one = reviews(db).count_documents(doc! { "product_id": 1 }).await.unwrap();
        let found = stored_product(db).await;
        assert_eq!(found.get_array("reviews").unwrap().len() as u64, of_one + 1);
        let again = products.migrate_from_embedded().await.unwrap();
        assert_eq!((again.documents, again.resumed), (1, true));
        assert_eq!(stored(db).await.len(), expected.len() + 1);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}

/// A unique index of the application stops the migration at a child, which its product keeps.
#[tokio::test]
async fn a_child_that_another_index_refuses_stays_embedded() {
    testkit::run(async |db| {
        fill(db, 6).await;
        let unique = mongodb::options::IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder()
            .keys(doc! { "review_author": 1 })
            .options(unique)
            .build();
        reviews(db).create_index(index).await.unwrap();
        let before = all(&product(db)).await;
        let products = unmigrated(db);
        let error = products.migrate_from_embedded().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
        let mut after = all(&product(db)).await;
        for product in &mut after {
            // The mark of the migration, for programs that still embed children.
            let mark = product.remove("reviews_version");
            assert!(matches!(mark, None | Some(Bson::Null | Bson::Int64(1))), "{mark:?}");
        }
        assert_eq!(after, before);
        reviews(db).drop_index("review_author_1").await.unwrap();
        assert!(products.migrate_from_embedded().await.unwrap().resumed);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);

        // A migration that has begun with other names must be resumed with these.
        let unset = doc! { "$unset": { "finished": "" }, "$set": { "settings.subset": "other" } };
        let records = db.plain_collection::<Document>("mongo_patterns");
        let of_migration = doc! { "_id.kind": "migration" };
        records.update_one(of_migration, unset).await.unwrap();
        let error = products.migrate_from_embedded().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    })
    .await;
}
