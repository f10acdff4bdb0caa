//! Inserts of many documents without a transaction, in their order: embedded parents, and documents of several versions.

use futures::future::LocalBoxFuture;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};

use support::{embedded, schema};

/// Inserts documents. Returns their `_id`s.
type Insert<'a> = dyn Fn(Vec<Document>) -> LocalBoxFuture<'a, Result<Vec<Bson>, Error>> + 'a;

#[tokio::test]
async fn parents_are_inserted_in_order() {
    testkit::run(async |db| {
        let patrons = &embedded::patrons(db);
        let insert = move |documents: Vec<Document>| -> LocalBoxFuture<'_, _> {
            Box::pin(async move {
                let inserted = patrons.insert_many(&documents).await?;
                Ok(inserted.into_iter().map(|inserted| inserted.id).collect())
            })
        };
        check(db, "patron", &insert).await;
        let stored = embedded::stored(db).find_one(doc! { "_id": 1 }).await.unwrap();
        assert_eq!(stored, Some(doc! { "_id": 1, "n": 1, "addresses": [] }));
        let six = (0..6).map(embedded::address);
        let many = embedded::patron(500, six);
        let refused = patrons.insert_many(&[doc! { "_id": 499 }, many]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::LimitReached);
        assert_eq!(patrons.get(499).await.unwrap(), None);
        // In a transaction of the caller, nothing is stored before the commit.
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let twice = [doc! { "_id": 499 }, doc! { "_id": 499 }];
        let refused = patrons.insert_many(&twice).session(&mut session).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.stored_count()),
            (ErrorKind::AlreadyExists, None)
        );
        assert_eq!(patrons.get(499).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn documents_of_the_newest_version_are_inserted_in_order() {
    testkit::run(async |db| {
        let contacts = &schema::contacts::on_server(db);
        let insert = move |documents: Vec<Document>| -> LocalBoxFuture<'_, _> {
            Box::pin(async move {
                let inserted = contacts.insert_many(&documents).await?;
                Ok(inserted.into_iter().map(|inserted| inserted.id).collect())
            })
        };
        check(db, "contacts", &insert).await;
        let stored = schema::contacts::one(db, 1).await;
        assert_eq!(stored, Some(doc! { "_id": 1, "schemaVersion": 2, "n": 1 }));
        let older = [doc! { "_id": 499 }, doc! { "_id": 500, "schemaVersion": 1 }];
        let refused = contacts.insert_many(&older).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(contacts.get(499).await.unwrap(), None);
    })
    .await;
}

async fn check<'a>(db: &TestDatabase, collection: &str, insert: &Insert<'a>) {
    let stored = db.plain_collection::<Document>(collection);
    let count = || async { stored.count_documents(doc! {}).await.unwrap() };
    let numbered = |n: i32| doc! { "_id": n, "n": n };
    let unique = mongodb::options::IndexOptions::builder()
        .unique(true)
        .sparse(true)
        .build();
    let own = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
    stored.create_index(own).await.unwrap();
    db.recorder().clear();

    let ids = insert((0..150).map(numbered).collect()).await.unwrap();
    assert_eq!(ids, (0..150).map(Bson::from).collect::<Vec<_>>());
    let generated = insert(vec![doc! { "n": 1 }, doc! { "_id": "own" }]).await.unwrap();
    assert!(
        matches!(generated[..], [Bson::ObjectId(_), Bson::String(_)]),
        "{generated:?}"
    );
    assert_eq!(db.recorder().names(), ["insert", "insert"]);
    assert_eq!(insert(Vec::new()).await.unwrap(), []);

    // Those before the refused one are stored, and none after it.
    for (refused, kind) in [
        (numbered(7), ErrorKind::AlreadyExists),
        (doc! { "_id": 201_i64 }, ErrorKind::AlreadyExists),
        (doc! { "_id": 203, "email": "s3cret" }, ErrorKind::DuplicateKey),
    ] {
        let before = count().await;
        let email = doc! { "_id": 200, "email": "s3cret" };
        let error = insert(vec![email, numbered(201), refused, numbered(204)])
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.stored_count()), (kind, Some(2)), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        assert_eq!(count().await, before + 2);
        stored.delete_many(doc! { "_id": { "$gte": 200 } }).await.unwrap();
    }
    // Invalid input has no effect.
    let before = count().await;
    for (invalid, kind) in [
        (doc! { "_id": [1] }, ErrorKind::InvalidArgument),
        (doc! { "t": "x".repeat(16 << 20) }, ErrorKind::TooLarge),
    ] {
        let refused = insert(vec![numbered(201), invalid]).await.unwrap_err();
        assert_eq!((refused.kind(), refused.stored_count()), (kind, None), "{refused}");
    }
    assert_eq!(count().await, before);

    // Two commands, the second of which is refused.
    let text = "x".repeat(3 << 20);
    let large = |id: i32| doc! { "_id": id, "t": &text };
    db.recorder().clear();
    let error = insert(vec![large(201), large(202), large(203), large(201)])
        .await
        .unwrap_err();
    assert_eq!(
        (db.recorder().names(), error.stored_count()),
        (vec!["insert".to_owned(); 2], Some(3))
    );
    stored.delete_many(doc! { "_id": { "$gte": 200 } }).await.unwrap();
}
