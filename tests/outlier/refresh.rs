//! Refresh puts elements where they belong, and loses none while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::{Problem, Pushed};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Bson, doc};

use support::common::{all, assert_refused, pause};
use support::outlier::damage::*;
use support::outlier::*;

#[tokio::test]
async fn gaps_of_removals_are_filled_in_order() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        books.insert(&book(1, 38)).await.unwrap();
        let gone = [0, 3, 7, 16, 25, 37];
        for n in gone {
            assert!(books.remove(1, &users(n..n + 1)[0]).await.unwrap().found);
        }
        let mut expected = users(0..38);
        expected.retain(|user| !gone.iter().any(|n| *user == users(*n..n + 1)[0]));
        let refreshed = books.refresh(1).await.unwrap();
        let numbers = (refreshed.inline, refreshed.overflow, refreshed.modified);
        assert_eq!(numbers, (5, 27, true));
        assert_eq!(stored(db, 1).await, expected);
        assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());

        db.recorder().clear();
        assert!(!books.refresh(1).await.unwrap().modified);
        assert_eq!(db.recorder().names(), ["find", "find", "commitTransaction"]);

        for user in &expected[4..] {
            assert!(books.remove(1, user).await.unwrap().found);
        }
        let refreshed = books.refresh(1).await.unwrap();
        let numbers = (refreshed.inline, refreshed.overflow, refreshed.modified);
        assert_eq!(numbers, (4, 0, true));
        assert_eq!(stored(db, 1).await, expected[..4]);
        assert_eq!(all(&extra_sales(db)).await, []);
        let main = sales(db).find_one(doc! {}).await.unwrap().unwrap();
        assert!(!main.contains_key("has_extras"));
        assert_eq!(books.push(1, &"next".to_owned()).await.unwrap(), Pushed::Inline);
    })
    .await;
}

#[tokio::test]
async fn the_main_document_keeps_its_other_fields_and_is_not_sent() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        let main = with(flagged(1, 0..2), "blurb", "x".repeat(100_000));
        plant(db, vec![main], vec![with(extra(1, 0, 2..9), "note", "mine")]).await;
        db.recorder().clear();
        books.refresh(1).await.unwrap();
        for command in db.recorder().commands() {
            let reply = command.reply.unwrap_or_default();
            assert!(!command.command.to_string().contains("xxxx") && !reply.to_string().contains("xxxx"));
        }
        let main = sales(db).find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(main.get_str("blurb").unwrap().len(), 100_000);
        assert_eq!(
            main.keys().collect::<Vec<_>>(),
            ["_id", "title", "customers_purchased", "has_extras", "blurb"]
        );
        assert_eq!(all(&extra_sales(db)).await, [with(extra(1, 0, 5..9), "note", "mine")]);
    })
    .await;
}

#[tokio::test]
async fn a_list_that_cannot_be_refreshed_is_an_error_and_stays_unchanged() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        use ErrorKind::{Corrupt, NotFound, Unsupported};
        let no_array = with(main_of(1, 0..1), "customers_purchased", 7);
        let no_elements = with(extra(1, 0, 0..3), "customers_purchased_extra", "s3cret");
        let own_fields = with(extra(1, 0, 2..4), "note", "mine");
        let refused = [
            (vec![], vec![extra(1, 0, 0..3)], NotFound),
            (vec![no_array], vec![], Corrupt),
            (vec![flagged(1, 0..2)], vec![no_elements], Corrupt),
            (vec![flagged(1, 0..2)], vec![own_fields], Unsupported),
        ];
        for (main, extras, kind) in refused {
            plant(db, main.clone(), extras.clone()).await;
            let error = books.refresh(1).await.unwrap_err();
            assert_eq!((error.kind(), error.operation()), (kind, Some("refresh")));
            assert!(!format!("{error} {error:?}").contains("s3cret"));
            assert_eq!(all(&sales(db)).await, main);
            assert_eq!(all(&extra_sales(db)).await, extras);
        }
        assert_refused(books.refresh(Bson::Null).await, ErrorKind::InvalidArgument);
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn large_elements_fill_the_array_as_far_as_they_should() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        let large: Vec<String> = (0..7).map(|n| n.to_string().repeat(3 << 20)).collect();
        books.insert(&book(1, 0)).await.unwrap();
        for element in &large {
            books.push(1, element).await.unwrap();
        }
        let before = books.count(1).await.unwrap();
        assert_eq!((before.inline, before.overflow), (5, 2));
        assert!(!books.refresh(1).await.unwrap().modified, "they are where they fit");
        for element in &large[..4] {
            assert!(books.remove(1, element).await.unwrap().found);
        }
        let refreshed = books.refresh(1).await.unwrap();
        assert_eq!((refreshed.inline, refreshed.overflow), (2, 1));
        assert!(!books.refresh(1).await.unwrap().modified);
        assert_eq!(stored(db, 1).await, large[4..]);
    })
    .await;
}

/// The push has seen the flag and a full overflow document. It opens the position after that, which the refresh
/// does not see.
#[tokio::test]
async fn a_push_that_opens_an_overflow_document_waits_for_a_refresh_that_clears_the_flag() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4)).await;
        plant(db, vec![flagged(1, 0..1)], vec![extra(1, 0, 1..5)]).await;
        let other = of_another_process(db, 5, 4);
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let refreshed = other.refresh(1).session(&mut session).await.unwrap();
        assert_eq!((refreshed.inline, refreshed.overflow), (5, 0));
        let mut push = tokio::spawn({
            let books = books.clone();
            async move { books.push(1, &"user05".to_owned()).await }
        });
        db.recorder().sent(4).await;
        let names = ["update", "findAndModify", "findAndModify", "update"];
        assert_eq!(db.recorder().names()[..4], names);
        let early = tokio::time::timeout(Duration::from_millis(200), &mut push).await;
        assert!(early.is_err(), "it does not get between");
        session.commit_transaction().await.unwrap();
        assert_eq!(push.await.unwrap().unwrap(), Pushed::Overflow);
        assert_eq!(books.elements(1).await.unwrap(), users(0..6));
        books.refresh(1).await.unwrap();
        assert_eq!(violations(db, 5, 4).await, Vec::<String>::new());
    })
    .await;
}

/// The refresh runs after the push has seen the flag, and before it opens its overflow document. Another push, which has seen
/// the flag before, too, can only fill them when the flag is set.
#[tokio::test]
async fn an_overflow_document_that_is_opened_after_the_flag_was_cleared_sets_it_again() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4)).await;
        plant(db, vec![flagged(1, 0..1)], vec![extra(1, 0, 1..5)]).await;
        let other = of_another_process(db, 5, 4);
        db.recorder().clear();
        // The first update looks for room in the array, and the second one opens the overflow document.
        let fault = FailPoint::on(&["update"]).times(2).block(Duration::from_millis(1500));
        let fault = fault.enable(db).await;
        let push = tokio::spawn({
            let books = books.clone();
            async move { books.push(1, &"user05".to_owned()).await }
        });
        db.recorder().sent(4).await;
        assert_eq!(other.refresh(1).await.unwrap().overflow, 0);
        assert_eq!(all(&sales(db)).await, [main_of(1, 0..5)]);
        let mut watch = 0;
        while !push.is_finished() {
            // overflow document and flag become visible at one moment
            let mut session = db.plain_client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            let (sales, extras) = (sales(db), extra_sales(db));
            let main = sales.find_one(doc! { "_id": 1 }).session(&mut session).await;
            let main = main.unwrap().unwrap();
            let extras = extras.count_documents(doc! {}).session(&mut session).await.unwrap();
            session.commit_transaction().await.unwrap();
            assert_eq!(main.contains_key("has_extras"), extras > 0);
            watch += 1;
            pause().await;
        }
        assert!(watch > 1);
        assert_eq!(push.await.unwrap().unwrap(), Pushed::Overflow);
        fault.disable().await;
        assert_eq!(books.elements(1).await.unwrap(), users(0..6));
        // one position is empty, and no element is lost
        assert_eq!(found_problems(&books).await[0], Problem::Gap { positions: 1 });
        books.refresh(1).await.unwrap();
        assert_eq!(findings(&books).await, []);
        assert_eq!(violations(db, 5, 4).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn unique_elements_stay_so_while_another_process_moves_them() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4).unique_elements()).await;
        let other = builder_in(&db.plain_client().database(db.database().name()));
        let other = other.threshold(5).max_overflow_elements(4).unique_elements();
        let other: Books = other.build().unwrap();
        books.insert(&book(1, 0)).await.unwrap();
        let writing = Arc::new(AtomicUsize::new(16));
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let (books, writing) = (books.clone(), Arc::clone(&writing));
                tokio::spawn(async move {
                    for n in 0..24_usize {
                        let user = format!("u{}", (n * 7 + writer * 13) % 12);
                        if (n + writer) % 3 == 0 {
                            books.remove(1, &user).await.unwrap();
                        } else {
                            books.push_unique(1, &user).await.unwrap();
                        }
                    }
                    for n in 0..12 {
                        books.push_unique(1, &format!("u{n}")).await.unwrap();
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                })
            })
            .collect();
        let mut changed = 0;
        while writing.load(Ordering::Relaxed) > 0 {
            changed += usize::from(other.refresh(1).await.unwrap().modified);
        }
        println!("{changed} refreshes that moved");
        for writer in writers {
            writer.await.unwrap();
        }
        for n in 0..12 {
            books.push_unique(1, &format!("u{n}")).await.unwrap();
        }
        let mut expected: Vec<String> = (0..12).map(|n| format!("u{n}")).collect();
        expected.sort_unstable();
        assert_eq!(sorted(db, 1).await, expected);
        books.refresh(1).await.unwrap();
        assert_eq!(sorted(db, 1).await, expected);
        assert_eq!(violations(db, 5, 4).await, Vec::<String>::new());
    })
    .await;
}
