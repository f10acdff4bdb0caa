//! Arrays in the fields of the index.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use super::support::*;

const INDEX: &str = "tenant_1_rank_-1_inner.rank_1__id_1";

/// The fields of an array, with a name of the field and a document with it.
fn arrays() -> [(&'static str, Document); 5] {
    [
        ("rank", doc! { "_id": "array", "tenant": 1, "rank": [3, "secret", 12] }),
        ("rank", doc! { "_id": "array", "tenant": 1, "rank": [] }),
        (
            "inner.rank",
            doc! { "_id": "array", "tenant": 1, "rank": 5, "inner": [{ "rank": 7 }] },
        ),
        (
            "inner.rank",
            doc! { "_id": "array", "tenant": 1, "rank": 5, "inner": { "rank": [7] } },
        ),
        ("tenant", doc! { "_id": "array", "tenant": [1, 2], "rank": 5 }),
    ]
}

async fn filled(db: &TestDatabase) {
    stored(db).drop().await.unwrap();
    let order = |n: i32| doc! { "_id": n, "tenant": n % 2, "rank": n / 4, "inner": { "rank": n % 5 } };
    plant(db, (0..200).map(order)).await;
}

fn by_rank() -> Document {
    doc! { "rank": 1, "inner.rank": -1 }
}

#[tokio::test]
async fn an_index_with_an_array_is_refused() {
    testkit::run(async |db| {
        for (_, array) in arrays() {
            filled(db).await;
            let pages = pages(db, doc! { "tenant": 1 }, by_rank());
            plant(db, [array]).await;
            let refused = pages.ensure_index().await.unwrap_err();
            let expected = (ErrorKind::Corrupt, Some("ensure_index"));
            assert_eq!((refused.kind(), refused.operation()), expected);
            let text = format!("{refused} {refused:?}");
            assert!(
                text.contains(&format!("`{INDEX}`")) && !text.contains("secret"),
                "{text}"
            );
            // The index keeps it.
            stored(db).delete_one(doc! { "_id": "array" }).await.unwrap();
            assert_eq!(pages.ensure_index().await.unwrap_err().kind(), ErrorKind::Corrupt);
            stored(db).drop_index(INDEX).await.unwrap();
            pages.ensure_index().await.unwrap();
        }
        // Other arrays do not matter.
        let other = doc! { "_id": "other", "tenant": 1, "rank": { "a": [1] }, "inner": { "a": [1] } };
        plant(db, [other]).await;
        ready(db, doc! { "tenant": 1 }, by_rank()).await;
    })
    .await;
}

/// An array that appears later: no document is missed or returned twice before the page with it, in any direction.
#[tokio::test]
async fn a_page_with_an_array_is_refused() {
    testkit::run(async |db| {
        for (field, array) in arrays() {
            filled(db).await;
            let mut both = Vec::new();
            for sort in [by_rank(), doc! { "rank": -1, "inner.rank": 1 }] {
                let documents = sorted(db, doc! { "tenant": 1 }, sort.clone()).await;
                both.push((ready(db, doc! { "tenant": 1 }, sort).await, documents));
            }
            plant(db, [array]).await;
            for (pages, documents) in both {
                let (mut found, mut after) = (Vec::new(), None);
                let refused = loop {
                    match pages.list().limit(7).after(after).page().await {
                        Ok(page) => {
                            found.extend(ids(&page.items));
                            after = Some(page.next.expect("the page with the array is not the last"));
                        }
                        Err(error) => break error,
                    }
                };
                assert_eq!((refused.kind(), refused.field()), (ErrorKind::Corrupt, Some(field)));
                assert_eq!(refused.document_id(), Some(&"array".into()));
                assert!(!format!("{refused} {refused:?}").contains("secret"));
                assert_eq!(found, documents[..found.len()]);
            }
        }
    })
    .await;
}

/// A condition on an element is none of equality.
#[tokio::test]
async fn an_element_is_found_by_in() {
    testkit::run(async |db| {
        let tagged = |n: i32| doc! { "_id": n, "tags": [n % 2, "red", n % 3], "rank": n / 4 };
        plant(db, (0..100).map(tagged)).await;
        let pages = ready(db, doc! { "tags": { "$in": [0] } }, doc! { "rank": -1 }).await;
        let (found, last) = forward(&pages, 9).await;
        let expected = sorted(db, doc! { "tags": 0 }, doc! { "rank": -1 }).await;
        assert_eq!(found, expected);
        assert_eq!(backward(&pages, 9, last).await, expected);
        assert!(found.len() > 50 && !found.contains(&Bson::Null));
    })
    .await;
}
