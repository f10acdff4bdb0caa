//! `verify`, `repair`, `refresh` and `refresh_all`.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Finding, Problem};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use super::subset::Children;
use support::common::until_blocked;
use support::subset::*;

async fn found(products: &Products) -> Vec<(Bson, Problem)> {
    let findings: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
    let mut found: Vec<_> = findings.into_iter().map(|it| (it.document_id, it.problem)).collect();
    found.sort_by_key(|(id, _)| id.to_string());
    found
}

#[tokio::test]
async fn a_verify_reads_each_finding_again() {
    testkit::run(async |db| {
        let products = Children::damaged(db, products(db).await).await;
        assert_eq!(found(&products).await.len(), 10);
        // The settings, two scans, a second read of each finding, and a third of each embedded child that is not stored.
        let names = db.recorder().names();
        assert_eq!(names.iter().filter(|name| *name == "aggregate").count(), 2 + 10 + 3);
        assert_eq!(names.len(), 16, "{names:?}");
        assert_eq!(products.delete_parent(90).await.unwrap().documents, 1);
        assert_eq!(found(&products).await.len(), 9);
    })
    .await;
}

#[tokio::test]
async fn all_subsets_are_rebuilt_on_the_server() {
    testkit::run(async |db| {
        let products = Children::damaged(db, products(db).await).await;
        assert_eq!(products.refresh_all().await.unwrap().rebuilt_individually, 0);
        assert_eq!(db.recorder().names(), ["find", "aggregate"]);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        let unreviewed = product(db).find_one(doc! { "_id": 9 }).await.unwrap().unwrap();
        assert_eq!(unreviewed.get_array("reviews").unwrap(), &[]);
        assert_eq!(unreviewed.get_i64("reviews_version").unwrap(), 1);
        let before = stored_product(db).await;
        products.refresh_all().await.unwrap();
        assert_eq!(stored_product(db).await, before, "a correct parent is not written");

        // Another size for all.
        let fewer = builder_of::<Product, Review>(db.database(), newest().size(3))
            .build()
            .unwrap();
        fewer.ensure_indexes().replace_settings().await.unwrap();
        fewer.refresh_all().await.unwrap();
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
            let products = Children::damaged(db, products).await;
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
            let (rebuilt, ()) = tokio::join!(products.refresh_all().into_future(), commits);
            assert_eq!(
                rebuilt.unwrap().rebuilt_individually,
                0,
                "the second aggregation has rebuilt it"
            );
            let names = db.recorder().names();
            assert_eq!(names, ["find", "aggregate", "aggregate", "aggregate"]);
            assert_eq!(wrong(&parents, &reviews(db), 10).await, []);
            db.recorder().clear();
            assert_eq!(products.refresh_all().await.unwrap().rebuilt_individually, 0);
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
                other.refresh_all().await.unwrap();
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
        let error = products.refresh_all().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing);
        let other = doc! { "product_id": 1, "review_id": 1 };
        reviews(db).insert_one(other).await.unwrap();
        let error = products.children(1).page().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
    })
    .await;
}
