//! The set-up of a sharded cluster. No router is part of the tests: a [`Router`] of them replies as one.

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::index::EnsuredIndexes;
use mongo_patterns::{ErrorKind, PlannedCommand, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;

use support::common::{Trade, all, spread};
use support::repositories::Repositories;
use support::router::Router;

/// Returns the commands as a text, without the name of the database, which some have.
fn text(db: &TestDatabase, sent: &[String]) -> String {
    let database = format!(" {}", db.database().name());
    let commands: Vec<&str> = sent.iter().map(|sent| sent.split(&database).next().unwrap()).collect();
    commands.join(", ")
}

#[tokio::test]
async fn a_cluster_is_set_up_once() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        let first = repositories.trades.ensure_sharded().await.unwrap();
        let [trades] = &first.collections[..] else {
            panic!("{first:?}")
        };
        assert!(trades.sharded && trades.key == doc! { "customerId": 1 }, "{trades:?}");
        let names = [
            "customerId_1__id_1",
            "customerId_1_count_lt_10",
            "customerId_1_history.n_1",
        ];
        assert_eq!(first.indexes.created, names);
        let steps = "hello, find collections, find mongo_patterns, listCollections, listIndexes trades, aggregate trades, \
            createIndexes trades, shardCollection trades, listCollections, listIndexes trades, \
            createIndexes trades, update mongo_patterns, find mongo_patterns, update mongo_patterns";
        assert_eq!(text(db, &router.sent()), steps);
        repositories.trades.append(&1, &spread(0)).await.unwrap();
        router.sent();

        let second = repositories.trades.ensure_sharded().await.unwrap();
        assert!(
            !second.collections[0].sharded && second.indexes.created.is_empty(),
            "{second:?}"
        );
        let reads = "hello, find collections, find mongo_patterns, listCollections, listIndexes trades";
        assert_eq!(text(db, &router.sent()), reads);
        assert_eq!(repositories.trades.verify_shard_keys().await.unwrap(), []);
        assert_eq!(router.sent(), ["hello", "find collections"]);

        for (repeat, mut results) in [
            (false, repositories.ensure_sharded()),
            (true, repositories.ensure_sharded()),
        ] {
            for result in results.drain(1..) {
                let ensured = result.await.unwrap();
                assert!(
                    ensured.collections.iter().all(|one| one.sharded != repeat),
                    "{ensured:?}"
                );
                assert_eq!(
                    ensured.indexes.created.is_empty(),
                    repeat || ensured.collections.len() == 1,
                    "{ensured:?}"
                );
            }
        }
        let metadata = router.metadata();
        let key = |entry: &Document| entry.get_document("key").unwrap().keys().next().unwrap().clone();
        let keys: Vec<String> = metadata.collections.iter().map(key).collect();
        let expected = "customerId, _id, book_id, _id, product_id, _id, policyId, policyId, _id, _id";
        assert_eq!(keys.join(", "), expected);
    })
    .await;
}

/// The documented set-up of a service that had no cluster at first.
#[tokio::test]
async fn a_collection_with_the_indexes_of_the_pattern_is_sharded() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        for hashed in [false, true] {
            let repositories = Repositories::new(&router.database());
            let name = |name: &str| router.database().collection::<Document>(name);
            let trades = BucketRepository::<u32, Trade>::builder(name(&format!("trades_{hashed}")))
                .key_field("customerId")
                .items_field("history")
                .item_id_field("n")
                .build()
                .unwrap();
            trades.ensure_indexes().await.unwrap();
            trades.append(&1, &spread(0)).await.unwrap();
            let ensure = trades.ensure_sharded();
            let ensured = if hashed { ensure.hashed().await } else { ensure.await }.unwrap();
            assert!(ensured.collections[0].sharded, "{ensured:?}");
            assert_eq!(
                ensured.indexes.created.len(),
                1,
                "only the supporting index: {ensured:?}"
            );
            assert_eq!(trades.counts(&1).await.unwrap().items, 1);
            repositories.books.ensure_indexes().await.unwrap();
            let ensured = repositories.books.ensure_sharded().await.unwrap();
            assert_eq!(ensured.indexes.created, Vec::<String>::new());
        }
    })
    .await;
}

/// All documents and indexes of the database.
pub(crate) async fn contents(db: &TestDatabase) -> Vec<(String, Vec<Document>, Vec<String>)> {
    let plain = db.plain_client().database(db.database().name());
    let mut names = plain.list_collection_names().await.unwrap();
    names.sort();
    let mut contents = Vec::new();
    for name in names {
        let collection = plain.collection::<Document>(&name);
        let indexes = collection.list_index_names().await.unwrap();
        contents.push((name, all(&collection).await, indexes));
    }
    contents
}

#[tokio::test]
async fn an_unsuitable_key_is_refused_and_nothing_is_written() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        let namespace = |name: &str| format!("{}.{name}", db.database().name());
        for (name, key) in [
            ("trades", doc! { "customerId": 1, "_id": 1 }),
            ("extra_sales", doc! { "seq": 1 }),
            ("patron", doc! { "zip": "hashed" }),
        ] {
            let entry = doc! { "_id": namespace(name), "key": key, "unique": false };
            router.metadata().collections.push(entry);
        }
        let mut refused = repositories.ensure_sharded();
        drop(refused.remove(2));
        for (refused, key) in refused.into_iter().zip(["customerId\": 1, \"_id", "seq", "zip"]) {
            let error = refused.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnsuitableShardKey);
            assert!(error.is_setup_error() && error.to_string().contains(key), "{error}");
        }
        assert_eq!(contents(db).await, []);
        let [found] = &repositories.trades.verify_shard_keys().await.unwrap()[..] else {
            panic!("no finding");
        };
        assert_eq!(
            (found.namespace.coll.as_str(), &found.key),
            ("trades", &doc! { "customerId": 1, "_id": 1 })
        );
        assert_eq!(
            found.suitable,
            [doc! { "customerId": 1 }, doc! { "customerId": "hashed" }]
        );
        let found = repositories.books.verify_shard_keys().await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
    })
    .await;
}

#[tokio::test]
async fn what_the_server_would_refuse_is_refused_before_anything_is_written() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        let unique = IndexOptions::builder().unique(true).build();
        let by_email = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
        for name in ["patron", "policyRevisions"] {
            let collection = db.plain_collection::<Document>(name);
            collection.create_index(by_email.clone()).await.unwrap();
        }
        let review = db.plain_collection::<Document>("review");
        review.insert_one(doc! { "_id": 1, "product": 5 }).await.unwrap();
        let other = IndexModel::builder().keys(doc! { "a": 1 });
        let named = IndexOptions::builder()
            .name("customerId_1_count_lt_10".to_owned())
            .build();
        let trades = db.plain_collection::<Document>("trades");
        trades.create_index(other.options(named).build()).await.unwrap();
        let before = contents(db).await;

        let mut results = Vec::new();
        for result in repositories.ensure_sharded() {
            results.push(result.await.map(drop).map_err(|error| error.kind()));
        }
        let kinds = [
            Err(ErrorKind::IndexMismatch),
            Ok(()),
            Err(ErrorKind::SettingsMismatch),
            Err(ErrorKind::UnsuitableShardKey),
            Err(ErrorKind::UnsuitableShardKey),
            Ok(()),
        ];
        assert_eq!(results, kinds);
        let after: Vec<_> = contents(db)
            .await
            .into_iter()
            .filter(|(name, ..)| before.iter().any(|(known, ..)| known == name))
            .collect();
        assert_eq!(after, before);
        let sharded = router.metadata().collections.len();
        assert_eq!(sharded, 4, "those of the books and the orders");
    })
    .await;
}

#[tokio::test]
async fn another_client_may_shard_the_collection_at_the_same_time() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        router.metadata().race = Some(doc! { "customerId": 1 });
        let same = repositories.trades.ensure_sharded().await.unwrap();
        assert!(
            same.collections[0].sharded,
            "the server does not tell who did it: {same:?}"
        );
        router.metadata().race = Some(doc! { "_id": "hashed" });
        let suitable = repositories.patrons.ensure_sharded().await.unwrap();
        assert_eq!(suitable.collections[0].key, doc! { "_id": "hashed" });
        assert!(!suitable.collections[0].sharded);
        router.metadata().race = Some(doc! { "_id": 1, "name": 1 });
        let other = repositories.products.ensure_sharded().await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::UnsuitableShardKey);
        assert!(other.to_string().contains("name"), "{other}");

        let [one, two] = [(), ()].map(|()| Repositories::new(&router.database()));
        let (one, two) = tokio::join!(one.books.ensure_sharded(), two.books.ensure_sharded());
        assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
    })
    .await;
}

/// As a router replies while another instance of the service, which has started at the same time, does the same.
#[tokio::test]
async fn a_command_that_conflicts_with_another_client_is_repeated() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        router.metadata().conflicts = [
            ("createIndexes", 117),
            ("createIndexes", 12587),
            ("shardCollection", 117),
            ("shardCollection", 23),
            ("createIndexes", 117),
        ]
        .to_vec();
        let ensured = repositories.trades.ensure_sharded().await.unwrap();
        assert!(
            ensured.collections[0].sharded && ensured.indexes.created.len() == 3,
            "{ensured:?}"
        );
        assert!(router.metadata().conflicts.is_empty());
        let repeated: Vec<String> = router.sent().into_iter().skip(6).collect();
        let expected = "createIndexes trades, listIndexes trades, createIndexes trades, listIndexes trades, \
            createIndexes trades, shardCollection trades, find collections, shardCollection trades, \
            find collections, shardCollection trades, listCollections, listIndexes trades, createIndexes trades, \
            listIndexes trades, createIndexes trades, update mongo_patterns, find mongo_patterns, update mongo_patterns";
        assert_eq!(text(db, &repeated), expected);
        assert_eq!(repositories.trades.verify_shard_keys().await.unwrap(), []);

        // The other instance is done after the refusal.
        for (code, hashed) in [(117, false), (23, true), (20, true)] {
            router.metadata().collections.clear();
            let key = if hashed {
                doc! { "_id": "hashed" }
            } else {
                doc! { "_id": 1 }
            };
            router.metadata().race = Some(key.clone());
            router.metadata().conflicts.push(("shardCollection", code));
            router.sent();
            let ensured = repositories.patrons.ensure_sharded().await.unwrap();
            assert_eq!(
                (&ensured.collections[0].key, ensured.collections[0].sharded),
                (&key, false)
            );
            let sent = router.sent();
            assert_eq!(
                sent.iter().filter(|sent| sent.starts_with("shardCollection")).count(),
                1
            );
        }

        // The same code for another reason is not repeated, and leaves nothing.
        router.metadata().collections.clear();
        router.metadata().conflicts.push(("shardCollection", 20));
        let refused = repositories.patrons.ensure_sharded().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Driver, "{refused}");
        assert!(router.metadata().collections.is_empty());

        // Without a router too: the indexes of a collection that another client shards.
        repositories.books.collection().drop().await.unwrap();
        router.metadata().conflicts.push(("createIndexes", 117));
        let ensured = repositories.books.ensure_indexes().await.unwrap();
        assert_eq!(ensured.created.len(), 2, "{ensured:?}");
    })
    .await;
}

/// Three instances of a service that start at once.
#[tokio::test]
async fn concurrent_calls_set_up_one_collection() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let instances = [(); 3].map(|()| Repositories::new(&router.database()));
        router.metadata().conflicts = [
            ("shardCollection", 117),
            ("shardCollection", 117),
            ("createIndexes", 117),
        ]
        .to_vec();
        let calls = instances
            .iter()
            .map(|instance| instance.trades.ensure_sharded().into_future());
        for ensured in futures::future::join_all(calls).await {
            let ensured = ensured.unwrap();
            assert_eq!(ensured.collections[0].key, doc! { "customerId": 1 });
        }
        assert_eq!(router.metadata().collections.len(), 1);
        let names = db
            .plain_collection::<Document>("trades")
            .list_index_names()
            .await
            .unwrap();
        assert_eq!(names.len(), 4, "{names:?}");
        for instance in &instances {
            instance.trades.indexes()[0].check().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_missing_privilege_is_named() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        for command in ["find", "shardCollection"] {
            router.metadata().failure = Some((command, 13));
            let error = repositories.trades.ensure_sharded().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthorized, "{command}");
            assert!(
                error.to_string().contains("`clusterManager` on `admin`"),
                "{command}: {error}"
            );
            if command == "find" {
                assert_eq!(contents(db).await, []);
                assert_eq!(
                    repositories.trades.verify_shard_keys().await.unwrap_err().kind(),
                    ErrorKind::Unauthorized
                );
            }
        }
    })
    .await;
}

/// A plan on a router does not list what exists.
#[tokio::test]
async fn a_plan_on_a_cluster_is_what_the_call_sends() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        let names = |plan: &[PlannedCommand]| -> Vec<String> {
            plan.iter()
                .map(|planned| planned.command.keys().next().unwrap().clone())
                .collect()
        };
        for pattern in 0..repositories.ensure_sharded().len() {
            let ensure = || repositories.ensure_sharded().swap_remove(pattern);
            for writes in [true, false] {
                let plan = ensure().plan().await.unwrap();
                assert_eq!(plan.iter().any(|planned| planned.writes), writes);
                router.recorder.clear();
                let ensured = ensure().await.unwrap();
                assert_eq!(router.recorder.names(), names(&plan));
                let EnsuredIndexes { created, existing, .. } = ensured.indexes;
                assert!(created.iter().all(|name| !existing.contains(name)), "{created:?}");
            }
        }
    })
    .await;
}
