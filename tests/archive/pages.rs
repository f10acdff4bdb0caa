//! Pages over both collections.

use mongo_patterns::ErrorKind;
use mongo_patterns::archive::{Archive, ArchiveToken, Found};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::archive::sales::*;
use support::explain::explain_last;

/// Returns all documents in pages, with the texts of the tokens between them.
async fn pages(archive: &Archive<Document>, newest_first: bool, limit: u32) -> Vec<Found<Document>> {
    let (mut all, mut after) = (Vec::new(), None::<ArchiveToken>);
    loop {
        let mut find = archive.find(doc! {}).limit(limit).after(after);
        if !newest_first {
            find = find.oldest_first();
        }
        let page = find.await.unwrap();
        let is_last = page.next.is_none();
        assert_eq!(
            page.documents.len() < limit as usize,
            is_last && page.documents.len() < limit as usize
        );
        all.extend(page.documents);
        match page.next {
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => return all,
        }
    }
}

fn key(found: &Found<Document>) -> (DateTime, bool, Bson) {
    let document = &found.document;
    (
        *document.get_datetime("date").unwrap(),
        found.is_archived,
        document.get("_id").unwrap().clone(),
    )
}

/// Many documents have one age, in both collections, and `_id`s of several types.
async fn plant_both(db: &TestDatabase) -> usize {
    let id = |n: i64| match n % 5 {
        0 => Bson::Int64(n),
        1 => Bson::Double(n as f64 + 0.5),
        2 => Bson::String(format!("s{n:03}")),
        3 => Bson::ObjectId(ObjectId::from_bytes([u8::try_from(n).unwrap(); 12])),
        _ => Bson::Document(doc! { "n": n, "a.b": 1 }),
    };
    let documents = |from: i64| (from..from + 40).map(move |n| sale(id(n), old(n % 4)));
    plant(db, documents(0)).await;
    archived(db).insert_many(documents(100)).await.unwrap();
    80
}

#[tokio::test]
async fn pages_have_each_document_once_in_order() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let documents = plant_both(db).await;
        for newest_first in [true, false] {
            let whole = pages(&archive, newest_first, 1000).await;
            assert_eq!(whole.len(), documents);
            let ages: Vec<DateTime> = whole.iter().map(|found| key(found).0).collect();
            let mut sorted = ages.clone();
            sorted.sort();
            if newest_first {
                sorted.reverse();
            }
            assert_eq!(ages, sorted);
            for limit in [1, 3, 7, 79, 80] {
                let paged = pages(&archive, newest_first, limit).await;
                let (paged, whole): (Vec<_>, Vec<_>) =
                    (paged.iter().map(key).collect(), whole.iter().map(key).collect());
                assert_eq!(paged, whole, "{newest_first} {limit}");
            }
        }
    })
    .await;
}

/// Documents that are archived between two pages are not found again.
#[tokio::test]
async fn a_token_survives_a_run() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..30).map(|id| sale(id, old(i64::from(id / 3))))).await;
        let first = archive.find(doc! {}).oldest_first().limit(10).await.unwrap();
        assert!(first.documents.iter().all(|found| !found.is_archived));
        archive.run().await.unwrap();
        let rest = archive.find(doc! {}).oldest_first().after(first.next).await.unwrap();
        let ids = |found: &[Found<Document>]| -> Vec<i32> {
            found
                .iter()
                .map(|found| found.document.get_i32("_id").unwrap())
                .collect()
        };
        // Of one age, a page has those of the collection first, so those of the archive are new to it.
        assert_eq!(ids(&first.documents), (0..10).collect::<Vec<_>>());
        assert_eq!(ids(&rest.documents), (9..30).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_page_examines_what_it_returns() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..100).map(|id| sale(id, old(i64::from(id))))).await;
        archive.run().before(old(50)).await.unwrap();
        // What is no date is not found, and neither is an array of dates.
        let others = [
            doc! { "_id": "a", "date": "2018" },
            doc! { "_id": "b", "date": [old(1), old(2)] },
            doc! { "_id": "c" },
        ];
        current(db).insert_many(others).await.unwrap();
        let first = archive.find(doc! {}).limit(10).await.unwrap();
        db.recorder().clear();
        let second = archive.find(doc! {}).limit(10).after(first.next).await.unwrap();
        assert_eq!(second.documents.first().map(|found| key(found).0), Some(old(89)));
        assert_eq!(db.recorder().names(), ["find", "find"]);
        let examined = explain_last(db).await;
        assert_eq!((&*examined.index, examined.documents), ("date_1__id_1", 12));
        let find = archive.find(doc! { "_id": { "$gte": 45 } });
        let found = find.oldest_first().limit(8).await.unwrap();
        let archived: Vec<bool> = found.documents.iter().map(|found| found.is_archived).collect();
        assert_eq!(archived, [true, true, true, true, true, false, false, false]);
        assert_eq!(pages(&archive, true, 30).await.len(), 100);
        assert_eq!(pages(&archive, true, u32::MAX).await.len(), 100);
        let zero = archive.find(doc! {}).limit(0).await.unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidArgument);
    })
    .await;
}
