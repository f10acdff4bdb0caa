//! The hazards are real: each test here runs the manual's own logic into one, and then ours past it.

use std::collections::HashSet;

use futures::future::join_all;
use mongo_patterns::outlier::Pushed;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use crate::common::support::all;
use crate::outlier::support::*;

/// "Check whether the document has `has_extras`. If not, add the purchase to `sales`; when the array has more than 50
/// then, set `has_extras`. Else add it to the document in `extra_sales`."
async fn naive_push(main: &Collection<Document>, extras: &Collection<Document>, user: &str) {
    let book = main.find_one(doc! { "_id": 2 }).await.unwrap().unwrap();
    if book.get_bool("has_extras").unwrap_or(false) {
        let push = doc! { "$push": { "customers_purchased_extra": user } };
        extras
            .update_one(doc! { "book_id": 2 }, push)
            .upsert(true)
            .await
            .unwrap();
        return;
    }
    let push = doc! { "$push": { "customers_purchased": user } };
    main.update_one(doc! { "_id": 2 }, push).await.unwrap();
    if book.get_array("customers_purchased").unwrap().len() + 1 > 50 {
        let flag = doc! { "$set": { "has_extras": true } };
        main.update_one(doc! { "_id": 2 }, flag).await.unwrap();
    }
}

/// The same, with the array written back as a whole, as an ODM does.
async fn naive_save(main: &Collection<Document>, user: &str) {
    let mut book = main.find_one(doc! { "_id": 2 }).await.unwrap().unwrap();
    book.get_array_mut("customers_purchased").unwrap().push(user.into());
    main.replace_one(doc! { "_id": 2 }, book).await.unwrap();
}

async fn new_book(db: &TestDatabase) {
    sales(db).drop().await.unwrap();
    extra_sales(db).drop().await.unwrap();
    sales(db)
        .insert_one(doc! { "_id": 2, "title": "The Wooden Amulet", "customers_purchased": [] })
        .await
        .unwrap();
}

/// Runs 64 writers of eight pushes each.
async fn by_64_writers<F: Future<Output = ()> + Send + 'static>(push: impl Fn(String) -> F + Clone + Send + 'static) {
    let writers = (0..64).map(|writer| {
        let push = push.clone();
        tokio::spawn(async move {
            for n in 0..8 {
                push(format!("user{writer}-{n}")).await;
            }
        })
    });
    join_all(writers).await.into_iter().for_each(|written| written.unwrap());
}

async fn inline(db: &TestDatabase) -> usize {
    let main = sales(db).find_one(doc! { "_id": 2 }).await.unwrap().unwrap();
    main.get_array("customers_purchased").unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_threshold_is_passed() {
    testkit::run(async |db| {
        new_book(db).await;
        let (main, extras) = (sales(db), extra_sales(db));
        by_64_writers(move |user| {
            let (main, extras) = (main.clone(), extras.clone());
            async move { naive_push(&main, &extras, &user).await }
        })
        .await;
        assert!(inline(db).await > 50, "the manual's form");

        new_book(db).await;
        let books = books(db).await;
        by_64_writers(move |user| {
            let books = books.clone();
            async move {
                books.push(2, &user).await.unwrap();
            }
        })
        .await;
        assert_eq!(inline(db).await, 50, "ours");
        assert_eq!(sorted(db, 2).await.len(), 512);
        assert_eq!(violations(db, 50, 500).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_array_that_is_written_back_loses_purchases() {
    testkit::run(async |db| {
        new_book(db).await;
        let main = sales(db);
        by_64_writers(move |user| {
            let main = main.clone();
            async move { naive_save(&main, &user).await }
        })
        .await;
        assert!(inline(db).await < 512, "the form of an object mapper");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_before_the_push_does_not_keep_elements_unique() {
    testkit::run(async |db| {
        new_book(db).await;
        let main = sales(db);
        let check_then_add = move |user: String| {
            let main = main.clone();
            async move {
                let (_, user) = user.split_once('-').unwrap();
                let known = doc! { "_id": 2, "customers_purchased": user };
                if main.find_one(known).await.unwrap().is_none() {
                    let push = doc! { "$push": { "customers_purchased": user } };
                    main.update_one(doc! { "_id": 2 }, push).await.unwrap();
                }
            }
        };
        by_64_writers(check_then_add).await;
        assert!(inline(db).await > 8, "with a read before each push");

        new_book(db).await;
        let books = ready(db, builder::<Book, String>(db).threshold(3).unique_elements()).await;
        by_64_writers(move |user| {
            let books = books.clone();
            async move {
                let user = user.split_once('-').unwrap().1.to_owned();
                books.push_unique(2, &user).await.unwrap();
            }
        })
        .await;
        let stored = sorted(db, 2).await;
        assert_eq!(stored.len(), 8, "ours");
        assert_eq!(stored.iter().collect::<HashSet<_>>().len(), 8);
    })
    .await;
}

/// Extras before the flag: a reader of the flag does not see them, and a retry doubles them. Ours sets the flag first.
#[tokio::test]
async fn the_flag_is_set_before_there_are_overflow_documents() {
    testkit::run(async |db| {
        let books = books(db).await;
        books.insert(&book(2, 50)).await.unwrap();
        db.recorder().clear();
        assert_eq!(books.push(2, &"user50".to_owned()).await.unwrap(), Pushed::Overflow);
        let commands = db.recorder().commands();
        let on: Vec<&str> = commands
            .iter()
            .filter_map(|command| command.command.get_str(&command.name).ok())
            .collect();
        // An overflow document is opened in a transaction that sets the flag first.
        assert_eq!(on, ["sales", "extra_sales", "sales", "sales", "extra_sales"]);
        assert_eq!(all(&extra_sales(db)).await.len(), 1);
    })
    .await;
}
