//! Finds of the documents of a pattern by a filter.

use futures::future::LocalBoxFuture;
use futures::{StreamExt, TryStreamExt};
use mongo_patterns::ErrorKind;
use mongo_patterns::action::Find;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::each;
use support::{outlier, subset};

/// Half of the documents have an odd number, and two batches have all.
const DOCUMENTS: i32 = 150;

#[derive(Debug, Deserialize)]
struct Numbered {
    _id: i32,
    n: i32,
}

type Check = for<'a> fn(&'a TestDatabase) -> LocalBoxFuture<'a, ()>;

const ALL: [(&str, Check); 5] = [
    ("outlier", |db| {
        Box::pin(async {
            let books = outlier::builder::<Numbered, String>(db).build().unwrap();
            check(db, "sales", |filter| books.find(filter), |found| &found.document).await;
        })
    }),
    ("subset", |db| {
        Box::pin(async {
            let products = subset::builder::<Numbered, ()>(db.database());
            let products = products.build().unwrap();
            check(db, "product", |filter| products.find(filter), |found| found).await;
        })
    }),
    ("embedded", |db| {
        Box::pin(async {
            let patrons = mongo_patterns::embedded::EmbeddedRepository::<Numbered, ()>::builder(
                db.collection::<Document>("patron"),
            );
            let patrons = patrons.children_field("addresses").build().unwrap();
            check(db, "patron", |filter| patrons.find(filter), |found| found).await;
        })
    }),
    ("history", |db| {
        Box::pin(async {
            let [current, revisions] =
                ["currentPolicies", "policyRevisions"].map(|name| db.collection::<Document>(name));
            let policies = mongo_patterns::history::HistoryRepository::<Numbered>::builder(current, revisions)
                .id_field("policyId")
                .build()
                .unwrap();
            check(
                db,
                "currentPolicies",
                |filter| policies.find(filter),
                |found| &found.document,
            )
            .await;
        })
    }),
    ("reference", |db| {
        Box::pin(async {
            let orders = mongo_patterns::reference::ReferenceRepository::<Numbered, ()>::builder(
                db.collection::<Document>("orders"),
                db.collection::<Document>("customers"),
            );
            let orders = orders
                .reference_field("customer")
                .copied_fields(["name"])
                .build()
                .unwrap();
            check(db, "orders", |filter| orders.find(filter), |found| found).await;
        })
    }),
];

#[tokio::test]
async fn documents_are_found_by_a_filter_and_decoded() {
    each(ALL, |(name, _)| name, async |db, (_, check)| check(db).await).await;
}

async fn check<'a, T: std::fmt::Debug + Send + 'a>(
    db: &TestDatabase,
    collection: &str,
    find: impl Fn(Document) -> Find<'a, T>,
    document: fn(&T) -> &Numbered,
) {
    let stored = db.plain_collection::<Document>(collection);
    let numbers = |found: &[T]| found.iter().map(|found| document(found).n).collect::<Vec<_>>();
    // `n` differs from the `_id`, so that the order is not that of the `_id`s.
    let numbered = |n: i32| doc! { "_id": -n, "policyId": n, "n": n, "odd": n % 2 == 1, "text": "$n" };
    stored.insert_many((0..DOCUMENTS).map(numbered)).await.unwrap();
    let names = || {
        let names = db.recorder().names();
        db.recorder().clear();
        names
    };
    names();

    let odd = || find(doc! { "odd": true });
    let last = odd().sort(doc! { "n": -1 }).limit(3).await.unwrap();
    assert_eq!(
        (numbers(&last), names()),
        (vec![149, 147, 145], vec!["find".to_owned()])
    );
    assert_eq!(document(&last[0])._id, -149);
    assert_eq!(odd().await.unwrap().len(), 75);
    assert_eq!(find(doc! { "text": "$n" }).await.unwrap().len(), 150);
    assert_eq!(find(doc! { "n": -1 }).await.unwrap().len(), 0);

    // A stream sends nothing before it is polled, and reads one batch after the other.
    names();
    let mut stream = find(doc! {}).sort(doc! { "n": 1 }).stream();
    assert!(names().is_empty());
    let first: Vec<T> = stream.by_ref().take(101).try_collect().await.unwrap();
    assert_eq!((first.len(), names()), (101, vec!["find".to_owned()]));
    let rest: Vec<T> = stream.try_collect().await.unwrap();
    assert_eq!(
        (numbers(&rest), names()),
        ((101..150).collect(), vec!["getMore".to_owned()])
    );

    // In a transaction of the caller, it sees its writes.
    let mut session = db.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let of_caller = db.collection::<Document>(collection);
    of_caller.insert_one(numbered(200)).session(&mut session).await.unwrap();
    let new = doc! { "n": { "$gt": 150 } };
    assert_eq!(numbers(&find(new.clone()).session(&mut session).await.unwrap()), [200]);
    assert!(find(new).await.unwrap().is_empty());
    session.abort_transaction().await.unwrap();

    // What cannot work is refused, and reads nothing.
    names();
    let mut refused = vec![
        find(doc! {}).limit(0).await.unwrap_err(),
        find(doc! {}).limit(0).stream().try_next().await.unwrap_err(),
    ];
    let in_session = find(doc! {}).session(&mut session).stream().try_next().await;
    refused.push(in_session.unwrap_err());
    for error in refused {
        assert_eq!(
            (error.kind(), error.operation()),
            (ErrorKind::InvalidArgument, Some("find"))
        );
    }
    assert!(names().is_empty());

    // A document of another type ends the stream.
    stored
        .insert_one(doc! { "_id": "x", "policyId": "x", "n": 10.5 })
        .await
        .unwrap();
    let mut stream = find(doc! { "n": { "$gte": 10, "$lt": 12 } })
        .sort(doc! { "n": 1 })
        .stream();
    assert_eq!(document(&stream.next().await.unwrap().unwrap()).n, 10);
    let undecodable = stream.next().await.unwrap().unwrap_err();
    assert_eq!(
        (undecodable.kind(), undecodable.document_id()),
        (ErrorKind::Decode, Some(&"x".into()))
    );
    assert_eq!(undecodable.operation(), Some("find"));
    assert!(stream.next().await.is_none());
    assert_eq!(find(doc! {}).await.unwrap_err().kind(), ErrorKind::Decode);

    let refused = find(doc! { "$noSuch": "s3cret" }).await.unwrap_err();
    assert_eq!((refused.kind(), refused.operation()), (ErrorKind::Driver, Some("find")));
    let of_stream = find(doc! { "$noSuch": "s3cret" })
        .stream()
        .next()
        .await
        .unwrap()
        .unwrap_err();
    for error in [refused, of_stream] {
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
    // The server has no limit of 0 ms.
    names();
    let _ = find(doc! {}).max_time(std::time::Duration::ZERO).stream().next().await;
    let sent = db.recorder().commands();
    assert_eq!(sent[0].command.get("maxTimeMS"), Some(&1.into()));
}
