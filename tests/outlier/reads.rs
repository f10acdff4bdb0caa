//! Reading: typical documents in one find, outliers in two, any page of elements, and documents of the manual's form.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

use support::common::all;
use support::outlier::*;

#[tokio::test]
async fn a_typical_document_is_one_find_and_an_outlier_two() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        books.insert(&book(1, 3)).await.unwrap();
        books.insert(&book(2, 37)).await.unwrap();
        db.recorder().clear();

        let found = books.get(1).await.unwrap().unwrap();
        assert_eq!((found.document, found.has_extras), (book(1, 3), false));
        let found = books.get(2).await.unwrap().unwrap();
        assert!(found.has_extras && found.document.customers_purchased == users(0..5));
        assert_eq!(db.recorder().names(), ["find", "find"]);

        db.recorder().clear();
        assert_eq!(books.get_full(1).await.unwrap(), Some(book(1, 3)));
        assert_eq!(db.recorder().names(), ["find"]);
        assert_eq!(books.get_full(2).await.unwrap(), Some(book(2, 37)));
        assert_eq!(db.recorder().names(), ["find"; 3]);

        db.recorder().clear();
        assert_eq!(books.count(1).await.unwrap().total(), 3);
        assert_eq!(db.recorder().names(), ["find"]);
        let counts = books.count(2).await.unwrap();
        assert_eq!((counts.inline, counts.overflow), (5, 32));
        assert_eq!(db.recorder().names(), ["find", "find", "aggregate"]);

        for (user, expected, round_trips) in [("user00", true, 1), ("user30", true, 2), ("nobody", false, 2)] {
            db.recorder().clear();
            assert_eq!(books.contains(2, &user.to_owned()).await.unwrap(), expected, "{user}");
            assert_eq!(db.recorder().round_trips(), round_trips, "{user}");
        }
        db.recorder().clear();
        assert!(!books.contains(1, &"nobody".to_owned()).await.unwrap());
        assert_eq!(db.recorder().round_trips(), 1);
    })
    .await;
}

#[tokio::test]
async fn any_page_of_elements_of_any_list() {
    testkit::run(async |db| {
        let books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        for (id, purchases) in [(1, 0), (2, 5), (4, 47)] {
            books.insert(&book(id, purchases)).await.unwrap();
            let expected = users(0..purchases);
            assert_eq!(books.elements(id).await.unwrap(), expected);
            let streamed: Vec<String> = books.elements(id).stream().try_collect().await.unwrap();
            assert_eq!(streamed, expected);
            for skip in [0, 4, 5, 15, 60] {
                for limit in [1, 12, 100] {
                    let page: Vec<String> = expected.iter().skip(skip).take(limit).cloned().collect();
                    let (skip, limit) = (skip as u64, limit as u64);
                    let elements = books.elements(id).skip(skip);
                    assert_eq!(elements.limit(limit).await.unwrap(), page, "{id}: {skip}+{limit}");
                    let stream = books.elements(id).skip(skip).limit(limit).stream();
                    let streamed: Vec<String> = stream.try_collect().await.unwrap();
                    assert_eq!(streamed, page, "{id}: {skip}+{limit}");
                }
                let rest = books.elements(id).skip(skip as u64).await.unwrap();
                assert_eq!(rest, expected[skip.min(purchases)..], "{id}: {skip}");
            }
        }
        // a page in the middle is three round trips, and no more overflow documents than it needs
        db.recorder().clear();
        books.elements(4).skip(16).limit(5).await.unwrap();
        let commands = db.recorder().commands();
        assert_eq!(db.recorder().names(), ["find", "find", "find"]);
        assert_eq!(commands[2].command.get("limit"), Some(&Bson::Int64(1)));
    })
    .await;
}

#[tokio::test]
async fn the_manuals_own_documents_are_read_and_pushed_to() {
    testkit::run(async |db| {
        let text = |range| users(range).into_iter().map(Bson::String).collect::<Vec<_>>();
        let books = books(db).await;
        sales(db)
            .insert_many([
                doc! {
                    "_id": 1, "title": "Invisible Cities", "year": 1972, "author": "Italo Calvino",
                    "customers_purchased": ["user00", "user01", "user02"],
                },
                doc! {
                    "_id": 2, "title": "The Wooden Amulet", "year": 2023, "author": "Lesley Moreno",
                    "customers_purchased": text(0..50), "has_extras": true,
                },
            ])
            .await
            .unwrap();
        let naive = doc! { "book_id": 2, "customers_purchased_extra": text(50..1000) };
        extra_sales(db).insert_one(naive).await.unwrap();
        let whole = async |id| books.get_full(id).await.unwrap().unwrap().customers_purchased;
        assert_eq!(whole(1).await, users(0..3));
        assert_eq!(whole(2).await, users(0..1000));
        assert_eq!(books.count(2).await.unwrap().total(), 1000);
        assert!(books.contains(2, &"user999".to_owned()).await.unwrap());
        assert_eq!(books.elements(2).skip(990).limit(5).await.unwrap(), users(990..995));
        for user in users(1000..1010) {
            books.push(2, &user).await.unwrap();
        }
        assert_eq!(whole(2).await, users(0..1010));
        let newest = extra_sales(db).find_one(doc! { "seq": 0 }).await.unwrap().unwrap();
        assert_eq!(newest.get_i32("count").unwrap(), 10, "the large one is full");
        assert!(books.remove(2, &"user500".to_owned()).await.unwrap().found);
        assert_eq!(books.count(2).await.unwrap().total(), 1009);
    })
    .await;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Purchase {
    user: String,
    copies: i32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct BookOfPurchases {
    _id: String,
    purchases: Vec<Purchase>,
    has_more: bool,
}

#[tokio::test]
async fn names_and_types_are_the_users() {
    testkit::run(async |db| {
        let [main, overflow] = ["books", "books_more"].map(|name| db.collection::<Document>(name));
        let books = mongo_patterns::outlier::OutlierRepository::<BookOfPurchases, Purchase>::builder(main, overflow)
            .array_field("purchases")
            .flag_field("has_more")
            .parent_field("book")
            .overflow_field("more")
            .seq_field("place")
            .count_field("n")
            .threshold(1)
            .max_overflow_elements(2);
        let books = ready(db, books).await;
        let purchase = |copies| Purchase {
            user: "joe".to_owned(),
            copies,
        };
        let whole = |has_more| BookOfPurchases {
            _id: "a".to_owned(),
            purchases: (1..=4).map(purchase).collect(),
            has_more,
        };
        books.insert(&whole(false)).await.unwrap();
        assert_eq!(books.get_full("a").await.unwrap().unwrap(), whole(true));
        let extras = all(&db.plain_collection("books_more")).await;
        let places: Vec<Document> = extras
            .into_iter()
            .map(|mut document| {
                document.remove("_id").unwrap();
                document.remove("more").unwrap();
                document
            })
            .collect();
        let place = |place: i32, n: i32| doc! { "book": "a", "place": place, "n": n };
        assert_eq!(places, [place(0, 2), place(1, 1)]);
        assert!(books.contains("a", &purchase(4)).await.unwrap());
        assert!(books.remove("a", &purchase(1)).await.unwrap().found);
        assert!(books.remove("a", &purchase(3)).await.unwrap().found);
        assert_eq!(books.elements("a").await.unwrap(), [purchase(2), purchase(4)]);
    })
    .await;
}

#[tokio::test]
async fn an_unreadable_document_is_named() {
    testkit::run(async |db| {
        let books = books(db).await;
        let new = doc! { "_id": 1, "title": 5, "customers_purchased": [] };
        sales(db).insert_one(new).await.unwrap();
        let error = books.get(1).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.document_id()),
            (ErrorKind::Decode, Some(&Bson::Int32(1)))
        );
        let text = error.to_string();
        assert!(
            text.starts_with("outlier get on ") && text.contains("cannot be read") && !text.contains("``"),
            "{text}"
        );
        assert_eq!(error.field(), Some("title"));
        let null = doc! { "_id": 4, "title": "", "customers_purchased": null };
        sales(db).insert_one(null).await.unwrap();
        for error in [books.get(4).await.unwrap_err(), books.get_full(4).await.unwrap_err()] {
            assert_at(&error, ErrorKind::Decode, "customers_purchased");
        }
        let new = doc! { "_id": 2, "title": "", "customers_purchased": ["a", 7] };
        sales(db).insert_one(new).await.unwrap();
        let error = books.elements(2).await.unwrap_err();
        assert_at(&error, ErrorKind::Decode, "customers_purchased.1");
        let error = books.elements(2).stream().try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Decode, Some("elements")));

        let new = doc! { "_id": 3, "title": "", "has_extras": true };
        sales(db).insert_one(new).await.unwrap();
        let broken = doc! { "book_id": 3, "seq": 0, "count": 1, "customers_purchased_extra": "user" };
        extra_sales(db).insert_one(broken).await.unwrap();
        let error = books.get_full(3).await.unwrap_err();
        assert_at(&error, ErrorKind::Corrupt, "customers_purchased_extra");
        // The push has not read which overflow document it is.
        let error = books.push(3, &"user".to_owned()).await.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Corrupt, None));
        assert_eq!(error.document_id(), Some(&Bson::Int32(3)));
        assert!(error.to_string().contains("the newest overflow document"), "{error}");
        assert_eq!(books.get_full(9).await.unwrap(), None);
        assert!(books.get(9).await.unwrap().is_none());
        for error in [
            books.elements(9).await.unwrap_err(),
            books.elements(9).stream().try_collect::<Vec<_>>().await.unwrap_err(),
            books.count(9).await.unwrap_err(),
            books.contains(9, &String::new()).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
    })
    .await;
}

#[tokio::test]
async fn a_whole_document_without_an_array_is_corrupt_also_without_a_flag() {
    testkit::run(async |db| {
        let books = ready(db, builder::<Document, Bson>(db)).await;
        for flag in [false, true] {
            let document = doc! { "_id": 1, "customers_purchased": "user00", "has_extras": flag };
            sales(db).delete_many(doc! {}).await.unwrap();
            sales(db).insert_one(document).await.unwrap();
            let error = books.get_full(1).await.unwrap_err();
            assert_at(&error, ErrorKind::Corrupt, "customers_purchased");
        }
        for document in [doc! { "_id": 2 }, doc! { "_id": 3, "customers_purchased": Bson::Null }] {
            sales(db).insert_one(&document).await.unwrap();
            let id = document.get_i32("_id").unwrap();
            assert_eq!(books.get_full(id).await.unwrap(), Some(document), "it has no elements");
        }
    })
    .await;
}
