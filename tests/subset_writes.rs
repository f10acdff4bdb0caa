//! Writing: what goes over the wire, what is refused, and what belongs to the subset.

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Consistency, Direction, SubsetRepository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{ReadConcern, TransactionOptions};

use crate::subset_support::*;
use crate::support::{all, explain};

async fn fill(products: &Products, ids: std::ops::Range<i32>) {
    let children: Vec<Review> = ids.map(review).collect();
    products.insert_many(&children).await.unwrap();
}

fn names(db: &TestDatabase) -> String {
    let names = db.recorder().names().join(" ");
    db.recorder().clear();
    names
}

#[tokio::test]
async fn the_round_trips_of_every_write() {
    testkit::run(async |db| {
        for consistency in BOTH {
            let eventual = consistency == Consistency::Eventual;
            let expected = |eventually: &str, in_transaction: &str| match eventual {
                true => eventually.to_owned(),
                false => format!("{in_transaction} commitTransaction"),
            };
            let products = products(db, consistency).await;
            fill(&products, 100..110).await;
            assert_eq!(
                names(db),
                expected("find insert find update", "update insert find update")
            );

            let inserted = products.insert(&review(200)).await.unwrap();
            assert!(inserted.in_subset && inserted.wrote_parent);
            assert_eq!(
                names(db),
                expected("find insert find update", "update insert find update")
            );

            let before = product(db).find_one(doc! {}).await.unwrap();
            let inserted = products.insert(&review(1)).await.unwrap();
            assert!(!inserted.in_subset);
            assert_eq!(inserted.wrote_parent, !eventual);
            assert_eq!(names(db), expected("find insert find", "update insert find update"));
            if eventual {
                let after = product(db).find_one(doc! {}).await.unwrap();
                assert_eq!(after, before, "a review too old writes nothing to the product");
            }

            let set = doc! { "review_author": "Trina" };
            assert!(products.update(1, 200, set).await.unwrap().in_subset);
            assert_eq!(
                names(db),
                expected("find update find update", "update update find update")
            );
            assert!(!products.replace(&review(1)).await.unwrap().in_subset);
            assert_eq!(
                names(db),
                expected("find update find update", "update update find update")
            );
            for found in [true, false] {
                assert_eq!(products.delete(1, 200).await.unwrap().found, found);
                assert_eq!(
                    names(db),
                    expected("find delete find update", "update delete find update")
                );
            }
            assert_eq!(embedded(db).await, (100..110).rev().collect::<Vec<_>>());

            assert_eq!(products.rebuild(1).await.unwrap().embedded, 10);
            assert_eq!(names(db), "find find update");
            products.insert(&review(1)).await.unwrap_err();
            assert_eq!(
                names(db),
                expected("find insert find update", "update insert").replace("commit", "abort")
            );

            let deleted = products.delete_parent(1).await.unwrap();
            assert!(deleted.found && deleted.children == 11);
            assert_eq!(names(db), expected("delete delete", "delete delete"));
            let deleted = products.delete_parent(1).await.unwrap();
            assert!(!deleted.found && deleted.children == 0);
        }
    })
    .await;
}

#[tokio::test]
async fn the_first_write_looks_at_deployment_and_indexes() {
    testkit::run(async |db| {
        let repository = || builder::<Product, Review>(db.database()).build().unwrap();
        let products = repository();
        add_product(db, 1).await;
        let error = products.insert(&review(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
        assert!(all(&reviews(db)).await.is_empty());
        products.ensure_indexes().await.unwrap();
        db.recorder().clear();
        products.insert(&review(1)).await.unwrap();
        assert_eq!(
            names(db),
            "listIndexes hello update insert find update commitTransaction"
        );
        assert_eq!(
            products.clone().consistency().await.unwrap(),
            Consistency::Transactional
        );
        assert_eq!(names(db), "");

        // An index that is dropped later is missed at the child, or at the read of the first ones.
        reviews(db).drop_index("product_id_1_review_id_1").await.unwrap();
        let error = products.delete(1, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
        products.ensure_indexes().await.unwrap();
        let eventual = builder::<Product, Review>(db.database()).consistency(Consistency::Eventual);
        let eventual = eventual.build().unwrap();
        eventual.insert(&review(2)).await.unwrap();
        reviews(db)
            .drop_index("product_id_1_published_date_-1_review_id_-1")
            .await
            .unwrap();
        let error = eventual.insert(&review(3)).await.unwrap_err();
        assert_eq!((error.kind(), error.stored()), (ErrorKind::IndexMissing, Some(1)));
    })
    .await;
}

#[tokio::test]
async fn the_documents_examined_of_a_write() {
    testkit::run(async |db| {
        let products = products(db, Consistency::Eventual).await;
        fill(&products, 0..500).await;
        add_product(db, 2).await;
        let others: Vec<Review> = (0..500).map(|id| review_of(2, id, id.into())).collect();
        products.insert_many(&others).await.unwrap();
        db.recorder().clear();
        products
            .update(1, 250, doc! { "published_date": day(900) })
            .await
            .unwrap();
        let commands = db.recorder().commands();
        let update = explain(db, &commands[1]).await;
        assert_eq!(
            (update.documents, update.index.as_str()),
            (1, "product_id_1_review_id_1")
        );
        let top = explain(db, &commands[2]).await;
        assert_eq!((top.documents, top.keys), (10, 10), "{top:?}");
        assert_eq!(embedded(db).await[0], 250);
    })
    .await;
}

#[tokio::test]
async fn what_is_refused_stores_nothing() {
    testkit::run(async |db| {
        for consistency in BOTH {
            let products = products(db, consistency).await;
            fill(&products, 0..3).await;
            let before = (all(&product(db)).await, all(&reviews(db)).await);
            let kind = |error: mongo_patterns::Error| {
                assert!(!error.to_string().contains("Kristina"), "{error}");
                error.kind()
            };
            let lost = review_of(2, 1, 1);
            let missing = doc! { "review_author": "Pablo" };
            assert_eq!(kind(products.insert(&lost).await.unwrap_err()), ErrorKind::NotFound);
            assert_eq!(kind(products.replace(&lost).await.unwrap_err()), ErrorKind::NotFound);
            assert_eq!(
                kind(products.update(2, 1, missing.clone()).await.unwrap_err()),
                ErrorKind::NotFound
            );
            assert_eq!(kind(products.delete(2, 1).await.unwrap_err()), ErrorKind::NotFound);
            assert_eq!(kind(products.rebuild(2).await.unwrap_err()), ErrorKind::NotFound);
            let error = products.insert_many(&[review(7), lost]).await.unwrap_err();
            assert_eq!((error.stored(), kind(error)), (None, ErrorKind::NotFound));
            assert_eq!(
                kind(products.replace(&review(9)).await.unwrap_err()),
                ErrorKind::ChildNotFound
            );
            assert_eq!(
                kind(products.update(1, 9, missing).await.unwrap_err()),
                ErrorKind::ChildNotFound
            );
            for set in [
                doc! {},
                doc! { "product_id": 2 },
                doc! { "review_id": 2 },
                doc! { "_id": 2 },
                doc! { "a.b": 2 },
                doc! { "$inc": { "a": 1 } },
                doc! { "published_date": [1] },
            ] {
                assert_eq!(
                    kind(products.update(1, 1, set).await.unwrap_err()),
                    ErrorKind::InvalidArgument
                );
            }
            assert_eq!(
                kind(products.delete(1, Bson::Null).await.unwrap_err()),
                ErrorKind::InvalidArgument
            );
            assert_eq!(
                kind(products.get(vec![1]).await.unwrap_err()),
                ErrorKind::InvalidArgument
            );
            assert_eq!(
                (all(&product(db)).await, all(&reviews(db)).await),
                before,
                "{consistency:?}"
            );

            // a child cannot move: it must be deleted, and inserted anew
            add_product(db, 2).await;
            let moved = review_of(2, 1, 1);
            assert_eq!(
                kind(products.replace(&moved).await.unwrap_err()),
                ErrorKind::ChildNotFound
            );
            assert_eq!(all(&reviews(db)).await, before.1);

            // the child that is there stays, and its product is right afterwards
            let error = products.insert(&review(2)).await.unwrap_err();
            assert_eq!((error.stored(), kind(error)), (None, ErrorKind::ChildExists));
            let error = products
                .insert_many(&[review(5), review(6), review(2), review(7)])
                .await
                .unwrap_err();
            let stored = (consistency == Consistency::Eventual).then_some(2);
            assert_eq!((error.stored(), kind(error)), (stored, ErrorKind::ChildExists));
            assert_eq!(all(&reviews(db)).await.len(), 3 + stored.unwrap_or(0) as usize);
            assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
            assert!(products.insert_many(&[]).await.unwrap().children == 0);
        }
    })
    .await;
}

#[tokio::test]
async fn a_builder_refuses_what_cannot_work() {
    testkit::run(async |db| {
        let good = || builder::<Product, Review>(db.database());
        let (one, other) = (
            db.collection::<Document>("one"),
            db.plain_client().database("other").collection("two"),
        );
        let elsewhere = SubsetRepository::<Product, Review>::builder::<Document, Document>(one.clone(), other)
            .subset_field("s")
            .parent_field("p")
            .child_id_field("c")
            .order_by("o", Direction::Ascending);
        let unordered = SubsetRepository::<Product, Review>::builder(one.clone(), db.collection::<Document>("two"))
            .subset_field("s")
            .parent_field("p")
            .child_id_field("c");
        for bad in [
            good().size(0),
            good().subset_field("a.b"),
            good().version_field("reviews"),
            good().parent_field("review_id"),
            good().order_by("published_date", Direction::Ascending),
            good().order_by("product_id", Direction::Ascending),
            good()
                .order_by("review_id", Direction::Ascending)
                .order_by("x", Direction::Ascending),
            good().embed(["$a"]),
            elsewhere,
            unordered,
            SubsetRepository::builder(one.clone(), one),
        ] {
            assert_eq!(bad.build().unwrap_err().kind(), ErrorKind::Configuration);
        }
        let by_id = good().order_by("review_id", Direction::Ascending).build().unwrap();
        assert_eq!(by_id.indexes().indexes().len(), 2);
        assert_eq!((by_id.size(), db.recorder().round_trips()), (10, 0));
    })
    .await;
}

/// Values of all types, missing ones, and equal ones: the order is MongoDB's, and then that of the ids.
#[tokio::test]
async fn missing_mixed_and_equal_values_have_a_place() {
    testkit::run(async |db| {
        for consistency in BOTH {
            for (direction, expected) in [
                (Direction::Ascending, [1, 2, 3, 4, 5, 6]),
                (Direction::Descending, [8, 7, 6, 5, 4, 3]),
            ] {
                let repository = SubsetRepository::<Document, Document>::builder(
                    db.collection::<Document>("product"),
                    db.collection::<Document>("review"),
                );
                let products = repository
                    .subset_field("reviews")
                    .parent_field("product_id")
                    .child_id_field("review_id")
                    .order_by("rank", direction)
                    .size(6)
                    .consistency(consistency);
                let products = ready(db, products).await;
                let child = |id: i32, rank: Option<Bson>| {
                    let mut child = doc! { "product_id": 1, "review_id": id };
                    child.extend(rank.map(|rank| ("rank".to_owned(), rank)));
                    child
                };
                let mut children = [
                    child(1, None),
                    child(2, Some(Bson::Null)),
                    child(3, Some(5.into())),
                    child(4, Some(5.0.into())),
                    child(5, Some("5".into())),
                    child(6, Some(doc! { "a": 1 }.into())),
                    child(7, Some(true.into())),
                    child(8, Some(day(1).into())),
                ];
                children.reverse();
                for child in &children {
                    products.insert(child).await.unwrap();
                }
                assert_eq!(embedded(db).await, expected, "{consistency:?} {direction:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_embedded_and_how_many_is_the_users() {
    testkit::run(async |db| {
        let collections = (
            db.collection::<Document>("product"),
            db.collection::<Document>("review"),
        );
        let one_to_one = SubsetRepository::<Document, Document>::builder(collections.0, collections.1)
            .subset_field("best")
            .version_field("writes")
            .parent_field("product_id")
            .child_id_field("_id")
            .order_by("stars", Direction::Descending)
            .order_by("votes", Direction::Ascending)
            .size(1)
            .embed(["text"]);
        let products = ready(db, one_to_one).await;
        for (id, stars, votes) in [("a", 3, 5), ("b", 4, 9), ("c", 4, 7), ("d", 4, 7)] {
            let new = doc! { "_id": id, "product_id": 1, "stars": stars, "votes": votes, "text": id, "long": "x" };
            products.insert(&new).await.unwrap();
        }
        let found = products.get(1).await.unwrap().unwrap();
        assert_eq!(
            found.get_array("best").unwrap(),
            &[Bson::Document(doc! { "_id": "c", "text": "c" })]
        );
        assert_eq!(found.get_i64("writes").unwrap(), 5);
        products.delete(1, "c").await.unwrap();
        let found = products.get(1).await.unwrap().unwrap();
        assert_eq!(
            found.get_array("best").unwrap(),
            &[Bson::Document(doc! { "_id": "d", "text": "d" })]
        );
        add_product(db, 2).await;
        let taken = doc! { "_id": "a", "product_id": 2 };
        assert_eq!(
            products.insert(&taken).await.unwrap_err().kind(),
            ErrorKind::ChildExists
        );
        products
            .replace(&doc! { "_id": "a", "product_id": 1, "stars": 9, "text": "new" })
            .await
            .unwrap();
        let found = products.get(1).await.unwrap().unwrap();
        assert_eq!(
            found.get_array("best").unwrap(),
            &[Bson::Document(doc! { "_id": "a", "text": "new" })]
        );
    })
    .await;
}

/// Ids and values that look like operators, paths or expressions are values.
#[tokio::test]
async fn hostile_ids_and_values_are_stored_as_they_are() {
    testkit::run(async |db| {
        for consistency in BOTH {
            let products = ready(
                db,
                builder::<Document, Document>(db.database()).consistency(consistency),
            )
            .await;
            let hostile = [
                Bson::String("$name".into()),
                Bson::String("$$ROOT".into()),
                Bson::String("a.b\0".into()),
                doc! { "a": "$name" }.into(),
                Bson::String(String::new()),
            ];
            for id in &hostile {
                add_product(db, id.clone()).await;
            }
            for parent in &hostile {
                for id in &hostile {
                    let new = doc! { "product_id": parent, "review_id": id, "text": "$name", "a": { "b": "$$REMOVE" } };
                    products.insert(&new).await.unwrap();
                    products
                        .update(parent.clone(), id.clone(), doc! { "text": "$product_id" })
                        .await
                        .unwrap();
                }
            }
            for parent in &hostile {
                let page = products.children(parent.clone()).limit(2).await.unwrap();
                let rest = products
                    .children(parent.clone())
                    .after(page.next.unwrap())
                    .await
                    .unwrap();
                assert_eq!((page.children.len(), rest.children.len()), (2, 3));
                products.delete(parent.clone(), hostile[0].clone()).await.unwrap();
                let found = products.get(parent.clone()).await.unwrap().unwrap();
                let shown = found.get_array("reviews").unwrap();
                assert_eq!(shown.len(), 4);
                for review in shown {
                    let review = review.as_document().unwrap();
                    assert_eq!(review.get_str("text").unwrap(), "$product_id");
                    assert_eq!(review.get_document("a").unwrap(), &doc! { "b": "$$REMOVE" });
                }
            }
            assert_eq!(products.rebuild_all().await.unwrap().one_by_one, 0);
            assert_eq!(products.delete_parent(hostile[3].clone()).await.unwrap().children, 4);
        }
    })
    .await;
}

#[tokio::test]
async fn in_a_callers_transaction_all_is_stored_or_nothing() {
    testkit::run(async |db| {
        for consistency in BOTH {
            let products = products(db, consistency).await;
            add_product(db, 2).await;
            fill(&products, 0..20).await;
            products.insert(&review_of(2, 1, 1)).await.unwrap();
            let before = (all(&product(db)).await, all(&reviews(db)).await);
            let mut session = db.client().start_session().await.unwrap();
            for commit in [false, true] {
                let options = TransactionOptions::builder()
                    .read_concern(ReadConcern::snapshot())
                    .build();
                session.start_transaction().with_options(options).await.unwrap();
                products.insert(&review(50)).session(&mut session).await.unwrap();
                products.insert(&review(-1)).session(&mut session).await.unwrap();
                products
                    .insert_many(&[review(51), review(52)])
                    .session(&mut session)
                    .await
                    .unwrap();
                let set = doc! { "review_author": "Hans" };
                products.update(1, 52, set).session(&mut session).await.unwrap();
                products.replace(&review(18)).session(&mut session).await.unwrap();
                assert!(products.delete(1, 19).session(&mut session).await.unwrap().found);
                assert_eq!(products.rebuild(1).session(&mut session).await.unwrap().embedded, 10);
                assert!(products.delete_parent(2).session(&mut session).await.unwrap().found);
                assert!(products.get(2).session(&mut session).await.unwrap().is_none());
                let shown = products.get(1).session(&mut session).await.unwrap().unwrap().reviews;
                assert_eq!((shown[0].review_id, shown[0].review_author.as_str()), (52, "Hans"));
                assert!(products.child(1, 50).session(&mut session).await.unwrap().is_some());
                let page = products.children(1).limit(3).session(&mut session).await.unwrap();
                assert_eq!(page.children.len(), 3);
                if commit {
                    session.commit_transaction().await.unwrap();
                } else {
                    session.abort_transaction().await.unwrap();
                    assert_eq!((all(&product(db)).await, all(&reviews(db)).await), before);
                }
            }
            assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);

            // Nothing is retried inside: the conflict goes out with the driver's label.
            session.start_transaction().await.unwrap();
            products.get(1).session(&mut session).await.unwrap();
            products.insert(&review(60)).await.unwrap();
            let error = products.insert(&review(61)).session(&mut session).await.unwrap_err();
            let driver = error.as_driver_error().unwrap();
            assert!(
                driver.contains_label(mongodb::error::TRANSIENT_TRANSACTION_ERROR),
                "{error:?}"
            );
            session.abort_transaction().await.unwrap();

            // a session without a transaction
            products.insert(&review(62)).session(&mut session).await.unwrap();
            assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        }
    })
    .await;
}
