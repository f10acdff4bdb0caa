//! Documents of other settings, and of the manual's form, are migrated while others write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::Problem;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Client;
use mongodb::bson::{Document, doc};

use support::common::{all, assert_refused, confirm_settings, ends};
use support::outlier::damage::*;
use support::outlier::*;

#[tokio::test]
async fn a_collection_of_long_arrays_is_migrated_once() {
    testkit::run(async |db| {
        let books: Books = builder(db).build().unwrap();
        let numbers = [0, 1, 50, 51, 550, 551, 20_000];
        let main = (0..).zip(numbers).map(|(id, number)| main_of(id, 0..number)).collect();
        plant(db, main, vec![]).await;
        db.recorder().clear();
        let mut progress = Vec::new();
        let migrated = books
            .migrate_existing()
            .on_progress(|at| progress.push((at.done, at.total)))
            .await
            .unwrap();
        assert_eq!((migrated.documents, migrated.overflow_documents), (4, 1 + 1 + 2 + 40));
        assert_eq!(progress, [(1, 4), (2, 4), (3, 4), (4, 4)]);
        println!("{} round trips", db.recorder().round_trips());
        for (id, number) in (0..).zip(numbers) {
            assert_eq!(stored(db, id).await, users(0..number), "{id}");
        }
        assert_eq!(violations(db, 50, 500).await, Vec::<String>::new());
        assert_eq!(findings(&books).await, []);
        books.ensure_indexes().await.unwrap();

        db.recorder().clear();
        assert_eq!(books.migrate_existing().await.unwrap().documents, 0);
        assert_eq!(
            db.recorder().names(),
            ["hello", "find", "find", "aggregate"],
            "a list in place costs one read"
        );
        let reply = db.recorder().commands()[2].reply.clone().unwrap();
        assert!(!reply.to_string().contains("user"), "it has sizes and no elements");
    })
    .await;
}

/// As the manual's shell commands leave them: without an index, three upserts at once make three.
#[tokio::test]
async fn overflow_documents_of_the_manuals_form_get_positions_and_counts_without_an_index() {
    testkit::run(async |db| {
        let books: Books = builder(db).threshold(5).max_overflow_elements(10).build().unwrap();
        let main = vec![flagged(1, 0..5), flagged(2, 0..7), main_of(3, 0..3), flagged(4, 0..5)];
        let extras = vec![
            naive(1, "a", 5..30),
            naive(2, "b", 7..9),
            naive(2, "c", 9..31),
            naive(2, "d", 31..32),
            extra(4, 0, 8..12),
            naive(4, "e", 5..8),
        ];
        plant(db, main, extras).await;
        assert_refused(books.ensure_indexes().await, ErrorKind::Corrupt);
        assert_eq!(books.migrate_existing().await.unwrap().documents, 3);
        for (id, number) in [(1, 30), (2, 32), (3, 3), (4, 12)] {
            assert_eq!(stored(db, id).await, users(0..number), "{id}");
        }
        assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
        // each new one continues an old one
        let extras = all(&extra_sales(db)).await;
        for name in ["a", "b", "c", "d"] {
            assert!(
                extras.iter().any(|extra| extra.get_str("_id").ok() == Some(name)),
                "{name}"
            );
        }
        books.ensure_indexes().await.unwrap();
        books.push(2, &"user32".to_owned()).await.unwrap();
        assert_eq!(stored(db, 2).await, users(0..33));
    })
    .await;
}

#[tokio::test]
async fn another_threshold_and_another_bound_take_effect_in_either_direction() {
    testkit::run(async |db| {
        let first: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        let numbers = [3, 5, 6, 8, 20, 47];
        for (id, number) in (0..).zip(numbers) {
            first.insert(&book(id, number)).await.unwrap();
        }
        for (threshold, cap) in [(3, 10), (8, 4), (8, 25), (100, 100), (5, 10)] {
            let books = again(db, threshold, cap);
            books.migrate_existing().await.unwrap();
            for (id, number) in (0..).zip(numbers) {
                assert_eq!(stored(db, id).await, users(0..number), "{id} {threshold} {cap}");
            }
            let (threshold, cap) = (threshold as usize, cap as usize);
            assert_eq!(violations(db, threshold, cap).await, Vec::<String>::new());
            db.recorder().clear();
            assert_eq!(books.migrate_existing().await.unwrap().documents, 0);
            assert_eq!(db.recorder().names(), ["hello", "find", "find", "aggregate"]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_that_cannot_be_migrated_is_an_error_after_all_others_are_migrated() {
    testkit::run(async |db| {
        let books: Books = builder(db).threshold(5).max_overflow_elements(10).build().unwrap();
        let refused = with(main_of(1, 0..1), "customers_purchased", "nobody");
        plant(
            db,
            vec![refused.clone(), main_of(2, 0..9), main_of(3, 0..9)],
            vec![extra(7, 0, 0..3)],
        )
        .await;
        confirm_settings(books.ensure_indexes()).await;
        let error = books.migrate_existing().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.operation()),
            (ErrorKind::Corrupt, Some("migrate_existing"))
        );
        assert_eq!(error.document_id(), Some(&1.into()));
        assert!(!format!("{error} {error:?}").contains("nobody"));
        assert_eq!(all(&sales(db)).await[0], refused);
        assert_eq!(stored(db, 2).await.len() + stored(db, 3).await.len(), 18);
        let left = found_problems(&books).await;
        assert_eq!(left.len(), 2);
        assert!(left.contains(&Problem::ArrayNotArray) && left.contains(&Problem::Orphaned));
        assert_eq!(extra_sales(db).count_documents(doc! { "book_id": 7 }).await.unwrap(), 1);
    })
    .await;
}

/// A repository as another process has it, with a client of its own.
async fn in_another_process(db: &TestDatabase, threshold: u32, cap: u32) -> Books {
    let client = Client::with_uri_str(db.server().uri()).await.unwrap();
    let books = builder_in(&client.database(db.database().name()));
    books.threshold(threshold).max_overflow_elements(cap).build().unwrap()
}

/// By other processes, some with the settings from before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_continue_during_a_migration() {
    testkit::run(async |db| {
        let before: Books = ready(db, builder(db).threshold(20).max_overflow_elements(6)).await;
        for id in 0..8 {
            before.insert(&book(id, 60)).await.unwrap();
        }
        let settings = [(20, 6), (5, 10), (40, 3)];
        let processes = settings.map(|(threshold, cap)| in_another_process(db, threshold, cap));
        let processes = futures::future::join_all(processes).await;
        let migrators = settings.map(|(threshold, cap)| of_another_process(db, threshold, cap));
        let writing = Arc::new(AtomicUsize::new(24));
        let writers: Vec<_> = (0..24)
            .map(|writer| {
                let (books, writing) = (processes[writer % 3].clone(), Arc::clone(&writing));
                tokio::spawn(async move {
                    let mut kept = Vec::new();
                    for n in 0..16 {
                        let (id, user) = (n % 8, format!("w{writer}-{n}"));
                        books.push(id, &user).await.unwrap();
                        if n % 4 == 0 {
                            assert!(books.remove(id, &user).await.unwrap().found, "{user} of {id}");
                        } else {
                            kept.push((id, user));
                        }
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                    kept
                })
            })
            .collect();
        let (mut rounds, mut documents) = (0, 0);
        while writing.load(Ordering::Relaxed) > 0 {
            documents += migrators[rounds % 3].migrate_existing().await.unwrap().documents;
            rounds += 1;
        }
        println!("{rounds} rounds, {documents} documents written");
        assert!(documents > 0);
        let mut expected: Vec<BTreeSet<String>> = (0..8).map(|_| users(0..60).into_iter().collect()).collect();
        for writer in writers {
            for (id, user) in writer.await.unwrap() {
                expected[usize::try_from(id).unwrap()].insert(user);
            }
        }
        for (id, expected) in (0..).zip(&expected) {
            let seen: Vec<String> = before.elements(id).await.unwrap();
            assert_eq!(seen.len(), expected.len(), "{id}");
            assert_eq!(&BTreeSet::from_iter(seen), expected, "{id}");
        }
        let last = &migrators[1];
        last.migrate_existing().await.unwrap();
        assert_eq!(findings(last).await, []);
        assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
        for (id, expected) in (0..).zip(&expected) {
            assert_eq!(BTreeSet::from_iter(stored(db, id).await), *expected, "{id}");
        }
    })
    .await;
}

/// The commands contain the elements, so a plan of all lists would be the collection in memory. A plan does not wait for the
/// rate either.
#[tokio::test]
async fn a_plan_of_outliers_lists_the_first_hundred_and_counts_all() {
    testkit::run(async |db| {
        let long = (0..130).map(|id| doc! { "_id": id, "customers_purchased": users(0..8) });
        sales(db).insert_many(long).await.unwrap();
        let invalid = doc! { "_id": 500, "customers_purchased": "none" };
        sales(db).insert_one(invalid).await.unwrap();
        let list = db.plain_collection::<Document>("skipped");
        let books = again(db, 5, 10);
        db.recorder().clear();
        let migration = || books.migrate_existing().skip_invalid(&list);
        let planned = ends("the plan", migration().rate(1).plan()).await.unwrap();
        assert_eq!(planned.migrated.documents, 130);
        let names = db.recorder().names();
        let writes = |name: &String| ["insert", "update", "delete", "findAndModify"].contains(&name.as_str());
        assert!(!names.iter().any(writes), "{names:?}");
        let commits = planned
            .commands
            .iter()
            .filter(|planned| planned.on_admin && planned.writes);
        let listed = commits.count();
        assert!((95..=100).contains(&listed), "{listed}");
        assert_eq!(all(&list).await, []);
        assert_eq!(migration().await.unwrap(), planned.migrated);
        assert_eq!(all(&list).await.len(), 1);
        // Now there is an earlier run, whose list is replaced at the end.
        let planned = migration().plan().await.unwrap();
        let last = planned.commands.last().map(|last| last.purpose);
        assert_eq!(last, Some("remove documents from the list that an earlier run skipped"));
    })
    .await;
}
