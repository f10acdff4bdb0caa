//! Histories.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::{DateTime, doc};

use super::model::Calls;
use support::history::{Policies, copies, current, items, policies, policy, push};

struct Histories(Policies);

pub(super) fn begin(db: &TestDatabase) -> LocalBoxFuture<'_, Box<dyn Calls>> {
    Box::pin(async move {
        let policies = policies(db).await;
        for id in [1, 4] {
            policies.insert(&policy(id)).await.unwrap();
        }
        Box::new(Histories(policies)) as Box<dyn Calls>
    })
}

impl Calls for Histories {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        let policies = &self.0;
        Box::pin(async move {
            policies.insert(&policy(2)).session(&mut *session).await.unwrap();
            let updated = policies.update(1, push("watch")).expecting(1).session(&mut *session);
            assert_eq!(updated.await.unwrap().revision, 2);
            policies.replace(2, &policy(2)).session(&mut *session).await.unwrap();
            let restored = policies.restore(1, 1).session(&mut *session).await.unwrap();
            assert_eq!(restored.revision, 3);
            let now = policies.get(1).session(&mut *session).await.unwrap().unwrap();
            assert_eq!(now.revision, 3);
            assert!(items(&now.document).is_empty());
            let second = policies.at(1, 2).session(&mut *session).await.unwrap().unwrap();
            assert_eq!(items(&second.document.unwrap()), ["watch"]);
            let latest = policies.as_of(1, DateTime::MAX).session(&mut *session).await.unwrap();
            assert_eq!(latest.unwrap().revision, 3);
            let page = policies.revisions(1).session(&mut *session).page().await.unwrap();
            assert_eq!(page.revisions.len(), 3);
            let diff = policies.diff(1, 1, 2).session(&mut *session).await.unwrap();
            assert_eq!(diff.changes.len(), 1);
            let pruned = policies.prune(1).keep_last(2).session(&mut *session).await.unwrap();
            assert_eq!(pruned.revisions, 1);
            let deleted = policies.delete(2).session(&mut *session).await.unwrap();
            assert_eq!(deleted.revision, Some(3));
            let again = policies.insert(&policy(2)).session(&mut *session).await.unwrap();
            assert_eq!(again.revision, 4);
            let two = [policy(2), policy(5)];
            policies.delete(2).session(&mut *session).await.unwrap();
            let many = policies.insert_many(&two).session(&mut *session).await.unwrap();
            assert_eq!((many[0].revision, many[1].revision), (6, 1));
            for (id, expected) in [(5, 2), (7, 1)] {
                let upserted = policies.upsert(&policy(id)).session(&mut *session).await.unwrap();
                assert_eq!(upserted.revision, expected);
            }
            let found = policies
                .find(doc! { "policyId": 5 })
                .session(&mut *session)
                .await
                .unwrap();
            assert_eq!((found.len(), found[0].revision), (1, 2));
            // A refused call does not abort the transaction.
            let exist = policies.insert_many(&[policy(6), policy(1)]).session(&mut *session);
            assert_eq!(exist.await.unwrap_err().kind(), ErrorKind::AlreadyExists);
            let stale = policies.update(1, push("ring")).expecting(1).session(&mut *session);
            assert_eq!(stale.await.unwrap_err().kind(), ErrorKind::RevisionMismatch);
            let missing = policies
                .update(3, push("ring"))
                .session(&mut *session)
                .await
                .unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            let exists = policies.insert(&policy(1)).session(session).await.unwrap_err();
            assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
        })
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(self.0.get(4).session(session).await.unwrap()) })
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.update(4, push(&n.to_string())).session(session).await.map(drop) })
    }

    /// Each of them is a revision.
    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let now = current(db).find_one(doc! { "policyId": 4 }).await.unwrap().unwrap();
            let mut numbers: Vec<i64> = items(&now).iter().map(|n| n.parse().unwrap()).collect();
            assert_eq!(copies(db, 4).await.len(), 1 + numbers.len());
            numbers.sort_unstable();
            numbers
        })
    }
}
