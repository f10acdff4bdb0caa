//! Pages over both collections.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::archive::{Archive, ArchiveToken, Found};
use mongo_patterns::list::List;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, Timestamp, doc};

use support::archive::sales::*;
use support::explain::explain_last;
use support::random::random;

fn list(archive: &Archive<Document>, newest_first: bool) -> List<'_, Found<Document>, ArchiveToken> {
    match newest_first {
        true => archive.list(doc! {}).newest_first(),
        false => archive.list(doc! {}),
    }
}

/// Returns all documents in pages, with the texts of the tokens between them, and reads them again from the last page back.
async fn pages(archive: &Archive<Document>, newest_first: bool, limit: u32) -> Vec<Found<Document>> {
    let (mut all, mut after) = (Vec::new(), None::<ArchiveToken>);
    let mut before = loop {
        let page = list(archive, newest_first)
            .limit(limit)
            .after(after)
            .page()
            .await
            .unwrap();
        assert!(page.items.len() == limit as usize || page.next.is_none());
        all.extend(page.items);
        match page.next {
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => break page.last_token,
        }
    };
    let mut back = Vec::from_iter(all.last().cloned());
    while let Some(token) = before {
        let token: ArchiveToken = token.to_string().parse().unwrap();
        let page = list(archive, newest_first)
            .limit(limit)
            .before(token)
            .page()
            .await
            .unwrap();
        assert!(page.items.len() == limit as usize || page.previous.is_none());
        back.splice(..0, page.items);
        before = page.previous;
    }
    assert!(back.iter().map(key).eq(all.iter().map(key)));
    all
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

/// Documents that are archived between two pages are not found again, also of the age at which the page ends.
#[tokio::test]
async fn a_token_survives_a_run() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..40).map(|id| sale(id, old(0)))).await;
        let first = list(&archive, true).limit(10).page().await.unwrap();
        archive.run().await.unwrap();
        let rest = list(&archive, true).after(first.next.clone()).page().await.unwrap();
        let ids = |found: &[Found<Document>]| -> Vec<i32> {
            found
                .iter()
                .map(|found| found.document.get_i32("_id").unwrap())
                .collect()
        };
        assert_eq!(ids(&first.items), (30..40).rev().collect::<Vec<_>>());
        assert_eq!(ids(&rest.items), (0..30).rev().collect::<Vec<_>>());
        archive.restore_many(doc! {}).await.unwrap();
        let again = list(&archive, true).after(first.next).page().await.unwrap();
        assert_eq!(ids(&again.items), ids(&rest.items));
    })
    .await;
}

/// `_id`s of all types, some of them equal numbers of different types for a client that compares texts.
fn any_id(n: i64) -> Bson {
    let byte = u8::try_from(n % 256).unwrap();
    match n {
        0 => Bson::Null,
        1 => Bson::MinKey,
        2 => Bson::MaxKey,
        3 => f64::NAN.into(),
        4 => f64::NEG_INFINITY.into(),
        5 => Bson::Decimal128("0.1".parse().unwrap()),
        6 => 0.1.into(),
        7 => Bson::Symbol("s".to_owned()),
        8 => Bson::JavaScriptCode("s".to_owned()),
        9 => true.into(),
        10 => false.into(),
        11 => Bson::Decimal128("Infinity".parse().unwrap()),
        12 => Bson::Decimal128("-1E+6000".parse().unwrap()),
        13 => doc! {}.into(),
        14 => i64::MAX.into(),
        15 => 9_223_372_036_854_775_808.0.into(),
        _ => match n % 12 {
            0 => Bson::Int64(n),
            1 => Bson::Double(n as f64 - 0.5),
            2 => format!("s{}", n % 97).repeat(1 + (n % 2) as usize).into(),
            3 => Bson::ObjectId(ObjectId::from_bytes([byte; 12])),
            4 => doc! { "n": n % 7, "a.b": n }.into(),
            5 => doc! { "n": (n % 7).to_string(), "gt": [n, 1.5] }.into(),
            6 => Bson::Binary(Binary {
                subtype: BinarySubtype::from(byte % 3 * 2),
                bytes: vec![byte; 1 + (n % 3) as usize],
            }),
            7 => DateTime::from_millis(-n).into(),
            8 => Bson::Timestamp(Timestamp {
                time: byte.into(),
                increment: n as u32,
            }),
            9 => Bson::Decimal128(format!("{n}.25").parse().unwrap()),
            10 => (-i32::try_from(n).unwrap()).into(),
            _ => format!("\u{e9}{n}").into(),
        },
    }
}

/// Whatever moves between two pages. Documents have few ages, and the order is that of the server.
#[tokio::test]
async fn each_document_is_on_one_page_beside_runs_and_restores() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let documents = (0..240).map(|n| {
            let mut sale = sale(any_id(n), old(n % 3));
            sale.insert("n", n);
            sale
        });
        plant(db, documents).await;
        let id = |document: &Document| format!("{:?}", document.get("_id").unwrap());
        let sales = current(db);
        let in_order = sales.find(doc! {}).sort(doc! { "date": 1, "_id": 1 });
        let sorted: Vec<Document> = in_order.await.unwrap().try_collect().await.unwrap();
        let mut random = random(0);
        for newest_first in [false, true, false, true] {
            let (mut found, mut after) = (Vec::new(), None::<ArchiveToken>);
            loop {
                let page = list(&archive, newest_first).limit(random.u32(1..=10)).after(after);
                let page = page.page().await.unwrap();
                found.extend(page.items.into_iter().map(|found| id(&found.document)));
                let Some(next) = page.next else { break };
                after = Some(next.to_string().parse().unwrap());
                match random.u8(0..3) {
                    0 => {
                        archive.run().before(old(random.i64(0..4))).await.unwrap();
                    }
                    1 => {
                        let some = doc! { "n": { "$mod": [random.i32(2..6), random.i32(0..2)] } };
                        archive.restore_many(some).await.unwrap();
                    }
                    _ => {}
                }
            }
            let expected: Vec<String> = sorted.iter().map(id).collect();
            assert_eq!(found.len(), expected.len());
            if newest_first {
                found.reverse();
            }
            assert_eq!(found, expected);
        }
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
        let first = list(&archive, true).limit(10).page().await.unwrap();
        db.recorder().clear();
        let second = list(&archive, true).limit(10).after(first.next).page().await.unwrap();
        assert_eq!(second.items.first().map(|found| key(found).0), Some(old(89)));
        assert_eq!(db.recorder().names(), ["find", "find"]);
        let examined = explain_last(db).await;
        assert_eq!((&*examined.index, examined.documents), ("date_1__id_1", 11));
        let found = archive
            .list(doc! { "_id": { "$gte": 45 } })
            .limit(8)
            .page()
            .await
            .unwrap();
        let archived: Vec<bool> = found.items.iter().map(|found| found.is_archived).collect();
        assert_eq!(archived, [true, true, true, true, true, false, false, false]);
        assert_eq!(pages(&archive, true, 30).await.len(), 100);
        assert_eq!(pages(&archive, true, u32::MAX).await.len(), 100);
        let zero = archive.list(doc! {}).limit(0).page().await.unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidArgument);
    })
    .await;
}

/// An empty page has the tokens around it, and a stream has all documents.
#[tokio::test]
async fn a_list_has_an_end_in_both_directions_and_a_stream() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..7).map(|id| sale(id, old(i64::from(id))))).await;
        archive.run().before(old(4)).await.unwrap();
        for newest_first in [true, false] {
            let all: Vec<Found<Document>> = list(&archive, newest_first)
                .limit(2)
                .stream()
                .try_collect()
                .await
                .unwrap();
            assert!(
                all.iter()
                    .map(key)
                    .eq(pages(&archive, newest_first, 3).await.iter().map(key))
            );
            let whole = list(&archive, newest_first).page().await.unwrap();
            assert_eq!(
                (whole.items.len(), whole.previous.is_none(), whole.next.is_none()),
                (7, true, true)
            );
            let beyond = list(&archive, newest_first)
                .after(whole.last_token)
                .page()
                .await
                .unwrap();
            assert!(beyond.items.is_empty() && beyond.next.is_none());
            let last = list(&archive, newest_first)
                .limit(3)
                .before(beyond.previous)
                .page()
                .await
                .unwrap();
            assert!(last.items.iter().map(key).eq(all[4..].iter().map(key)));
            let beyond = list(&archive, newest_first)
                .before(whole.first_token)
                .page()
                .await
                .unwrap();
            assert!(beyond.items.is_empty() && beyond.previous.is_none());
            let first = list(&archive, newest_first)
                .limit(3)
                .after(beyond.next.clone())
                .page()
                .await
                .unwrap();
            assert!(first.items.iter().map(key).eq(all[..3].iter().map(key)));
            let nothing = list(&archive, newest_first).before(beyond.next).page().await.unwrap();
            assert!(nothing.items.is_empty());
        }
    })
    .await;
}
