//! Pushes to arrays with room: one command, which stores all elements or nothing.

use std::sync::Arc;

use futures::future::join_all;
use futures::poll;
use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::{OutlierRepository, Pushed};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::{dropped_commands, explain};
use support::outlier::*;

async fn small(db: &TestDatabase) -> Books {
    ready(db, builder(db).threshold(5).max_overflow_elements(4)).await
}

/// Returns the names of the commands of a call.
async fn names(db: &TestDatabase, call: impl Future<Output = ()>) -> Vec<String> {
    db.recorder().clear();
    call.await;
    db.recorder().names()
}

#[tokio::test]
async fn elements_for_which_the_array_has_room_are_stored_by_one_plain_push() {
    testkit::run(async |db| {
        let books = small(db).await;
        books.insert(&book(1, 2)).await.unwrap();
        let one = async { assert_eq!(books.push(1, "user02").await.unwrap(), Pushed::Inline) };
        assert_eq!(names(db, one).await, ["update"]);
        let sent = db.recorder().last().unwrap();
        let [Bson::Document(statement)] = &sent.command.get_array("updates").unwrap()[..] else {
            panic!("{sent:?}");
        };
        let push = doc! { "$push": { "customers_purchased": { "$each": ["user02"] } } };
        assert_eq!(statement.get_document("u").unwrap(), &push);
        let examined = explain(db, &sent).await;
        assert_eq!((examined.documents, examined.index.as_str()), (1, "_id_"));

        let two = users(3..5);
        let exactly = async { assert_eq!(books.push_many(1, &two).await.unwrap().inline, 2) };
        assert_eq!(names(db, exactly).await, ["update"]);
        assert_eq!(stored(db, 1).await, users(0..5));
    })
    .await;
}

#[tokio::test]
async fn elements_without_room_are_stored_as_before_and_the_process_tries_once() {
    testkit::run(async |db| {
        let books = small(db).await;
        books.insert(&book(1, 4)).await.unwrap();
        let two = users(4..6);
        let both = async {
            let pushed = books.push_many(1, &two).await.unwrap();
            assert_eq!((pushed.inline, pushed.overflow), (1, 1));
        };
        let opens = ["update", "findAndModify", "findAndModify"];
        let in_transaction = ["update", "update", "insert", "commitTransaction"];
        assert_eq!(names(db, both).await, [&opens[..], &in_transaction].concat());
        let third = async { assert_eq!(books.push(1, "user06").await.unwrap(), Pushed::Overflow) };
        assert_eq!(names(db, third).await, ["findAndModify"]);

        // More than an array takes: it cannot have room.
        books.insert(&book(2, 0)).await.unwrap();
        let six = users(0..6);
        let many = async { assert_eq!(books.push_many(2, &six).await.unwrap().inline, 5) };
        assert_eq!(names(db, many).await[..2], ["findAndModify", "findAndModify"]);
        let mut session = db.client().start_session().await.unwrap();
        books.insert(&book(3, 0)).await.unwrap();
        let in_session = async {
            assert_eq!(
                books.push(3, "user00").session(&mut session).await.unwrap(),
                Pushed::Inline
            );
        };
        assert_eq!(names(db, in_session).await, ["findAndModify"]);
        for (id, stored_users) in [(1, 0..7), (2, 0..6), (3, 0..1)] {
            assert_eq!(stored(db, id).await, users(stored_users));
        }
        assert_eq!(violations(db, 5, 4).await, [""; 0]);

        let unique: Books = builder(db)
            .threshold(5)
            .max_overflow_elements(4)
            .unique_elements()
            .build()
            .unwrap();
        sales(db).insert_one(doc! { "_id": 4, "title": "" }).await.unwrap();
        let once = async { assert_eq!(unique.push_unique(4, "user00").await.unwrap(), Pushed::Inline) };
        assert_eq!(names(db, once).await, ["findAndModify"]);
    })
    .await;
}

/// Each document that the plain push does not match, or that it must not change, with the outcome of a push before it existed.
#[tokio::test]
async fn documents_of_other_forms_are_pushed_to_as_by_one_pipeline() {
    testkit::run(async |db| {
        let books: OutlierRepository<Document, Document> =
            ready(db, builder(db).threshold(3).max_overflow_elements(4)).await;
        let (one, inline, overflow) = (doc! { "n": 1 }, Ok(Pushed::Inline), Ok(Pushed::Overflow));
        let three = vec![one.clone(); 3];
        let numbered = doc! { "0": 1, "1": 1, "2": 1 };
        for (fields, expected, array) in [
            (doc! {}, inline, Some(vec![one.clone()])),
            (doc! { "customers_purchased": null }, inline, Some(vec![one.clone()])),
            (
                doc! { "customers_purchased": [&one], "has_extras": false },
                inline,
                Some(vec![one.clone(); 2]),
            ),
            (
                doc! { "customers_purchased": [&one], "has_extras": "true" },
                inline,
                Some(vec![one.clone(); 2]),
            ),
            (
                doc! { "customers_purchased": [&numbered] },
                inline,
                Some(vec![numbered.clone(), one.clone()]),
            ),
            (
                doc! { "customers_purchased": [&one], "has_extras": true },
                overflow,
                Some(vec![one.clone()]),
            ),
            (doc! { "customers_purchased": &three }, overflow, Some(three.clone())),
            (
                doc! { "customers_purchased": [&one, &one, &one, &one] },
                overflow,
                Some(vec![one.clone(); 4]),
            ),
            (doc! { "customers_purchased": "text" }, Err(ErrorKind::Corrupt), None),
        ] {
            clear(db).await;
            let mut main = doc! { "_id": 1 };
            main.extend(fields.clone());
            sales(db).insert_one(&main).await.unwrap();
            let pushed = books.push(1, &one).await.map_err(|error| error.kind());
            assert_eq!(pushed, expected, "{fields}");
            let after = sales(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
            match array {
                Some(array) => {
                    let array: Vec<Bson> = array.into_iter().map(Bson::Document).collect();
                    assert_eq!(after.get_array("customers_purchased").unwrap(), &array, "{fields}");
                }
                None => assert_eq!(after, main),
            }
            let extras = extra_sales(db).count_documents(doc! {}).await.unwrap();
            assert_eq!(extras, u64::from(pushed == overflow), "{fields}");
            let flag = match pushed == overflow {
                true => Some(&Bson::Boolean(true)),
                false => fields.get("has_extras"),
            };
            assert_eq!(after.get("has_extras"), flag, "{fields}");
            // The process must not know the list of the next document.
            books.delete(1).await.unwrap();
        }
        let missing = books.push(7, &one).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    })
    .await;
}

/// Each writer is a process. The driver alone reads what they stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_several_processes_meet_at_the_threshold() {
    testkit::run(async |db| {
        drop(small(db).await);
        for round in 0..8 {
            sales(db).insert_one(doc! { "_id": round, "title": "" }).await.unwrap();
            let acknowledged = join_all((0..6).map(|writer| {
                let books = Arc::new(of_another_process(db, 5, 4));
                tokio::spawn(async move {
                    let mut acknowledged = Vec::new();
                    for n in 0..3 {
                        let elements: Vec<String> = (0..=n % 2).map(|at| format!("{writer}-{n}-{at}")).collect();
                        let pushed = books.push_many(round, &elements).await.unwrap();
                        assert_eq!((pushed.inline + pushed.overflow) as usize, elements.len());
                        acknowledged.extend(elements);
                    }
                    acknowledged
                })
            }));
            let acknowledged = acknowledged.await.into_iter().map(Result::unwrap);
            let acknowledged: Vec<Vec<String>> = acknowledged.collect();
            let stored = stored(db, round).await;
            for of_writer in &acknowledged {
                let own: Vec<&String> = stored.iter().filter(|user| of_writer.contains(user)).collect();
                assert_eq!(
                    own,
                    of_writer.iter().collect::<Vec<_>>(),
                    "once, and in the order of the writer"
                );
            }
            assert_eq!(stored.len(), acknowledged.iter().map(Vec::len).sum::<usize>());
            let main = sales(db).find_one(doc! { "_id": round }).await.unwrap().unwrap();
            assert_eq!(main.get_array("customers_purchased").unwrap().len(), 5);
        }
        assert_eq!(violations(db, 5, 4).await, [""; 0]);
    })
    .await;
}

/// A command that was sent runs to its reply. One that found no room is the last of a dropped call.
#[tokio::test]
async fn a_dropped_push_is_stored_once_where_there_is_room_and_has_no_effect_elsewhere() {
    testkit::run(async |db| {
        let books = small(db).await;
        books.insert(&book(1, 3)).await.unwrap();
        for user in users(3..8) {
            let mut push = books.push(1, &user).into_future();
            db.recorder().clear();
            assert!(poll!(&mut push).is_pending());
            drop(push);
            db.recorder().sent(1).await;
            dropped_commands(db).await;
        }
        assert_eq!(stored(db, 1).await, users(0..5));
        let main = sales(db).find_one(doc! {}).await.unwrap().unwrap();
        assert!(!main.contains_key("has_extras"), "{main}");
    })
    .await;
}

/// The driver sends the command again when it does not learn of its outcome, and the server executes it once.
#[tokio::test]
async fn a_push_whose_reply_is_lost_is_stored_once() {
    testkit::run(async |db| {
        let books = small(db).await;
        books.insert(&book(1, 3)).await.unwrap();
        let lost = FailPoint::on(&["update"]).times(1).write_concern_error(91);
        let lost = lost.enable(db).await;
        assert_eq!(books.push(1, "user03").await.unwrap(), Pushed::Inline);
        lost.disable().await;
        let broken = FailPoint::on(&["update"]).close_connection().enable(db).await;
        let error = books.push(1, "user04").await.unwrap_err();
        broken.disable().await;
        assert!(
            error.is_outcome_unknown() && error.stored_count().is_none_or(|stored| stored == 0),
            "{error:?}"
        );
        assert_eq!(stored(db, 1).await, users(0..4));
    })
    .await;
}
