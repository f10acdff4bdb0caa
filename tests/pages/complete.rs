//! Pages have each document once, in the order of the server's sort.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use super::support::*;

/// Compares the pages of a query with the server's sort.
async fn check(db: &testkit::TestDatabase, filter: Document, sort: Document, limits: &[u32]) {
    let expected = sorted(db, filter.clone(), sort.clone()).await;
    let pages = ready(db, filter.clone(), sort.clone()).await;
    for limit in limits {
        let (forward, last) = forward(&pages, *limit).await;
        for found in [forward, backward(&pages, *limit, last).await] {
            let count = found.len();
            assert!(
                found == expected,
                "{filter} {sort} {limit}: {count} of {}",
                expected.len()
            );
        }
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn equal_ranks_and_mixed_directions() {
    testkit::run(async |db| {
        plant(db, (0..900).map(order)).await;
        for sort in [
            doc! {},
            doc! { "_id": -1 },
            doc! { "rank": 1 },
            doc! { "rank": -1 },
            doc! { "rank": 1, "score": -1 },
            doc! { "rank": -1, "score": 1 },
            doc! { "rank": 1, "_id": -1 },
            doc! { "inner.rank": -1, "rank": 1 },
            doc! { "tenant": -1, "n": -1 },
        ] {
            for filter in [doc! {}, doc! { "tenant": { "$eq": 1 } }] {
                check(db, filter, sort.clone(), &[7, 1000]).await;
            }
        }
        for filter in [
            // The first field is missing in some.
            doc! { "group": Bson::Null },
            doc! { "group": { "$exists": false }, "tenant": 1 },
            doc! { "rank": { "a": 3, "$b": 1 } },
            doc! { "inner.rank": 2, "n": { "$gt": 100 } },
            doc! { "tenant": 1, "$or": [{ "rank": { "$gt": 2 } }, { "score": "s3" }] },
            doc! { "_id": { "$gt": 100 }, "tenant": 0 },
            // Also where `inner` is no document.
            doc! { "inner.rank": Bson::Null, "$nor": [{ "inner.rank": { "$type": "undefined" } }] },
            doc! { "tenant": 5 },
        ] {
            check(db, filter, doc! { "rank": -1, "score": 1 }, &[1, 7]).await;
        }
    })
    .await;
}

/// As in MongoDB 8.0. Earlier versions find undefined too.
#[tokio::test]
async fn null_is_missing_and_not_undefined() {
    testkit::run(async |db| {
        let groups = [Bson::Null, Bson::Undefined, 0.into(), doc! {}.into()];
        let groups = groups.map(Some).into_iter().chain([None]).cycle();
        let orders = (0..50).zip(groups).map(|(n, group)| {
            let mut order = doc! { "_id": n, "rank": n % 4 };
            order.extend(group.map(|group| ("group".to_owned(), group)));
            order
        });
        plant(db, orders).await;
        let pages = ready(db, doc! { "group": Bson::Null }, doc! { "rank": 1 }).await;
        let (found, last) = forward(&pages, 3).await;
        let null = doc! { "$or": [{ "group": { "$type": "null" } }, { "group": { "$exists": false } }] };
        assert_eq!(found, sorted(db, null, doc! { "rank": 1 }).await);
        assert_eq!((found.len(), backward(&pages, 3, last).await), (20, found));
    })
    .await;
}

/// A position is valid without its document, also at the end.
#[tokio::test]
async fn a_page_after_a_deleted_document_continues() {
    testkit::run(async |db| {
        plant(db, (0..6).map(|n| doc! { "_id": n, "rank": 1 })).await;
        let pages = ready(db, doc! {}, doc! { "rank": 1 }).await;
        let first = pages.list().limit(3).page().await.unwrap();
        let all = |range: std::ops::Range<i32>| range.map(Bson::from).collect::<Vec<_>>();
        assert_eq!(ids(&first.items), all(0..3));
        stored(db).delete_one(doc! { "_id": 2 }).await.unwrap();
        let second = pages.list().limit(3).after(first.next.clone()).page().await.unwrap();
        assert_eq!((ids(&second.items), second.next.is_none()), (all(3..6), true));
        stored(db).delete_many(doc! { "_id": { "$gte": 3 } }).await.unwrap();
        let empty = pages.list().limit(3).after(first.next).page().await.unwrap();
        assert!(empty.items.is_empty() && empty.next.is_none());
        let back = pages
            .list()
            .limit(3)
            .before(empty.previous.clone())
            .page()
            .await
            .unwrap();
        assert_eq!((ids(&back.items), back.previous.is_none()), (all(0..2), true));
        // Nothing is after all documents, and nothing is sent.
        db.recorder().clear();
        let beyond = pages.list().after(empty.previous).page().await.unwrap();
        assert!(beyond.items.is_empty() && db.recorder().names().is_empty());
        let end = pages.list().limit(3).after(back.next).page().await.unwrap();
        assert!(end.items.is_empty());
        stored(db).delete_many(doc! {}).await.unwrap();
        let empty = pages.list().before(end.previous).page().await.unwrap();
        assert!(empty.items.is_empty() && empty.previous.is_none());
        plant(db, [doc! { "_id": 7, "rank": 0 }]).await;
        let found = pages.list().after(empty.next).page().await.unwrap();
        assert_eq!(ids(&found.items), all(7..8));
    })
    .await;
}

/// `_id`s and ranks that are the first and last of all values, under values of an equality of all types.
#[tokio::test]
async fn documents_at_the_edges_of_the_index_are_on_a_page() {
    testkit::run(async |db| {
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        let groups = [
            Some(7.into()),
            Some(0.1.into()),
            Some(decimal("0.1")),
            Some(decimal("9E+6000")),
            Some(f64::INFINITY.into()),
            Some(f64::NAN.into()),
            Some("a".into()),
            Some(Bson::Symbol("b".to_owned())),
            Some(doc! { "a": 1 }.into()),
            Some(true.into()),
            Some(false.into()),
            Some(Bson::JavaScriptCode("a".to_owned())),
            Some(Bson::MinKey),
            Some(Bson::MaxKey),
            None,
        ];
        let ids = [Bson::MinKey, Bson::Null, 1.into(), 0.5.into(), Bson::MaxKey];
        for group in groups {
            let ranks = [Bson::MinKey, Bson::MaxKey, 3.into(), Bson::MinKey, Bson::MaxKey]
                .into_iter()
                .rev();
            let orders = ids.iter().zip(ranks).map(|(id, rank)| {
                let mut order = doc! { "_id": id, "rank": rank };
                order.extend(group.clone().map(|group| ("group".to_owned(), group)));
                order
            });
            stored(db).delete_many(doc! {}).await.unwrap();
            plant(db, orders).await;
            let filter = doc! { "group": group.clone().unwrap_or(Bson::Null) };
            for sort in [doc! {}, doc! { "_id": -1 }, doc! { "rank": 1 }, doc! { "rank": -1 }] {
                let filters = match group {
                    // There is no value above it.
                    Some(Bson::MaxKey) => vec![doc! {}],
                    _ => vec![doc! {}, filter.clone()],
                };
                for filter in filters {
                    check(db, filter, sort.clone(), &[1, 2, 10]).await;
                }
            }
        }
    })
    .await;
}
