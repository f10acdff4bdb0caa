//! `verify`, `repair`, `rebuild` and `rebuild_all`.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Finding, Problem, Repaired, Unrepaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::common::support::{all, until_blocked};
use crate::subset::support::*;

async fn found(products: &Products) -> Vec<(Bson, Problem)> {
    let findings: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
    let mut found: Vec<_> = findings.into_iter().map(|it| (it.document_id, it.problem)).collect();
    found.sort_by_key(|(id, _)| id.to_string());
    found
}

/// Inserts products 1 to 8 with reviews, damages those from 2 on, and inserts reviews of the missing product 90.
async fn damaged(db: &TestDatabase, products: &Products) {
    for id in 2..=9 {
        add_product(db, id).await;
    }
    for id in 1..=8 {
        let children: Vec<Review> = (0..15).map(|n| review_of(id, n, i64::from(n))).collect();
        products.insert_many(&children).await.unwrap();
    }
    let (parents, children) = (product(db), reviews(db));
    let set = async |id: i32, update: Document| parents.update_one(doc! { "_id": id }, update).await.unwrap();
    set(2, doc! { "$set": { "reviews.3.review_author": "Pablo" } }).await;
    set(3, doc! { "$unset": { "reviews": 1 } }).await;
    set(4, doc! { "$pop": { "reviews": 1 } }).await;
    set(5, doc! { "$set": { "reviews": "none" } }).await;
    children
        .delete_one(doc! { "product_id": 6, "review_id": 14 })
        .await
        .unwrap();
    children.delete_many(doc! { "product_id": 7 }).await.unwrap();
    set(
        8,
        doc! { "$push": { "reviews": { "$each": [], "$sort": { "published_date": 1 } } } },
    )
    .await;
    let orphan = mongodb::bson::serialize_to_document(&review_of(90, 1, 1)).unwrap();
    children.insert_one(orphan).await.unwrap();
    children.insert_one(doc! { "review_id": 1 }).await.unwrap();
    db.recorder().clear();
}

#[tokio::test]
async fn all_damage_and_nothing_else_is_found() {
    testkit::run(async |db| {
        let products = products(db).await;
        damaged(db, &products).await;
        let findings = found(&products).await;
        let stale: Vec<&Bson> = findings
            .iter()
            .filter(|it| it.1 == Problem::Stale)
            .map(|it| &it.0)
            .collect();
        let expected: Vec<Bson> = (2..=8).map(Bson::Int32).collect();
        assert_eq!(
            stale,
            expected.iter().collect::<Vec<_>>(),
            "product 9 has no reviews, and no subset"
        );
        let orphans: Vec<_> = findings.iter().filter(|it| it.1 != Problem::Stale).collect();
        assert_eq!(orphans.len(), 2);
        assert!(matches!(
            orphans[0],
            (Bson::Int32(90), Problem::Orphaned { children: 1 })
        ));
        assert!(matches!(orphans[1], (Bson::Null, Problem::Orphaned { children: 1 })));
        // The settings, two scans, and a second read of each finding.
        let names = db.recorder().names();
        assert_eq!(names.iter().filter(|name| *name == "aggregate").count(), 2 + 9);
        assert_eq!(names.len(), 12, "{names:?}");

        let before = (all(&product(db)).await, all(&reviews(db)).await);
        let would: Vec<Repaired> = products.repair().dry_run().stream().try_collect().await.unwrap();
        assert_eq!(would.len(), 9);
        assert_eq!((all(&product(db)).await, all(&reviews(db)).await), before);
        let repaired: Vec<Repaired> = products.repair().stream().try_collect().await.unwrap();
        assert_eq!(repaired, would);
        let left: Vec<_> = repaired
            .iter()
            .filter(|it| it.unrepaired == Some(Unrepaired::NoParent))
            .collect();
        assert_eq!(left.len(), 2);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        assert_eq!(products.delete_parent(90).await.unwrap().children, 1);
        assert_eq!(found(&products).await.len(), 1, "the review without a product");
    })
    .await;
}

#[tokio::test]
async fn all_subsets_are_rebuilt_on_the_server() {
    testkit::run(async |db| {
        let products = products(db).await;
        damaged(db, &products).await;
        assert_eq!(products.rebuild_all().await.unwrap().rebuilt_individually, 0);
        assert_eq!(db.recorder().names(), ["find", "aggregate"]);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        let unreviewed = product(db).find_one(doc! { "_id": 9 }).await.unwrap().unwrap();
        assert_eq!(unreviewed.get_array("reviews").unwrap(), &[]);
        assert_eq!(unreviewed.get_i64("reviews_version").unwrap(), 1);
        let right = product(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
        let before = right.get_i64("reviews_version").unwrap();
        products.rebuild_all().await.unwrap();
        let right = product(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
        assert_eq!(
            right.get_i64("reviews_version").unwrap(),
            before,
            "a correct parent is not written"
        );

        // Another size for all.
        let fewer = builder_of::<Product, Review>(db.database(), newest().size(3))
            .build()
            .unwrap();
        fewer.ensure_indexes().replace_settings().await.unwrap();
        fewer.rebuild_all().await.unwrap();
        assert_eq!(wrong(&product(db), &reviews(db), 3).await, []);
    })
    .await;
}

/// A parent that another client writes after the rebuild has read its version is rebuilt by a second aggregation.
#[tokio::test]
async fn a_rebuild_checks_again_after_a_concurrent_write() {
    testkit::run(async |db| {
        for total in [false, true] {
            product(db).drop().await.unwrap();
            reviews(db).drop().await.unwrap();
            let products = builder(db.database());
            let products: Products = match total {
                true => ready(db, products.total_field("review_count")).await,
                false => ready(db, products).await,
            };
            damaged(db, &products).await;
            let parents = product(db);
            let mut session = parents.client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            let increment = doc! { "$inc": { "reviews_version": 1 } };
            let incremented = parents.update_one(doc! { "_id": 4 }, increment).session(&mut session);
            incremented.await.unwrap();
            let commits = async {
                until_blocked(db, doc! {}).await;
                session.commit_transaction().await.unwrap();
            };
            let (rebuilt, ()) = tokio::join!(products.rebuild_all().into_future(), commits);
            assert_eq!(
                rebuilt.unwrap().rebuilt_individually,
                0,
                "the second aggregation has rebuilt it"
            );
            let names = db.recorder().names();
            assert_eq!(names, ["find", "aggregate", "aggregate", "aggregate"]);
            assert_eq!(wrong(&parents, &reviews(db), 10).await, []);
            db.recorder().clear();
            assert_eq!(products.rebuild_all().await.unwrap().rebuilt_individually, 0);
            assert_eq!(db.recorder().names(), ["find", "aggregate"]);
        }
    })
    .await;
}

/// Writers continue while all subsets are rebuilt: none of their writes is undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_undoes_no_write() {
    testkit::run(async |db| {
        let products = products(db).await;
        for id in 2..=20 {
            add_product(db, id).await;
        }
        let other = builder::<Product, Review>(db.database()).build().unwrap();
        let writers = (0..8).map(|writer| {
            let products = products.clone();
            tokio::spawn(async move {
                let mut random = Random(writer as u64);
                for n in 0..40 {
                    let parent = random.below(20) as i32 + 1;
                    let id = writer * 100 + n;
                    products
                        .insert(&review_of(parent, id, random.below(50) as i64))
                        .await
                        .unwrap();
                    if n % 2 == 0 {
                        products.delete(parent, id).await.unwrap();
                    }
                }
            })
        });
        let writers = futures::future::join_all(writers);
        let rebuilds = async {
            for _ in 0..10 {
                other.rebuild_all().await.unwrap();
            }
        };
        let (written, ()) = futures::future::join(writers, rebuilds).await;
        written.into_iter().for_each(|written| written.unwrap());
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}

/// `verify` reports nothing during transactional writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_reports_no_running_transaction() {
    testkit::run(async |db| {
        let products = products(db).await;
        let writers = (0..4).map(|writer| {
            let products = products.clone();
            tokio::spawn(async move {
                for n in 0..60 {
                    products.insert(&review(writer * 1000 + n)).await.unwrap();
                }
            })
        });
        let writers = futures::future::join_all(writers);
        let mut scans = 0;
        let verify = async {
            let mut writers = writers;
            loop {
                let scan = found(&products);
                let done = tokio::select! {
                    biased;
                    written = &mut writers => Some(written),
                    findings = scan => {
                        assert_eq!(findings, []);
                        scans += 1;
                        None
                    }
                };
                if let Some(written) = done {
                    written.into_iter().for_each(|written| written.unwrap());
                    break;
                }
            }
        };
        verify.await;
        assert!(scans > 3, "{scans}");
    })
    .await;
}

#[tokio::test]
async fn missing_indexes_are_refused_before_any_read() {
    testkit::run(async |db| {
        let products = builder::<Product, Review>(db.database()).build().unwrap();
        let other = builder::<Product, Review>(db.database()).build().unwrap();
        other.ensure_indexes().await.unwrap();
        reviews(db).drop_indexes().await.unwrap();
        add_product(db, 1).await;
        let error = products.verify().stream().try_next().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.operation()),
            (ErrorKind::IndexMissing, Some("verify"))
        );
        let error = products.rebuild_all().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing);
        reviews(db)
            .insert_one(doc! { "product_id": 1, "review_id": 1 })
            .await
            .unwrap();
        let error = products.children(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
    })
    .await;
}
