//! Writers that push, remove, insert and delete at the same time, against what each of them knows.

use std::collections::BTreeSet;

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::Pushed;
use mongo_patterns_testkit::{self as testkit, TestDatabase};

use support::common::all;
use support::outlier::*;

/// Each writer has elements of its own, on few books, so that it knows what of them must be there.
async fn mixed(db: &TestDatabase, unique: bool) {
    let seed: u64 = 20_261_121;
    let mut repository = builder(db).threshold(10).max_overflow_elements(20);
    if unique {
        repository = repository.unique_elements();
    }
    let books = ready(db, repository).await;
    for id in 0..3 {
        books.insert(&book(id, 0)).await.unwrap();
    }
    let writers = (0..64_u64).map(|writer| {
        let books = books.clone();
        tokio::spawn(async move {
            let mut random = seed.wrapping_add(writer);
            let mut next = |below: u64| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % below
            };
            let mut mine: [BTreeSet<String>; 3] = Default::default();
            for n in 0..12 {
                let id = next(3) as usize;
                let book = id as i32;
                match next(10) {
                    0..=5 if unique => {
                        let user = format!("w{writer}-{}", next(12));
                        let pushed = books.push_unique(book, &user).await.unwrap();
                        assert_eq!(pushed == Pushed::AlreadyThere, !mine[id].insert(user));
                    }
                    0..=3 => {
                        let user = format!("w{writer}-{n}");
                        books.push(book, &user).await.unwrap();
                        mine[id].insert(user);
                    }
                    4..=5 => {
                        let users: Vec<String> = (0..next(30)).map(|m| format!("w{writer}-{n}-{m}")).collect();
                        books.push_many(book, &users).await.unwrap();
                        mine[id].extend(users);
                    }
                    6..=7 => {
                        let Some(user) = mine[id].pop_first() else { continue };
                        assert!(books.remove(book, &user).await.unwrap().found, "{user} is there");
                    }
                    8 => {
                        let user = format!("w{writer}-absent");
                        assert!(!books.remove(book, &user).await.unwrap().found);
                        assert!(!books.contains(book, &user).await.unwrap());
                    }
                    _ => {
                        let own = format!("w{writer}-");
                        let mut seen = books.elements(book).await.unwrap();
                        seen.retain(|user| user.starts_with(&own));
                        seen.sort_unstable();
                        assert!(seen.iter().eq(mine[id].iter()), "{seen:?} {:?}", mine[id]);
                    }
                }
            }
            mine
        })
    });
    let mut expected: [Vec<String>; 3] = Default::default();
    for mine in join_all(writers).await {
        for (all, mine) in expected.iter_mut().zip(mine.unwrap()) {
            all.extend(mine);
        }
    }
    for (id, mut expected) in (0..3).zip(expected) {
        expected.sort_unstable();
        assert!(expected.len() > 60, "most books are outliers");
        assert_eq!(sorted(db, id).await, expected, "seed {seed}");
        assert_eq!(books.count(id).await.unwrap().total(), expected.len() as u64);
    }
    for document in all(&extra_sales(db)).await {
        let count = document.get_array("customers_purchased_extra").unwrap().len();
        assert!(count <= 20);
        assert_eq!(document.get_i32("count").unwrap(), i32::try_from(count).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn sixty_four_writers_push_and_remove_their_own() {
    testkit::run(async |db| mixed(db, false).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn sixty_four_writers_push_and_remove_unique_elements() {
    testkit::run(async |db| mixed(db, true).await).await;
}

/// A push to a book that is deleted concurrently succeeds, or returns `NotFound`. No overflow documents are left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn books_that_come_and_go_under_their_writers() {
    testkit::run(async |db| {
        let books = ready(db, builder(db).threshold(3).max_overflow_elements(4)).await;
        let others = of_another_process(db, 3, 4);
        let writers = (0..16).map(|writer| {
            let books = if writer % 2 == 0 { books.clone() } else { others.clone() };
            tokio::spawn(async move {
                for n in 0..30 {
                    match books.push(1, &format!("w{writer}-{n}")).await {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
                    }
                }
            })
        });
        let lives = tokio::spawn({
            let books = books.clone();
            async move {
                for _ in 0..15 {
                    books.insert(&book(1, 0)).await.unwrap();
                    while books.count(1).await.unwrap().total() < 12 {
                        books.push(1, &"filler".to_owned()).await.unwrap();
                    }
                    assert!(books.delete(1).await.unwrap().found);
                }
            }
        });
        join_all(writers).await.into_iter().for_each(|written| written.unwrap());
        lives.await.unwrap();
        assert!(all(&sales(db)).await.is_empty());
        // What a push of another process left between its two commands belongs to no document, and a delete removes it.
        books.delete(1).await.unwrap();
        assert!(all(&extra_sales(db)).await.is_empty());
    })
    .await;
}
