//! Tokens: of one filter and sort, modified, and forged.

use mongo_patterns::pages::{DocumentToken, Pages};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{self, Bson, Document, doc};

use super::support::*;
use support::bucket::tampered_tokens::{changes, is_refused};
use support::subset::tampered_tokens::{token_of, values};

const SECRET: &str = "qq_secret_qq";

/// Five documents of each of three tenants, with equal ranks.
async fn filled(db: &TestDatabase) -> Pages<Document> {
    for tenant in ["a", SECRET, "z"] {
        let orders = (0..5).map(|n| doc! { "_id": format!("{tenant}{n}"), "tenant": tenant, "rank": n / 2 });
        plant(db, orders).await;
    }
    ready(db, filter(), sort()).await
}

fn filter() -> Document {
    doc! { "tenant": SECRET }
}

fn sort() -> Document {
    doc! { "rank": -1, "score": 1 }
}

/// Reads the page of a token, and the pages of its tokens. Returns the number of documents.
async fn read_at(pages: &Pages<Document>, token: &DocumentToken) -> usize {
    let after = pages.list().limit(2).after(token.clone()).page().await;
    let before = pages.list().limit(2).before(token.clone()).page().await;
    let mut read = 0;
    for page in [after, before] {
        match page {
            Ok(page) => {
                read += of_tenant(&page.items);
                for token in [page.next, page.previous].into_iter().flatten() {
                    of_tenant(&pages.list().after(token).page().await.unwrap().items);
                }
            }
            Err(error) => is_refused(&error),
        }
    }
    read
}

fn of_tenant(documents: &[Document]) -> usize {
    let is_own = |document: &Document| document.get_str("tenant").ok() == Some(SECRET);
    assert!(documents.iter().all(is_own) && documents.len() <= 5, "{documents:?}");
    documents.len()
}

#[tokio::test]
async fn a_modified_token_is_refused() {
    testkit::run(async |db| {
        let pages = filled(db).await;
        let token = pages.list().limit(2).page().await.unwrap().next.unwrap().to_string();
        db.recorder().clear();
        let mut parsed = 0;
        for text in changes(&token) {
            match text.parse::<DocumentToken>() {
                Ok(token) => {
                    parsed += 1;
                    is_refused(&pages.list().after(token.clone()).page().await.unwrap_err());
                    is_refused(&pages.list().before(token).page().await.unwrap_err());
                }
                Err(error) => is_refused(&error),
            }
        }
        assert!(parsed > 100, "{parsed}");
        assert!(db.recorder().names().is_empty());
        let of_a_fake = DocumentToken::new([1.into(), Bson::Null, "a".into()]);
        is_refused(&pages.list().after(of_a_fake).page().await.unwrap_err());
    })
    .await;
}

#[tokio::test]
async fn a_token_is_of_one_filter_and_sort() {
    testkit::run(async |db| {
        let pages = filled(db).await;
        let token = pages.list().limit(2).page().await.unwrap().next.unwrap();
        for (filter, sort) in [
            (doc! { "tenant": "a" }, sort()),
            (doc! {}, sort()),
            (doc! { "tenant": SECRET, "rank": { "$gt": 0 } }, sort()),
            (filter(), doc! { "rank": 1, "score": -1 }),
            (filter(), doc! { "rank": -1, "_id": 1 }),
            (filter(), doc! { "score": 1, "rank": -1 }),
            (filter(), doc! { "rank": -1, "name": 1 }),
        ] {
            let other = super::support::pages(db, filter, sort);
            is_refused(&other.list().after(token.clone()).page().await.unwrap_err());
            is_refused(&other.list().before(token.clone()).page().await.unwrap_err());
        }
        // Of the same query in another process.
        let same = super::support::pages(db, filter(), sort());
        assert_eq!(same.list().after(linked(&token)).page().await.unwrap().items.len(), 3);
    })
    .await;
}

/// The checksum is no secret.
fn checksum(seed: u64, value: impl Into<Bson>) -> u64 {
    let bytes = bson::serialize_to_vec(&doc! { "": value.into() }).unwrap();
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, add)
}

fn forged(mut values: Vec<Bson>) -> String {
    let sort = doc! { "tenant": 1, "rank": -1, "score": 1, "_id": 1 };
    let query = checksum(0, doc! { "filter": filter(), "sort": sort });
    values.push(Bson::Int64(checksum(query, values.clone()).cast_signed()));
    token_of(values)
}

#[tokio::test]
async fn a_forged_token_reads_only_documents_of_the_filter() {
    testkit::run(async |db| {
        let pages = filled(db).await;
        let usual = [Bson::Int32(1), Bson::Null, format!("{SECRET}3").into()];
        let token = pages.list().limit(3).page().await.unwrap().next.unwrap();
        assert_eq!(forged(usual.to_vec()), token.to_string());
        let (mut read, mut refused) = (0, 0);
        for at in 0..3 {
            for value in values() {
                let mut values = usual.to_vec();
                values[at] = value;
                match forged(values).parse::<DocumentToken>() {
                    Ok(token) => read += read_at(&pages, &token).await,
                    Err(error) => {
                        is_refused(&error);
                        refused += 1;
                    }
                }
            }
        }
        assert!(read > 200 && refused == 0, "{read} {refused}");
        for values in [vec![], usual[..2].to_vec(), [&usual[..], &usual[..1]].concat()] {
            let token: DocumentToken = forged(values).parse().unwrap();
            is_refused(&pages.list().after(token.clone()).page().await.unwrap_err());
            is_refused(&pages.list().before(token).page().await.unwrap_err());
        }
        for text in [token_of(doc! { "a": 1 }), token_of(1), token_of(Bson::Array(vec![]))] {
            is_refused(&text.parse::<DocumentToken>().unwrap_err());
        }
    })
    .await;
}

#[tokio::test]
async fn no_value_is_printed() {
    testkit::run(async |db| {
        let builder = Pages::<Document>::over(db.collection::<Document>("orders")).filter(filter());
        let pages = filled(db).await;
        let token = pages.list().limit(2).page().await.unwrap().next.unwrap();
        let other = super::support::pages(db, doc! { "tenant": SECRET, "$where": SECRET }, doc! {});
        // The server's error quotes the filter.
        let quoted = doc! { SECRET: { "$regex": SECRET, "$gt": Bson::Undefined } };
        let quoted = super::support::pages(db, quoted, doc! { "rank": 1 });
        let unindexed = super::support::pages(db, doc! { "tenant": SECRET }, doc! { "none": 1 });
        let errors = [
            other.list().after(token.clone()).page().await.unwrap_err(),
            quoted.list().page().await.unwrap_err(),
            unindexed.list().page().await.unwrap_err(),
        ];
        let printed = format!(
            "{builder:?} {pages:?} {token:?} {:?} {:?} {errors:?} {} {} {}",
            pages.list().after(token.clone()),
            pages.ensure_index(),
            errors[0],
            errors[1],
            errors[2],
        );
        assert!(!printed.contains(SECRET) && !printed.contains("qq"), "{printed}");
        let text = token.to_string();
        let digits: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
        // Those of the position, which are no values of the filter.
        assert_eq!(text.matches(&digits).count(), 1, "the `_id`");
    })
    .await;
}
