//! Documents that look like extended JSON, such as `{ "$date": 5 }`, are stored literally, not as the value that they
//! describe.

use futures::TryStreamExt;
use futures::future::try_join_all;
use mongo_patterns::Repository;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::subset::SubsetRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::{
    embedded::support as embedded_support, outlier::support as outlier_support, subset::support as subset_support,
};

fn literal() -> Bson {
    let id = "65398fb70000000000000000";
    doc! { "date": { "$date": 5_i64 }, "long": [{ "$numberLong": "1" }], "id": { "$oid": id } }.into()
}

/// Returns a document with such documents in the field `literal`.
fn with_literal(mut document: Document) -> Document {
    document.insert("literal", literal());
    document
}

/// Returns the values of all fields `literal`, without serde, which would decode them.
async fn stored(db: &TestDatabase, collection: &str) -> Vec<Bson> {
    let collection = db.plain_collection::<RawDocumentBuf>(collection);
    let documents: Vec<RawDocumentBuf> = collection.find(doc! {}).await.unwrap().try_collect().await.unwrap();
    let mut found = Vec::new();
    for document in documents {
        find(&Document::try_from(&document).unwrap().into(), &mut found);
    }
    found
}

fn find(value: &Bson, found: &mut Vec<Bson>) {
    match value {
        Bson::Array(values) => values.iter().for_each(|value| find(value, found)),
        Bson::Document(document) => {
            for (field, value) in document {
                match field.as_str() {
                    "literal" => found.push(value.clone()),
                    _ => find(value, found),
                }
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn items_that_look_like_extended_json_are_stored_literally() {
    testkit::run(async |db| {
        let trades = BucketRepository::<u32, Document>::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .item_id_field("id")
            .build()
            .unwrap();
        trades.ensure_indexes().await.unwrap();
        let trade = |id: i32| with_literal(doc! { "id": id });
        trades.append(&1, &doc! { "id": 1 }).await.unwrap();
        let together = [trade(2), trade(5)];
        try_join_all(together.iter().map(|trade| trades.append(&1, trade).into_future()))
            .await
            .unwrap();
        trades.append_many(&2, &[trade(3)]).await.unwrap();
        trades.append_many(&1, &[trade(4)]).await.unwrap();
        trades.replace_item(&1, &trade(1)).await.unwrap();
        assert_eq!(stored(db, "trades").await, vec![literal(); 5]);
    })
    .await;
}

#[tokio::test]
async fn elements_that_look_like_extended_json_are_stored_literally() {
    testkit::run(async |db| {
        let things = outlier_support::builder::<Document, Document>(db)
            .threshold(1)
            .max_overflow_elements(2);
        let things = outlier_support::ready(db, things).await;
        let element = |id: i32| with_literal(doc! { "id": id });
        things.insert(&with_literal(doc! { "_id": 1 })).await.unwrap();
        for id in 0..4 {
            things.push(1, &element(id)).await.unwrap();
        }
        things.push_many(1, &[element(4)]).await.unwrap();
        let together = [element(5), element(6)];
        try_join_all(together.iter().map(|element| things.push(1, element).into_future()))
            .await
            .unwrap();
        let mut found = stored(db, "sales").await;
        found.extend(stored(db, "extra_sales").await);
        assert_eq!(found, vec![literal(); 8]);
    })
    .await;
}

#[tokio::test]
async fn children_that_look_like_extended_json_are_stored_literally() {
    testkit::run(async |db| {
        let products = subset_support::builder::<Document, Document>(db.database());
        let products: SubsetRepository<Document, Document> = subset_support::ready(db, products).await;
        let child = |id: i32| with_literal(doc! { "product_id": 1, "review_id": id, "published_date": id });
        products.insert(&child(1)).await.unwrap();
        products.insert_many(&[child(2)]).await.unwrap();
        for collection in ["product", "review"] {
            assert_eq!(stored(db, collection).await, vec![literal(); 2]);
        }
        products.delete_parent(1).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn embedded_children_that_look_like_extended_json_are_stored_literally() {
    testkit::run(async |db| {
        let patrons = embedded_support::patrons(db);
        let child = |id: i32| with_literal(embedded_support::address(id));
        let parent = with_literal(embedded_support::patron(1, [child(1)]));
        patrons.insert(&parent).await.unwrap();
        patrons
            .insert(&embedded_support::patron(2, [embedded_support::address(1)]))
            .await
            .unwrap();
        patrons.add_child(2, &child(2)).await.unwrap();
        patrons.replace_child(2, &child(1)).await.unwrap();
        patrons.upsert_child(2, &child(2)).await.unwrap();
        assert_eq!(stored(db, "patron").await, vec![literal(); 4]);
    })
    .await;
}

/// The type that the documentation of the bucket pattern recommends.
#[tokio::test]
async fn items_of_any_fields_are_read_as_raw_documents() {
    testkit::run(async |db| {
        let items = BucketRepository::<u32, RawDocumentBuf>::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .build()
            .unwrap();
        items.ensure_indexes().await.unwrap();
        let item = RawDocumentBuf::try_from(&doc! { "$date": 5, "in": { "$oid": "none" } }).unwrap();
        items.append(&123, &item).await.unwrap();
        items.append_many(&123, &[item.clone(), item.clone()]).await.unwrap();
        assert_eq!(items.page(&123, 1).await.unwrap().unwrap().items, vec![item; 3]);
    })
    .await;
}
