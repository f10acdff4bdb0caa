//! Pushing: where elements go, in how many round trips, and what 64 writers make of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::{Problem, Pushed};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};
use tokio::sync::watch;

use support::common::{all, at_least, ends, explain};
use support::outlier::*;

#[tokio::test]
async fn the_manuals_book_overflows_after_fifty() {
    testkit::run(async |db| {
        let books = books(db).await;
        books.insert(&book(2, 49)).await.unwrap();
        assert_eq!(books.push(2, "user49").await.unwrap(), Pushed::Inline);
        let main = sales(db).find_one(doc! {}).await.unwrap().unwrap();
        assert!(!main.contains_key("has_extras"));
        for user in users(50..120) {
            assert_eq!(books.push(2, &user).await.unwrap(), Pushed::Overflow);
        }
        let main = sales(db).find_one(doc! {}).await.unwrap().unwrap();
        let inline: Vec<Bson> = users(0..50).into_iter().map(Bson::String).collect();
        assert_eq!(
            main,
            doc! { "_id": 2, "title": "The Wooden Amulet", "customers_purchased": inline, "has_extras": true }
        );
        let mut extras = all(&extra_sales(db)).await.remove(0);
        extras.remove("_id").unwrap();
        let overflow: Vec<Bson> = users(50..120).into_iter().map(Bson::String).collect();
        assert_eq!(
            extras,
            doc! { "book_id": 2, "seq": 0, "count": 70, "customers_purchased_extra": overflow }
        );
        assert_eq!(stored(db, 2).await, users(0..120));
        assert_eq!(violations(db, 50, 500).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_push_is_one_round_trip_and_examines_one_document() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        books.insert(&book(1, 0)).await.unwrap();
        let mut round_trips = Vec::new();
        for user in users(0..40) {
            db.recorder().clear();
            books.push(1, &user).await.unwrap();
            round_trips.push(db.recorder().names().len());
        }
        let mut expected = [1; 40];
        // It opens an overflow document, in a transaction with the flag. At first the book was no known outlier.
        expected[5] = 7;
        for opens in [15, 25, 35] {
            expected[opens] = 5;
        }
        assert_eq!(round_trips, expected);
        // The newest of many overflow documents is found with one document examined.
        for user in users(40..43) {
            books.push(1, &user).await.unwrap();
        }
        let examined = explain(db, &db.recorder().last().unwrap()).await;
        assert_eq!((examined.documents, examined.index.as_str()), (1, "book_id_1_seq_1"));
        assert_eq!(stored(db, 1).await, users(0..43));
        assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
    })
    .await;
}

/// An observer reads all the while, and never misses an element whose push had returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_on_one_book_and_an_observer() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).max_overflow_elements(100)).await;
        books.insert(&book(2, 0)).await.unwrap();
        let acknowledged = Arc::new(Mutex::new(HashSet::new()));
        let (done, (looks, seen)) = (Arc::new(AtomicBool::new(false)), watch::channel(0));
        let observer = tokio::spawn({
            let (books, acknowledged, done) = (books.clone(), Arc::clone(&acknowledged), Arc::clone(&done));
            async move {
                while !done.load(Ordering::Relaxed) {
                    let before: HashSet<String> = acknowledged.lock().unwrap().clone();
                    let seen = books.get_full(2).await.unwrap().unwrap().customers_purchased;
                    let number = seen.len();
                    let seen: HashSet<String> = seen.into_iter().collect();
                    assert_eq!(seen.len(), number, "an element is there twice");
                    let missed: Vec<&String> = before.difference(&seen).collect();
                    assert!(missed.is_empty(), "{missed:?}");
                    looks.send_modify(|looks| *looks += 1);
                }
            }
        });
        let writers = (0..64).map(|writer| {
            let (books, acknowledged, mut seen) = (books.clone(), Arc::clone(&acknowledged), seen.clone());
            tokio::spawn(async move {
                for n in 0..16 {
                    // The observer looks after each quarter of the pushes.
                    let looks = seen.wait_for(|looks| *looks >= n / 4);
                    drop(ends("the observer", looks).await.unwrap());
                    let user = format!("user{writer}-{n}");
                    books.push(2, &user).await.unwrap();
                    acknowledged.lock().unwrap().insert(user);
                }
            })
        });
        join_all(writers).await.into_iter().for_each(|written| written.unwrap());
        done.store(true, Ordering::Relaxed);
        observer.await.unwrap();
        let main = sales(db).find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(main.get_array("customers_purchased").unwrap().len(), 50);
        let mut expected: Vec<String> = acknowledged.lock().unwrap().iter().cloned().collect();
        expected.sort_unstable();
        assert_eq!(expected.len(), 64 * 16);
        assert_eq!(sorted(db, 2).await, expected);
        assert_eq!(violations(db, 50, 100).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn two_hundred_distinct_elements_by_four_tries_each_are_stored_once() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).max_overflow_elements(100).unique_elements()).await;
        books.insert(&book(2, 0)).await.unwrap();
        let mut tries: Vec<String> = (0..800).map(|n| format!("user{:03}", n % 200)).collect();
        let seed = 7_u64;
        tries.sort_by_key(|user| {
            user.bytes()
                .fold(seed, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
        });
        let tries = Arc::new(Mutex::new(tries));
        let writers = (0..64).map(|_| {
            let (books, tries) = (books.clone(), Arc::clone(&tries));
            tokio::spawn(async move {
                let mut stored = 0;
                loop {
                    let Some(user) = tries.lock().unwrap().pop() else {
                        return stored;
                    };
                    stored += usize::from(books.push_unique(2, &user).await.unwrap() != Pushed::AlreadyThere);
                }
            })
        });
        let stored: usize = join_all(writers).await.into_iter().map(|stored| stored.unwrap()).sum();
        let expected: Vec<String> = (0..200).map(|n| format!("user{n:03}")).collect();
        assert_eq!(sorted(db, 2).await, expected);
        assert_eq!(stored, 200);
        assert_eq!(violations(db, 50, 100).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_batch_fills_the_array_and_whole_overflow_documents() {
    testkit::run(async |db| {
        let books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        let mut id = 0;
        for before in [0, 3, 5, 12, 15] {
            for n in [0, 2, 6, 60] {
                id += 1;
                books.insert(&book(id, before)).await.unwrap();
                db.recorder().clear();
                let pushed = books.push_many(id, &users(before..before + n)).await.unwrap();
                let room = 5_usize.saturating_sub(before).min(n);
                assert_eq!(
                    (pushed.inline, pushed.overflow),
                    (room as u64, (n - room) as u64),
                    "{before}+{n}"
                );
                let round_trips = db.recorder().names();
                assert!(round_trips.len() <= 7, "{before}+{n}: {round_trips:?}");
                assert_eq!(stored(db, id).await, users(0..before + n), "{before}+{n}");
            }
            assert_eq!(violations(db, 5, 10).await, Vec::<String>::new(), "{before}");
        }
        let error = books.push_many(99, &users(0..3)).await.unwrap_err();
        assert_eq!((error.kind(), error.stored_count()), (ErrorKind::NotFound, Some(0)));
    })
    .await;
}

/// Pushed one by one and together, moved by refreshes of two settings, and removed.
#[tokio::test]
async fn hostile_elements_and_ids_are_values() {
    testkit::run(async |db| {
        let lists = |threshold, cap| {
            builder::<Document, Bson>(db)
                .threshold(threshold)
                .max_overflow_elements(cap)
        };
        let (things, small) = (ready(db, lists(4, 3)).await, lists(1, 2).build().unwrap());
        let hostile = vec![
            Bson::String("$has_extras".into()),
            Bson::String("$$ROOT".into()),
            Bson::Document(doc! { "$literal": "$title" }),
            Bson::Array(vec![Bson::Int32(1), Bson::Null]),
            Bson::Null,
            Bson::Document(doc! {}),
            Bson::Int32(7),
        ];
        for id in [1, 2] {
            things.insert(&doc! { "_id": id }).await.unwrap();
            match id {
                1 => drop(things.push_many(id, &hostile).await.unwrap()),
                _ => {
                    for element in &hostile {
                        things.push(id, element).await.unwrap();
                    }
                }
            }
            assert_eq!(things.elements(id).await.unwrap(), hostile);
            for (moving, inline) in [(&small, 1), (&things, 4)] {
                assert_eq!(moving.refresh(id).await.unwrap().inline, inline);
                assert_eq!(things.elements(id).await.unwrap(), hostile);
            }
            assert_eq!(findings(&things).await, []);
            for element in &hostile {
                assert!(things.contains(id, element).await.unwrap(), "{element}");
                assert!(things.remove(id, element).await.unwrap().found, "{element}");
                assert!(!things.contains(id, element).await.unwrap(), "{element}");
            }
            assert_eq!(things.count(id).await.unwrap().total(), 0);
            clear(db).await;
        }
        // An operator is no id of any document.
        for refused in [
            things.push(doc! { "$gt": 0 }, &Bson::Null).await.map(drop),
            things.refresh(doc! { "$gt": 0 }).await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
        }
    })
    .await;
}

/// In a transaction a duplicate key would end it, on every attempt to run it again.
#[tokio::test]
async fn a_transaction_continues_after_a_duplicate_element() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(2).max_overflow_elements(3).unique_elements()).await;
        books.insert(&book(1, 10)).await.unwrap();
        books.insert(&book(2, 0)).await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        for (n, user) in users(0..11).iter().enumerate() {
            session.start_transaction().await.unwrap();
            db.recorder().clear();
            let pushed = books.push_unique(1, user).session(&mut session).await.unwrap();
            let (expected, most) = match n {
                0..2 => (Pushed::AlreadyThere, 1),
                2..10 => (Pushed::AlreadyThere, 2),
                _ => (Pushed::Overflow, 3),
            };
            let sent = db.recorder().names();
            assert_eq!(pushed, expected, "{user}");
            assert!(sent.len() <= most, "{user}: {sent:?}");
            books.push_unique(2, user).session(&mut session).await.unwrap();
            session.commit_transaction().await.unwrap();
        }
        assert_eq!(stored(db, 1).await, users(0..11));
        assert_eq!(stored(db, 2).await, users(0..11));
        assert_eq!(violations(db, 2, 3).await, [""; 0]);
    })
    .await;
}

/// Before MongoDB 8.0, a filter by null matches undefined, and a push stores its element in a new array. Since then the
/// field has another value than an array, which is reported.
#[tokio::test]
async fn a_push_to_an_undefined_array_stores_its_element_or_reports_the_field() {
    testkit::run(async |db| {
        let books = books(db).await;
        let main = doc! { "_id": 2, "title": "The Wooden Amulet", "customers_purchased": Bson::Undefined };
        sales(db).insert_one(&main).await.unwrap();
        let pushed = books.push(2, &"user00".to_owned()).await;
        let stored = sales(db).find_one(doc! { "_id": 2 }).await.unwrap().unwrap();
        if at_least(db, 8) {
            let error = pushed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
            assert_eq!(error.field(), Some("customers_purchased"));
            assert_eq!(stored, main);
        } else {
            assert_eq!(pushed.unwrap(), Pushed::Inline);
            assert_eq!(stored.get_array("customers_purchased").unwrap(), &["user00".into()]);
        }
        assert!(extra_sales(db).find_one(doc! {}).await.unwrap().is_none());
        // A verify of the field finds it on every version, and a repair sets an empty array.
        sales(db).replace_one(doc! { "_id": 2 }, &main).await.unwrap();
        assert_eq!(found_problems(&books).await, [Problem::ArrayNull]);
        let repaired: Vec<_> = books.repair().stream().try_collect().await.unwrap();
        assert_eq!(repaired.len(), 1);
        books.push(2, &"user00".to_owned()).await.unwrap();
        assert_eq!(support::outlier::stored(db, 2).await, ["user00"]);
    })
    .await;
}

/// In the other order, a reader of the flag would not see an element that is stored, and a retry would store it twice.
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
        assert_eq!(on, ["sales", "sales", "extra_sales", "sales", "sales", "extra_sales"]);
        assert_eq!(all(&extra_sales(db)).await.len(), 1);
    })
    .await;
}
