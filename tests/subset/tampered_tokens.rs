//! Modified tokens: they are refused, or select another position among the children of the same parent. They never read
//! the children of another parent.

use std::collections::BTreeMap;

use mongo_patterns::list::Page;
use mongo_patterns::subset::{ChildToken, Subset, SubsetRepository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{self, Bson, Document, doc};

use support::bucket::tampered_tokens::{changes, is_refused};
use support::subset::tampered_tokens::*;
use support::subset::*;

/// Inserts products 1 to 3 with equal reviews.
async fn filled(db: &TestDatabase) -> Any {
    let products: Any = ready(db, builder(db.database())).await;
    for product in 1..4 {
        if product > 1 {
            add_product(db, product).await;
        }
        let reviews = (0..5).map(|id| bson::serialize_to_document(&review_of(product, id, (id / 2).into())).unwrap());
        let inserted = products.insert_many(&reviews.collect::<Vec<_>>()).await;
        inserted.unwrap();
    }
    products
}

fn of_product_two(page: &Page<Document, ChildToken>) -> usize {
    let of_two = page
        .items
        .iter()
        .all(|child| child.get_i32("product_id").ok() == Some(2));
    assert!(of_two && page.items.len() <= 5, "{page:?}");
    page.items.len()
}

/// Reads the page of a token, and the pages of its tokens. Returns the number of children.
async fn read_at(products: &Any, token: &ChildToken) -> usize {
    let after = products.children(2).limit(2).after(token.clone()).page().await;
    let before = products.children(2).limit(2).before(token.clone()).page().await;
    let mut read = 0;
    for page in [after, before] {
        match page {
            Ok(page) => {
                read += of_product_two(&page);
                for token in [page.next, page.previous].into_iter().flatten() {
                    of_product_two(&products.children(2).after(token).page().await.unwrap());
                }
            }
            Err(error) => is_refused(&error),
        }
    }
    read
}

#[tokio::test]
async fn a_modified_token_reads_only_children_of_its_parent() {
    testkit::run(async |db| {
        let products = filled(db).await;
        let token = products
            .children(2)
            .limit(2)
            .page()
            .await
            .unwrap()
            .next
            .unwrap()
            .to_string();
        let (mut refused, mut read) = (0, 0);
        for text in changes(&token) {
            match text.parse::<ChildToken>() {
                Ok(token) => read += read_at(&products, &token).await,
                Err(error) => {
                    is_refused(&error);
                    refused += 1;
                }
            }
        }
        assert!(refused > 500 && read > 100, "{refused} {read}");
    })
    .await;
}

#[tokio::test]
async fn a_forged_token_reads_only_children_of_its_parent() {
    testkit::run(async |db| {
        let products = filled(db).await;
        let mut read = BTreeMap::new();
        let usual = || [Bson::Null, day(1).into(), 3.into()];
        let of_dates = values()
            .into_iter()
            .flat_map(|date| usual().map(|id| [date.clone(), id]));
        let of_ids = usual()
            .into_iter()
            .flat_map(|date| values().into_iter().map(move |id| [date.clone(), id]));
        for values in of_dates.chain(of_ids) {
            if let Ok(token) = token_of(values.to_vec()).parse::<ChildToken>() {
                let of_value = read.entry(values[0].to_string()).or_insert(0);
                *of_value += read_at(&products, &token).await;
            }
        }
        // No position has an array.
        read.retain(|value, _| !value.starts_with('['));
        assert!(read.len() > 20 && read.values().all(|read| *read > 0), "{read:?}");
        for values in [vec![], vec![Bson::Null], vec![Bson::Null; 3]] {
            let token: ChildToken = token_of(values).parse().unwrap();
            is_refused(&products.children(2).after(token.clone()).page().await.unwrap_err());
            is_refused(&products.children(2).before(token).page().await.unwrap_err());
        }
        is_refused(&token_of(doc! { "a": 1 }).parse::<ChildToken>().unwrap_err());
        is_refused(&token_of(1).parse::<ChildToken>().unwrap_err());
    })
    .await;
}

#[tokio::test]
async fn a_token_of_another_parent_collection_or_order_reads_nothing_of_theirs() {
    testkit::run(async |db| {
        let products = filled(db).await;
        let by_author = newest().sort(doc! { "published_date": -1, "review_author": 1 });
        let by_author = builder_of::<Document, Document>(db.database(), by_author)
            .build()
            .unwrap();
        by_author.ensure_indexes().replace_settings().await.unwrap();
        let elsewhere: SubsetRepository<Document, Document> =
            SubsetRepository::builder(db.collection::<Document>("film"), db.collection::<Document>("role"))
                .parent_field("film_id")
                .child_id_field("role_id")
                .subset(Subset::new("cast").sort(doc! { "size": 1 }))
                .build()
                .unwrap();
        elsewhere.ensure_indexes().await.unwrap();
        db.plain_collection("film").insert_one(doc! { "_id": 2 }).await.unwrap();
        for role in 0..3 {
            let role = doc! { "film_id": 2, "role_id": role, "size": "large" };
            elsewhere.insert(&role).await.unwrap();
        }
        for product in [1, 3] {
            let token = products.children(product).limit(2).page().await.unwrap().next.unwrap();
            assert!(read_at(&products, &token).await > 0);
        }
        let role = elsewhere.children(2).limit(2).page().await.unwrap().next.unwrap();
        assert!(read_at(&products, &role).await > 0);
        // An order with another number of fields.
        let author = by_author.children(2).limit(2).page().await.unwrap().next.unwrap();
        is_refused(&products.children(2).after(author).page().await.unwrap_err());
        let date = products.children(2).limit(2).page().await.unwrap().next.unwrap();
        is_refused(&by_author.children(2).before(date).page().await.unwrap_err());
    })
    .await;
}
