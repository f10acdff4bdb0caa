//! The session of a caller reaches every command of a call. `time_limits` and `deciding_reads` have the other options.

use mongo_patterns::pages::Pages;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::ClientSession;
use mongodb::bson::{DateTime, Document, doc};

use support::archive;

/// What a call sends outside of any session: the check of an index.
const OUTSIDE: [&str; 3] = ["hello", "listIndexes", "listCollections"];

/// Checks that the commands since the last check were in a transaction of this session. Returns how many there were.
pub(super) fn assert_in_transaction(db: &TestDatabase, session: &ClientSession) -> usize {
    let sent = db.recorder().commands();
    let inside = sent.iter().filter(|sent| !OUTSIDE.contains(&sent.name.as_str()));
    let mut count = 0;
    for sent in inside {
        let command = &sent.command;
        assert_eq!(command.get_document("lsid").ok(), Some(session.id()), "{sent:?}");
        assert_eq!(command.get_bool("autocommit").ok(), Some(false), "{sent:?}");
        count += 1;
    }
    db.recorder().clear();
    count
}

/// Makes each call in a transaction of the caller, which is aborted, and counts its commands.
macro_rules! check {
    ($db:expr, $($call:expr => $commands:expr),+ $(,)?) => {$(
        let mut session = $db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        $db.recorder().clear();
        let _ = $call.session(&mut session).await;
        assert_eq!(assert_in_transaction($db, &session), $commands, "{}", stringify!($call));
        session.abort_transaction().await.unwrap();
    )+};
}

/// Reads a page of each list in a transaction of the caller, and counts its commands.
macro_rules! check_lists {
    ($db:expr, $($list:expr => $commands:expr),+ $(,)?) => {$(
        let mut session = $db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        $db.recorder().clear();
        let _ = $list.session(&mut session).page().await;
        assert_eq!(assert_in_transaction($db, &session), $commands, "{}", stringify!($list));
        session.abort_transaction().await.unwrap();
    )+};
}

#[tokio::test]
async fn calls_of_two_collections_are_in_the_transaction_of_the_caller() {
    testkit::run(async |db| {
        let sales = archive::sales::archive(db).await;
        let old = archive::sales::old;
        archive::sales::plant(db, [1, 2].map(|id| archive::sales::sale(id, old(0)))).await;
        archive::sales::archived(db)
            .insert_one(archive::sales::sale(3, old(0)))
            .await
            .unwrap();
        let trash = archive::users::trash(db).await;
        archive::users::users(db)
            .insert_one(archive::users::user(1))
            .await
            .unwrap();
        archive::users::entries(db)
            .insert_one(archive::users::entry(2, 1))
            .await
            .unwrap();
        let pages = Pages::<Document>::over(db.collection::<Document>("sales")).sort(doc! { "date": 1 });
        let pages = pages.build().unwrap();
        pages.ensure_index().await.unwrap();
        check!(
            db,
            sales.get(1) => 1,
            sales.get(3) => 2,
            sales.get(9) => 3,
            sales.due() => 1,
            sales.restore(3) => 3,
            sales.restore(9) => 2,
            trash.delete(1) => 2,
            trash.delete(9) => 2,
            trash.restore(2) => 3,
        );
        check_lists!(
            db,
            pages.list() => 1,
            sales.list(doc! {}) => 2,
            trash.list() => 1,
        );
    })
    .await;
}

#[tokio::test]
async fn reads_at_a_time_are_in_the_transaction_of_the_caller() {
    testkit::run(async |db| {
        let prices = support::intervals::prices(db).await;
        prices.insert(&support::intervals::price("hat", 1)).await.unwrap();
        let policies = support::history::policies(db).await;
        policies.insert(&support::history::policy(1)).await.unwrap();
        check!(
            db,
            prices.get("hat") => 1,
            prices.as_of("hat", DateTime::now()) => 1,
            policies.get(1) => 1,
            policies.at(1, 1) => 1,
            policies.as_of(1, DateTime::now()) => 1,
            policies.find(doc! {}) => 1,
        );
    })
    .await;
}
