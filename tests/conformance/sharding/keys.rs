//! Shard keys: the choice of each pattern, the set-up, its plan, and the check.

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::sharding::ShardKeyChoice;
use mongo_patterns::{ErrorKind, PlannedCommand, Repository};
use mongo_patterns_testkit::{self as testkit, CommandRecorder, Mongod, MongodOptions};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};

use support::common::{SECOND, at};
use support::outlier::Book;
use support::repositories::Repositories;
use support::standalone::{standalone, standalone_with};

fn all_keys(choices: &[ShardKeyChoice]) -> Vec<(String, Vec<Document>)> {
    let keys = |choice: &ShardKeyChoice| (choice.namespace.coll.clone(), choice.keys().cloned().collect());
    choices.iter().map(keys).collect()
}

#[tokio::test]
async fn each_collection_has_its_shard_keys() {
    testkit::run(async |db| {
        let repositories = Repositories::new(db.database());
        let by_id = |name: &str| (name.to_owned(), vec![doc! { "_id": 1 }, doc! { "_id": "hashed" }]);
        let by = |name: &str, field: &str, other: Option<Document>| {
            let mut keys = vec![doc! { field: 1 }, doc! { field: "hashed" }];
            keys.extend(other);
            (name.to_owned(), keys)
        };
        let all = repositories.all().map(Repository::shard_keys);
        let [trades, books, products, patrons, policies, orders] = &all;
        assert_eq!(all_keys(trades), [by("trades", "customerId", None)]);
        assert_eq!(all_keys(books), [by_id("sales"), by("extra_sales", "book_id", None)]);
        let plain = OutlierRepository::<Book, String>::builder(
            db.collection::<Document>("sales"),
            db.collection::<Document>("extra_sales"),
        )
        .array_field("customers_purchased")
        .parent_field("book_id")
        .build()
        .unwrap();
        let with_position = Some(doc! { "book_id": 1, "seq": 1 });
        assert_eq!(
            all_keys(&plain.shard_keys())[1],
            by("extra_sales", "book_id", with_position)
        );
        let with_id = Some(doc! { "product_id": 1, "review_id": 1 });
        assert_eq!(
            all_keys(products),
            [by_id("product"), by("review", "product_id", with_id)]
        );
        assert_eq!(all_keys(patrons), [by_id("patron")]);
        assert_eq!(
            all_keys(policies),
            [
                by("currentPolicies", "policyId", None),
                by(
                    "policyRevisions",
                    "policyId",
                    Some(doc! { "policyId": 1, "revision": 1 })
                )
            ]
        );
        assert_eq!(all_keys(orders), [by_id("orders"), by_id("customers")]);
        for choice in all.concat() {
            assert!(!choice.reason.is_empty() && !choice.limits.is_empty());
            assert!(choice.limits.iter().all(|limit| limit.ends_with('.')), "{choice:?}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_no_router_is_refused_and_nothing_is_written() {
    let mongod = Mongod::start(MongodOptions::new()).await.unwrap();
    for is_standalone in [false, true] {
        let recorder = CommandRecorder::new();
        let database = match is_standalone {
            true => standalone_with(|options| recorder.attach(options)).await,
            false => {
                let mut options = ClientOptions::parse(mongod.uri()).await.unwrap();
                recorder.attach(&mut options);
                Client::with_options(options).unwrap().database("shop")
            }
        };
        let repositories = Repositories::new(&database);
        for refused in repositories.ensure_sharded() {
            let error = refused.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let text = error.to_string();
            // A pattern that works on a standalone names the other call, and the others what a standalone lacks.
            let is_for_transactions = is_standalone && !matches!(error.pattern(), Some("bucket" | "embedded"));
            let advice = match is_for_transactions {
                true => "start mongod with `--replSet`",
                false => "nothing was changed: connect to a mongos",
            };
            assert!(text.contains(advice), "{text}");
            assert_eq!(recorder.names(), ["hello"]);
            recorder.clear();
        }
        for repository in repositories.all() {
            assert_eq!(repository.verify_shard_keys().await.unwrap(), []);
        }
        assert_eq!(recorder.names(), ["hello"; 6]);
        assert!(database.list_collection_names().await.unwrap().is_empty());
    }
}

/// Returns the commands of a plan that write.
fn writes(database: &Database, plan: &[PlannedCommand]) -> Vec<String> {
    let commands = plan.iter().filter(|planned| planned.writes);
    let text = |planned: &PlannedCommand| {
        let name = planned.command.keys().next().unwrap();
        assert_eq!(
            planned.on_admin,
            !["createIndexes", "update"].contains(&name.as_str()),
            "{name}"
        );
        let text = Bson::Document(planned.command.clone()).to_string();
        text.replace('"', "").replace(database.name(), "shop")
    };
    commands.map(text).collect()
}

#[tokio::test]
async fn a_plan_lists_the_commands_in_the_order_that_works() {
    let database = standalone().await;
    let repositories = Repositories::new(&database);
    let plan = repositories.trades.ensure_sharded().plan().await.unwrap();
    let written = writes(&database, &plan);
    let expected = [
        "{ createIndexes: trades, indexes: [{ key: { customerId: 1, _id: 1 }, name: customerId_1__id_1 }] }",
        "{ shardCollection: shop.trades, key: { customerId: 1 } }",
        "{ createIndexes: trades, indexes: [{ key: { customerId: 1 }, name: customerId_1_count_lt_10, unique: true, partialFilterExpression: { count: { $lt: 10 } } }, { key: { customerId: 1, history.n: 1 }, name: customerId_1_history.n_1, unique: true }] }",
    ];
    assert_eq!(written[..3], expected);
    let entry = "{ update: mongo_patterns"; // is stored and confirmed
    assert!(
        written[3..].iter().all(|write| write.starts_with(entry)),
        "{written:#?}"
    );
    assert_eq!(written.len(), 5);

    let plan = repositories.books.ensure_sharded().hashed().plan().await.unwrap();
    let written = writes(&database, &plan);
    let expected = [
        "{ createIndexes: sales, indexes: [{ key: { _id: hashed }, name: _id_hashed }] }",
        "{ createIndexes: extra_sales, indexes: [{ key: { book_id: hashed }, name: book_id_hashed }] }",
        "{ shardCollection: shop.sales, key: { _id: hashed } }",
        "{ shardCollection: shop.extra_sales, key: { book_id: hashed } }",
    ];
    assert_eq!(written[..4], expected);
    assert_eq!(written.len(), 7);

    let plan = repositories.products.ensure_sharded().plan().await.unwrap();
    let written = writes(&database, &plan);
    let unique = "{ key: { product_id: 1, review_id: 1 }, name: product_id_1_review_id_1, unique: true }";
    let order = "{ key: { product_id: 1, published_date: -1, review_id: -1 }, name: product_id_1_published_date_-1_review_id_-1 }";
    let expected = [
        format!("{{ createIndexes: review, indexes: [{unique}] }}"),
        "{ shardCollection: shop.product, key: { _id: 1 } }".to_owned(),
        "{ shardCollection: shop.review, key: { product_id: 1 } }".to_owned(),
        format!("{{ createIndexes: review, indexes: [{order}] }}"),
    ];
    assert_eq!(written[..4], expected);
    assert_eq!(written.len(), 6);

    let plan = repositories.patrons.ensure_sharded().plan().await.unwrap();
    let written = writes(&database, &plan);
    assert_eq!(written[0], "{ shardCollection: shop.patron, key: { _id: 1 } }");
    assert_eq!(written.len(), 3);

    assert!(database.list_collection_names().await.unwrap().is_empty());
}

/// The bytes of an item with its share of a full bucket, by which the documentation counts the items of a chunk.
#[tokio::test]
async fn buckets_have_the_documented_sizes() {
    testkit::run(async |db| {
        let trade = doc! { "type": "buy", "ticker": "MDB", "qty": 419, "date": at(SECOND) };
        // A document with a date and a string has 5 + 14 + 8 bytes, and those of the string.
        let sized = |bytes: usize| doc! { "date": at(SECOND), "t": "x".repeat(bytes - 27) };
        for (item, page, expected) in [(trade, 10, 68), (sized(250), 50, 255), (sized(1000), 100, 1005)] {
            let collection = db.collection::<Document>(&format!("trades_{page}"));
            let trades = BucketRepository::<i32, Document>::builder(collection.clone())
                .key_field("customerId")
                .items_field("history")
                .time_field("date")
                .page_size(page)
                .build()
                .unwrap();
            trades.ensure_indexes().await.unwrap();
            let items = vec![item; page as usize];
            trades.append_many(&123, &items).await.unwrap();
            let stored = collection.clone_with_type::<RawDocumentBuf>();
            let bucket = stored.find_one(doc! {}).await.unwrap().unwrap();
            let bytes = bucket.as_bytes().len() as f64 / f64::from(page);
            assert_eq!(bytes.round() as usize, expected);
        }
        assert_eq!(
            [68, 255, 1005].map(|bytes| (128 << 20) / bytes / 1000),
            [1973, 526, 133]
        );
    })
    .await;
}
