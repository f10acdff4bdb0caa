//! The total: the number of all children, stored in their parent.

use std::slice;

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Finding, Problem, Repaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::common::support::{all, explain};
use crate::subset::support::*;

const TOTAL: &str = "review_count";

async fn counting(db: &TestDatabase) -> Products {
    let counting = builder(db.database()).total_field(TOTAL);
    ready(db, counting).await
}

/// Returns the products whose subset or total is wrong.
async fn wrong_or_miscounted(db: &TestDatabase) -> Vec<Bson> {
    let mut found = wrong(&product(db), &reviews(db), 10).await;
    let children = all(&reviews(db)).await;
    for parent in all(&product(db)).await {
        let id = parent.get("_id").unwrap();
        let of_parent = children.iter().filter(|child| child.get("product_id") == Some(id));
        let total = Bson::Int64(of_parent.count() as i64);
        if parent.get(TOTAL) != Some(&total) {
            found.push(id.clone());
        }
    }
    found
}

async fn damage(db: &TestDatabase, update: Document) {
    product(db).update_one(doc! { "_id": 1 }, update).await.unwrap();
}

async fn stale(products: &Products) -> Vec<Bson> {
    let findings: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
    assert!(findings.iter().all(|finding| finding.problem == Problem::Stale));
    findings.into_iter().map(|finding| finding.document_id).collect()
}

#[tokio::test]
async fn every_write_keeps_the_total() {
    testkit::run(async |db| {
        let products = counting(db).await;
        let check = async |expected: &str| {
            let names = db.recorder().names().join(" ");
            assert_eq!(names, format!("{expected} commitTransaction"));
            assert_eq!(wrong_or_miscounted(db).await, [] as [Bson; 0], "{names}");
            db.recorder().clear();
        };
        let children: Vec<Review> = (0..15).map(review).collect();
        products.insert_many(&children).await.unwrap();
        check("update insert find update").await;
        products.insert(&review(50)).await.unwrap();
        check("update insert find update").await;
        let inserted = products.insert(&review(-1)).await.unwrap();
        assert!(!inserted.in_subset);
        check("update insert find update").await;
        products.replace(&review(50)).await.unwrap();
        check("update update find update").await;
        products
            .update(1, 3, doc! { "$set": { "review_author": "Trina" } })
            .await
            .unwrap();
        check("update update find update").await;
        for found in [true, false] {
            assert_eq!(products.delete(1, 50).await.unwrap().found, found);
            check("update delete find update").await;
        }
        products.rebuild(1).await.unwrap();
        assert_eq!(db.recorder().names().join(" "), "find find aggregate update");
        assert_eq!(wrong_or_miscounted(db).await, []);

        // Two parents in one call, and a parent that never had children.
        add_product(db, 2).await;
        add_product(db, 3).await;
        let new = [review(60), review_of(2, 1, 1), review(61)];
        products.insert_many(&new).await.unwrap();
        assert_eq!(wrong_or_miscounted(db).await, [Bson::Int32(3)], "it has no total yet");
        assert_eq!(stale(&products).await, [], "a missing total counts as 0");
        let error = products.insert_many(slice::from_ref(&new[0])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(wrong_or_miscounted(db).await, [Bson::Int32(3)]);
        let found = product(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
        assert_eq!(found.get_i64(TOTAL).unwrap(), 18);
        assert!(products.delete_parent(1).await.unwrap().found);
    })
    .await;
}

#[tokio::test]
async fn the_total_is_counted_by_the_index_only() {
    testkit::run(async |db| {
        let products = counting(db).await;
        let children: Vec<Review> = (0..500).map(review).collect();
        products.insert_many(&children).await.unwrap();
        products.rebuild(1).await.unwrap();
        let mut commands = db.recorder().commands();
        commands.pop();
        assert_eq!(commands.last().unwrap().name, "aggregate");
        let count = commands.pop().unwrap();
        let examined = explain(db, &count).await;
        assert_eq!(examined.documents, 0, "{examined:?}");
        assert!((500..=501).contains(&examined.keys), "{examined:?}");
    })
    .await;
}

#[tokio::test]
async fn a_wrong_total_is_found_and_repaired() {
    testkit::run(async |db| {
        let set = |total: Bson| doc! { "$set": { TOTAL: total } };
        let products = counting(db).await;
        let children: Vec<Review> = (0..15).map(review).collect();
        products.insert_many(&children).await.unwrap();
        for bad in [
            set(14.into()),
            set(16_i64.into()),
            set("fifteen".into()),
            doc! { "$unset": { TOTAL: 1 } },
        ] {
            damage(db, bad.clone()).await;
            assert_eq!(stale(&products).await, [Bson::Int32(1)], "{bad}");
            let repaired: Vec<Repaired> = products.repair().stream().try_collect().await.unwrap();
            assert_eq!(repaired.len(), 1);
            assert_eq!(wrong_or_miscounted(db).await, [], "{bad}");

            damage(db, bad.clone()).await;
            products.rebuild(1).await.unwrap();
            assert_eq!(wrong_or_miscounted(db).await, [], "{bad}");

            damage(db, bad.clone()).await;
            assert_eq!(products.rebuild_all().await.unwrap().rebuilt_individually, 0);
            assert_eq!(wrong_or_miscounted(db).await, [], "{bad}");

            damage(db, bad.clone()).await;
            products.insert(&review(-1)).await.unwrap();
            products.delete(1, -1).await.unwrap();
            let adds = matches!(first(&bad), Some(Bson::Int32(_) | Bson::Int64(_)));
            assert_eq!(wrong_or_miscounted(db).await.is_empty(), !adds, "{bad}");
            products.rebuild(1).await.unwrap();
        }
        // A number of another type is not wrong. If it cannot be added to, the children are counted.
        for same in [Bson::Int32(15), Bson::Double(15.0)] {
            damage(db, set(same)).await;
            assert_eq!(stale(&products).await, []);
            products.insert(&review(99)).await.unwrap();
            products.delete(1, 99).await.unwrap();
            assert_eq!(wrong_or_miscounted(db).await, []);
        }
    })
    .await;
}

/// Returns the total that an update sets.
fn first(update: &Document) -> Option<Bson> {
    update.get_document("$set").ok()?.get(TOTAL).cloned()
}

#[tokio::test]
async fn rebuild_all_gives_every_parent_its_total() {
    testkit::run(async |db| {
        let without = products(db).await;
        for id in 2..=5 {
            add_product(db, id).await;
        }
        for id in 1..=4 {
            let children: Vec<Review> = (0..id * 5).map(|n| review_of(id, n, n.into())).collect();
            without.insert_many(&children).await.unwrap();
        }
        let found = product(db).find_one(doc! { TOTAL: { "$exists": true } }).await.unwrap();
        assert_eq!(found, None, "there is no total without the option");
        let with = builder::<Product, Review>(db.database())
            .total_field(TOTAL)
            .build()
            .unwrap();
        with.ensure_indexes().replace_settings().await.unwrap();
        with.rebuild_all().await.unwrap();
        assert_eq!(wrong_or_miscounted(db).await, []);
        let before = all(&product(db)).await;
        with.rebuild_all().await.unwrap();
        assert_eq!(all(&product(db)).await, before, "a correct parent is not written");
    })
    .await;
}

#[tokio::test]
async fn a_total_in_a_callers_transaction_is_atomic_with_it() {
    testkit::run(async |db| {
        let products = counting(db).await;
        products.insert(&review(1)).await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        for commit in [false, true] {
            session.start_transaction().await.unwrap();
            let new = [review(2), review(3)];
            products.insert_many(&new).session(&mut session).await.unwrap();
            products.delete(1, 1).session(&mut session).await.unwrap();
            products.delete(1, 1).session(&mut session).await.unwrap();
            if commit {
                damage_in(db, &mut session).await;
                products.rebuild(1).session(&mut session).await.unwrap();
                session.commit_transaction().await.unwrap();
            } else {
                session.abort_transaction().await.unwrap();
            }
            assert_eq!(wrong_or_miscounted(db).await, []);
        }
    })
    .await;
}

async fn damage_in(db: &TestDatabase, session: &mut mongodb::ClientSession) {
    let products = db.collection::<Document>("product");
    let wrong = doc! { "$set": { TOTAL: 77 } };
    products
        .update_one(doc! { "_id": 1 }, wrong)
        .session(session)
        .await
        .unwrap();
}

/// With one process and with several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn totals_are_correct_when_64_writers_stop() {
    testkit::run(async |db| {
        for processes in [1, 4] {
            let first = counting(db).await;
            for id in 2..=8 {
                add_product(db, id).await;
            }
            let mut repositories = vec![first];
            repositories.resize_with(processes, || {
                let more = builder(db.database()).total_field(TOTAL);
                more.build().unwrap()
            });
            let writers = (0..64).map(|writer: i32| {
                let products: Products = repositories[writer as usize % repositories.len()].clone();
                tokio::spawn(async move {
                    let mut random = Random(writer as u64);
                    for n in 0..6 {
                        let parent = random.below(8) as i32 + 1;
                        let id = writer * 100 + n;
                        let new = review_of(parent, id, random.below(50) as i64);
                        products.insert(&new).await.unwrap();
                        if random.below(2) == 0 {
                            products.delete(parent, id).await.unwrap();
                        }
                    }
                })
            });
            for written in join_all(writers).await {
                written.unwrap();
            }
            assert_eq!(wrong_or_miscounted(db).await, [], "{processes}");
            assert_eq!(stale(&repositories[0]).await, []);
        }
    })
    .await;
}

#[tokio::test]
async fn the_total_must_have_its_own_field() {
    testkit::run(async |db| {
        for taken in ["reviews", "reviews_version", "a.b", "$a", ""] {
            let bad = builder::<Product, Review>(db.database()).total_field(taken).build();
            assert_eq!(bad.unwrap_err().kind(), ErrorKind::Configuration, "{taken}");
        }
    })
    .await;
}
