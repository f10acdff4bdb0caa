//! Updates of one element.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::assert_refused;
use support::explain::{documents_examined, explained};
use support::outlier::*;

pub(super) type Orders = OutlierRepository<Document, Document>;

pub(super) const THRESHOLD: usize = 3;
pub(super) const CAP: usize = 4;

fn order(user: usize) -> Document {
    doc! { "user": i32::try_from(user).unwrap(), "copies": 1, "note": "secret" }
}

pub(super) fn by(user: i32) -> Document {
    doc! { "user": user }
}

fn one_more() -> Document {
    doc! { "$inc": { "copies": 1 } }
}

/// Returns a repository with book 2, and this number of orders.
async fn orders(db: &TestDatabase, number: usize) -> Orders {
    let books = builder(db)
        .threshold(THRESHOLD as u32)
        .max_overflow_elements(CAP as u32);
    let books: Orders = ready(db, books).await;
    let all: Vec<Document> = (0..number).map(order).collect();
    let document = doc! { "_id": 2, "customers_purchased": all };
    books.insert(&document).await.unwrap();
    db.recorder().clear();
    books
}

/// Returns the elements of book 2 in their order.
pub(super) async fn elements(books: &Orders) -> Vec<Document> {
    let book = books.get_full(2).await.unwrap().unwrap();
    let elements = book.get_array("customers_purchased").unwrap().iter();
    elements.map(|element| element.as_document().unwrap().clone()).collect()
}

#[tokio::test]
async fn one_element_is_updated_where_it_is_stored() {
    testkit::run(async |db| {
        let books = orders(db, 9).await;
        let update = || doc! { "$inc": { "copies": 2 }, "$set": { "gift.from": "$user" }, "$unset": { "note": "" } };
        for (user, names) in [(1, "update"), (5, "update find update"), (8, "update find update")] {
            db.recorder().clear();
            assert!(books.update_element(2, by(user), update()).await.unwrap().modified);
            assert_eq!(db.recorder().names().join(" "), names);
            let commands = db.recorder().commands();
            let last = commands.last().unwrap();
            if names == "update" {
                assert_eq!(documents_examined(&explained(db, last).await), 1);
            }
            let again = doc! { "$max": { "copies": 3 } };
            assert!(!books.update_element(2, by(user), again).await.unwrap().modified);
        }
        let mut expected: Vec<Document> = (0..9).map(order).collect();
        for user in [1, 5, 8] {
            expected[user] = doc! { "user": i32::try_from(user).unwrap(), "copies": 3, "gift": { "from": "$user" } };
        }
        assert_eq!(elements(&books).await, expected);
        let mut stored = sales(db).find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(
            stored.remove("customers_purchased"),
            Some(expected[..3].to_vec().into()),
            "the form is that of the manual"
        );
        assert_eq!(stored, doc! { "_id": 2, "has_extras": true });
        assert_eq!(findings(&books).await, []);
        assert_eq!(violations(db, THRESHOLD, CAP).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn of_equal_elements_the_first_is_updated() {
    testkit::run(async |db| {
        let books = orders(db, 9).await;
        for user in [7, 1] {
            let mut other = order(user);
            other.insert("shop", doc! { "city": "Boston" });
            books.push(2, &other).await.unwrap();
        }
        for user in [7, 1] {
            books.update_element(2, by(user), one_more()).await.unwrap();
        }
        let boston = doc! { "shop.city": "Boston", "user": 1_i64 };
        let update = doc! { "$set": { "copies": 9 } };
        books.update_element(2, boston, update).await.unwrap();
        let copies: Vec<i32> = elements(&books)
            .await
            .iter()
            .map(|order| order.get_i32("copies").unwrap())
            .collect();
        assert_eq!(copies, [1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 9]);
    })
    .await;
}

#[tokio::test]
async fn refused_updates_have_no_effect() {
    use ErrorKind::{Configuration, InvalidArgument, NotFound};
    testkit::run(async |db| {
        let books = orders(db, 9).await;
        let before = elements(&books).await;
        db.recorder().clear();
        let set = || doc! { "$set": { "copies": 7 } };
        for (fields, update) in [
            (doc! {}, set()),
            (doc! { "$or": [{ "user": 1 }] }, set()),
            (doc! { "": "secret" }, set()),
            (doc! { "user.$": 1 }, set()),
            (doc! { "user": Bson::Undefined }, set()),
            (by(1), doc! { "copies": "secret" }),
            (by(1), doc! { "$rename": { "copies": "secret" } }),
            (by(1), doc! { "$set": { "": "secret" } }),
            (by(1), doc! { "$set": { "$": "secret" } }),
            (by(1), doc! { "$set": { "a.$[].b": "secret" } }),
            (by(1), doc! { "$inc": { "copies": "secret" } }),
            (by(1), doc! { "$set": { "gift": 1, "gift.from": "secret" } }),
        ] {
            let error = books
                .update_element(2, fields.clone(), update.clone())
                .await
                .unwrap_err();
            assert_eq!(error.kind(), InvalidArgument, "{fields} {update}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        let error = books.update_element(2, by(1), vec![set()]).await.unwrap_err();
        assert_eq!(error.kind(), InvalidArgument);
        let unique = builder::<Document, Document>(db).unique_elements().build().unwrap();
        assert_refused(unique.update_element(2, by(1), set()).await, Configuration);
        assert_eq!(db.recorder().round_trips(), 0);

        for user in [1, 5] {
            for update in [doc! { "$inc": { "note": 1 } }, doc! { "$push": { "note": 1 } }] {
                let error = books.update_element(2, by(user), update).await.unwrap_err();
                assert_eq!(error.kind(), InvalidArgument, "{:?}", error.as_driver_error());
                assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
            }
        }
        for hostile in [doc! { "$gt": 0 }, doc! { "$exists": true }, doc! { "$literal": 1 }] {
            assert_refused(books.update_element(2, doc! { "user": hostile }, set()).await, NotFound);
        }
        assert_eq!(elements(&books).await, before);
    })
    .await;
}

#[tokio::test]
async fn an_absent_element_is_not_found() {
    testkit::run(async |db| {
        let books = orders(db, 9).await;
        let names = |db: &TestDatabase| {
            let names = db.recorder().names().join(" ");
            db.recorder().clear();
            names
        };
        assert_refused(books.update_element(2, by(20), one_more()).await, ErrorKind::NotFound);
        let sent = names(db);
        assert!(sent.starts_with("update find update find find"), "{sent}");
        assert_refused(books.update_element(3, by(1), one_more()).await, ErrorKind::NotFound);
        assert_eq!(names(db), "update find");
        let document = doc! { "_id": 4, "customers_purchased": [order(1)] };
        books.insert(&document).await.unwrap();
        names(db);
        assert_refused(books.update_element(4, by(2), one_more()).await, ErrorKind::NotFound);
        assert_eq!(names(db), "update find");
        // Strings have no fields.
        let document = doc! { "_id": 5, "customers_purchased": ["user"] };
        books.insert(&document).await.unwrap();
        assert_refused(books.update_element(5, by(1), one_more()).await, ErrorKind::NotFound);
    })
    .await;
}

/// By repositories of two thresholds, which move elements to the array and back. No lock keeps them apart from the updates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn increments_of_sixty_four_tasks_add_up_while_another_process_moves_the_elements() {
    testkit::run(async |db| {
        const EACH: usize = 4;
        const LIMIT: Duration = Duration::from_secs(300);
        let books = orders(db, 9).await;
        let movers = [3, 6].map(|threshold| of_another_process(db, threshold, CAP as u32));
        let moved = Arc::new(AtomicUsize::new(0));
        // Four of the tasks continue until a refresh has moved elements between their updates.
        let tasks: Vec<_> = (0..64)
            .map(|task: usize| {
                let (books, moved) = (books.clone(), Arc::clone(&moved));
                tokio::spawn(async move {
                    let mut updates = 0;
                    while updates < EACH || (task < 4 && moved.load(Ordering::Relaxed) == 0) {
                        let user = by(i32::try_from((task + updates) % 9).unwrap());
                        match books.update_element(2, user, one_more()).await {
                            Ok(updated) => assert!(updated.modified),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
                                continue;
                            }
                        }
                        updates += 1;
                    }
                    (0..updates).map(move |n| (task + n) % 9)
                })
            })
            .collect();
        let started = Instant::now();
        while tasks.iter().any(|task| !task.is_finished()) {
            assert!(started.elapsed() < LIMIT, "the tasks and the refreshes stand still");
            for mover in &movers {
                match mover.refresh(2).await {
                    Ok(refreshed) => _ = moved.fetch_add(usize::from(refreshed.modified), Ordering::Relaxed),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}"),
                }
            }
        }
        let mut expected: BTreeMap<i32, i32> = (0..9).map(|user| (user, 1)).collect();
        for task in tasks {
            for user in task.await.unwrap() {
                *expected.get_mut(&i32::try_from(user).unwrap()).unwrap() += 1;
            }
        }
        assert!(moved.load(Ordering::Relaxed) > 0);
        let mut copies = BTreeMap::new();
        for order in elements(&books).await {
            *copies.entry(order.get_i32("user").unwrap()).or_insert(0) += order.get_i32("copies").unwrap();
        }
        assert_eq!(copies, expected);
    })
    .await;
}
