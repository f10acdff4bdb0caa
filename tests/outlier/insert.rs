//! Inserting and deleting whole documents, and all that is refused.

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use support::common::{all, assert_refused, create_validated};
use support::outlier::*;

#[tokio::test]
async fn a_new_document_over_the_threshold_is_split() {
    testkit::run(async |db| {
        let books = books(db).await;
        for purchases in [0, 50, 51, 550, 551, 60_000] {
            clear(db).await;
            db.recorder().clear();
            let inserted = books.insert(&book(2, purchases)).await.unwrap();
            assert_eq!(inserted.id, Bson::Int32(2));
            let expected: &[&str] = match purchases {
                0..=50 => &["insert"],
                60_000 => &["insert", "insert", "insert", "commitTransaction"],
                _ => &["insert", "insert", "commitTransaction"],
            };
            assert_eq!(db.recorder().names(), expected, "{purchases}");
            assert_eq!(stored(db, 2).await, users(0..purchases));
            assert_eq!(violations(db, 50, 500).await, Vec::<String>::new(), "{purchases}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_flag_says_what_is_so_whatever_the_document_says() {
    testkit::run(async |db| {
        let documents = builder::<Document, i32>(db).threshold(2);
        let documents = ready(db, documents).await;
        let document = doc! { "_id": 1, "has_extras": true, "a": 1 };
        documents.insert(&document).await.unwrap();
        let document = doc! { "customers_purchased": [1, 2, 3], "_id": 2, "has_extras": false, "a": 1 };
        documents.insert(&document).await.unwrap();
        let document = doc! { "_id": 3, "customers_purchased": null };
        documents.insert(&document).await.unwrap();
        let stored = all(&sales(db)).await;
        assert_eq!(
            stored,
            [
                doc! { "_id": 1, "has_extras": false, "a": 1 },
                doc! { "_id": 2, "customers_purchased": [1, 2], "has_extras": true, "a": 1 },
                doc! { "_id": 3, "customers_purchased": null },
            ]
        );
        for n in 0..3 {
            documents.push(1, &n).await.unwrap();
            documents.push(3, &n).await.unwrap();
        }
        assert_eq!(documents.elements(1).await.unwrap(), [0, 1, 2]);
        assert_eq!(documents.elements(3).await.unwrap(), [0, 1, 2]);

        // without an `_id` it gets one
        let document = doc! { "customers_purchased": [1, 2, 3, 4] };
        let inserted = documents.insert(&document).await.unwrap();
        assert!(inserted.id.as_object_id().is_some());
        assert_eq!(documents.elements(inserted.id).await.unwrap(), [1, 2, 3, 4]);
    })
    .await;
}

#[tokio::test]
async fn refused_writes_store_nothing() {
    testkit::run(async |db| {
        use ErrorKind::{AlreadyExists, Configuration, DuplicateKey, InvalidArgument, TooLarge};
        let unique = unsharded(db, builder::<Document, Bson>(db).threshold(2).unique_elements()).await;
        let lists = unsharded(db, builder::<Document, Bson>(db).threshold(2)).await;
        let many = doc! { "_id": 1, "customers_purchased": [1, 2, 3] };
        lists.insert(&many).await.unwrap();
        let before = [all(&sales(db)).await, all(&extra_sales(db)).await];
        db.recorder().clear();
        let list = |element: &Bson| doc! { "_id": 2, "customers_purchased": [1, 2, element] };
        let (undefined, array) = (Bson::Undefined, Bson::from(vec![1]));
        let text = Bson::String("x".repeat(17 << 20));
        let no_array = doc! { "_id": 2, "customers_purchased": "user" };
        let mut refused = vec![
            (lists.insert(&no_array).await.map(drop), InvalidArgument),
            (lists.insert(&doc! { "_id": null }).await.map(drop), InvalidArgument),
            (lists.insert(&doc! { "_id": [1] }).await.map(drop), InvalidArgument),
            (lists.insert(&list(&text)).await.map(drop), TooLarge),
            (lists.push(1, &text).await.map(drop), TooLarge),
            (lists.push_many(1, &[Bson::Null, text]).await.map(drop), TooLarge),
            (lists.insert(&list(&undefined)).await.map(drop), InvalidArgument),
            (lists.push(1, &undefined).await.map(drop), InvalidArgument),
            (
                lists.push_many(1, &[Bson::Null, undefined.clone()]).await.map(drop),
                InvalidArgument,
            ),
            (lists.remove(1, &undefined).await.map(drop), InvalidArgument),
            (lists.contains(1, &undefined).await.map(drop), InvalidArgument),
            (lists.push_unique(1, &Bson::Null).await.map(drop), Configuration),
            (unique.insert(&list(&undefined)).await.map(drop), InvalidArgument),
            (unique.insert(&list(&array)).await.map(drop), InvalidArgument),
            (unique.insert(&list(&1.into())).await.map(drop), InvalidArgument),
            (unique.push_unique(1, &undefined).await.map(drop), InvalidArgument),
            (unique.push_unique(1, &array).await.map(drop), InvalidArgument),
            (unique.push_many(1, &[Bson::Null]).await.map(drop), Configuration),
        ];
        for id in [Bson::Null, Bson::Undefined, Bson::Array(vec![])] {
            refused.push((lists.push(id.clone(), &Bson::Null).await.map(drop), InvalidArgument));
            refused.push((lists.get(id.clone()).await.map(drop), InvalidArgument));
            refused.push((lists.delete(id).await.map(drop), InvalidArgument));
        }
        for (number, (refused, kind)) in refused.into_iter().enumerate() {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), kind, "{number}: {error:?}");
            assert!(error.is_invalid_input(), "{number}: {error:?}");
        }
        let error = unique.push(1, &Bson::Null).await.unwrap_err();
        assert_eq!(error.kind(), Configuration);
        assert!(error.to_string().contains("push_unique"), "{error}");
        assert_eq!(db.recorder().round_trips(), 0, "{:?}", db.recorder().names());

        for document in [doc! { "_id": 1 }, many] {
            let error = lists.insert(&document).await.unwrap_err();
            assert_eq!(error.kind(), AlreadyExists, "{document}");
        }
        let by_title = mongodb::IndexModel::builder()
            .keys(doc! { "title": 1 })
            .options(mongodb::options::IndexOptions::builder().unique(true).build())
            .build();
        sales(db).create_index(by_title).await.unwrap();
        assert_refused(lists.insert(&doc! { "_id": 7 }).await, DuplicateKey);
        assert_eq!([all(&sales(db)).await, all(&extra_sales(db)).await], before);
    })
    .await;
}

/// In a session without a transaction the document would be stored alone, with another document's overflow documents.
#[tokio::test]
async fn orphaned_overflow_documents_do_not_join_a_new_document_in_a_session_too() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(2)).await;
        let orphan = doc! { "book_id": 1, "seq": 0, "count": 1, "customers_purchased_extra": ["user99"] };
        extra_sales(db).insert_one(&orphan).await.unwrap();
        let before = all(&extra_sales(db)).await;
        let mut session = db.client().start_session().await.unwrap();
        assert_refused(books.insert(&book(1, 5)).await, ErrorKind::Corrupt);
        let error = books.insert(&book(1, 5)).session(&mut session).await.unwrap_err();
        let of_error = (error.kind(), error.stored_count());
        assert_eq!(of_error, (ErrorKind::Corrupt, None), "{error:?}");
        assert_eq!(all(&sales(db)).await, [] as [Document; 0]);
        assert_eq!(all(&extra_sales(db)).await, before);

        assert_eq!(books.delete(1).await.unwrap().documents, 1);
        books.insert(&book(1, 5)).session(&mut session).await.unwrap();
        let counts = books.count(1).session(&mut session).await.unwrap();
        assert_eq!((counts.inline, counts.overflow), (2, 3));
        let read = books.get_full(1).session(&mut session).await.unwrap();
        assert_eq!(read, Some(book(1, 5)));
        books.insert(&book(2, 5)).await.unwrap();
        assert_eq!(stored(db, 2).await, users(0..5));
    })
    .await;
}

#[tokio::test]
async fn a_field_of_the_wrong_type_is_not_pushed_to() {
    testkit::run(async |db| {
        let books = books(db).await;
        let document = doc! { "_id": 1, "customers_purchased": "user00" };
        sales(db).insert_one(document).await.unwrap();
        let error = books.push(1, &"user01".to_owned()).await.unwrap_err();
        assert_at(&error, ErrorKind::Corrupt, "customers_purchased");
        assert!(!error.to_string().contains("user00"), "{error}");
        assert_refused(books.push(7, &"user01".to_owned()).await, ErrorKind::NotFound);
        assert_refused(books.remove(7, &"user01".to_owned()).await, ErrorKind::NotFound);
        assert!(!books.remove(1, &"user01".to_owned()).await.unwrap().found);
        let expected = [doc! { "_id": 1, "customers_purchased": "user00" }];
        assert_eq!(all(&sales(db)).await, expected);
        assert!(all(&extra_sales(db)).await.is_empty());
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn large_elements_get_overflow_documents_of_their_own() {
    testkit::run(async |db| {
        let books = ready(db, builder(db).threshold(2)).await;
        books.insert(&book(1, 2)).await.unwrap();
        let texts: Vec<String> = (0..7).map(|n| n.to_string().repeat(3 << 20)).collect();
        for text in &texts[..4] {
            books.push(1, text).await.unwrap();
        }
        books.push_many(1, &texts[4..]).await.unwrap();
        let mut expected = users(0..2);
        expected.extend(texts);
        assert!(books.elements(1).await.unwrap() == expected, "in order");
        let full = books.get_full(1).await.unwrap().unwrap();
        assert!(full.customers_purchased == expected, "past 16 MiB");

        // beside those of the array it does not fit, and nothing is stored
        books.insert(&book(2, 0)).await.unwrap();
        books.push(2, &"x".repeat(9 << 20)).await.unwrap();
        assert_refused(books.push(2, &"y".repeat(9 << 20)).await, ErrorKind::TooLarge);
        assert_eq!(books.count(2).await.unwrap().total(), 1);
    })
    .await;
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    testkit::run(async |db| {
        let refused = |builder: mongo_patterns::outlier::OutlierRepositoryBuilder<Book, String>, text: &str| {
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains(text), "{error}");
        };
        refused(builder(db).flag_field("customers_purchased"), "two different");
        refused(builder(db).seq_field("count"), "four different");
        refused(builder(db).overflow_field("book_id"), "four different");
        let [sales, extra_sales] = ["sales", "extra_sales"].map(|name| db.collection::<Document>(name));
        let missing = OutlierRepository::<Book, String>::builder(sales, extra_sales);
        refused(missing.clone(), "array_field");
        refused(missing.array_field("a"), "parent_field");
    })
    .await;
}

#[tokio::test]
async fn without_its_index_an_outlier_is_not_pushed_to() {
    testkit::run(async |db| {
        let books = builder::<Book, String>(db).threshold(2).build().unwrap();
        books.insert(&book(1, 0)).await.unwrap();
        books.push(1, &"user00".to_owned()).await.unwrap();
        books.push(1, &"user01".to_owned()).await.unwrap();
        // without the collection, and without the index
        assert_refused(books.push(1, &"user02".to_owned()).await, ErrorKind::IndexMissing);
        let document = doc! { "book_id": 9, "seq": 0, "customers_purchased_extra": [] };
        extra_sales(db).insert_one(document).await.unwrap();
        assert_refused(books.push(1, &"user02".to_owned()).await, ErrorKind::IndexMissing);
        assert_eq!(stored(db, 1).await, users(0..2));
        books.ensure_indexes().await.unwrap();
        books.push(1, &"user02".to_owned()).await.unwrap();
        assert_eq!(books.elements(1).await.unwrap(), users(0..3));
    })
    .await;
}

#[tokio::test]
async fn the_validators_refuse_what_breaks_the_pattern() {
    testkit::run(async |db| {
        let books: Books = builder(db).threshold(5).max_overflow_elements(10).build().unwrap();
        create_validated(db.database(), &books).await;
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        books.insert(&book(1, 37)).await.unwrap();
        for user in users(37..60) {
            books.push(1, &user).await.unwrap();
        }
        books.insert(&book(3, 5)).await.unwrap();
        assert!(books.remove(1, &"user59".to_owned()).await.unwrap().found);
        assert_eq!(stored(db, 1).await, users(0..59));

        let push = doc! { "$push": { "customers_purchased": "one more" } };
        sales(db).update_one(doc! { "_id": 1 }, push).await.unwrap_err();
        let update = doc! { "$set": { "has_extras": "yes" } };
        sales(db).update_one(doc! { "_id": 1 }, update).await.unwrap_err();
        let push = doc! { "$push": { "customers_purchased_extra": "one more" } };
        extra_sales(db).update_one(doc! { "seq": 5 }, push).await.unwrap_err();
        let document = doc! { "book_id": 2, "customers_purchased_extra": ["a"] };
        extra_sales(db).insert_one(document).await.unwrap_err();
    })
    .await;
}
