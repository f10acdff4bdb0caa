//! A trash of lists beside clients that push to them, of which some know them.

use std::collections::BTreeMap;

use futures::future::join_all;
use mongo_patterns::ErrorKind::{AlreadyExists, NotFound};
use mongo_patterns::archive::Trash;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document};

use super::trash_with_related::{assert_whole, builder, entries, shop};
use support::archive::books::{Books, HOT, book, books_in};
use support::common::{all, dropped_after, dropped_commands};

const LISTS: i32 = 4;

/// Returns how often each element is stored, in a list or in the trash.
async fn stored(db: &TestDatabase) -> BTreeMap<String, usize> {
    let mut documents = all(&db.plain_collection(HOT[0])).await;
    documents.extend(all(&db.plain_collection(HOT[1])).await);
    let deleted = all(&entries(db)).await.into_iter();
    documents.extend(deleted.map(|entry| entry.get_document("document").unwrap().clone()));
    let mut stored = BTreeMap::new();
    for document in &documents {
        let arrays = ["customers", "customers_extra"].map(|field| document.get_array(field));
        for element in arrays.into_iter().flatten().flatten().filter_map(Bson::as_str) {
            *stored.entry(element.to_owned()).or_default() += 1;
        }
    }
    stored
}

/// Both parts of a process, of which four know no list of another one.
fn process(db: &TestDatabase) -> (Books, Trash<Document>) {
    (books_in(db.database(), HOT), builder(db).build().unwrap())
}

/// Lists are deleted, restored and inserted again under their `_id`s. Each acknowledged element is once in a list or in the
/// trash, and no list has a part of another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_push_is_lost_beside_deletions_and_restores() {
    testkit::run(async |db| {
        let (books, trash) = shop(db).await;
        for id in 0..LISTS {
            books.insert(&book(id, 0, 0)).await.unwrap();
        }
        let processes: Vec<_> = (0..4).map(|_| process(db)).collect();
        let pushers = (0..8).map(|task: i32| {
            let (books, _) = processes[task as usize % processes.len()].clone();
            tokio::spawn(async move {
                // What was dropped, or sent together with the element of another call before the list was deleted, may be stored.
                let (mut acknowledged, mut unknown) = (Vec::new(), Vec::new());
                for n in 0..40 {
                    let (id, element) = ((task + n / 8) % LISTS, format!("{task}-{n}"));
                    let push = books.push(id, &element);
                    let done = match n % 10 {
                        9 => dropped_after(10 * n, push).await,
                        _ => Some(push.await),
                    };
                    match done {
                        Some(Ok(_)) => acknowledged.push(element),
                        Some(Err(error)) => {
                            assert_eq!(error.kind(), NotFound, "{error:?}");
                            unknown.push(element);
                        }
                        None => unknown.push(element),
                    }
                }
                (acknowledged, unknown)
            })
        });
        let pushers: Vec<_> = pushers.collect();
        let movers = (0..8).map(|task: i32| {
            let (books, trash) = processes[task as usize % processes.len()].clone();
            tokio::spawn(async move {
                let mut moved = 0;
                for n in 0..24 {
                    let id = (task + n) % LISTS;
                    match (n + task) % 4 {
                        0 => moved += u64::from(trash.delete(id).await.unwrap().found),
                        1 => drop(dropped_after(15 * n, trash.delete(id)).await),
                        2 => drop(dropped_after(15 * n, trash.restore(id)).await),
                        _ if n % 8 == 3 => {
                            if let Err(error) = books.insert(&book(id, 0, 0)).await {
                                assert_eq!(error.kind(), AlreadyExists, "{error:?}");
                            }
                        }
                        _ => match trash.restore(id).await {
                            Ok(_) => moved += 1,
                            Err(error) => {
                                assert!([AlreadyExists, NotFound].contains(&error.kind()), "{error:?}");
                            }
                        },
                    }
                }
                moved
            })
        });
        let movers: Vec<_> = movers.collect();
        let moved: u64 = join_all(movers).await.into_iter().map(|task| task.unwrap()).sum();
        let (mut acknowledged, mut unknown) = (Vec::new(), Vec::new());
        for pusher in join_all(pushers).await {
            let (done, left) = pusher.unwrap();
            acknowledged.extend(done);
            unknown.extend(left);
        }
        dropped_commands(db).await;
        assert!(moved > 0 && acknowledged.len() > 40, "{moved} {}", acknowledged.len());
        assert_whole(db, &books).await;
        let mut found = stored(db).await;
        for element in &acknowledged {
            assert_eq!(found.remove(element), Some(1), "{element}");
        }
        found.retain(|element, times| !unknown.contains(element) || *times != 1);
        assert_eq!(found, BTreeMap::new());

        // Every set is restored as a whole.
        for id in 0..LISTS {
            books.delete(id).await.unwrap();
            while trash.restore(id).await.is_ok() {
                books.delete(id).await.unwrap();
            }
        }
        assert_eq!(assert_whole(db, &books).await, 0);
        assert_eq!(all(&db.plain_collection(HOT[1])).await, []);
    })
    .await;
}

/// A call that is dropped after any of its commands has moved the whole list, or nothing of it.
#[tokio::test]
async fn a_dropped_call_moves_a_whole_or_nothing() {
    testkit::run(async |db| {
        let (books, trash) = shop(db).await;
        books.insert(&book(1, 0, 9)).await.unwrap();
        let (mut moved, mut unmoved) = (0, 0);
        for is_deletion in [true, false] {
            for commands in 1..=7 {
                match is_deletion {
                    true => drop(trash.restore(1).await.unwrap()),
                    false => drop(trash.delete(1).await.unwrap()),
                }
                db.recorder().clear();
                let call = async {
                    match is_deletion {
                        true => drop(trash.delete(1).await.unwrap()),
                        false => drop(trash.restore(1).await.unwrap()),
                    }
                };
                tokio::select! {
                    () = call => {}
                    () = db.recorder().sent(commands) => {}
                }
                dropped_commands(db).await;
                assert_whole(db, &books).await;
                assert_eq!(stored(db).await.values().sum::<usize>(), 9, "{commands}");
                match books.get(1).await.unwrap().is_some() == is_deletion {
                    true => unmoved += 1,
                    false => moved += 1,
                }
            }
        }
        assert!(moved >= 2 && unmoved >= 8, "{moved} {unmoved}");
    })
    .await;
}
