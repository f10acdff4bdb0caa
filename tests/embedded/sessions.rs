//! Calls in a session and a transaction of the caller.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};
use mongodb::error::TRANSIENT_TRANSACTION_ERROR;

use crate::embedded::support::*;

async fn session(db: &TestDatabase) -> ClientSession {
    db.client().start_session().await.unwrap()
}

/// Runs each call once, in the transaction of the session.
async fn all_calls(patrons: &Patrons, session: &mut ClientSession) {
    patrons.insert(&patron("jim", [])).session(&mut *session).await.unwrap();
    patrons
        .add_child("jim", &address(1))
        .session(&mut *session)
        .await
        .unwrap();
    patrons
        .add_child("jim", &address(2))
        .session(&mut *session)
        .await
        .unwrap();
    patrons
        .add_child("jim", &address(3))
        .session(&mut *session)
        .await
        .unwrap();
    let set = doc! { "$set": { "zip": "54321" } };
    patrons
        .update_child("jim", 1, set)
        .session(&mut *session)
        .await
        .unwrap();
    let other = doc! { "id": 2 };
    patrons
        .replace_child("jim", &other)
        .session(&mut *session)
        .await
        .unwrap();
    assert!(
        patrons
            .remove_child("jim", 3)
            .session(&mut *session)
            .await
            .unwrap()
            .found
    );
    patrons
        .reorder_children("jim", [2, 1])
        .session(&mut *session)
        .await
        .unwrap();
    let child = patrons.child("jim", 2).session(&mut *session).await.unwrap();
    assert_eq!(child, Some(other));
    let jim = patrons.get("jim").session(&mut *session).await.unwrap().unwrap();
    assert_eq!(jim.get_array("addresses").unwrap().len(), 2);
    // A refused call does not abort the transaction.
    assert!(
        !patrons
            .remove_child("jim", 9)
            .session(&mut *session)
            .await
            .unwrap()
            .found
    );
    let error = patrons
        .add_child("jim", &address(1))
        .session(&mut *session)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = patrons.remove_child("jack", 1).session(session).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn writes_of_a_transaction_are_visible_when_it_commits() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        patrons.insert(&patron("joe", [])).await.unwrap();
        let mut session = session(db).await;
        for commits in [false, true] {
            session.start_transaction().await.unwrap();
            all_calls(&patrons, &mut session).await;
            assert_eq!(patrons.get("jim").await.unwrap(), None);
            if commits {
                session.commit_transaction().await.unwrap();
            } else {
                session.abort_transaction().await.unwrap();
            }
            assert_eq!(patrons.get("jim").await.unwrap().is_some(), commits);
        }
        assert_eq!(ids(db, "jim").await, [2, 1].map(Bson::from));
        patrons.ensure_indexes().session(&mut session).await.unwrap();
        // A call outside the transaction.
        patrons
            .add_child("jim", &address(9))
            .session(&mut session)
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_conflict_keeps_its_labels_and_is_not_retried_by_the_repository() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", [])).await;
        let (mut first, mut second) = (session(db).await, session(db).await);
        for session in [&mut first, &mut second] {
            session.start_transaction().await.unwrap();
            patrons.get("joe").session(session).await.unwrap();
        }
        patrons.add_child("joe", &address(1)).session(&mut first).await.unwrap();
        first.commit_transaction().await.unwrap();
        db.recorder().clear();
        let error = patrons
            .add_child("joe", &address(2))
            .session(&mut second)
            .await
            .unwrap_err();
        assert_eq!(db.recorder().names(), ["update"]);
        assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
        assert!(error.attempts().is_none());
        let driver = mongodb::error::Error::from(error);
        assert!(driver.contains_label(TRANSIENT_TRANSACTION_ERROR), "{driver}");
        assert_eq!(ids(db, "joe").await, [1.into()]);
    })
    .await;
}

/// Eight concurrent transactions, each with a child and a document of another collection, retried by the driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drivers_convenient_api_retries_conflicting_transactions() {
    testkit::run(async |db| {
        let patrons = builder(db).build().unwrap();
        plant(db, &patron("joe", [])).await;
        let audit = db.plain_collection::<mongodb::bson::Document>("audit");
        audit.insert_one(doc! { "n": -1 }).await.unwrap();
        let writers = (0..8).map(|writer| {
            let (patrons, client) = (patrons.clone(), db.client().clone());
            let audit = db.collection::<mongodb::bson::Document>("audit");
            async move {
                let mut session = client.start_session().await?;
                for n in 0..5 {
                    let n = writer * 5 + n;
                    session
                        .start_transaction()
                        .and_run2(async |session| {
                            patrons.add_child("joe", &address(n)).session(&mut *session).await?;
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
        assert_eq!(ids(db, "joe").await.len(), 40);
        assert_eq!(audit.count_documents(doc! {}).await.unwrap(), 41);
    })
    .await;
}
