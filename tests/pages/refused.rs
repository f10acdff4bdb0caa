//! Collections, servers and arguments that are refused.

use mongo_patterns::pages::Pages;
use mongo_patterns::{ErrorKind, Remedy};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{Collation, IndexOptions, ServerApi, ServerApiVersion};
use mongodb::{Client, IndexModel};

use super::support::*;

#[tokio::test]
async fn a_missing_index_is_named() {
    testkit::run(async |db| {
        plant(db, (0..3).map(order)).await;
        let pages = pages(db, doc! { "tenant": 1 }, doc! { "rank": 1 });
        for _ in 0..2 {
            let error = pages.list().page().await.unwrap_err();
            let expected = (ErrorKind::IndexMissing, Some(Remedy::EnsureIndexes));
            assert_eq!((error.kind(), error.remedy()), expected);
            assert!(error.to_string().contains("`tenant_1_rank_1__id_1`"), "{error}");
            assert!(error.to_string().contains("ensure_index()"), "{error}");
            assert_eq!(pages.index().check().await.unwrap_err().kind(), ErrorKind::IndexMissing);
            pages.ensure_index().await.unwrap();
            pages.list().page().await.unwrap();
            stored(db).drop_index("tenant_1_rank_1__id_1").await.unwrap();
        }
        // A collection that does not exist has no documents.
        stored(db).drop().await.unwrap();
        assert!(pages.list().page().await.unwrap().items.is_empty());
    })
    .await;
}

/// An index with the name of the planned one that has only some of the documents, or another order. It is found once in a
/// process, and not for each page.
#[tokio::test]
async fn a_page_over_an_index_that_cannot_serve_it_is_refused() {
    testkit::run(async |db| {
        plant(db, (0..30).map(order)).await;
        let planned = || IndexOptions::builder().name("rank_1__id_1".to_owned()).build();
        let (mut partial, mut sparse, mut collated) = (planned(), planned(), planned());
        partial.partial_filter_expression = Some(doc! { "n": { "$lt": 7 } });
        sparse.sparse = Some(true);
        collated.collation = Some(Collation::builder().locale("de").build());
        let keys = doc! { "rank": 1, "_id": 1 };
        for (keys, options) in [
            (keys.clone(), partial),
            (keys.clone(), sparse),
            (keys.clone(), collated),
            (doc! { "rank": 1 }, planned()),
        ] {
            let index = IndexModel::builder().keys(keys).options(options).build();
            stored(db).create_index(index).await.unwrap();
            let pages = pages(db, doc! {}, doc! { "rank": 1 });
            for _ in 0..2 {
                db.recorder().clear();
                let refused = pages.list().page().await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::IndexMismatch, "{refused}");
            }
            stored(db).drop_index("rank_1__id_1").await.unwrap();
            db.recorder().clear();
        }
        let planned = IndexModel::builder().keys(keys).options(planned()).build();
        stored(db).create_index(planned).await.unwrap();
        // A service builds pages for each request.
        let of_request = || pages(db, doc! {}, doc! { "rank": 1 });
        let first = of_request().list().limit(5).page().await.unwrap();
        assert_eq!(db.recorder().names(), ["listIndexes", "find"]);
        of_request().list().limit(5).page().await.unwrap();
        of_request().list().limit(5).after(first.next).page().await.unwrap();
        assert_eq!(db.recorder().names(), ["listIndexes", "find", "find", "find"]);
    })
    .await;
}

#[tokio::test]
async fn another_index_is_not_replaced() {
    testkit::run(async |db| {
        for (keys, name) in [
            (doc! { "rank": 1, "_id": 1 }, "by_rank"),
            (doc! { "rank": -1 }, "rank_1__id_1"),
        ] {
            let options = IndexOptions::builder().name(name.to_owned()).build();
            let other = IndexModel::builder().keys(keys).options(options).build();
            stored(db).create_index(other).await.unwrap();
            let error = pages(db, doc! {}, doc! { "rank": 1 }).ensure_index().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IndexMismatch, "{error}");
            stored(db).drop().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn other_collections_are_refused() {
    testkit::run(async |db| {
        let database = db.plain_client().database(db.database().name());
        let german = Collation::builder().locale("de").build();
        database.create_collection("collated").collation(german).await.unwrap();
        let capped = database.create_collection("capped").capped(true).size(4096);
        capped.await.unwrap();
        database.create_collection("view").view_on("orders").await.unwrap();
        for (name, kind) in [
            ("collated", ErrorKind::UnsupportedCollation),
            ("capped", ErrorKind::Configuration),
            ("view", ErrorKind::Configuration),
        ] {
            let pages = Pages::<Document>::over(db.collection::<Document>(name)).sort(doc! { "rank": 1 });
            let error = pages.build().unwrap().ensure_index().await.unwrap_err();
            assert_eq!(error.kind(), kind, "{name}: {error}");
        }
        // An index of the collation, which somebody has created.
        let collated = db.collection::<Document>("collated");
        let three = ["a", "A", "b"].map(|id| doc! { "_id": id, "rank": 1 });
        collated.insert_many(three).await.unwrap();
        let index = IndexModel::builder().keys(doc! { "rank": 1, "_id": 1 }).build();
        collated.create_index(index).await.unwrap();
        let pages = Pages::<Document>::over(collated).sort(doc! { "rank": 1 });
        let pages = pages.build().unwrap();
        let error = pages.list().limit(1).page().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMismatch, "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn the_strict_stable_api_has_no_pages() {
    testkit::run(async |db| {
        plant(db, (0..3).map(order)).await;
        let ready = ready(db, doc! {}, doc! { "rank": 1 }).await;
        let mut options = db.server().client_options().await.unwrap();
        options.server_api = Some(ServerApi::builder().version(ServerApiVersion::V1).strict(true).build());
        let strict = Client::with_options(options).unwrap();
        let orders = strict.database(db.database().name()).collection::<Document>("orders");
        let pages = Pages::<Document>::over(orders).sort(doc! { "rank": 1 });
        let pages = pages.build().unwrap();
        let token = ready.list().limit(1).page().await.unwrap().next;
        let page = pages.list().after(token).page();
        for error in [pages.ensure_index().await.unwrap_err(), page.await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
            assert!(error.to_string().contains("strict"), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_arguments_send_nothing() {
    testkit::run(async |db| {
        let pages = ready(db, doc! {}, doc! { "rank": 1 }).await;
        let zero = pages.list().limit(0).page().await.unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidArgument);
        let sorts = [
            doc! { "$where": 1 },
            doc! { "a.0": 1 },
            doc! { "rank": "-1" },
            doc! { "": -1 },
        ];
        for sort in sorts {
            let refused = Pages::<Document>::over(stored(db)).sort(sort).build().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Configuration, "{refused}");
            assert!(refused.is_invalid_input());
        }
        assert!(db.recorder().names().is_empty());
        let refused = super::support::pages(db, doc! { "rank": { "$gt": Bson::Undefined } }, doc! {});
        let refused = refused.list().page().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Driver, "{refused}");
    })
    .await;
}
