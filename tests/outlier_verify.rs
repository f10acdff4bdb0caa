//! What is wrong with documents and their extras is found, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use crate::outlier_damage::*;
use crate::outlier_support::*;

/// Books with which nothing is wrong, as a writer leaves them, and one who removed much.
fn sound() -> (Vec<Document>, Vec<Document>) {
    let main = vec![
        main_of(11, 0..5),
        without(main_of(12, 0..1), "customers_purchased"),
        with(main_of(13, 0..2), "has_extras", false),
        flagged(14, 0..2),
        flagged(15, 0..0),
    ];
    let extras = vec![
        extra(14, 0, 5..9),
        with(extra(14, 1, 15..25), "count", 10.0),
        extra(14, 2, 25..26),
        extra(15, 0, 0..0),
    ];
    (main, extras)
}

#[tokio::test]
async fn each_kind_of_damage_is_found_and_only_that() {
    testkit::run(async |db| {
        let books: Books = again(db, 5, 10);
        let (main, extras) = sound();
        plant(db, main.clone(), extras.clone()).await;
        assert_eq!(findings(&books).await, []);
        for damage in kinds() {
            let main = [main.clone(), damage.main].concat();
            let extras = [extras.clone(), damage.extras].concat();
            plant(db, main, extras).await;
            let found = findings(&books).await;
            assert_eq!(problems(&found), damage.problems);
            assert!(found.iter().all(|finding| finding.main_id == Bson::Int32(2)));
            let of_one: Vec<_> = books.verify().document(2).stream().try_collect().await.unwrap();
            assert_eq!(of_one, found);
            let of_other: Vec<_> = books.verify().document(14).stream().try_collect().await.unwrap();
            assert_eq!(of_other, []);
        }
        assert!(
            db.recorder()
                .names()
                .iter()
                .all(|name| ["aggregate", "find", "getMore"].contains(&name.as_str()))
        );
    })
    .await;
}

#[tokio::test]
async fn it_sends_no_elements_and_looks_again_where_something_is_wrong() {
    testkit::run(async |db| {
        let books: Books = again(db, 5, 10);
        let (main, extras) = sound();
        let main = [main, vec![main_of(2, 0..27)]].concat();
        plant(db, main, extras).await;
        db.recorder().clear();
        assert_eq!(findings(&books).await.len(), 1);
        assert_eq!(db.recorder().names(), ["aggregate", "find", "find", "find", "find"]);
        for command in db.recorder().commands() {
            assert!(!command.reply.unwrap().to_string().contains("user"));
        }
    })
    .await;
}

/// Others of this process write, and two of them move elements all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_collection_gives_no_findings_while_many_write() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).extras_cap(10)).await;
        for id in 0..4 {
            books.insert(&book(id, 8)).await.unwrap();
        }
        let done = Arc::new(AtomicBool::new(false));
        let verifier = tokio::spawn({
            let (books, done) = (books.clone(), Arc::clone(&done));
            async move {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(problems(&findings(&books).await), []);
                    looks += 1;
                }
                looks
            }
        });
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let books = books.clone();
                tokio::spawn(async move {
                    for n in 0..40 {
                        let (id, user) = (n % 4, format!("w{writer}-{n}"));
                        books.push(id, &user).await.unwrap();
                        if n % 3 > 0 {
                            assert!(books.remove(id, &user).await.unwrap().found);
                        }
                        if writer < 2 {
                            books.rebalance(id).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(verifier.await.unwrap() > 0);
        assert_eq!(problems(&findings(&books).await), []);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_is_an_error() {
    testkit::run(async |db| {
        let books: Books = again(db, 5, 10);
        let error = books
            .verify()
            .document(Bson::Null)
            .stream()
            .try_next()
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.operation()),
            (ErrorKind::InvalidArgument, Some("verify"))
        );
        assert_eq!(db.recorder().round_trips(), 0);
        let elsewhere = db.client().database("elsewhere").collection::<Document>("extra_sales");
        let apart = Books::builder(db.collection::<Document>("sales"), elsewhere);
        let apart = apart
            .array_field("customers_purchased")
            .parent_field("book_id")
            .build()
            .unwrap();
        let error = apart.verify().stream().try_next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        let error = apart.adopt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert_eq!(db.recorder().round_trips(), 0);
        plant(db, vec![doc! { "_id": 1 }], vec![]).await;
        assert_eq!(findings(&books).await, []);
    })
    .await;
}
