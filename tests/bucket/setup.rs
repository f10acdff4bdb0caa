//! Builder, indexes, collation and validator.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::subset::{Direction, Subset, SubsetRepository};
use mongo_patterns_testkit as testkit;
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{Collation, IndexOptions};

use crate::common::support::*;

fn index(keys: Document, options: IndexOptions) -> IndexModel {
    IndexModel::builder().keys(keys).options(options).build()
}

async fn index_names(db: &testkit::TestDatabase) -> Vec<String> {
    plain(db).list_index_names().await.unwrap()
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    testkit::run(async |db| {
        let builders = [
            builder(db).page_size(0),
            builder(db).page_size(u32::MAX),
            builder(db).items_field("_id"),
            builder(db).item_id_field("0"),
            builder(db).item_id_field("12"),
            builder(db).items_field("customerId"),
            builder(db).count_field("history"),
            Trades::builder(db.collection::<Document>("trades")),
            Trades::builder(db.collection::<Document>("trades")).key_field("customerId"),
        ];
        for builder in builders {
            let shown = format!("{builder:?}");
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{shown}");
            assert!(error.is_invalid_input());
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn names_and_page_size_are_configurable() {
    testkit::run(async |db| {
        let trades = Trades::builder(db.collection::<Document>("trades"))
            .key_field("größe")
            .items_field("a b")
            .count_field("n$")
            .time_field("date")
            .page_size(3)
            .build()
            .unwrap();
        trades.ensure_indexes().await.unwrap();
        for n in 0..7 {
            trades.append(&123, &spread(n)).await.unwrap();
        }
        let stored = all(&plain(db)).await;
        let fields: Vec<&str> = stored[0].keys().map(String::as_str).collect();
        assert_eq!(fields, ["_id", "größe", "a b", "n$"].map(|name| name), "{stored:?}");
        assert_eq!(trades.counts(&123).await.unwrap().pages, 3);
        assert_eq!(trades.newest(&123, 2).await.unwrap(), [spread(6), spread(5)]);
    })
    .await;
}

#[tokio::test]
async fn without_the_index_an_append_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        let error = trades.append(&123, &spread(0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "no collection: {error:?}");
        assert!(
            error.is_setup_error() && error.to_string().contains("ensure_indexes()"),
            "{error}"
        );
        assert!(all(&plain(db)).await.is_empty());

        plain(db).insert_one(full_bucket(SECOND)).await.unwrap();
        let error = trades.append(&123, &spread(0)).await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::IndexMissing,
            "a collection without the index: {error:?}"
        );
        assert_eq!(all(&plain(db)).await.len(), 1);

        // With the index of another page size, a key could have several open buckets.
        ready(db, builder(db).page_size(20)).await;
        let error = trades.append(&123, &spread(0)).await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::IndexMissing,
            "an index of another page size: {error:?}"
        );
        assert_eq!(all(&plain(db)).await.len(), 1);

        // The other index counts the full bucket of ten as open.
        trades.ensure_indexes().replace_settings().await.unwrap();
        let error = trades.append(&123, &spread(0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMismatch, "{error:?}");
        assert!(error.to_string().contains("customerId_1_count_lt_20"), "{error}");

        plain(db).drop_index("customerId_1_count_lt_20").await.unwrap();
        trades.append(&123, &spread(0)).await.unwrap();
        plain(db).drop_index("customerId_1_count_lt_10").await.unwrap();
        let error = trades.append(&123, &spread(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "a dropped index: {error:?}");
        assert_eq!(trades.counts(&123).await.unwrap().items, 11);
    })
    .await;
}

#[tokio::test]
async fn indexes_are_created_once_and_never_dropped() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        let own = index(doc! { "history.n": 1 }, IndexOptions::default());
        plain(db).create_index(own).await.unwrap();
        let first = trades.ensure_indexes().await.unwrap();
        assert_eq!(
            (first.created, first.existing),
            (vec!["customerId_1_count_lt_10".to_owned()], vec![])
        );
        assert_eq!(db.recorder().round_trips(), 6);
        db.recorder().clear();
        let second = trades.ensure_indexes().await.unwrap();
        assert_eq!(
            (second.created, second.existing),
            (vec![], vec!["customerId_1_count_lt_10".to_owned()])
        );
        assert_eq!(db.recorder().round_trips(), 3);
        assert_eq!(
            index_names(db).await,
            ["_id_", "history.n_1", "customerId_1_count_lt_10"]
        );
        assert_eq!(trades.indexes()[0].indexes()[0].name, "customerId_1_count_lt_10");
    })
    .await;
}

#[tokio::test]
async fn many_tasks_can_create_the_indexes_concurrently() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        let all = (0..16).map(|_| trades.ensure_indexes().into_future());
        for ensured in futures::future::join_all(all).await {
            ensured.unwrap();
        }
        assert_eq!(index_names(db).await, ["_id_", "customerId_1_count_lt_10"]);
    })
    .await;
}

#[tokio::test]
async fn a_conflicting_index_is_named_with_its_definition() {
    testkit::run(async |db| {
        let name = "customerId_1_count_lt_10";
        let filter = doc! { "count": { "$lt": 10 } };
        let others = [
            index(
                doc! { "customerId": 1 },
                IndexOptions::builder().name(name.to_owned()).unique(true).build(),
            ),
            index(
                doc! { "other": 1 },
                IndexOptions::builder().name(name.to_owned()).build(),
            ),
            index(
                doc! { "customerId": 1 },
                IndexOptions::builder()
                    .name(name.to_owned())
                    .partial_filter_expression(filter.clone())
                    .build(),
            ),
            index(
                doc! { "customerId": 1 },
                IndexOptions::builder()
                    .name(name.to_owned())
                    .unique(true)
                    .partial_filter_expression(doc! { "count": { "$lt": 9 } })
                    .build(),
            ),
            // the same index under another name
            index(
                doc! { "customerId": 1 },
                IndexOptions::builder()
                    .name("mine".to_owned())
                    .unique(true)
                    .partial_filter_expression(filter)
                    .build(),
            ),
        ];
        let trades = builder(db).build().unwrap();
        for other in others {
            let shown = format!("{other:?}");
            plain(db).drop().await.unwrap();
            plain(db).create_index(other).await.unwrap();
            let before = index_names(db).await;
            let error = trades.ensure_indexes().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IndexMismatch, "{shown}: {error:?}");
            let text = error.to_string();
            assert!(
                text.contains("found {") && text.contains("planned {") && text.contains(name),
                "{text}"
            );
            assert_eq!(index_names(db).await, before);
        }
    })
    .await;
}

#[tokio::test]
async fn two_open_buckets_are_reported_and_the_index_is_not_created() {
    testkit::run(async |db| {
        for second in 0..2 {
            let mut bucket = full_bucket(second);
            bucket.insert("count", 9);
            plain(db).insert_one(bucket).await.unwrap();
        }
        let error = builder(db).build().unwrap().ensure_indexes().await.unwrap_err();
        assert!(error.is_corrupt(), "{error:?}");
        assert_eq!(index_names(db).await, ["_id_"]);
    })
    .await;
}

#[tokio::test]
async fn a_collation_under_which_bounds_are_lost_is_refused() {
    testkit::run(async |db| {
        let plain_database = db.plain_client().database(db.database().name());
        let insensitive = Collation::builder().locale("en").build();
        plain_database
            .create_collection("trades")
            .collation(insensitive)
            .await
            .unwrap();
        let trades = builder(db).build().unwrap();
        let error = trades.ensure_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedCollation, "{error:?}");
        assert!(error.is_setup_error());
        let error = trades.append(&123, &spread(0)).await.unwrap_err();
        assert!(error.is_setup_error(), "{error:?}");
        assert!(all(&plain(db)).await.is_empty());
        assert_eq!(index_names(db).await, ["_id_"]);

        plain(db).drop().await.unwrap();
        let simple = Collation::builder().locale("simple").build();
        plain_database
            .create_collection("trades")
            .collation(simple)
            .await
            .unwrap();
        trades.ensure_indexes().await.unwrap();
        trades.append(&123, &spread(0)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_view_is_refused() {
    testkit::run(async |db| {
        let create = doc! { "create": "trades", "viewOn": "others", "pipeline": [] };
        db.plain_client()
            .database(db.database().name())
            .run_command(create)
            .await
            .unwrap();
        let error = builder(db).build().unwrap().ensure_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
    })
    .await;
}

#[tokio::test]
async fn the_validator_accepts_our_buckets_and_refuses_invalid_ones() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        create_validated(&db.plain_client().database(db.database().name()), &trades).await;
        trades.ensure_indexes().await.unwrap();
        for n in 0..25 {
            trades.append(&123, &same_second(n)).await.unwrap();
        }
        assert_eq!(trades.counts(&123).await.unwrap().items, 25);

        let mut invalid = Vec::new();
        for (field, value) in [
            ("_id", Bson::Int32(7)),
            ("_id", Bson::String("123".into())),
            ("customerId", Bson::String("123".into())),
            ("count", Bson::Int32(9)),
            ("count", Bson::Int32(-1)),
            ("count", Bson::Null),
            ("history", Bson::Int32(7)),
            ("history", Bson::Array(vec![Bson::Null; 11])),
        ] {
            let mut bucket = full_bucket(1);
            bucket.insert(field, value);
            invalid.push(bucket);
        }
        for field in ["customerId", "count", "history"] {
            let mut bucket = full_bucket(1);
            bucket.remove(field);
            invalid.push(bucket);
        }
        for bucket in invalid {
            assert!(plain(db).insert_one(&bucket).await.is_err(), "{bucket}");
        }
        plain(db).insert_one(full_bucket(1)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_unique_index_of_the_user_is_not_mistaken_for_ours() {
    testkit::run(async |db| {
        let trades = unsharded(db).await;
        let unique = IndexOptions::builder().unique(true).sparse(true).build();
        plain(db)
            .create_index(index(doc! { "history.n": 1 }, unique))
            .await
            .unwrap();
        trades.append(&1, &spread(7)).await.unwrap();
        db.recorder().clear();
        let error = trades.append(&2, &spread(7)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error:?}");
        assert_eq!(db.recorder().round_trips(), 1, "the append is not retried");
        assert_eq!(trades.counts(&2).await.unwrap().items, 0);
    })
    .await;
}

#[tokio::test]
async fn repositories_are_clone_and_send() {
    fn sendable<T: Clone + Send + Sync + 'static>(value: &T) -> T {
        value.clone()
    }
    testkit::run(async |db| {
        let trades: BucketRepository<u32, Trade> = trades(db).await;
        let clone = sendable(&trades);
        tokio::spawn(async move { clone.append(&1, &spread(0)).await.unwrap() })
            .await
            .unwrap();
        assert_eq!(trades.counts(&1).await.unwrap().items, 1);
    })
    .await;
}

/// Has neither `Clone` nor `Debug`.
struct Opaque;

/// Builders and repositories implement `Clone` and `Debug` for all types.
#[tokio::test]
async fn builders_and_repositories_have_no_bounds_on_their_types() {
    fn shown<B: Clone + std::fmt::Debug>(of: &B) -> String {
        format!("{:?}", of.clone())
    }
    testkit::run(async |db| {
        let collection = |name| db.collection::<Document>(name);
        let buckets = BucketRepository::<u32, Opaque>::builder(collection("trades"))
            .key_field("customerId")
            .items_field("history");
        let outliers = OutlierRepository::<Opaque, Opaque>::builder(collection("sales"), collection("extra_sales"))
            .array_field("customers")
            .parent_field("book_id");
        let subsets = SubsetRepository::<Opaque, Opaque>::builder(collection("product"), collection("review"))
            .parent_field("product_id")
            .child_id_field("review_id")
            .subset(Subset::new("reviews").order_by("published", Direction::Descending));
        let embedded = EmbeddedRepository::<Opaque, Opaque>::builder(collection("patron")).children_field("addresses");
        assert!(shown(&buckets).contains("trades") && shown(&outliers).contains("sales"));
        assert!(shown(&subsets).contains("product") && shown(&embedded).contains("patron"));
        assert!(shown(&buckets.clone().build().unwrap()).contains("trades"));
        assert!(shown(&outliers.clone().build().unwrap()).contains("sales"));
        assert!(shown(&subsets.clone().build().unwrap()).contains("review"));
        assert!(shown(&embedded.clone().build().unwrap()).contains("patron"));
    })
    .await;
}
