//! The calls that the book names to erase a person's data, in all patterns.

use futures::TryStreamExt;
use mongo_patterns::reference::{OnReferences, Reference};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, RawDocumentBuf, doc};

use support::common::{at, trades_of_documents};
use support::{embedded, history, outlier, reference, subset};

const PERSON: &str = "ann@example.com";

/// Returns the collections in which a document has the text.
async fn mentioned_in(db: &TestDatabase) -> Vec<String> {
    let mut found = Vec::new();
    let plain = db.plain_client().database(db.database().name());
    for name in plain.list_collection_names().await.unwrap() {
        let mut documents = plain.collection::<RawDocumentBuf>(&name).find(doc! {}).await.unwrap();
        while let Some(document) = documents.try_next().await.unwrap() {
            let is_mentioned = document
                .as_bytes()
                .windows(PERSON.len())
                .any(|bytes| bytes == PERSON.as_bytes());
            if is_mentioned && !found.contains(&name) {
                found.push(name.clone());
            }
        }
    }
    found.sort();
    found
}

/// Where the documents stay, and only the values are erased.
#[tokio::test]
async fn a_value_is_erased_from_the_revisions_and_from_the_copies() {
    testkit::run(async |db| {
        let policies = history::policies(db).await;
        let policy = doc! { "policyId": 1, "customerName": PERSON, "itemsInsured": [] };
        policies.insert(&policy).await.unwrap();
        let orders = reference::bare(db.database())
            .reference_field("customer")
            .copied_fields(["name"])
            .add_reference(Reference::new("buyer").copied_fields(["name"]).snapshot());
        let orders = reference::ready(db, orders).await;
        reference::add_customers(db, 1..=1).await;
        let rename = |name: &str| doc! { "$set": { "name": name } };
        orders.update_source(1, rename(PERSON)).await.unwrap();
        let order = doc! { "_id": 1, "customer": { "_id": 1 }, "buyer": { "_id": 1 } };
        orders.insert(&order).await.unwrap();
        let everywhere = ["currentPolicies", "customers", "orders", "policyRevisions"];
        assert_eq!(mentioned_in(db).await, everywhere);

        let unnamed = doc! { "$unset": { "customerName": "" } };
        policies.update(1, unnamed).await.unwrap();
        policies.keep_last(1, 1).await.unwrap();
        orders.update_source(1, rename("a customer")).await.unwrap();
        // A snapshot does not follow its source.
        assert_eq!(mentioned_in(db).await, ["orders"]);
        let deleted = orders.delete_source(1).on_references(OnReferences::Clear);
        deleted.await.unwrap();
        assert_eq!(mentioned_in(db).await, Vec::<String>::new());
        assert_eq!(
            policies.get(1).await.unwrap().unwrap().document.get("customerName"),
            None
        );
    })
    .await;
}

#[tokio::test]
async fn nothing_of_a_person_is_left() {
    testkit::run(async |db| {
        // Bucket: the person is the key.
        let trades = trades_of_documents(db).await;
        for n in 0..25 {
            trades
                .append(&7, &doc! { "date": at(n), "buyer": PERSON })
                .await
                .unwrap();
        }
        // Outlier: the person is an element, in the array of one book and in an overflow document of the other.
        let books = outlier::books(db).await;
        for (id, others) in [(1, 3), (2, 60)] {
            books.insert(&outlier::book(id, others)).await.unwrap();
            books.push(id, &PERSON.to_owned()).await.unwrap();
        }
        // Subset: the person wrote children.
        let products = subset::products(db).await;
        for id in 0..12 {
            let mut review = subset::review(id);
            if id % 3 == 0 {
                review.review_author = PERSON.to_owned();
            }
            products.insert(&review).await.unwrap();
        }
        // Embedded: the person is a document.
        let patron = doc! { "_id": PERSON, "addresses": [embedded::address(1)] };
        embedded::plant(db, &patron).await;
        // History: the person is in revisions.
        let policies = history::policies(db).await;
        let policy = doc! { "policyId": 1, "customerName": PERSON, "itemsInsured": [] };
        policies.insert(&policy).await.unwrap();
        let other = doc! { "$set": { "customerName": "Bob" } };
        policies.update(1, other).await.unwrap();
        // Reference: the person is a source, and in the copies.
        let orders = reference::with_customers(db).await;
        let rename = doc! { "$set": { "name": PERSON } };
        orders.update_source(1, rename).await.unwrap();
        for id in 0..3 {
            orders.insert(&reference::order(id, 1)).await.unwrap();
        }
        let expected = "customers, extra_sales, orders, patron, policyRevisions, product, review, sales, trades";
        assert_eq!(mentioned_in(db).await.join(", "), expected);

        trades.delete_key(&7).await.unwrap();
        for id in [1, 2] {
            books.remove(id, &PERSON.to_owned()).await.unwrap();
        }
        let of_person = subset::reviews(db)
            .find(doc! { "review_author": PERSON })
            .await
            .unwrap();
        let of_person: Vec<Document> = of_person.try_collect().await.unwrap();
        for review in of_person {
            let [product, id] = ["product_id", "review_id"].map(|field| review.get_i32(field).unwrap());
            products.delete(product, id).await.unwrap();
        }
        embedded::stored(db).delete_one(doc! { "_id": PERSON }).await.unwrap();
        policies.delete(1).await.unwrap();
        policies.keep_last(1, 1).await.unwrap();
        let deleted = orders.delete_source(1).on_references(OnReferences::Clear);
        deleted.await.unwrap();

        assert_eq!(mentioned_in(db).await, Vec::<String>::new());
        assert_eq!(products.get(1).await.unwrap().unwrap().reviews.len(), 8);
        assert_eq!(books.elements(2).await.unwrap().len(), 60);
        let order = orders.get(0).await.unwrap().unwrap();
        assert_eq!(order.get("customer"), None, "{order}");
    })
    .await;
}
