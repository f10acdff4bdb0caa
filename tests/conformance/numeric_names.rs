//! Numeric field names: refused where a path would interpret them as an array index, and accepted elsewhere.

use futures::TryStreamExt;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use support::common::*;

/// Returns the usual name of a field, or a number for the field under test.
fn named(usual: &'static str, tried: &str) -> &'static str {
    if usual == tried { "0" } else { usual }
}

fn is_refused<T>(built: &Result<T, Error>) -> bool {
    built.as_ref().is_err_and(|error| {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        assert!(error.to_string().contains("number"), "{error}");
        true
    })
}

#[tokio::test]
async fn a_bucket_accepts_a_numeric_field_but_no_numeric_item_id() {
    testkit::run(async |db| {
        let mut refused = Vec::new();
        for tried in ["customerId", "history", "count", "date", "n"] {
            plain(db).drop().await.unwrap();
            let name = |usual| named(usual, tried);
            let trades = BucketRepository::<u32, Document>::builder(db.collection::<Document>("trades"))
                .key_field(name("customerId"))
                .items_field(name("history"))
                .count_field(name("count"))
                .time_field(name("date"))
                .item_id_field(name("n"))
                .page_size(3)
                .build();
            if is_refused(&trades) {
                refused.push(tried);
                continue;
            }
            let trades = trades.unwrap();
            trades.ensure_indexes().await.unwrap();
            let items: Vec<Document> = (0..10)
                .map(|n| doc! { name("n"): n, name("date"): at(SECOND + i64::from(n)) })
                .collect();
            trades.append(&7, &items[0]).await.unwrap();
            trades.append_many(&7, &items).await.unwrap();
            let from_five = trades.items(&7).from(at(SECOND + 5));
            let read: Vec<Document> = from_five.stream().try_collect().await.unwrap();
            assert_eq!(read, items[5..], "{tried}");
            trades.remove_item(&7, 0).await.unwrap();
            trades.update_item(&7, 4, doc! { "$set": { "qty": 1 } }).await.unwrap();
            assert_eq!(trades.newest(&7, 1).await.unwrap(), items[9..]);
            let findings: Vec<_> = trades.verify().stream().try_collect().await.unwrap();
            assert_eq!(findings, [], "{tried}");
            let (flat, back) = (db.plain_collection::<Document>("flat"), name("customerId"));
            flat.drop().await.unwrap();
            plain(db).drop().await.unwrap();
            flat.insert_one(doc! { back: 7, name("n"): 1, name("date"): at(SECOND) })
                .await
                .unwrap();
            assert_eq!(trades.migrate_from_flat(&flat).await.unwrap().items, 1, "{tried}");
        }
        assert_eq!(refused, ["n"]);
    })
    .await;
}

#[tokio::test]
async fn an_outlier_accepts_numeric_fields() {
    testkit::run(async |db| {
        for tried in ["customers", "book_id", "has_extras", "customers_extra", "seq", "count"] {
            for collection in ["sales", "extra_sales", "mongo_patterns"] {
                db.plain_collection::<Document>(collection).drop().await.unwrap();
            }
            let name = |usual| named(usual, tried);
            let (sales, extras) = (
                db.collection::<Document>("sales"),
                db.collection::<Document>("extra_sales"),
            );
            let books = OutlierRepository::<Document, String>::builder(sales, extras)
                .array_field(name("customers"))
                .parent_field(name("book_id"))
                .flag_field(name("has_extras"))
                .overflow_field(name("customers_extra"))
                .seq_field(name("seq"))
                .count_field(name("count"))
                .threshold(2)
                .max_overflow_elements(2)
                .build()
                .unwrap();
            books.ensure_indexes().await.unwrap();
            let customers: Vec<String> = (0..9).map(|n| format!("user{n}")).collect();
            books
                .insert(&doc! { "_id": 2, name("customers"): &customers[..3] })
                .await
                .unwrap();
            books.push(2, &customers[3]).await.unwrap();
            books.push_many(2, &customers[4..]).await.unwrap();
            let read: Vec<String> = books.elements(2).stream().try_collect().await.unwrap();
            assert_eq!(read, customers, "{tried}");
            assert!(books.contains(2, &customers[7]).await.unwrap());
            books.remove(2, &customers[1]).await.unwrap();
            books.refresh(2).await.unwrap();
            let findings: Vec<_> = books.verify().stream().try_collect().await.unwrap();
            assert_eq!(findings, [], "{tried}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_subset_accepts_numeric_fields_of_parents_and_children() {
    testkit::run(async |db| {
        for tried in [
            "reviews", "product_id", "review_id", "version", "total", "published", "text", "rating", "sum", "stars", "best",
            "top",
        ] {
            for collection in ["product", "review", "mongo_patterns"] {
                db.plain_collection::<Document>(collection).drop().await.unwrap();
            }
            let name = |usual| named(usual, tried);
            let (products, reviews) = (db.collection::<Document>("product"), db.collection::<Document>("review"));
            let top = Subset::new(name("top")).sort(doc! { name("rating"): -1 });
            let top = top.filter(doc! { name("rating"): { "$lt": 6 } }).embedded_fields([name("text")]);
            let newest = Subset::new(name("reviews")).sort(doc! { name("published"): -1 }).size(3);
            let newest = newest.embedded_fields([name("review_id"), name("published"), name("text")]);
            let products = SubsetRepository::<Document, Document>::builder(products, reviews)
                .parent_field(name("product_id"))
                .child_id_field(name("review_id"))
                .version_field(name("version"))
                .total_field(name("total"))
                .sum(name("rating"), name("sum"))
                .count_by(name("rating"), name("stars"))
                .max(name("rating"), name("best"))
                .subset(newest)
                .subset(top.size(1))
                .build()
                .unwrap();
            products.ensure_indexes().await.unwrap();
            db.plain_collection::<Document>("product").insert_one(doc! { "_id": 1 }).await.unwrap();
            let review =
                |id: i32| doc! { name("review_id"): id, name("product_id"): 1, name("published"): id, name("text"): "a", name("rating"): id };
            products.insert_many(&(0..6).map(review).collect::<Vec<_>>()).await.unwrap();
            products.insert(&review(6)).await.unwrap();
            products.update(1, 5, doc! { "$set": { name("text"): "b" } }).await.unwrap();
            products.delete(1, 6).await.unwrap();
            let product = products.get(1).await.unwrap().unwrap();
            let shown = product.get_array(name("reviews")).unwrap();
            assert_eq!(product.get_i32(name("sum")).unwrap(), 15, "{tried}");
            assert_eq!(product.get_array(name("stars")).unwrap().len(), 6, "{tried}");
            assert_eq!(product.get_i32(name("best")).unwrap(), 5, "{tried}");
            let top = product.get_array(name("top")).unwrap();
            assert_eq!(*top, [Bson::from(doc! { name("review_id"): 5, name("text"): "b" })], "{tried}");
            let of = |id: i32, text: &str| {
                Bson::from(doc! { name("review_id"): id, name("published"): id, name("text"): text })
            };
            assert_eq!(*shown, [of(5, "b"), of(4, "a"), of(3, "a")], "{tried}");
            let page = products.children(1).limit(2).page().await.unwrap();
            let mut next = products.children(1).limit(2).after(page.next).page().await.unwrap();
            next.items.iter_mut().for_each(|child| drop(child.remove("_id")));
            assert_eq!(next.items, [review(3), review(2)], "{tried}");
            let findings: Vec<_> = products.verify().stream().try_collect().await.unwrap();
            assert_eq!(findings.len(), 0, "{tried}: {findings:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn embedded_children_accept_a_numeric_field_but_no_numeric_id() {
    testkit::run(async |db| {
        let built = |children: &str, id: &str| {
            EmbeddedRepository::<Document, Document>::builder(db.collection::<Document>("patron"))
                .children_field(children)
                .child_id_field(id)
                .max_children(5)
                .build()
        };
        assert!(is_refused(&built("addresses", "0")));
        let patrons = built("0", "id").unwrap();
        patrons.insert(&doc! { "_id": 1, "0": [] }).await.unwrap();
        let address = |id: i32, street: &str| doc! { "id": id, "street": street };
        patrons.add_child(1, &address(1, "a")).await.unwrap();
        patrons.add_child(1, &address(2, "a")).await.unwrap();
        let updated = patrons.update_child(1, 1, doc! { "$set": { "street": "b" } });
        updated.await.unwrap();
        patrons.reorder_children(1, [2, 1]).await.unwrap();
        patrons.upsert_child(1, &address(2, "d")).await.unwrap();
        patrons.replace_child(1, &address(2, "c")).await.unwrap();
        let patron = patrons.get(1).await.unwrap().unwrap();
        assert_eq!(patron, doc! { "_id": 1, "0": [address(2, "c"), address(1, "b")] });
        patrons.remove_child(1, 2).await.unwrap();
        let findings: Vec<_> = patrons.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings.len(), 0, "{findings:?}");
    })
    .await;
}
