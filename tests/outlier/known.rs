//! Pushes to outliers that the process knows, and to those that it knows wrongly.

use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::{Problem, Pushed};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::{all, assert_refused};
use support::outlier::*;

/// Returns another repository with unique elements, as another process has one.
fn unique(db: &TestDatabase) -> Books {
    let builder = builder(db).threshold(5).max_overflow_elements(4).unique_elements();
    builder.build().unwrap()
}

/// Returns a repository whose process knows the book 1 with these purchases, and that of another process.
async fn known_book(db: &TestDatabase, purchases: usize) -> (Books, Books) {
    let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4)).await;
    books.insert(&book(1, purchases)).await.unwrap();
    let other = again(db, 5, 4);
    other.ensure_indexes().await.unwrap();
    (books, other)
}

/// Returns the commands that a call sent, with their collections.
fn sent(db: &TestDatabase) -> Vec<String> {
    let commands = db.recorder().commands().into_iter();
    let text = commands.map(|sent| format!("{} {}", sent.name, sent.command.get_str(&sent.name).unwrap_or("-")));
    text.collect()
}

async fn ids(db: &TestDatabase) -> Vec<Bson> {
    let documents = all(&extra_sales(db)).await.into_iter();
    documents.map(|document| document.get("_id").unwrap().clone()).collect()
}

#[tokio::test]
async fn a_push_to_a_known_outlier_sends_one_command_and_a_unique_push_two() {
    testkit::run(async |db| {
        let (books, other) = known_book(db, 6).await;
        db.recorder().clear();
        assert_eq!(books.push(1, "user06").await.unwrap(), Pushed::Overflow);
        assert_eq!(sent(db), ["findAndModify extra_sales"]);
        for expected in [
            ["update sales", "findAndModify sales", "findAndModify extra_sales"].as_slice(),
            &["findAndModify extra_sales"],
        ] {
            db.recorder().clear();
            other.push(1, "other").await.unwrap();
            assert_eq!(sent(db), expected);
        }
        books.delete(1).await.unwrap();
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4).unique_elements()).await;
        books.insert(&book(1, 6)).await.unwrap();
        let both = &["find sales", "findAndModify extra_sales"];
        for (user, pushed, expected) in [
            ("user06", Pushed::Overflow, &both[..]),
            ("user06", Pushed::AlreadyThere, both),
            ("user00", Pushed::AlreadyThere, &both[..1]),
        ] {
            db.recorder().clear();
            assert_eq!(books.push_unique(1, user).await.unwrap(), pushed, "{user}");
            assert_eq!(sent(db), expected, "{user}");
        }
        assert_eq!(stored(db, 1).await, users(0..7));
        assert_eq!(violations(db, 5, 4).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_push_to_a_list_that_is_no_outlier_any_more_or_has_lost_its_flag_is_stored() {
    testkit::run(async |db| {
        let (books, other) = known_book(db, 6).await;
        for user in ["user00", "user01"] {
            other.remove(1, user).await.unwrap();
        }
        other.refresh(1).await.unwrap();
        assert!(all(&extra_sales(db)).await.is_empty());
        assert_eq!(books.push(1, "user06").await.unwrap(), Pushed::Inline);
        assert_eq!(stored(db, 1).await, users(2..7));
        assert_eq!(violations(db, 5, 4).await, [""; 0]);

        // Another program clears the flag, which verify finds, and a refresh repairs.
        clear(db).await;
        let (books, _) = known_book(db, 6).await;
        let unflag = doc! { "$unset": { "has_extras": 1 } };
        sales(db).update_one(doc! { "_id": 1 }, unflag).await.unwrap();
        assert_eq!(books.push(1, "user06").await.unwrap(), Pushed::Overflow);
        let found = found_problems(&books).await;
        assert!(matches!(found[0], Problem::OverflowWithoutFlag { .. }), "{found:?}");
        books.refresh(1).await.unwrap();
        assert_eq!(books.elements(1).await.unwrap(), users(0..7));
    })
    .await;
}

#[tokio::test]
async fn a_push_to_a_known_outlier_that_was_deleted_stores_nothing() {
    testkit::run(async |db| {
        for purchases in [6, 9] {
            let (books, other) = known_book(db, purchases).await;
            assert_eq!(other.delete(1).await.unwrap().documents, 2);
            assert_refused(books.push(1, "user06").await, ErrorKind::NotFound);
            let error = books.push_many(1, &users(6..9)).await.unwrap_err();
            assert_eq!((error.kind(), error.stored_count()), (ErrorKind::NotFound, Some(0)));
            assert!(all(&extra_sales(db)).await.is_empty());
            other.insert(&book(1, 3)).await.unwrap();
            assert_eq!(books.push(1, "user03").await.unwrap(), Pushed::Inline);
            assert_eq!(stored(db, 1).await, users(0..4));
            books.delete(1).await.unwrap();
        }
    })
    .await;
}

/// The process knows the first overflow document, which has room again, and is no longer the newest one.
#[tokio::test]
async fn a_push_to_a_known_outlier_does_not_fill_the_gaps_of_removals() {
    testkit::run(async |db| {
        let (books, other) = known_book(db, 9).await;
        for user in users(9..11) {
            other.push(1, &user).await.unwrap();
        }
        other.remove(1, "user06").await.unwrap();
        assert_eq!(books.push(1, "user11").await.unwrap(), Pushed::Overflow);
        let expected = [users(0..6), users(7..12)].concat();
        assert_eq!(stored(db, 1).await, expected);
    })
    .await;
}

#[tokio::test]
async fn a_refresh_that_fills_the_array_of_unique_elements_is_seen_by_the_next_unique_push() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4).unique_elements()).await;
        let other = unique(db);
        books.insert(&book(1, 12)).await.unwrap();
        let before = ids(db).await;
        // A gap in the overflow documents only: none of their elements joins the array.
        other.remove(1, "user05").await.unwrap();
        assert!(other.refresh(1).await.unwrap().modified);
        assert_eq!(ids(db).await, before);
        other.remove(1, "user00").await.unwrap();
        assert!(other.refresh(1).await.unwrap().modified);
        let after = ids(db).await;
        assert!(after.iter().all(|id| !before.contains(id)), "{before:?} {after:?}");
        for (user, round_trips) in [("user12", 3), ("user13", 2)] {
            db.recorder().clear();
            assert_eq!(books.push_unique(1, user).await.unwrap(), Pushed::Overflow);
            assert_eq!(db.recorder().names().len(), round_trips, "{user}");
        }
        let expected = [users(1..5), users(6..14)].concat();
        assert_eq!(stored(db, 1).await, expected);
        assert_eq!(violations(db, 5, 4).await, [""; 0]);
    })
    .await;
}

/// The refresh runs after the push has read the array, and before its element is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unique_push_sees_that_a_refresh_moved_its_element_to_the_array() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4).unique_elements()).await;
        let other = unique(db);
        books.insert(&book(1, 8)).await.unwrap();
        other.remove(1, "user00").await.unwrap();
        let fault = FailPoint::on(&["findAndModify"]).times(1).block(Duration::from_secs(2));
        let fault = fault.enable(db).await;
        db.recorder().clear();
        let both_sent = db.recorder().sent(2);
        let push = tokio::spawn({
            let books = books.clone();
            async move { books.push_unique(1, "user05").await.unwrap() }
        });
        both_sent.await;
        assert!(other.refresh(1).await.unwrap().modified);
        assert_eq!(push.await.unwrap(), Pushed::AlreadyThere);
        fault.disable().await;
        assert_eq!(stored(db, 1).await, users(1..8));
        assert_eq!(violations(db, 5, 4).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_delete_is_one_command_or_a_transaction() {
    testkit::run(async |db| {
        let (books, other) = known_book(db, 6).await;
        for (id, purchases) in [(2, 5), (3, 14), (5, 14)] {
            books.insert(&book(id, purchases)).await.unwrap();
        }
        let in_transaction = ["delete extra_sales", "delete sales", "commitTransaction -"].map(str::to_owned);
        let first = ["findAndModify sales".to_owned()];
        let after_first = [first.as_slice(), &in_transaction].concat();
        for (books, id, found, documents, expected) in [
            (&books, 2, true, 1, first.as_slice()),
            (&books, 1, true, 2, &in_transaction),
            (&other, 3, true, 4, &after_first),
            (&other, 4, false, 0, &after_first),
        ] {
            db.recorder().clear();
            let deleted = books.delete(id).await.unwrap();
            assert_eq!((deleted.found, deleted.documents), (found, documents), "{id}");
            assert_eq!(sent(db), expected, "{id}");
        }
        assert_eq!(stored(db, 5).await, users(0..14), "another one stays");
        assert_eq!(violations(db, 5, 4).await, [""; 0]);
        assert_eq!(all(&sales(db)).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_push_in_a_session_without_a_transaction_opens_overflow_documents_in_one() {
    testkit::run(async |db| {
        let (books, _) = known_book(db, 9).await;
        let mut session = db.client().start_session().await.unwrap();
        db.recorder().clear();
        let pushed = books.push(1, "user09").session(&mut session).await;
        assert_eq!(pushed.unwrap(), Pushed::Overflow);
        let commands = db.recorder().commands();
        let is_in_transaction = |command: &Document| command.contains_key("autocommit");
        let in_transaction: Vec<bool> = commands.iter().map(|sent| is_in_transaction(&sent.command)).collect();
        assert_eq!(in_transaction, [false, false, true, true, true, true]);
        assert_eq!(stored(db, 1).await, users(0..10));
        assert_eq!(violations(db, 5, 4).await, [""; 0]);
    })
    .await;
}
