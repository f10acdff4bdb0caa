//! A read that decides about a write sees the latest data of the primary, whatever the collection is configured for.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use futures::TryStreamExt;
use futures::future::BoxFuture;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};
use mongodb::options::{DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::{ClientSession, Database};

use support::lanes::operations::{Repositories, operation, review};
use support::lanes::{FREE, prepare};

type Run = for<'a> fn(&'a Repositories, Option<&'a mut ClientSession>) -> BoxFuture<'a, Result<(), Error>>;

/// A document that is prepared.
const DOCUMENT: i32 = FREE[0];

/// The number of the next review.
static NEXT: AtomicI32 = AtomicI32::new(6000);

macro_rules! run {
    (|$of:ident, $session:ident| $run:expr) => {
        |$of, $session| Box::pin(async move { $run })
    };
}

/// A write that reads, with the operation that prepares its document, and a read of the caller.
const CALLS: [(&str, Run, Run); 6] = [
    (
        "append",
        run!(|of, session| of
            .trades
            .remove_item(&DOCUMENT, 99_999)
            .session(session)
            .await
            .map(drop)),
        run!(|of, session| of.trades.page(&DOCUMENT, 1).session(session).await.map(drop)),
    ),
    (
        "push",
        run!(|of, session| {
            let refused = of
                .books
                .update_element(DOCUMENT, doc! { "n": 1 }, doc! { "$set": { "m": 2 } });
            assert!(refused.session(session).await.is_err());
            Ok(())
        }),
        run!(|of, session| of.books.get(DOCUMENT).session(session).await.map(drop)),
    ),
    (
        "add_child",
        run!(|of, session| {
            // It is refused, and a read finds out why.
            let refused = of
                .patrons
                .update_child(DOCUMENT, 7000, doc! { "$set": { "city": "Cork" } });
            let refused = refused.session(session).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ChildNotFound);
            Ok(())
        }),
        run!(|of, session| of.patrons.get(DOCUMENT).session(session).await.map(drop)),
    ),
    (
        "update_source",
        run!(|of, session| {
            let order = doc! { "customer": { "_id": DOCUMENT } };
            of.orders.insert(&order).session(session).await.map(drop)
        }),
        run!(|of, session| of.orders.get(DOCUMENT).session(session).await.map(drop)),
    ),
    (
        "update",
        run!(|of, session| of.policies.restore(DOCUMENT, 1).session(session).await.map(drop)),
        run!(|of, session| of.policies.get(DOCUMENT).session(session).await.map(drop)),
    ),
    (
        "insert",
        run!(|of, session| {
            let review = review(DOCUMENT, NEXT.fetch_add(1, Relaxed));
            of.products.insert(&review).session(session).await.map(drop)
        }),
        run!(|of, session| of.products.get(DOCUMENT).session(session).await.map(drop)),
    ),
];

/// Returns a database whose collections are configured for reads of a majority, if possible from a secondary.
fn configured(database: &Database) -> Database {
    let secondary = ReadPreference::SecondaryPreferred { options: None };
    let options = DatabaseOptions::builder()
        .selection_criteria(SelectionCriteria::ReadPreference(secondary))
        .read_concern(ReadConcern::majority())
        .build();
    database.client().database_with_options(database.name(), options)
}

fn level(read: &Document) -> Option<&str> {
    read.get_document("readConcern").ok()?.get_str("level").ok()
}

fn is_from_primary(read: &Document) -> bool {
    let preference = read.get_document("$readPreference");
    preference.is_err()
        || preference.is_ok_and(|preference| preference.get_str("mode").is_ok_and(|mode| mode == "primary"))
}

#[tokio::test]
async fn deciding_reads_are_local_and_from_the_primary_but_those_of_a_transaction_of_the_caller() {
    testkit::run(async |db| {
        for (prepared, write, read) in CALLS {
            prepare(db, operation(prepared)).await;
            let repositories = Repositories::new(&configured(db.database()));
            for in_session in [false, true] {
                let mut session = db.client().start_session().await.unwrap();
                db.recorder().clear();
                write(&repositories, in_session.then_some(&mut session)).await.unwrap();
                let commands = db.recorder().commands();
                let reads = commands
                    .iter()
                    .filter(|sent| ["find", "aggregate"].contains(&sent.name.as_str()));
                let (mut outside, mut inside) = (0, 0);
                for read in reads.map(|sent| &sent.command) {
                    assert!(is_from_primary(read), "{prepared}: {read}");
                    match read.contains_key("autocommit") {
                        true => inside += 1,
                        false => {
                            outside += 1;
                            assert_eq!(level(read), Some("local"), "{prepared}: {read}");
                        }
                    }
                }
                assert!(outside + inside > 0, "{prepared} has read nothing");

                read(&repositories, in_session.then_some(&mut session)).await.unwrap();
                let sent = db.recorder().commands().pop().unwrap();
                assert_eq!(level(&sent.command), Some("majority"), "{prepared}: {sent:?}");
            }
            // A transaction has a read concern of its own, which a read in it must not change.
            let mut session = db.client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            db.recorder().clear();
            write(&repositories, Some(&mut session)).await.unwrap();
            session.commit_transaction().await.unwrap();
            for sent in db.recorder().commands() {
                let is_first = sent.command.contains_key("startTransaction");
                let is_read = ["find", "aggregate"].contains(&sent.name.as_str());
                let has_none = level(&sent.command).is_none();
                assert!(is_first || !is_read || has_none, "{prepared}: {sent:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_scans_of_all_documents_are_too() {
    testkit::run(async |db| {
        for (prepared, ..) in CALLS {
            prepare(db, operation(prepared)).await;
        }
        let of = Repositories::new(&configured(db.database()));
        db.recorder().clear();
        let mut reported = 0;
        macro_rules! scan {
            ($($repository:ident),+) => {
                $(
                    let verify = of.$repository.verify().on_progress(|_| reported += 1);
                    verify.stream().try_collect::<Vec<_>>().await.unwrap();
                    of.$repository.verify().stream().try_collect::<Vec<_>>().await.unwrap();
                )+
            };
        }
        scan!(trades, books, patrons, orders, policies, products);
        assert!(reported >= 6, "{reported}");
        of.books.migrate_existing().await.unwrap();
        let commands = db.recorder().commands();
        let scans = commands
            .iter()
            .filter(|sent| ["find", "aggregate"].contains(&sent.name.as_str()))
            .filter(|sent| !sent.command.contains_key("autocommit"));
        for scan in scans.clone().map(|sent| &sent.command) {
            assert!(is_from_primary(scan) && level(scan) == Some("local"), "{scan}");
        }
        assert!(scans.count() >= 13, "{commands:?}");
    })
    .await;
}
