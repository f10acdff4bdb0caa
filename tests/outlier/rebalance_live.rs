//! Rebalance while others write, who are not of its process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mongo_patterns_testkit as testkit;

use crate::outlier::support::*;

/// By another repository, so that no lock keeps them apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn pushes_and_removals_of_another_process_lose_and_double_nothing() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4)).await;
        for id in 0..2 {
            books.insert(&book(id, 0)).await.unwrap();
        }
        let writing = Arc::new(AtomicUsize::new(32));
        let writers: Vec<_> = (0..32)
            .map(|writer| {
                let (books, writing) = (books.clone(), Arc::clone(&writing));
                tokio::spawn(async move {
                    let mut kept = Vec::new();
                    for n in 0..16 {
                        let (id, user) = (n % 2, format!("w{writer}-{n}"));
                        books.push(id, &user).await.unwrap();
                        // Most go again, so that the list is short and the flag comes and goes.
                        if n % 8 == 0 {
                            kept.push((id, user));
                        } else {
                            assert!(books.remove(id, &user).await.unwrap().found, "{user} of {id}");
                        }
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                    kept
                })
            })
            .collect();
        let movers: Vec<_> = (0..2)
            .map(|id| {
                let (other, writing) = (of_another_process(db, 5, 4), Arc::clone(&writing));
                tokio::spawn(async move {
                    let (mut changed, mut cleared) = (0, 0);
                    while writing.load(Ordering::Relaxed) > 0 {
                        let rebalanced = other.rebalance(id).await.unwrap();
                        changed += usize::from(rebalanced.modified);
                        cleared += usize::from(rebalanced.modified && rebalanced.overflow == 0);
                    }
                    (changed, cleared)
                })
            })
            .collect();
        let mut expected: Vec<BTreeSet<String>> = vec![BTreeSet::new(); 2];
        for writer in writers {
            for (id, user) in writer.await.unwrap() {
                expected[usize::try_from(id).unwrap()].insert(user);
            }
        }
        let mut moved = 0;
        for mover in movers {
            let (changed, cleared) = mover.await.unwrap();
            println!("{changed} rebalances that moved, {cleared} that cleared the flag");
            moved += changed;
        }
        assert!(moved > 0);
        for id in 0..2 {
            let seen = books.get_full(id).await.unwrap().unwrap().customers_purchased;
            assert_eq!(seen.len(), expected[usize::try_from(id).unwrap()].len(), "{seen:?}");
            assert_eq!(BTreeSet::from_iter(seen), expected[usize::try_from(id).unwrap()]);
            books.rebalance(id).await.unwrap();
        }
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
        let other = Books::builder(sales(db), extra_sales(db))
            .array_field("customers_purchased")
            .parent_field("book_id")
            .threshold(5)
            .max_overflow_elements(4)
            .unique_elements()
            .build()
            .unwrap();
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
            changed += usize::from(other.rebalance(1).await.unwrap().modified);
        }
        println!("{changed} rebalances that moved");
        for writer in writers {
            writer.await.unwrap();
        }
        for n in 0..12 {
            books.push_unique(1, &format!("u{n}")).await.unwrap();
        }
        let mut expected: Vec<String> = (0..12).map(|n| format!("u{n}")).collect();
        expected.sort_unstable();
        assert_eq!(sorted(db, 1).await, expected);
        books.rebalance(1).await.unwrap();
        assert_eq!(sorted(db, 1).await, expected);
        assert_eq!(violations(db, 5, 4).await, Vec::<String>::new());
    })
    .await;
}
