//! Every problem of a list is repaired, and no element is lost, also while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::outlier::{Problem, Repaired, Unrepaired};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document};

use support::common::all;
use support::model::Dice;
use support::outlier::damage::*;
use support::outlier::*;

async fn repair(books: &Books) -> Vec<Repaired> {
    books.repair().stream().try_collect().await.unwrap()
}

#[tokio::test]
async fn orphans_are_left_until_they_are_to_go() {
    testkit::run(async |db| {
        let books: Books = managed(db, 5, 10).await;
        let orphans = vec![extra(2, 0, 0..10), extra(2, 1, 10..12), extra(14, 0, 5..8)];
        plant(db, vec![flagged(14, 0..5)], orphans.clone()).await;
        let repaired = repair(&books).await;
        assert_eq!(
            (repaired.len(), repaired[0].unrepaired),
            (1, Some(Unrepaired::Orphaned))
        );
        assert_eq!(all(&extra_sales(db)).await.len(), 3);
        let planned = books.repair().delete_orphans().dry_run().stream();
        let planned: Vec<_> = planned.try_collect().await.unwrap();
        assert_eq!(all(&extra_sales(db)).await.len(), 3);
        let deleted: Vec<_> = books.repair().delete_orphans().stream().try_collect().await.unwrap();
        assert_eq!(deleted, planned);
        assert_eq!(
            (deleted[0].deleted, deleted[0].written, deleted[0].unrepaired),
            (2, 0, None)
        );
        assert_eq!(all(&extra_sales(db)).await, orphans[2..]);

        // who is inserted again without an array gets them back
        plant(db, vec![main_of(2, 0..0)], orphans.clone()).await;
        let repaired: Vec<_> = books.repair_document(2).stream().try_collect().await.unwrap();
        assert_eq!((repaired.len(), repaired[0].unrepaired), (1, None));
        assert_eq!(stored(db, 2).await, users(0..12));
        assert_eq!(
            problems(&findings(&books).await),
            [("extra_sales", "14-0".into(), Problem::Orphaned)]
        );
    })
    .await;
}

#[tokio::test]
async fn fields_of_the_users_own_stay() {
    testkit::run(async |db| {
        let books: Books = managed(db, 5, 10).await;
        let noted = |document| with(document, "note", "mine");
        plant(db, vec![flagged(2, 0..5)], vec![noted(naive(2, "naive", 5..30))]).await;
        assert_eq!(repair(&books).await[0].unrepaired, None);
        let extras = all(&extra_sales(db)).await;
        assert_eq!(extras.iter().filter(|extra| extra.contains_key("note")).count(), 1);
        assert_eq!(stored(db, 2).await, users(0..30));
    })
    .await;
}

/// A book, damaged in several ways that leave the order of its elements.
fn damaged(dice: &mut Dice, id: i32) -> (Document, Vec<Document>, usize) {
    let number = dice.below(40);
    let inline = number.min(dice.below(9));
    let mut main = main_of(id, 0..inline);
    let (mut extras, mut at, mut seq) = (Vec::new(), inline, 0);
    while at < number {
        let end = number.min(at + 1 + dice.below(14));
        extras.push(extra(id, seq, at..end));
        (at, seq) = (end, seq + 1);
    }
    if !extras.is_empty() {
        main.insert("has_extras", true);
    }
    for _ in 0..dice.below(4) {
        match dice.below(8) {
            0 => drop(main.remove("has_extras")),
            1 => drop(main.insert("has_extras", "yes")),
            2 => drop(main.insert("has_extras", true)),
            other if !extras.is_empty() => {
                let which = dice.below(extras.len());
                match other {
                    3 => drop(extras[which].insert("count", i32::try_from(dice.below(12)).unwrap())),
                    4 => drop(extras[which].remove("count")),
                    5 => drop(extras[0].remove("seq")),
                    6 => {
                        // all later ones are further on
                        for extra in &mut extras[which..] {
                            if let Ok(seq) = extra.get_i32("seq") {
                                extra.insert("seq", seq + 2);
                            }
                        }
                    }
                    _ => {
                        let last = i32::try_from(extras.len()).unwrap() + 20;
                        extras.push(extra(id, last, 0..0));
                    }
                }
            }
            _ => {}
        }
    }
    (main, extras, number)
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn many_books_with_random_damage_lose_no_element() {
    testkit::run(async |db| {
        let seed = 0x5eed_1698_3352_2300;
        println!("seed {seed:x}");
        let mut dice = Dice(seed);
        let (mut main, mut extras, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        // More than the first batch of a cursor.
        for id in 0..150 {
            let (of_main, mut of_extras, number) = damaged(&mut dice, id);
            let mut seen = std::collections::HashSet::new();
            of_extras.retain(|extra| seen.insert(extra.get_str("_id").unwrap().to_owned()));
            main.push(of_main);
            extras.extend(of_extras);
            numbers.push(number);
        }
        plant(db, main, extras).await;
        let books: Books = managed(db, 5, 10).await;
        let found = findings(&books).await.len();
        db.recorder().clear();
        let repaired = repair(&books).await;
        let sent = db.recorder().round_trips();
        println!(
            "{found} findings, {} books repaired in {sent} round trips",
            repaired.len()
        );
        assert!(repaired.len() > 75, "most were damaged");
        assert!(db.recorder().names().contains(&"getMore".to_owned()));
        assert!(repaired.iter().all(|repaired| repaired.unrepaired.is_none()));
        assert_eq!(findings(&books).await, []);
        assert_eq!(repair(&books).await, []);
        books.ensure_indexes().await.unwrap();
        for (id, number) in (0..).zip(numbers) {
            let read: Vec<String> = books.elements(id).await.unwrap();
            assert_eq!(read, users(0..number), "{id}");
        }
        books.migrate_existing().await.unwrap();
        assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_push_to_an_overflow_document_whose_count_is_not_an_integer_stores_once() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        let decimal = Bson::Decimal128("2".parse().unwrap());
        let numbers: [Bson; 5] = [decimal, 1.5.into(), f64::NAN.into(), 2.0.into(), 2_i64.into()];
        for count in numbers.into_iter().chain(["2".into(), Bson::Null]) {
            let extras = with(extra(2, 0, 5..7), "count", count.clone());
            plant(db, vec![flagged(2, 0..5)], vec![extras]).await;
            books.push(2, &"user07".to_owned()).await.unwrap();
            books.push_many(2, &users(8..11)).await.unwrap();
            let expected: Vec<String> = users(0..11);
            assert_eq!(stored(db, 2).await, expected, "{count}");
            repair(&books).await;
            assert_eq!(stored(db, 2).await, expected, "{count}");
            assert_eq!(findings(&books).await, [], "{count}");
        }
    })
    .await;
}

/// Nothing of a deleted book is written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_book_that_is_deleted_during_a_migration_stays_deleted() {
    testkit::run(async |db| {
        // Always out of form for the other.
        let books: Books = ready(db, builder(db).threshold(8).max_overflow_elements(4)).await;
        let other = of_another_process(db, 5, 10);
        let writing = Arc::new(AtomicUsize::new(8));
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (books, writing) = (books.clone(), Arc::clone(&writing));
                tokio::spawn(async move {
                    for n in 0..5 {
                        let id = writer * 100 + n;
                        books.insert(&book(id, 6)).await.unwrap();
                        for user in users(6..16) {
                            books.push(id, &user).await.unwrap();
                        }
                        assert!(books.delete(id).await.unwrap().found);
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                })
            })
            .collect();
        let mut documents = 0;
        while writing.load(Ordering::Relaxed) > 0 {
            documents += other.migrate_existing().await.unwrap().documents;
        }
        for writer in writers {
            writer.await.unwrap();
        }
        println!("{documents} documents written");
        assert!(documents > 0);
        assert_eq!(all(&sales(db)).await, []);
        assert_eq!(all(&extra_sales(db)).await, []);
    })
    .await;
}

async fn plant_three(db: &TestDatabase) {
    let main = vec![main_of(0, 0..17), flagged(1, 0..5), main_of(2, 0..3)];
    let extras = vec![naive(1, "naive", 5..30), extra(2, 0, 3..5)];
    plant(db, main, extras).await;
}

async fn check_three(db: &TestDatabase, books: &Books) {
    for (id, number) in [(0, 17), (1, 30), (2, 5)] {
        assert_eq!(stored(db, id).await, users(0..number), "{id}");
    }
    assert_eq!(problems(&findings(books).await), []);
    assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
}

/// The commit was done, and its answer says that it is not certain. The driver asks again.
#[tokio::test]
async fn a_commit_of_unknown_outcome_is_done_once() {
    testkit::run(async |db| {
        let books: Books = managed(db, 5, 10).await;
        for fault in [
            FailPoint::on(&["commitTransaction"]).times(1).write_concern_error(91),
            FailPoint::on(&["commitTransaction"]).times(2).close_connection(),
            FailPoint::on(&["insert"]).times(1).close_connection(),
        ] {
            plant_three(db).await;
            let fault = fault.enable(db).await;
            assert_eq!(repair(&books).await.len(), 3);
            fault.disable().await;
            check_three(db, &books).await;
        }
    })
    .await;
}

/// Documents in which something is wrong, more than are repaired at a time.
async fn plant_unflagged(db: &TestDatabase, ids: std::ops::Range<i32>) {
    let main = ids.clone().map(|id| main_of(id, 0..5)).collect();
    let extras = ids.map(|id| extra(id, 0, 5..9)).collect();
    plant(db, main, extras).await;
}

/// Calls each time for all documents, while the stream is not polled.
#[tokio::test]
async fn the_reader_of_verify_and_repair_calls_the_same_repository() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        let ids = 0..24;
        let pushed = |id: i32, n: usize| format!("pushed{id}-{n}");
        let push_all = async |n: usize| {
            for id in ids.clone() {
                books.push(id, &pushed(id, n)).await.unwrap();
            }
        };
        plant_unflagged(db, ids.clone()).await;
        let verify = async {
            let mut findings = books.verify().stream();
            let mut found = 0;
            while findings.try_next().await.unwrap().is_some() {
                if found < 2 {
                    push_all(found).await;
                }
                found += 1;
            }
            assert!(found > 0);
        };
        let verified = tokio::time::timeout(Duration::from_secs(60), verify).await;
        verified.expect("the pushes wait for nothing that the stream holds");
        plant_unflagged(db, ids.clone()).await;
        let repair = async {
            let mut documents = books.repair().stream();
            let mut repaired = 0;
            while documents.try_next().await.unwrap().is_some() {
                if repaired < 2 {
                    push_all(repaired).await;
                }
                repaired += 1;
            }
            assert!(repaired > 0);
        };
        let repaired = tokio::time::timeout(Duration::from_secs(60), repair).await;
        repaired.expect("the pushes wait for nothing that the stream holds");
        for id in ids.clone() {
            let stored = stored(db, id).await;
            assert!((0..2).all(|n| stored.contains(&pushed(id, n))), "{id}: {stored:?}");
        }
        assert_eq!(findings(&books).await, []);
    })
    .await;
}
