//! Calls in a session and a transaction of the caller.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::ClientSession;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::TRANSIENT_TRANSACTION_ERROR;

use crate::history::support::*;

async fn session(db: &TestDatabase) -> ClientSession {
    db.client().start_session().await.unwrap()
}

/// Runs each call once, in the transaction of the session. Policy 1 has one revision, policy 2 does not exist.
async fn all_calls(policies: &Policies, session: &mut ClientSession) {
    policies.insert(&policy(2)).session(&mut *session).await.unwrap();
    let updated = policies
        .update(1, push("watch"))
        .expecting(1)
        .session(&mut *session)
        .await
        .unwrap();
    assert_eq!(updated.revision, 2);
    policies.replace(2, &policy(2)).session(&mut *session).await.unwrap();
    assert_eq!(policies.restore(1, 1).session(&mut *session).await.unwrap().revision, 3);
    let now = policies.get(1).session(&mut *session).await.unwrap().unwrap();
    assert!(items(&now).is_empty());
    let second = policies.at(1, 2).session(&mut *session).await.unwrap().unwrap();
    assert_eq!(items(&second.document.unwrap()), ["watch"]);
    let latest = policies
        .as_of(1, DateTime::MAX)
        .session(&mut *session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(latest.revision, 3);
    let page = policies.revisions(1).session(&mut *session).page().await.unwrap();
    assert_eq!(page.revisions.len(), 3);
    assert_eq!(
        policies
            .diff(1, 1, 2)
            .session(&mut *session)
            .await
            .unwrap()
            .changes
            .len(),
        1
    );
    assert_eq!(
        policies
            .prune(1)
            .keep_last(2)
            .session(&mut *session)
            .await
            .unwrap()
            .revisions,
        1
    );
    assert_eq!(
        policies.delete(2).session(&mut *session).await.unwrap().revision,
        Some(3)
    );
    assert_eq!(
        policies
            .insert(&policy(2))
            .session(&mut *session)
            .await
            .unwrap()
            .revision,
        4
    );
    // A refused call does not abort the transaction.
    let stale = policies
        .update(1, push("ring"))
        .expecting(1)
        .session(&mut *session)
        .await
        .unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::RevisionMismatch);
    let missing = policies
        .update(3, push("ring"))
        .session(&mut *session)
        .await
        .unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let exists = policies.insert(&policy(1)).session(session).await.unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn writes_of_a_transaction_are_visible_when_it_commits() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let mut session = session(db).await;
        for commits in [false, true] {
            session.start_transaction().await.unwrap();
            all_calls(&policies, &mut session).await;
            assert_eq!(policies.get(2).await.unwrap(), None);
            if commits {
                session.commit_transaction().await.unwrap();
            } else {
                session.abort_transaction().await.unwrap();
                assert_eq!((numbers(db, 1).await, numbers(db, 2).await), (vec![1], vec![]));
            }
        }
        assert_eq!(
            (numbers(db, 1).await, numbers(db, 2).await),
            (vec![2, 3], vec![1, 2, 3, 4])
        );
        policies.ensure_indexes().session(&mut session).await.unwrap();
        // A call outside the transaction.
        let updated = policies.update(1, push("ring")).session(&mut session).await.unwrap();
        assert_eq!(updated.revision, 4);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_conflict_keeps_its_labels_and_is_not_retried_by_the_repository() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let (mut first, mut second) = (session(db).await, session(db).await);
        for session in [&mut first, &mut second] {
            session.start_transaction().await.unwrap();
            policies.get(1).session(session).await.unwrap();
        }
        policies.update(1, push("watch")).session(&mut first).await.unwrap();
        first.commit_transaction().await.unwrap();
        let error = policies.update(1, push("ring")).session(&mut second).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
        assert!(error.attempts().is_none());
        let driver = mongodb::error::Error::from(error);
        assert!(driver.contains_label(TRANSIENT_TRANSACTION_ERROR), "{driver}");
        assert_eq!(numbers(db, 1).await, [1, 2]);
    })
    .await;
}

/// Eight concurrent transactions, each with a change and a document of another collection, retried by the driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drivers_convenient_api_retries_conflicting_transactions() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let audit = db.plain_collection::<Document>("audit");
        audit.delete_many(doc! {}).await.unwrap();
        audit.insert_one(doc! { "n": -1 }).await.unwrap();
        let writers = (0..8).map(|writer| {
            let (policies, client) = (policies.clone(), db.client().clone());
            let audit = db.collection::<Document>("audit");
            async move {
                let mut session = client.start_session().await?;
                for n in 0..5 {
                    let n = writer * 5 + n;
                    session
                        .start_transaction()
                        .and_run2(async |session| {
                            policies.update(1, push(&n.to_string())).session(&mut *session).await?;
                            audit.insert_one(doc! { "n": n }).session(session).await?;
                            Ok(())
                        })
                        .await?;
                }
                Ok::<(), mongodb::error::Error>(())
            }
        });
        for written in futures::future::join_all(writers).await {
            written.unwrap();
        }
        let expected = Judged {
            items: 40,
            revision: 41,
            ..Judged::default()
        };
        assert_eq!(judge(db, 1).await, expected);
        assert_eq!(audit.count_documents(doc! {}).await.unwrap(), 41);
    })
    .await;
}
