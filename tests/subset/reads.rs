//! Reads: a product with its newest reviews by one find, and all reviews by pages.

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{ChildToken, Subset};
use mongo_patterns_testkit as testkit;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, doc};

use support::common::explain_last;
use support::subset::*;

#[tokio::test]
async fn a_product_and_a_review_need_one_find_each() {
    testkit::run(async |db| {
        let products = products(db).await;
        let children: Vec<Review> = (0..300).map(review).collect();
        products.insert_many(&children).await.unwrap();
        db.recorder().clear();
        let found = products.get(1).await.unwrap().unwrap();
        let ids: Vec<i32> = found.reviews.iter().map(|review| review.review_id).collect();
        assert_eq!(ids, (290..300).rev().collect::<Vec<_>>());
        assert!(products.get(2).await.unwrap().is_none());
        assert_eq!(db.recorder().names(), ["find", "find"]);
        assert_eq!(products.child(1, 17).await.unwrap(), Some(review(17)));
        assert_eq!(explain_last(db).await.documents, 1);
        assert_eq!(products.child(1, 1000).await.unwrap(), None);
        assert_eq!(db.recorder().round_trips(), 4);

        change_product(db, doc! { "$set": { "name": 5 } }).await;
        assert_eq!(products.get(1).await.unwrap_err().kind(), ErrorKind::Decode);
    })
    .await;
}

#[tokio::test]
async fn every_page_examines_what_it_returns() {
    testkit::run(async |db| {
        let products = products(db).await;
        for other in [0, 2] {
            add_product(db, other).await;
        }
        let children = (0..3).flat_map(|product| (0..95).map(move |id| review_of(product, id, i64::from(id / 4))));
        products.insert_many(&children.collect::<Vec<_>>()).await.unwrap();
        let ids = |reviews: &[Review]| reviews.iter().map(|review| review.review_id).collect::<Vec<_>>();
        let all: Vec<i32> = (0..95).rev().collect();

        let mut page = products.children(1).limit(10).page().await.unwrap();
        assert_eq!(page.previous, None);
        let (mut forward, mut pages) = (ids(&page.items), Vec::new());
        while let Some(next) = page.next.clone() {
            db.recorder().clear();
            pages.push(page);
            page = products.children(1).limit(10).after(next).page().await.unwrap();
            assert_eq!(db.recorder().names(), ["find"]);
            let examined = explain_last(db).await;
            assert_eq!(examined.documents, page.items.len() as i64, "{examined:?}");
            assert!(examined.keys <= 12, "{examined:?}");
            forward.extend(ids(&page.items));
        }
        assert_eq!(forward, all);
        assert_eq!((pages.len(), page.items.len()), (9, 5));

        while let Some(previous) = page.previous.clone() {
            db.recorder().clear();
            page = products.children(1).limit(10).before(previous).page().await.unwrap();
            let examined = explain_last(db).await;
            assert_eq!(examined.documents, page.items.len() as i64, "{examined:?}");
            assert!(examined.keys <= 12, "{examined:?}");
            let expected = pages.pop().map(|page| ids(&page.items)).unwrap_or_default();
            assert_eq!(ids(&page.items), expected);
        }
        assert!(pages.is_empty());
        let first = page
            .next
            .expect("an empty page before the first continues with the first");
        let again = products.children(1).limit(3).after(first).page().await.unwrap();
        assert_eq!(ids(&again.items), [94, 93, 92]);
        assert_eq!(products.children(9).page().await.unwrap().items, []);
        // A token outlives its child.
        let token = products.children(1).limit(4).page().await.unwrap().next;
        for id in [91, 90] {
            products.delete(1, id).await.unwrap();
        }
        let next = products.children(1).limit(3).after(token).page().await.unwrap();
        assert_eq!(ids(&next.items), [89, 88, 87]);
    })
    .await;
}

/// Values of all types, missing values and equal values, in both directions.
#[tokio::test]
async fn pages_skip_no_child() {
    testkit::run(async |db| {
        for direction in [1, -1] {
            let order = Subset::new("reviews").sort(doc! { "rank": direction, "stars": 1 });
            let products = ready(db, builder_of::<Document, Document>(db.database(), order)).await;
            let ranks: [Bson; 8] = [
                Bson::Null,
                5.into(),
                5.5.into(),
                "x".into(),
                doc! { "$gt": 1 }.into(),
                true.into(),
                day(1).into(),
                ObjectId::from_bytes([7; 12]).into(),
            ];
            let mut new = Vec::new();
            for (n, rank) in ranks.iter().cycle().take(40).enumerate() {
                let n = i32::try_from(n).unwrap();
                let mut child = doc! { "product_id": 1, "review_id": format!("r{n}"), "stars": n % 3 };
                if n % 11 > 0 {
                    child.insert("rank", rank.clone());
                }
                new.push(child);
            }
            products.insert_many(&new).await.unwrap();
            let whole = products.children(1).page().await.unwrap().items;
            assert_eq!(whole.len(), new.len());
            for limit in [1, 3, 7] {
                let (mut forward, mut token) = (Vec::new(), None::<ChildToken>);
                loop {
                    let read = products.children(1).limit(limit);
                    let page = match &token {
                        Some(token) => read
                            .after(token.to_string().parse::<ChildToken>().unwrap())
                            .page()
                            .await
                            .unwrap(),
                        None => read.page().await.unwrap(),
                    };
                    forward.extend(page.items);
                    match page.next {
                        Some(next) => token = Some(next),
                        None => break,
                    }
                }
                assert_eq!(forward, whole, "{direction:?} {limit}");
                let mut backward = Vec::new();
                while let Some(at) = token {
                    let page = products.children(1).limit(limit).before(at).page().await.unwrap();
                    token = page.previous;
                    backward.splice(0..0, page.items);
                }
                assert!(whole.starts_with(&backward) && whole.len() - backward.len() <= limit as usize);
            }
        }
    })
    .await;
}

/// Ids that are as close to each other as their types allow.
#[tokio::test]
async fn no_id_is_between_a_position_and_its_adjacent_bound() {
    testkit::run(async |db| {
        let binary = |bytes: &[u8]| {
            let (subtype, bytes) = (BinarySubtype::Generic, bytes.to_vec());
            Bson::from(Binary { subtype, bytes })
        };
        let doubles = [
            5_f64.next_up(),
            5_f64.next_down(),
            f64::MIN_POSITIVE,
            -f64::from_bits(1),
            (-10_f64).next_up(),
            1e300,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let decimals = "5.000000000000000000000000000000002 4.999999999999999999999999999999998 \
            9.999999999999999999999999999999998 -9.999999999999999999999999999999998 1E-6175 -1E-6175 \
            9223372036854775807.000000000000002";
        let decimals = decimals
            .split_whitespace()
            .map(|text| Bson::Decimal128(text.parse().unwrap()));
        let object_ids = [0, 1, 255].map(|last| ObjectId::from_bytes([7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, last]));
        let mut ids: Vec<Bson> = [-10, -5, -1, 0, 1, 5, 10].map(Bson::Int32).to_vec();
        ids.extend([i64::MIN, 1 << 53, i64::MAX].map(Bson::Int64));
        ids.extend(doubles.map(Bson::Double));
        ids.extend(decimals);
        ids.extend(["a", "a\0\0", "a\u{1}", "b", "", "\0", "é"].map(Bson::from));
        let bytes: [&[u8]; 6] = [&[], &[0], &[255], &[0, 0], &[1, 0], &[1, 255]];
        ids.extend(bytes.map(binary));
        ids.extend([true, false].map(Bson::from));
        ids.extend([DateTime::MIN, day(1), DateTime::MAX].map(Bson::from));
        ids.extend(object_ids.map(Bson::ObjectId));
        ids.extend([Bson::Null, ObjectId::from_bytes([255; 12]).into()]);
        for direction in [1, -1] {
            let order = Subset::new("reviews").sort(doc! { "stars": direction });
            let products = ready(db, builder_of::<Document, Document>(db.database(), order)).await;
            let children = ids
                .iter()
                .map(|id| doc! { "product_id": 1, "review_id": id.clone(), "stars": 5 });
            let reviews = db.collection::<Document>("review");
            reviews.insert_many(children).await.unwrap();
            // NaN does not equal itself.
            let shown = |page: &[Document]| {
                page.iter()
                    .map(|child| format!("{}", child["review_id"]))
                    .collect::<Vec<_>>()
            };
            let whole = shown(&products.children(1).page().await.unwrap().items);
            assert_eq!(whole.len(), ids.len());
            let (mut in_pages, mut next) = (Vec::new(), None);
            loop {
                db.recorder().clear();
                let page = products.children(1).limit(1).after(next).page().await.unwrap();
                let examined = explain_last(db).await;
                assert!(examined.documents <= 2, "{examined:?}");
                in_pages.extend(shown(&page.items));
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
            assert_eq!(in_pages, whole, "{direction:?}");
            reviews.delete_many(doc! {}).await.unwrap();
        }
    })
    .await;
}

/// Polls both ends while children are stored there: each child is read once, without further commands.
#[tokio::test]
async fn both_ends_of_the_children_can_be_polled() {
    testkit::run(async |db| {
        let products = products(db).await;
        let ids = |page: &[Review]| page.iter().map(|review| review.review_id).collect::<Vec<_>>();
        products.insert(&review(100)).await.unwrap();
        let page = products.children(1).limit(3).page().await.unwrap();
        assert_eq!((page.items.len(), &page.next, &page.previous), (1, &None, &None));
        let (mut first, mut last) = (page.first_token.unwrap(), page.last_token.unwrap());
        let (mut newest, mut oldest) = (Vec::new(), Vec::new());
        let mut stored = 1_i32;
        for round in 0..6 {
            let more: Vec<Review> = (0..round)
                .flat_map(|n| [review(100 + stored + n), review(100 - stored - n)])
                .collect();
            stored += round;
            if round > 0 {
                products.insert_many(&more).await.unwrap();
            }
            db.recorder().clear();
            let mut pages = 0;
            loop {
                let page = products.children(1).limit(3).before(first).page().await.unwrap();
                first = page.first_token.unwrap().to_string().parse().unwrap();
                newest.splice(0..0, ids(&page.items));
                pages += 1;
                if page.previous.is_none() {
                    break;
                }
            }
            loop {
                let page = products.children(1).limit(3).after(last).page().await.unwrap();
                last = page.last_token.unwrap().to_string().parse().unwrap();
                oldest.extend(ids(&page.items));
                pages += 1;
                if page.next.is_none() {
                    break;
                }
            }
            assert_eq!(db.recorder().names(), vec!["find"; pages]);
        }
        let all: Vec<i32> = (0..200_i32)
            .rev()
            .filter(|id| *id != 100 && (*id - 100).abs() < stored)
            .collect();
        assert_eq!(newest, all.iter().copied().filter(|id| *id > 100).collect::<Vec<_>>());
        assert_eq!(oldest, all.iter().copied().filter(|id| *id < 100).collect::<Vec<_>>());
    })
    .await;
}

/// The text of each token of a page can be parsed, and continues there, also with long and deep values.
#[tokio::test]
async fn tokens_of_long_and_deep_values_are_read() {
    testkit::run(async |db| {
        let by_rank = Subset::new("reviews").sort(doc! { "rank": 1 }).size(1);
        let products = ready(db, builder_of::<Document, Document>(db.database(), by_rank)).await;
        let deep = |levels: usize| (0..levels).fold(Bson::from(1), |inner, _| doc! { "a": inner }.into());
        let in_arrays = |levels: usize| (0..levels).fold(Bson::from(1), |inner, _| vec![inner].into());
        let values: [Bson; 6] = [
            "x".repeat(5_000).into(),
            "y".repeat(256 * 1024).into(),
            deep(40),
            // A server stores more than 100 levels, but a debug build needs too much stack for such a `Document`.
            deep(60),
            doc! { "b": in_arrays(40) }.into(),
            Binary {
                subtype: BinarySubtype::Generic,
                bytes: vec![0; 10_000],
            }
            .into(),
        ];
        for (at, value) in (1..).zip(values) {
            let id = if at == 3 {
                Bson::from("i".repeat(9_000))
            } else {
                at.into()
            };
            let child = doc! { "product_id": 1, "review_id": id, "rank": value };
            products.insert(&child).await.unwrap();
        }
        let (mut read, mut page) = (0, products.children(1).limit(1).page().await.unwrap());
        while let Some(next) = page.next {
            read += page.items.len();
            let parsed: ChildToken = next.to_string().parse().unwrap();
            assert!(parsed == next);
            page = products.children(1).limit(1).after(parsed).page().await.unwrap();
            if let (Some(previous), [child]) = (&page.previous, &page.items[..]) {
                let previous: ChildToken = previous.to_string().parse().unwrap();
                let back = products.children(1).limit(1).before(previous).page().await.unwrap();
                assert!(back.items.len() == 1 && back.items != [child.clone()]);
            }
        }
        assert_eq!(read, 6);
    })
    .await;
}
