//! The time limits of reads.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::pages::Pages;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::{builder, spread};
use support::{archive, embedded, history, outlier, reference, schema, subset};

const OF_REPOSITORY: Duration = Duration::from_secs(50);
const OF_CALL: Duration = Duration::from_millis(40_123);

/// Returns the limits of the commands that were sent.
fn limits(db: &TestDatabase) -> Vec<(String, Option<i64>)> {
    let limit = |command: &Document| match command.get("maxTimeMS") {
        Some(Bson::Int32(limit)) => Some(i64::from(*limit)),
        Some(Bson::Int64(limit)) => Some(*limit),
        _ => None,
    };
    let commands = db.recorder().commands().into_iter();
    commands.map(|sent| (sent.name.clone(), limit(&sent.command))).collect()
}

/// Checks that each command has the limit, and that there are some.
#[track_caller]
fn assert_limits(db: &TestDatabase, expected: Duration) {
    let sent = limits(db);
    assert!(!sent.is_empty());
    let expected = i64::try_from(expected.as_millis()).unwrap();
    for (name, limit) in &sent {
        assert_eq!(*limit, Some(expected), "{name} of {sent:?}");
    }
    db.recorder().clear();
}

/// Reads twice: with the limit of the repository, and with another one.
macro_rules! check {
    ($db:expr, $($read:expr),+ $(,)?) => {$(
        let _ = $read.await;
        assert_limits($db, OF_REPOSITORY);
        let _ = $read.max_time(OF_CALL).await;
        assert_limits($db, OF_CALL);
    )+};
}

/// Reads two pages of each list: with the limit of the repository, and with another one.
macro_rules! check_lists {
    ($db:expr, $($list:expr),+ $(,)?) => {$(
        let _ = $list.page().await;
        assert_limits($db, OF_REPOSITORY);
        let _ = $list.max_time(OF_CALL).page().await;
        assert_limits($db, OF_CALL);
    )+};
}

#[tokio::test]
async fn reads_of_items_have_the_limit_of_their_repository_or_call() {
    testkit::run(async |db| {
        let trades = builder(db).max_time(OF_REPOSITORY).build().unwrap();
        trades.ensure_indexes().await.unwrap();
        db.recorder().clear();
        for number in 0..25 {
            trades.append(&1, &spread(number)).await.unwrap();
        }
        let written = limits(db);
        assert!(
            written.iter().all(|(_, limit)| limit.is_none()),
            "writes have none: {written:?}"
        );
        db.recorder().clear();
        check!(
            db,
            trades.newest(&1, 5),
            trades.page(&1, 2),
            trades.counts(&1),
            trades.count_pages(&1),
            trades.keys(),
            trades.find_items(doc! {}),
        );
        check_lists!(db, trades.buckets(&1), trades.items(&1));
        let _ = trades.find_items(doc! {}).explain().await;
        assert_limits(db, OF_REPOSITORY);
        for max_time in [None, Some(OF_CALL)] {
            let limited = max_time.unwrap_or(OF_REPOSITORY);
            let mut keys = trades.keys();
            let mut found = trades.find_items(doc! {});
            if let Some(max_time) = max_time {
                (keys, found) = (keys.max_time(max_time), found.max_time(max_time));
            }
            assert_eq!(keys.stream().count().await, 1);
            assert_limits(db, limited);
            let items = trades.items(&1);
            let items = match max_time {
                Some(max_time) => items.max_time(max_time),
                None => items,
            };
            assert_eq!(items.stream().count().await, 25);
            assert_limits(db, limited);
            let found: Vec<_> = found.stream().try_collect().await.unwrap();
            assert_eq!(found.len(), 25);
            assert_limits(db, limited);
        }
    })
    .await;
}

#[tokio::test]
async fn reads_of_documents_have_the_limit_of_their_repository_or_call() {
    testkit::run(async |db| {
        let sales = archive::sales::builder(db).max_time(OF_REPOSITORY).build().unwrap();
        sales.ensure_indexes().await.unwrap();
        let books: outlier::Books = outlier::builder(db).max_time(OF_REPOSITORY).build().unwrap();
        books.ensure_indexes().await.unwrap();
        let products: subset::Products = subset::builder(db.database()).max_time(OF_REPOSITORY).build().unwrap();
        let policies = history::builder(db.database()).max_time(OF_REPOSITORY).build().unwrap();
        policies.ensure_indexes().await.unwrap();
        policies.insert(&history::policy(1)).await.unwrap();
        let prices = support::intervals::builder(db.database());
        let prices = prices.max_time(OF_REPOSITORY).build().unwrap();
        prices.ensure_indexes().await.unwrap();
        let patrons = embedded::builder(db).max_time(OF_REPOSITORY).build().unwrap();
        let orders = reference::builder(db.database())
            .max_time(OF_REPOSITORY)
            .build()
            .unwrap();
        let contacts = schema::contacts::builder::<Document>(db)
            .pipeline_step(1, schema::contacts::stages())
            .max_time(OF_REPOSITORY)
            .build()
            .unwrap();
        contacts.ensure_indexes().await.unwrap();
        schema::contacts::plant(db, [schema::contacts::v1(1)]).await;
        let trash = archive::users::builder(db).max_time(OF_REPOSITORY).build().unwrap();
        trash.ensure_indexes().await.unwrap();
        let files = archive::files::builder(db).max_time(OF_REPOSITORY).build().unwrap();
        let pages = Pages::<Document>::over(db.collection::<Document>("sales")).max_time(OF_REPOSITORY);
        let pages = pages.build().unwrap();
        db.recorder().clear();
        check!(
            db,
            sales.get(1),
            sales.due(),
            files.files(..),
            files.read("absent"),
            contacts.get(1),
            contacts.find(doc! {}).older(1, doc! {}),
            contacts.versions(),
            books.get(1),
            books.find(doc! {}),
            books.get_full(1),
            books.contains(1, &"user".to_owned()),
            books.count(1),
            books.elements(1),
            products.get(1),
            products.find(doc! {}),
            products.child(1, 2),
            prices.get(1),
            prices.as_of(1, mongodb::bson::DateTime::now()),
            policies.get(1),
            policies.find(doc! {}),
            policies.at(1, 1),
            policies.as_of(1, mongodb::bson::DateTime::now()),
            policies.diff(1, 1, 1),
            patrons.get(1),
            patrons.child(1, 2),
            orders.get(1),
        );
        check_lists!(
            db,
            pages.list(),
            products.children(1),
            policies.revisions(1),
            prices.intervals(1),
            sales.list(doc! {}),
            trash.list(),
        );
    })
    .await;
}

/// The server takes 0 for no limit, and refuses more than `i32::MAX`.
#[tokio::test]
async fn every_limit_is_one_for_the_server() {
    testkit::run(async |db| {
        let patrons = embedded::builder(db).build().unwrap();
        for (limit, sent) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(2999), 2),
            (Duration::from_secs(86_400 * 30), i32::MAX),
            (Duration::MAX, i32::MAX),
        ] {
            // A millisecond may be too short for the read.
            let _ = patrons.get(1).max_time(limit).await;
            assert_limits(db, Duration::from_millis(sent.try_into().unwrap()));
        }
    })
    .await;
}

#[tokio::test]
async fn the_server_ends_a_read_that_takes_longer() {
    testkit::run(async |db| {
        let (database, source) = (db.database(), db.plain_collection("patrons"));
        let numbers: Vec<i32> = (0..200).collect();
        let inserted = source.insert_one(doc! { "_id": 1, "addresses": [], "numbers": numbers });
        inserted.await.unwrap();
        // Some milliseconds for each number: the server checks the time between two documents. Not by JavaScript, whose
        // interruption has another code.
        let counted =
            doc! { "$filter": { "input": { "$range": [0, 20_000] }, "cond": { "$gte": ["$$this", "$numbers"] } } };
        let slow = doc! { "$size": counted };
        let view = database.create_collection("slow").view_on("patrons");
        view.pipeline([
            doc! { "$unwind": "$numbers" },
            doc! { "$addFields": { "slow": slow } },
            doc! { "$group": { "_id": "$_id", "addresses": { "$first": "$addresses" }, "slow": { "$max": "$slow" } } },
        ])
        .await
        .unwrap();
        let patrons: EmbeddedRepository<Document, Document> =
            EmbeddedRepository::builder(database.collection::<Document>("slow"))
                .children_field("addresses")
                .child_id_field("id")
                .build()
                .unwrap();
        let error = patrons.get(1).max_time(Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Driver, "{error:?}");
        assert!(error.to_string().contains("longer than its max_time"), "{error}");
        assert!(!error.is_outcome_unknown());
        assert!(patrons.get(1).await.unwrap().is_some());
    })
    .await;
}
