//! Pages of children in the order of each subset of their parent.

use mongo_patterns::ErrorKind;
use mongo_patterns::list::Page;
use mongo_patterns::subset::ChildToken;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::subset::rated::*;
use support::explain::explain_last;
use support::subset::*;

/// Inserts reviews of product 1, some without stars or votes, and of product 2. Returns those of product 1.
async fn filled(db: &TestDatabase) -> (Any, Vec<Document>) {
    let products = several_products(db).await;
    add_product(db, 2).await;
    let review = |product: i32, id: i32| {
        let mut review = reviewed(product, id, (id * 7 % 11).into(), id % 6);
        review.insert("votes", id % 4);
        review.insert("hidden", id % 5 == 0);
        review.insert("_id", product * 1000 + id);
        match id % 9 {
            0 => drop(review.remove("votes")),
            1 => drop(review.insert("votes", "many")),
            _ => {}
        }
        review
    };
    for product in [1, 2] {
        let all: Vec<Document> = (0..40).map(|id| review(product, id)).collect();
        products.insert_many(&all).await.unwrap();
    }
    (products, (0..40).map(|id| review(1, id)).collect())
}

fn ids(page: &Page<Document, ChildToken>) -> Vec<i32> {
    page.items
        .iter()
        .map(|child| child.get_i32("review_id").unwrap())
        .collect()
}

/// Returns the ids of the embedded children of a subset.
async fn embedded(products: &Any, field: &str) -> Vec<i32> {
    let product = products.get(1).await.unwrap().unwrap();
    let embedded = product.get_array(field).unwrap().iter();
    embedded
        .map(|child| child.as_document().unwrap().get_i32("review_id").unwrap())
        .collect()
}

#[tokio::test]
async fn pages_of_each_order_continue_its_subset() {
    testkit::run(async |db| {
        let (products, reviews) = filled(db).await;
        let matching = |field: &str| {
            let is_shown = |review: &&Document| match field {
                "top_rated" => review.get_i32("stars").unwrap() >= 4,
                "unnoticed" => !review.get_bool("hidden").unwrap(),
                _ => true,
            };
            let mut ids: Vec<i32> = reviews
                .iter()
                .filter(is_shown)
                .map(|review| review.get_i32("review_id").unwrap())
                .collect();
            ids.sort_unstable();
            ids
        };
        for field in FIELDS {
            let list = || products.children_of_subset(1, field);
            let all = list().limit(100).page().await.unwrap();
            let order = ids(&all);
            assert_eq!(all.next, None);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, matching(field), "{field}");
            let first = embedded(&products, field).await;
            assert_eq!(order[..first.len()], first, "{field}");
            for limit in [1, 3, 7] {
                let (mut forward, mut token) = (Vec::new(), None);
                loop {
                    db.recorder().clear();
                    let read = list().limit(limit).after(token).page().await.unwrap();
                    assert_eq!(db.recorder().names(), ["find"]);
                    forward.extend(ids(&read));
                    let Some(next) = read.next else { break };
                    // As text, as a client has it.
                    token = Some(next.to_string().parse::<ChildToken>().unwrap());
                }
                assert_eq!(forward, order, "{field} {limit}");
                let (mut backward, mut token) = (Vec::new(), all.last_token.clone());
                while let Some(before) = token {
                    let read = list().limit(limit).before(before).page().await.unwrap();
                    backward.splice(0..0, ids(&read));
                    token = read.previous;
                }
                assert_eq!(backward, order[..order.len() - 1], "{field} {limit}");
            }
            let of_none = products.children_of_subset(3, field).page().await.unwrap();
            assert!(of_none.items.is_empty());
            // A child that comes later is before the end and after the start of the empty list, as those of another parent are.
            let (first, last) = (of_none.first_token, of_none.last_token);
            assert!(first.is_some() && last.is_some(), "{field}");
            assert_eq!(ids(&list().after(last).page().await.unwrap()), order, "{field}");
            assert_eq!(ids(&list().before(first).page().await.unwrap()), order, "{field}");
        }
        // The first subset is the default.
        let default = products.children(1).limit(5).page().await.unwrap();
        let first = products.children_of_subset(1, "reviews").limit(5).page().await.unwrap();
        assert_eq!((ids(&default), default.next), (ids(&first), first.next));
    })
    .await;
}

#[tokio::test]
async fn the_index_of_the_subset_serves_each_page() {
    testkit::run(async |db| {
        let (products, _) = filled(db).await;
        let created: Vec<String> = reviews(db).list_index_names().await.unwrap();
        for (field, examined) in [("reviews", 5), ("top_rated", 5), ("unnoticed", 8)] {
            let first = products.children_of_subset(1, field).limit(5).page().await.unwrap();
            let second = products
                .children_of_subset(1, field)
                .limit(5)
                .after(first.next)
                .page()
                .await
                .unwrap();
            let of_second = explain_last(db).await;
            assert!(created.contains(&of_second.index), "{of_second:?}");
            assert!((5..=examined).contains(&of_second.documents), "{field} {of_second:?}");
            products
                .children_of_subset(1, field)
                .limit(5)
                .before(second.next)
                .page()
                .await
                .unwrap();
            let of_last = explain_last(db).await;
            assert_eq!(of_last.index, of_second.index);
            assert!((5..=examined).contains(&of_last.documents), "{field} {of_last:?}");
        }
        reviews(db)
            .drop_index("product_id_1_stars_-1_review_id_-1")
            .await
            .unwrap();
        let missing = products.children_of_subset(1, "top_rated").page().await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::IndexMissing, "{missing}");
        products.children(1).page().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_token_of_another_order_and_an_unknown_subset_are_refused() {
    testkit::run(async |db| {
        let (products, _) = filled(db).await;
        for field in FIELDS {
            let page = products.children_of_subset(1, field).limit(3).page().await.unwrap();
            let ends = [page.first_token, page.last_token, page.next].map(Option::unwrap);
            for other in FIELDS.into_iter().filter(|other| *other != field) {
                for token in ends.clone() {
                    db.recorder().clear();
                    for refused in [
                        products.children_of_subset(1, other).after(token.clone()).page().await,
                        products.children_of_subset(1, other).before(token).page().await,
                    ] {
                        assert_eq!(
                            refused.unwrap_err().kind(),
                            ErrorKind::InvalidArgument,
                            "{field} {other}"
                        );
                    }
                    assert!(db.recorder().names().is_empty());
                }
            }
        }
        for unknown in ["", "stars", "$where", "reviews.0", "s3cret"] {
            let refused = products.children_of_subset(1, unknown).page().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(!format!("{refused} {refused:?}").contains("s3cret"));
        }
        // Also within a transaction of the caller.
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let best = doc! { "review_id": 99, "product_id": 1, "published_date": day(99), "stars": 9, "votes": 0 };
        products.insert(&best).session(&mut session).await.unwrap();
        let page = products
            .children_of_subset(1, "top_rated")
            .limit(1)
            .session(&mut session)
            .page()
            .await
            .unwrap();
        assert_eq!(ids(&page), [99]);
        let page = products
            .children_of_subset(1, "top_rated")
            .limit(1)
            .page()
            .await
            .unwrap();
        assert_ne!(ids(&page), [99]);
    })
    .await;
}
