//! Calls in a session and a transaction of the caller.

mod children;
mod documents;
mod model;
mod spawned;

use futures::future::{LocalBoxFuture, join_all};
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, doc};
use mongodb::error::TRANSIENT_TRANSACTION_ERROR;

use model::{AnyCalls, Calls, Of};

use super::each;
use super::options::assert_in_transaction;
use support::common::contents;

type Begin = for<'a> fn(&'a TestDatabase) -> LocalBoxFuture<'a, Box<dyn AnyCalls>>;

const fn of<C: Calls>() -> (&'static str, Begin) {
    (C::NAME, |db| {
        Box::pin(async move { Box::new(Of(C::begin(db).await)) as Box<dyn AnyCalls> })
    })
}

async fn for_each(test: impl AsyncFn(&TestDatabase, &dyn AnyCalls) + Sync) {
    let all = [
        of::<children::Buckets>(),
        of::<children::Lists>(),
        of::<children::Subsets>(),
        of::<children::Children>(),
        of::<documents::Histories>(),
        of::<documents::Intervals>(),
        of::<documents::References>(),
        of::<documents::Contacts>(),
    ];
    let one = async |db: &TestDatabase, (_, begin): (&'static str, Begin)| {
        let calls = begin(db).await;
        test(db, &*calls).await;
    };
    each(all, |(name, _)| name, one).await;
}

#[tokio::test]
async fn writes_of_a_transaction_are_visible_when_it_commits() {
    for_each(async |db, calls| {
        let before = contents(db).await;
        let mut session = db.client().start_session().await.unwrap();
        for commits in [false, true] {
            session.start_transaction().await.unwrap();
            db.recorder().clear();
            calls.all(&mut session).await;
            assert!(assert_in_transaction(db, &session) > 0);
            assert_eq!(contents(db).await, before);
            if commits {
                session.commit_transaction().await.unwrap();
            } else {
                session.abort_transaction().await.unwrap();
            }
            assert_eq!(contents(db).await != before, commits);
        }
        // In the session, outside of a transaction.
        calls.repository().ensure_indexes().session(&mut session).await.unwrap();
        calls.add(&mut session, 7).await.unwrap();
        assert!(calls.added(db).await.contains(&7));
    })
    .await;
}

#[tokio::test]
async fn a_conflict_keeps_its_labels_and_is_not_retried_by_the_repository() {
    for_each(async |db, calls| {
        let mut first = db.client().start_session().await.unwrap();
        let mut second = db.client().start_session().await.unwrap();
        for session in [&mut first, &mut second] {
            session.start_transaction().await.unwrap();
            calls.read(session).await;
        }
        db.recorder().clear();
        calls.add(&mut first, 1).await.unwrap();
        let commands = db.recorder().round_trips();
        first.commit_transaction().await.unwrap();
        db.recorder().clear();
        let error = calls.add(&mut second, 2).await.unwrap_err();
        assert!(db.recorder().round_trips() <= commands, "{:?}", db.recorder().names());
        assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
        assert!(error.attempts().is_none(), "{error:?}");
        let driver = mongodb::error::Error::from(error);
        assert!(driver.contains_label(TRANSIENT_TRANSACTION_ERROR), "{driver}");
        assert_eq!(calls.added(db).await, [1]);
    })
    .await;
}

/// Eight concurrent transactions, each with a call and a document of another collection, retried by the driver.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn the_drivers_convenient_api_retries_conflicting_transactions() {
    for_each(async |db, calls| {
        let audit = db.collection::<Document>("audit");
        audit.insert_one(doc! { "n": -1 }).await.unwrap();
        let writers = (0..8).map(|writer| {
            let audit = audit.clone();
            async move {
                let mut session = db.client().start_session().await.unwrap();
                for n in 0..5 {
                    let n = writer * 5 + n;
                    let transaction = session.start_transaction().and_run2(async |session| {
                        calls.add(session, n).await?;
                        audit.insert_one(doc! { "n": n }).session(session).await?;
                        Ok(())
                    });
                    transaction.await.unwrap();
                }
            }
        });
        join_all(writers).await;
        assert_eq!(calls.added(db).await, (0..40).collect::<Vec<i64>>());
        assert_eq!(audit.count_documents(doc! {}).await.unwrap(), 41);
    })
    .await;
}
