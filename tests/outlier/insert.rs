//! Inserting and deleting whole documents, and all that is refused.

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use crate::common::support::{all, create_validated};
use crate::outlier::support::*;

#[tokio::test]
async fn a_new_document_over_the_threshold_is_split() {
    testkit::run(async |db| {
        let books = books(db).await;
        for purchases in [0, 1, 49, 50, 51, 550, 551, 1050, 1051, 60_000] {
            sales(db).delete_many(doc! {}).await.unwrap();
            extra_sales(db).delete_many(doc! {}).await.unwrap();
            db.recorder().clear();
            let inserted = books.insert(&book(2, purchases)).await.unwrap();
            let inline = purchases.min(50);
            assert_eq!(inserted.id, Bson::Int32(2));
            assert_eq!(
                (inserted.inline, inserted.overflow),
                (inline as u64, (purchases - inline) as u64)
            );
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
        documents
            .insert(&doc! { "_id": 1, "has_extras": true, "a": 1 })
            .await
            .unwrap();
        documents
            .insert(&doc! { "customers_purchased": [1, 2, 3], "_id": 2, "has_extras": false, "a": 1 })
            .await
            .unwrap();
        documents
            .insert(&doc! { "_id": 3, "customers_purchased": null })
            .await
            .unwrap();
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
        let inserted = documents
            .insert(&doc! { "customers_purchased": [1, 2, 3, 4] })
            .await
            .unwrap();
        assert!(inserted.id.as_object_id().is_some());
        assert_eq!(documents.elements(inserted.id).await.unwrap(), [1, 2, 3, 4]);
    })
    .await;
}

#[tokio::test]
async fn a_refused_insert_stores_nothing() {
    testkit::run(async |db| {
        let documents = unsharded(db, builder::<Document, Bson>(db).threshold(2)).await;
        let many = doc! { "_id": 1, "customers_purchased": [1, 2, 3] };
        documents.insert(&many).await.unwrap();
        db.recorder().clear();
        for document in [
            doc! { "_id": 2, "customers_purchased": "user" },
            doc! { "_id": null },
            doc! { "_id": [1] },
        ] {
            let error = documents.insert(&document).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{document}");
            assert!(error.is_invalid_input());
        }
        let text = Bson::String("x".repeat(17 << 20));
        let error = documents
            .insert(&doc! { "_id": 2, "customers_purchased": [1, 2, text.clone()] })
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let error = documents.push(1, &text).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let error = documents.push_many(1, &[Bson::Null, text]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        for id in [Bson::Null, Bson::Undefined, Bson::Array(vec![])] {
            assert_eq!(
                documents.push(id.clone(), &Bson::Null).await.unwrap_err().kind(),
                ErrorKind::InvalidArgument
            );
            assert_eq!(
                documents.get(id.clone()).await.unwrap_err().kind(),
                ErrorKind::InvalidArgument
            );
            assert_eq!(
                documents.delete(id).await.unwrap_err().kind(),
                ErrorKind::InvalidArgument
            );
        }
        let error = documents.push_unique(1, &Bson::Null).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert_eq!(db.recorder().round_trips(), 0, "{:?}", db.recorder().names());

        for document in [doc! { "_id": 1 }, many] {
            let error = documents.insert(&document).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
        let by_title = mongodb::IndexModel::builder()
            .keys(doc! { "title": 1 })
            .options(mongodb::options::IndexOptions::builder().unique(true).build())
            .build();
        sales(db).create_index(by_title).await.unwrap();
        let error = documents.insert(&doc! { "_id": 7 }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey);
        assert_eq!(documents.elements(1).await.unwrap().len(), 3);
        assert_eq!((all(&sales(db)).await.len(), all(&extra_sales(db)).await.len()), (1, 1));

        let unique = unsharded(db, builder::<Document, Bson>(db).threshold(2).unique_elements()).await;
        let doubled = doc! { "_id": 5, "customers_purchased": [1, 2, 3, 1] };
        assert_eq!(
            unique.insert(&doubled).await.unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        let array = Bson::Array(vec![]);
        assert_eq!(
            unique.push_unique(1, &array).await.unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        assert_eq!(
            unique.push(1, &Bson::Null).await.unwrap_err().kind(),
            ErrorKind::Configuration
        );
        assert_eq!(
            unique.push_many(1, &[Bson::Null]).await.unwrap_err().kind(),
            ErrorKind::Configuration
        );
        assert_eq!(all(&sales(db)).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn orphaned_overflow_documents_do_not_join_a_new_document() {
    testkit::run(async |db| {
        let books = books(db).await;
        let orphan = doc! { "book_id": 2, "seq": 0, "count": 1, "customers_purchased_extra": ["ghost"] };
        extra_sales(db).insert_one(orphan).await.unwrap();
        let error = books.insert(&book(2, 100)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(all(&sales(db)).await.is_empty(), "nothing is stored");
        assert!(!books.delete(2).await.unwrap().found);
        books.insert(&book(2, 100)).await.unwrap();
        assert_eq!(stored(db, 2).await, users(0..100));
    })
    .await;
}

#[tokio::test]
async fn a_field_of_the_wrong_type_is_not_pushed_to() {
    testkit::run(async |db| {
        let books = books(db).await;
        sales(db)
            .insert_one(doc! { "_id": 1, "customers_purchased": "user00" })
            .await
            .unwrap();
        let error = books.push(1, &"user01".to_owned()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.field()),
            (ErrorKind::Corrupt, Some("customers_purchased"))
        );
        assert!(!error.to_string().contains("user00"), "{error}");
        let error = books.push(7, &"user01".to_owned()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = books.remove(7, &"user01".to_owned()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
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
        let texts: Vec<String> = (0..10).map(|n| n.to_string().repeat(3 << 20)).collect();
        for text in &texts[..7] {
            books.push(1, text).await.unwrap();
        }
        books.push_many(1, &texts[7..]).await.unwrap();
        let mut expected = users(0..2);
        expected.extend(texts);
        assert!(books.elements(1).await.unwrap() == expected, "in order");
        let full = books.get_full(1).await.unwrap().unwrap();
        assert!(full.customers_purchased == expected, "past 16 MiB");

        // beside those of the array it does not fit, and nothing is stored
        books.insert(&book(2, 0)).await.unwrap();
        books.push(2, &"x".repeat(9 << 20)).await.unwrap();
        let error = books.push(2, &"y".repeat(9 << 20)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert_eq!(books.count(2).await.unwrap().total(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_delete_deletes_the_overflow_documents() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        books.insert(&book(1, 3)).await.unwrap();
        books.insert(&book(2, 40)).await.unwrap();
        books.insert(&book(3, 40)).await.unwrap();
        db.recorder().clear();
        let deleted = books.delete(1).await.unwrap();
        assert_eq!((deleted.found, deleted.overflow_documents), (true, 0));
        assert_eq!(db.recorder().round_trips(), 1);
        let deleted = books.delete(2).await.unwrap();
        assert_eq!((deleted.found, deleted.overflow_documents), (true, 4));
        assert!(!books.delete(2).await.unwrap().found);
        assert_eq!(stored(db, 3).await, users(0..40));
        assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
        assert_eq!(all(&sales(db)).await.len(), 1);
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
        refused(builder(db).threshold(0), "threshold");
        refused(builder(db).max_overflow_elements(0), "max_overflow_elements");
        refused(builder(db).threshold(u32::MAX), "threshold");
        refused(builder(db).flag_field("customers_purchased"), "two different");
        refused(builder(db).seq_field("count"), "four different");
        refused(builder(db).extras_field("book_id"), "four different");
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
        let error = books.push(1, &"user02".to_owned()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing);
        extra_sales(db)
            .insert_one(doc! { "book_id": 9, "seq": 0, "customers_purchased_extra": [] })
            .await
            .unwrap();
        let error = books.push(1, &"user02".to_owned()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing);
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
        sales(db)
            .update_one(doc! { "_id": 1 }, doc! { "$set": { "has_extras": "yes" } })
            .await
            .unwrap_err();
        let push = doc! { "$push": { "customers_purchased_extra": "one more" } };
        extra_sales(db).update_one(doc! { "seq": 5 }, push).await.unwrap_err();
        extra_sales(db)
            .insert_one(doc! { "book_id": 2, "customers_purchased_extra": ["a"] })
            .await
            .unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn undefined_is_no_element_and_nothing_is_stored() {
    testkit::run(async |db| {
        let plain = ready(db, builder::<Document, Bson>(db).threshold(2)).await;
        let unique = ready(db, builder::<Document, Bson>(db).threshold(2).unique_elements()).await;
        plain
            .insert(&doc! { "_id": 1, "customers_purchased": [1, 2, 3] })
            .await
            .unwrap();
        let stored = [all(&sales(db)).await, all(&extra_sales(db)).await];
        db.recorder().clear();
        let undefined = Bson::Undefined;
        let list = |element: &Bson| doc! { "_id": 2, "customers_purchased": [1, 2, element] };
        let array = Bson::from(vec![1]);
        for error in [
            plain.insert(&list(&undefined)).await.unwrap_err(),
            plain.push(1, &undefined).await.unwrap_err(),
            plain.push_many(1, &[Bson::Null, undefined.clone()]).await.unwrap_err(),
            plain.remove(1, &undefined).await.unwrap_err(),
            plain.contains(1, &undefined).await.unwrap_err(),
            unique.insert(&list(&undefined)).await.unwrap_err(),
            unique.push_unique(1, &undefined).await.unwrap_err(),
            unique.insert(&list(&array)).await.unwrap_err(),
            unique.push_unique(1, &array).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
        assert_eq!([all(&sales(db)).await, all(&extra_sales(db)).await], stored);

        let of_fields = doc! { "undefined": undefined, "symbol": Bson::Symbol("s".to_owned()) };
        plain.push(1, &of_fields.clone().into()).await.unwrap();
        assert!(plain.contains(1, &of_fields.clone().into()).await.unwrap());
        assert!(plain.remove(1, &of_fields.into()).await.unwrap().found);
    })
    .await;
}

/// In a session without a transaction the document would be stored alone, with another document's overflow documents.
#[tokio::test]
async fn a_split_document_is_stored_as_a_whole_in_a_session_too() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(2)).await;
        let orphan = doc! { "book_id": 1, "seq": 0, "count": 1, "customers_purchased_extra": ["user99"] };
        extra_sales(db).insert_one(&orphan).await.unwrap();
        let before = all(&extra_sales(db)).await;
        let mut session = db.client().start_session().await.unwrap();
        let error = books.insert(&book(1, 5)).session(&mut session).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.stored_count()),
            (ErrorKind::Corrupt, None),
            "{error:?}"
        );
        assert_eq!(all(&sales(db)).await, [] as [Document; 0]);
        assert_eq!(all(&extra_sales(db)).await, before);

        let inserted = books.insert(&book(2, 5)).session(&mut session).await.unwrap();
        assert_eq!((inserted.inline, inserted.overflow), (2, 3));
        let read = books.get_full(2).session(&mut session).await.unwrap();
        assert_eq!(read, Some(book(2, 5)));
    })
    .await;
}
