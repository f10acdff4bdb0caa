//! Every problem of a list is found, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::Problem;
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Bson, Document, doc};

use support::common::{assert_refused, confirm_settings, until};
use support::outlier::damage::*;
use support::outlier::*;

#[tokio::test]
async fn a_verify_sends_no_elements_and_reads_lists_with_problems_again() {
    testkit::run(async |db| {
        let books: Books = again(db, 5, 10);
        let (main, extras) = sound();
        let main = [main, vec![main_of(2, 0..27)]].concat();
        plant(db, main, extras).await;
        db.recorder().clear();
        assert_eq!(findings(&books).await.len(), 1);
        assert_eq!(
            db.recorder().names(),
            ["find", "aggregate", "find", "find", "find", "find"]
        );
        for command in db.recorder().commands() {
            assert!(!command.reply.unwrap().to_string().contains("user"));
        }

        // Unique elements take no more round trips where all is well.
        clear(db).await;
        let lists: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10).unique_elements()).await;
        for id in 0..3 {
            lists.insert(&book(id, 20)).await.unwrap();
        }
        db.recorder().clear();
        assert_eq!(findings(&lists).await, []);
        assert_eq!(db.recorder().names(), ["find", "aggregate"]);
    })
    .await;
}

/// Others of this process write, and two of them move elements all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_collection_gives_no_findings_while_many_write() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        for id in 0..4 {
            books.insert(&book(id, 8)).await.unwrap();
        }
        let done = Arc::new(AtomicBool::new(false));
        let verifier = tokio::spawn({
            let (books, done) = (books.clone(), Arc::clone(&done));
            async move {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(problems(&findings(&books).await), []);
                    looks += 1;
                }
                looks
            }
        });
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let books = books.clone();
                tokio::spawn(async move {
                    for n in 0..16 {
                        let (id, user) = (n % 4, format!("w{writer}-{n}"));
                        books.push(id, &user).await.unwrap();
                        if n % 3 > 0 {
                            assert!(books.remove(id, &user).await.unwrap().found);
                        }
                        if writer < 2 {
                            books.refresh(id).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(verifier.await.unwrap() > 0);
        assert_eq!(problems(&findings(&books).await), []);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_is_an_error() {
    testkit::run(async |db| {
        let books: Books = again(db, 5, 10);
        let verified = books.verify_document(Bson::Null).stream().try_next().await;
        let repaired = books.repair_document(Bson::Null).stream().try_next().await;
        for (error, operation) in [(verified.unwrap_err(), "verify"), (repaired.unwrap_err(), "repair")] {
            assert_eq!(
                (error.kind(), error.operation()),
                (ErrorKind::InvalidArgument, Some(operation))
            );
        }
        assert_eq!(db.recorder().round_trips(), 0);
        let elsewhere = db.client().database("elsewhere").collection::<Document>("extra_sales");
        let apart = Books::builder(db.collection::<Document>("sales"), elsewhere);
        let apart = apart
            .array_field("customers_purchased")
            .parent_field("book_id")
            .build()
            .unwrap();
        assert_refused(apart.verify().stream().try_next().await, ErrorKind::Configuration);
        assert_refused(apart.migrate_existing().await, ErrorKind::Configuration);
        assert_eq!(db.recorder().round_trips(), 0);
        plant(db, vec![doc! { "_id": 1 }], vec![]).await;
        assert_eq!(findings(&books).await, []);
    })
    .await;
}

fn elements(elements: impl IntoIterator<Item = impl Into<Bson>>) -> Vec<Bson> {
    elements.into_iter().map(Into::into).collect()
}

/// Unique elements that are there twice, as far as they can be in these two documents.
fn doubled() -> Vec<(Document, Vec<Document>, u64)> {
    let list = |main: Vec<Bson>| doc! { "_id": 2, "customers_purchased": main };
    let flagged = |main| with(list(main), "has_extras", true);
    let extra = |seq: i32, elements: Vec<Bson>| {
        let count = i32::try_from(elements.len()).unwrap();
        let of_place = doc! { "_id": format!("2-{seq}"), "book_id": 2, "seq": seq, "count": count };
        with(of_place, "customers_purchased_extra", elements)
    };
    let nested = |number: Bson| Bson::from(doc! { "a": number });
    let two = vec![extra(0, elements(["b"])), extra(1, elements(["b", "a"]))];
    let null = vec![extra(0, elements([Bson::Null]))];
    vec![
        (list(elements(["a", "b", "a"])), vec![], 1),
        (list([elements([1, 2]), elements([1.0])].concat()), vec![], 1),
        (list(elements([nested(0.into()), nested((-0.0).into())])), vec![], 1),
        (
            flagged(elements(["a", "b"])),
            vec![extra(0, elements(["c", "a", "b"]))],
            2,
        ),
        (flagged(elements(["a"])), vec![extra(0, elements(["b", "b"]))], 1),
        (flagged(elements(["a"])), two, 2),
        (flagged(elements([Bson::Null, 1.into()])), null, 1),
    ]
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn unique_elements_that_are_there_twice_are_found_and_repaired() {
    testkit::run(async |db| {
        let unique = || builder::<Document, Bson>(db).threshold(5).max_overflow_elements(10);
        let (lists, plain) = (unique().unique_elements().build().unwrap(), unique().build().unwrap());
        let sound = doc! { "_id": 1, "customers_purchased": ["a", 1, "b"], "has_extras": true };
        let of_sound =
            doc! { "_id": "1-0", "book_id": 1, "seq": 0, "count": 2, "customers_purchased_extra": ["c", "1"] };
        for (main, extras, number) in doubled() {
            let extras = [extras, vec![of_sound.clone()]].concat();
            plant(db, vec![main.clone(), sound.clone()], extras).await;
            let expected = [("sales", Bson::Int32(2), Problem::DuplicateElements { elements: number })];
            let found = findings(&lists).await;
            assert_eq!(problems(&found), expected, "{main}");
            let of_one: Vec<_> = lists.verify_document(2).stream().try_collect().await.unwrap();
            assert_eq!(of_one, found, "{main}");
            let of_other: Vec<_> = lists.verify_document(1).stream().try_collect().await.unwrap();
            assert_eq!(of_other, []);
            assert_eq!(findings(&plain).await, [], "they may be, where elements are not unique");

            let dry: Vec<_> = lists.repair().dry_run().stream().try_collect().await.unwrap();
            assert_eq!(
                dry.iter().map(|repaired| &repaired.findings).collect::<Vec<_>>(),
                [&found]
            );
            let before = lists.elements(2).await.unwrap();
            confirm_settings(lists.ensure_indexes()).await;
            extra_sales(db).drop_indexes().await.unwrap();
            let entries = db.plain_collection::<Document>("mongo_patterns");
            let repaired: Vec<_> = lists.repair().stream().try_collect().await.unwrap();
            entries.drop().await.unwrap();
            assert!(repaired.len() == 1 && repaired[0].unrepaired.is_none(), "{repaired:?}");
            let mut once = Vec::new();
            for element in before.iter().filter(|element| !matches!(element, Bson::Double(_))) {
                let is_zero = |element: &Bson| element.to_string().contains("-0");
                if !once.contains(element) && !is_zero(element) {
                    once.push(element.clone());
                }
            }
            assert_eq!(lists.elements(2).await.unwrap(), once, "the first of each stays");
            assert_eq!(findings(&lists).await, []);
        }
    })
    .await;
}

/// A push has set the flag, and its next command is slow. The check that reads the document again waits for the push.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_between_its_flag_and_its_overflow_document_is_not_a_finding() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(2).max_overflow_elements(10)).await;
        books.insert(&book(1, 2)).await.unwrap();
        let slow = FailPoint::on(&["findAndModify"]).block(Duration::from_millis(400));
        let slow = slow.enable(db).await;
        let push = tokio::spawn({
            let books = books.clone();
            async move { books.push(1, &"late".to_owned()).await }
        });
        until("the flag", async || {
            let flagged = doc! { "_id": 1, "has_extras": true };
            sales(db).find_one(flagged).await.unwrap().is_some()
        })
        .await;
        let found: Vec<_> = books.verify_document(1).stream().try_collect().await.unwrap();
        slow.disable().await;
        push.await.unwrap().unwrap();
        assert_eq!(problems(&found), []);
        assert_eq!(problems(&findings(&books).await), []);
    })
    .await;
}
