//! Builder, indexes, collation and validator.

use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{BucketRepository, Window};
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns_testkit as testkit;
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{Collation, IndexOptions};

use support::bucket::*;
use support::common::*;

fn index(keys: Document, options: IndexOptions) -> IndexModel {
    IndexModel::builder().keys(keys).options(options).build()
}

async fn index_names(db: &testkit::TestDatabase) -> Vec<String> {
    plain(db).list_index_names().await.unwrap()
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    testkit::run(async |db| {
        let timeless = || untimed::<u32, Trade>(db);
        let windowed = || builder(db).sum("n").window(Window::Hour);
        let builders = [
            Trades::builder(plain(db)),
            Trades::builder(plain(db)).key_field("customerId"),
            builder(db).items_field("_id"),
            builder(db).items_field("customerId"),
            builder(db).count_field("history"),
            builder(db).min("$x"),
            builder(db).count_by("0"),
            builder(db).sum("n").figures_field("history"),
            builder(db).sum("n").figures_field("customerId"),
            timeless().first_and_last(),
            timeless().window(Window::Day),
            windowed().window_field("history"),
            windowed().window_field("customerId"),
            windowed().window_field("figures"),
            builder(db).expire_after(Duration::ZERO),
            builder(db).expire_after(Duration::from_secs(1 << 31)),
            builder(db).expire_after(Duration::new(1, 1)),
            builder(db).expire_after(Duration::new(1, 999_999_999)),
        ];
        for builder in builders {
            let shown = format!("{builder:?}");
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{shown}");
            assert!(error.is_invalid_input());
        }
        let error = builder(db).expire_after(Duration::new(1, 1)).build().unwrap_err();
        assert!(error.to_string().contains("round it up"), "{error}");
        builder(db).expire_after(Duration::new(1, 0)).build().unwrap();
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn without_the_index_an_append_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        let refused = async |expected: ErrorKind, context: &str, stored: usize| {
            let error = trades.append(&123, &spread(0)).await.unwrap_err();
            assert_eq!(error.kind(), expected, "{context}: {error:?}");
            assert_eq!(all(&plain(db)).await.len(), stored, "{context}");
            error
        };
        let error = refused(ErrorKind::IndexMissing, "no collection", 0).await;
        let says_what_to_do = error.to_string().contains("ensure_indexes()");
        assert!(error.is_setup_error() && says_what_to_do, "{error}");

        plain(db).insert_one(full_bucket(SECOND)).await.unwrap();
        refused(ErrorKind::IndexMissing, "a collection without the index", 1).await;
        let mut session = transaction(db).await;
        let error = trades.append(&123, &spread(0)).session(&mut session).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "in a transaction: {error:?}");
        session.abort_transaction().await.unwrap();

        // With the index of another page size, a key could have several open buckets.
        ready(db, builder(db).page_size(20)).await;
        refused(ErrorKind::IndexMissing, "an index of another page size", 1).await;

        // The other index counts the full bucket of ten as open.
        trades.ensure_indexes().replace_settings().await.unwrap();
        let error = refused(ErrorKind::IndexMismatch, "another index", 1).await;
        assert!(error.to_string().contains("customerId_1_count_lt_20"), "{error}");

        plain(db).drop_index("customerId_1_count_lt_20").await.unwrap();
        trades.append(&123, &spread(0)).await.unwrap();
        plain(db).drop_index("customerId_1_count_lt_10").await.unwrap();
        refused(ErrorKind::IndexMissing, "a dropped index", 2).await;
        assert_eq!(trades.counts(&123).await.unwrap().items, 11);
    })
    .await;
}

#[tokio::test]
async fn indexes_are_created_once_by_many_tasks_and_never_dropped() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        let own = index(doc! { "history.n": 1 }, IndexOptions::default());
        plain(db).create_index(own).await.unwrap();
        let ours = vec!["customerId_1_count_lt_10".to_owned()];
        let first = trades.ensure_indexes().await.unwrap();
        assert_eq!((&first.created, first.existing), (&ours, vec![]));
        assert_eq!(db.recorder().round_trips(), 8);
        db.recorder().clear();
        let second = trades.ensure_indexes().await.unwrap();
        assert_eq!((second.created, &second.existing), (vec![], &ours));
        assert_eq!(db.recorder().round_trips(), 3);
        assert_eq!(index_names(db).await, ["_id_", "history.n_1", ours[0].as_str()]);
        assert_eq!(trades.indexes()[0].indexes()[0].name, ours[0]);

        plain(db).drop().await.unwrap();
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        let of_tasks = (0..16).map(|_| trades.ensure_indexes().into_future());
        for ensured in futures::future::join_all(of_tasks).await {
            ensured.unwrap();
        }
        assert_eq!(index_names(db).await, ["_id_", ours[0].as_str()]);
    })
    .await;
}

#[tokio::test]
async fn a_conflicting_index_is_named_with_its_definition_and_nothing_is_created() {
    testkit::run(async |db| {
        let ours = "customerId_1_count_lt_10";
        let open = || Some(doc! { "count": { "$lt": 10 } });
        let fewer = Some(doc! { "count": { "$lt": 9 } });
        // The last is the same index under another name.
        let others = [
            ("customerId", ours, true, None),
            ("other", ours, false, None),
            ("customerId", ours, false, open()),
            ("customerId", ours, true, fewer),
            ("customerId", "mine", true, open()),
        ];
        let trades = builder(db).build().unwrap();
        for (field, name, unique, filter) in others {
            plain(db).drop().await.unwrap();
            let mut options = IndexOptions::builder().name(name.to_owned()).build();
            options.unique = unique.then_some(true);
            options.partial_filter_expression = filter;
            let other = index(doc! { field: 1 }, options);
            let shown = format!("{other:?}");
            plain(db).create_index(other).await.unwrap();
            let before = index_names(db).await;
            let error = trades.ensure_indexes().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IndexMismatch, "{shown}: {error:?}");
            let text = error.to_string();
            for part in ["found {", "planned {", ours] {
                assert!(text.contains(part), "{text}");
            }
            assert_eq!(index_names(db).await, before);
        }
        // Two open buckets of a key would refuse it.
        plain(db).drop().await.unwrap();
        for second in 0..2 {
            let mut bucket = full_bucket(second);
            bucket.insert("count", 9);
            plain(db).insert_one(bucket).await.unwrap();
        }
        assert!(trades.ensure_indexes().await.unwrap_err().is_corrupt());
        assert_eq!(index_names(db).await, ["_id_"]);
    })
    .await;
}

/// By the setup, by an append, and by a migration.
#[tokio::test]
async fn a_collation_under_which_bounds_are_lost_is_refused() {
    testkit::run(async |db| {
        let database = db.plain_client().database(db.database().name());
        let create = async |locale: &str| {
            let collation = Collation::builder().locale(locale).build();
            let create = database.create_collection("trades").collation(collation);
            create.await.unwrap();
        };
        create("en").await;
        let trades = builder(db).build().unwrap();
        let flat = db.plain_collection::<Document>("flat");
        let document = doc! { "_id": 1, "customerId": 1, "date": at(SECOND) };
        flat.insert_one(document).await.unwrap();
        let refused = [
            trades.ensure_indexes().await.map(drop),
            trades.migrate_from_flat(&flat).await.map(drop),
        ];
        for error in refused.map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::UnsupportedCollation, "{error:?}");
            assert!(error.is_setup_error());
        }
        let error = trades.append(&123, &spread(0)).await.unwrap_err();
        assert!(error.is_setup_error(), "{error:?}");
        assert!(all(&plain(db)).await.is_empty());
        assert_eq!(index_names(db).await, ["_id_"]);
        assert_eq!(all(&db.plain_collection("mongo_patterns")).await, []);

        plain(db).drop().await.unwrap();
        create("simple").await;
        trades.ensure_indexes().await.unwrap();
        trades.append(&123, &spread(0)).await.unwrap();
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

/// Has neither `Clone` nor `Debug`.
struct Opaque;

/// Builders and repositories implement `Clone` and `Debug` for all types.
#[tokio::test]
async fn builders_and_repositories_have_no_bounds_on_their_types() {
    macro_rules! shown {
        ($builder:expr, $of_builder:literal, $of_repository:literal) => {{
            let builder = $builder;
            assert!(format!("{:?}", builder.clone()).contains($of_builder));
            assert!(format!("{:?}", builder.build().unwrap().clone()).contains($of_repository));
        }};
    }
    testkit::run(async |db| {
        let of = |name| db.collection::<Document>(name);
        let buckets = BucketRepository::<u32, Opaque>::builder(of("trades"));
        shown!(
            buckets.key_field("customerId").items_field("history"),
            "trades",
            "trades"
        );
        let lists = OutlierRepository::<Opaque, Opaque>::builder(of("sales"), of("extra_sales"));
        shown!(lists.array_field("customers").parent_field("book_id"), "sales", "sales");
        let newest = Subset::new("reviews").sort(doc! { "published": -1 });
        let subsets = SubsetRepository::<Opaque, Opaque>::builder(of("product"), of("review"));
        shown!(
            subsets
                .parent_field("product_id")
                .child_id_field("review_id")
                .subset(newest),
            "product",
            "review"
        );
        let parents = EmbeddedRepository::<Opaque, Opaque>::builder(of("patron"));
        shown!(parents.children_field("addresses"), "patron", "patron");
    })
    .await;
}
