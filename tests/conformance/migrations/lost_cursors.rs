//! Migrations whose cursors the server closes between two chunks, as it does when a cursor is idle for ten minutes.

use futures::future::LocalBoxFuture;
use mongo_patterns::Repository;
use mongo_patterns_core::migration::MigrateOptions;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, doc};

use super::archive::{DELETE, RUN_FILES};
use super::model::{Call, Case, Migrates};
use super::patterns::{
    EMBED, FROM_EMBEDDED, FROM_REFERENCES, HISTORY, INTERVALS, LAYOUT, OUTLIERS, PAGE_SIZE, SUBSETS, VERSIONS,
};
use crate::conformance::each;
use support::archive::files;
use support::archive::sales::{archive, archived, current, old, sale};
use support::common::{builder as trades, plain, spread};
use support::cursors::{closing, resumed};
use support::embedded::migration::{addresses, index_reference};
use support::embedded::stored as patrons;
use support::history::{current as policies, policy};
use support::intervals;
use support::outlier::{sales, users};
use support::reference::migrate_refused::fill as fill_orders;
use support::schema::contacts::{stored as contacts, typed, v1};
use support::subset::migration::{embedded_review, unmigrated};
use support::subset::{product, reviews};

type Fill = for<'a> fn(&'a TestDatabase) -> LocalBoxFuture<'a, ()>;

/// More documents than a batch of a walk has.
const MANY: i32 = 1200;
/// More than the first batch of an aggregation has.
const SOME: i32 = 250;

const fn of(migration: Migrates, fill: Fill) -> Migrates {
    Migrates { fill, ..migration }
}

async fn products_with_reviews(db: &TestDatabase) {
    let ids = || 1..=MANY;
    product(db)
        .insert_many(ids().map(|id| doc! { "_id": id }))
        .await
        .unwrap();
    let review = |id: i32| {
        let mut review = embedded_review(id, i64::from(id));
        review.insert("product_id", id);
        review
    };
    reviews(db).insert_many(ids().map(review)).await.unwrap();
}

static MIGRATIONS: [Migrates; 12] = [
    of(PAGE_SIZE, |db| {
        Box::pin(async move {
            let trades = trades(db).page_size(3).build().unwrap();
            trades.ensure_indexes().await.unwrap();
            let items: Vec<_> = (0..4).map(spread).collect();
            trades.append_many(&0, &items).await.unwrap();
            // The other keys have the same pages.
            let pages: Vec<Document> = support::common::all(&plain(db)).await;
            let of = |key: i32| {
                pages.iter().cloned().map(move |mut page| {
                    let id = page.get_str("_id").unwrap().replacen("0_", &format!("{key}_"), 1);
                    page.extend(doc! { "_id": id, "customerId": key });
                    page
                })
            };
            plain(db).insert_many((1..SOME).flat_map(of)).await.unwrap();
        })
    }),
    of(OUTLIERS, |db| {
        Box::pin(async move {
            let list = |id: i32| doc! { "_id": id, "customers_purchased": users(0..7) };
            sales(db).insert_many((0..SOME).map(list)).await.unwrap();
        })
    }),
    of(FROM_EMBEDDED, |db| {
        Box::pin(async move {
            let with_review = |id: i32| doc! { "_id": id, "reviews": [embedded_review(id, 1)] };
            product(db).insert_many((1..=MANY).map(with_review)).await.unwrap();
        })
    }),
    of(SUBSETS, |db| Box::pin(products_with_reviews(db))),
    of(LAYOUT, |db| {
        Box::pin(async move {
            products_with_reviews(db).await;
            unmigrated(db).migrate_existing().await.unwrap();
        })
    }),
    of(EMBED, |db| {
        Box::pin(async move {
            patrons(db)
                .insert_many((1..=MANY).map(|id| doc! { "_id": id }))
                .await
                .unwrap();
            let child = |n: i32| doc! { "_id": n, "patron_id": n, "n": n };
            addresses(db).insert_many((1..=MANY).map(child)).await.unwrap();
            index_reference(db).await;
        })
    }),
    of(HISTORY, |db| {
        Box::pin(async move {
            policies(db).insert_many((0..MANY).map(policy)).await.unwrap();
        })
    }),
    of(INTERVALS, |db| {
        Box::pin(async move {
            let stored = intervals::stored(db);
            stored
                .insert_many((0..SOME).map(|item| intervals::price(item, 1)))
                .await
                .unwrap();
        })
    }),
    of(FROM_REFERENCES, |db| {
        Box::pin(async move {
            let order = |id: i32| doc! { "_id": id, "customerId": 1 + id % 2 };
            fill_orders(db, (0..MANY).map(order)).await;
        })
    }),
    of(VERSIONS, |db| {
        Box::pin(async move {
            typed(db).ensure_indexes().await.unwrap();
            contacts(db).insert_many((0..MANY).map(v1)).await.unwrap();
        })
    }),
    of(DELETE, |db| {
        Box::pin(async move {
            archive(db).await;
            archived(db)
                .insert_many((0..MANY).map(|id| sale(id, old(0))))
                .await
                .unwrap();
        })
    }),
    of(RUN_FILES, |db| {
        Box::pin(async move {
            files::archive(db).await;
            current(db)
                .insert_many((0..MANY).map(|id| sale(id, old(0))))
                .await
                .unwrap();
        })
    }),
];

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_migration_whose_cursors_are_closed_has_the_same_result() {
    each(
        &MIGRATIONS,
        |migration| migration.name,
        async |db, migration| {
            let (case, name) = (Case::new(db, migration), migration.name);
            let options = || MigrateOptions {
                chunk: Some(50),
                concurrency: Some(1),
                ..MigrateOptions::default()
            };
            let (migrated, documents) = case.undisturbed(options()).await;
            case.begin().await;
            // A report of each document of a scan would close them each time.
            let (close, mut reports) = (closing(db), 0);
            let call = Call {
                options: options(),
                report: Some(Box::new(move |_| {
                    reports += 1;
                    if reports % 50 == 1 || reports < 8 {
                        close(());
                    }
                })),
                ..Call::default()
            };
            let lost = (migration.call)(db, call).await;
            let lost = lost.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert!(resumed(db) > 0, "{name}: {:?}", db.recorder().names());
            assert_eq!(lost.migrated, migrated, "{name}");
            assert!(case.documents().await == documents, "{name}");
        },
    )
    .await;
}
