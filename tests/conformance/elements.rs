//! A filter matches an array by its elements. So a write must not take effect on a document that a read reports as corrupt, or
//! that belongs to several others, because a program has stored an array in a field of the pattern.

use mongo_patterns::reference::OnReferences;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::{history, intervals, outlier, reference, schema, subset};

/// Returns the values that a filter for one value matches too.
fn arrays(value: impl Into<Bson>) -> Vec<Bson> {
    let value = value.into();
    vec![vec![value.clone()].into(), vec![value, "x".into()].into()]
}

/// Checks that calls are refused as corrupt, and that the collection is as before.
macro_rules! refused {
    ($db:expr, $collection:expr, $kind:pat, $($call:expr),+ $(,)?) => {
        let before: Vec<Document> = all(&$db.plain_collection($collection)).await;
        $(
            let error: Error = $call.await.map(drop).expect_err(stringify!($call));
            assert!(matches!(error.kind(), $kind), "{}: {error:?}", stringify!($call));
            let after: Vec<Document> = all(&$db.plain_collection($collection)).await;
            assert_eq!(format!("{after:?}"), format!("{before:?}"), "{}", stringify!($call));
        )+
    };
}

/// Stores only this document.
async fn plant(db: &TestDatabase, collection: &str, document: &Document) {
    let collection = db.plain_collection::<Document>(collection);
    collection.delete_many(doc! {}).await.unwrap();
    collection.insert_one(document).await.unwrap();
}

/// Stores the only document with another value in a field.
async fn damage(db: &TestDatabase, collection: &str, field: &str, value: &Bson) {
    let set = doc! { "$set": { field: value } };
    let collection = db.plain_collection::<Document>(collection);
    collection.update_many(doc! {}, set).await.unwrap();
}

#[tokio::test]
async fn versions() {
    testkit::run(async |db| {
        let contacts = schema::contacts::typed(db);
        contacts.ensure_indexes().await.unwrap();
        let mut versions = [arrays(1), arrays(2), arrays(Bson::Null)].concat();
        versions.extend([vec![2, 5].into(), Bson::Array(vec![]), 2.5.into(), "2".into(), 0.into()]);
        versions.push(Bson::Decimal128("2.5".parse().unwrap()));
        for version in versions {
            plant(db, "contacts", &schema::contacts::v2(1)).await;
            damage(db, "contacts", "schemaVersion", &version).await;
            refused!(
                db,
                "contacts",
                ErrorKind::Corrupt,
                contacts.get(1),
                contacts.update(1, doc! { "$set": { "n": 1 } }),
                contacts.replace(1, &doc! { "name": "Ann" }),
                contacts.delete(1),
            );
            assert_eq!(contacts.migrate().await.unwrap().documents, 0, "{version}");
            match contacts.find(doc! {}).await {
                Ok(found) => assert!(found.is_empty(), "{version}: {found:?}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{version}: {error:?}"),
            }
        }
        // A number of any type is a version.
        for version in [
            2.into(),
            2_i64.into(),
            2.0.into(),
            Bson::Decimal128("2.0".parse().unwrap()),
        ] {
            plant(db, "contacts", &schema::contacts::v2(1)).await;
            damage(db, "contacts", "schemaVersion", &version).await;
            assert!(contacts.get(1).await.unwrap().is_some());
            assert_eq!(contacts.find(doc! { "_id": 1 }).await.unwrap().len(), 1);
            let updated = contacts.update(1, doc! { "$set": { "n": 1 } });
            assert!(updated.await.unwrap().modified);
            contacts.replace(1, &doc! { "name": "Ann" }).await.unwrap();
            assert!(contacts.delete(1).await.unwrap().found);
        }
        // Every call refuses the same ids.
        for id in [Bson::Null, Bson::MinKey, Bson::MaxKey] {
            let document = doc! { "_id": id.clone(), "name": "Ann" };
            refused!(
                db,
                "contacts",
                ErrorKind::InvalidArgument,
                contacts.insert(&document),
                contacts.insert_many(std::slice::from_ref(&document)),
                contacts.get(id.clone()),
                contacts.update(id.clone(), doc! { "$set": { "n": 1 } }),
                contacts.replace(id.clone(), &document),
                contacts.delete(id.clone()),
            );
        }
    })
    .await;
}

#[tokio::test]
async fn marks_and_times_of_intervals() {
    testkit::run(async |db| {
        let prices = intervals::prices(db).await;
        let (start, end) = (intervals::at(5), intervals::END);
        let mut damages = Vec::new();
        for (field, values) in [
            ("isValid", arrays(true)),
            ("validFrom", arrays(start)),
            ("validTo", [arrays(end), vec!["9999".into()]].concat()),
        ] {
            damages.extend(values.into_iter().map(|value| (field, value)));
        }
        for (field, value) in damages {
            let mut price = intervals::price("hat", 1);
            price.extend(doc! { "validFrom": start, "validTo": end, "isValid": true });
            plant(db, "prices", &price).await;
            damage(db, "prices", field, &value).await;
            refused!(
                db,
                "prices",
                ErrorKind::Corrupt,
                prices.get("hat"),
                prices.update("hat", intervals::to(2)),
                prices.replace("hat", &intervals::price("hat", 2)),
                prices.end("hat"),
            );
            // The caller commits whatever a call has done.
            let before: Vec<Document> = all(&intervals::stored(db)).await;
            let mut session = db.client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            let update = prices.update("hat", intervals::to(2)).session(&mut session);
            assert_eq!(update.await.unwrap_err().kind(), ErrorKind::Corrupt);
            session.commit_transaction().await.unwrap();
            let after: Vec<Document> = all(&intervals::stored(db)).await;
            assert_eq!(after, before, "{field}");
        }
    })
    .await;
}

/// They are not managed to a read, and no write takes them for a revision.
#[tokio::test]
async fn revisions_and_times_of_histories() {
    testkit::run(async |db| {
        let policies = history::with_policy(db).await;
        let stored = history::current(db).find_one(doc! {}).await.unwrap().unwrap();
        for field in ["revision", "dateSet"] {
            let mut values = arrays(stored.get(field).unwrap().clone());
            values.extend(["x".into(), Bson::Null]);
            for value in values {
                plant(db, "currentPolicies", &stored).await;
                damage(db, "currentPolicies", field, &value).await;
                refused!(
                    db,
                    "currentPolicies",
                    _,
                    policies.update(1, history::push("ring")),
                    policies.update(1, history::push("ring")).expecting(1),
                    policies.replace(1, &history::policy(1)),
                    policies.delete(1),
                );
            }
        }
    })
    .await;
}

/// A document that belongs to two others is not deleted with one of them.
#[tokio::test]
async fn parents_and_references() {
    testkit::run(async |db| {
        let two = || Bson::Array(vec![1.into(), 2.into()]);
        let books = outlier::again(db, 2, 2);
        books.ensure_indexes().await.unwrap();
        let overflow = doc! { "_id": 9, "book_id": two(), "customers_purchased_extra": ["a"] };
        for in_session in [false, true] {
            let book = doc! { "_id": 1, "title": "x", "customers_purchased": ["a", "b"], "has_extras": true };
            plant(db, "sales", &book).await;
            plant(db, "extra_sales", &overflow).await;
            let mut session = db.client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            let session = &mut session;
            let deleted = books.delete(1).session(in_session.then_some(&mut *session)).await;
            assert_eq!(deleted.unwrap().documents, 1);
            session.commit_transaction().await.unwrap();
            assert_eq!(
                all(&db.plain_collection::<Document>("extra_sales")).await,
                std::slice::from_ref(&overflow)
            );
        }

        let products: subset::Any = subset::builder(db.database()).build().unwrap();
        products.ensure_indexes().await.unwrap();
        let review = doc! { "_id": 9, "review_id": 1, "product_id": two(), "published_date": subset::day(1) };
        plant(db, "product", &doc! { "_id": 1 }).await;
        plant(db, "review", &review).await;
        assert!(products.delete_parent(1).await.unwrap().found);
        assert_eq!(all(&db.plain_collection::<Document>("review")).await, [review]);

        let orders = reference::with_customers(db).await;
        let order = doc! { "_id": 9, "customer": [{ "_id": 1 }, { "_id": 2 }] };
        plant(db, "orders", &order).await;
        let deleted = orders.delete_source(1).on_references(OnReferences::Clear);
        assert_eq!(deleted.await.unwrap().copies, 0);
        assert_eq!(all(&db.plain_collection::<Document>("orders")).await, [order]);
    })
    .await;
}
