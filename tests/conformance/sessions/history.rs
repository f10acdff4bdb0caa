//! Histories.

use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::{DateTime, doc};

use super::model::Calls;
use support::history::{Policies, copies, current, items, policies, policy, push};

pub(super) struct Histories(Policies);

impl Calls for Histories {
    const NAME: &'static str = "history";

    async fn begin(db: &TestDatabase) -> Self {
        let policies = policies(db).await;
        for id in [1, 4] {
            policies.insert(&policy(id)).await.unwrap();
        }
        Self(policies)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let policies = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(policies.insert(&policy(2))).unwrap();
        let updated = policies.update(1, push("watch")).expecting(1).session(&mut *session);
        assert_eq!(updated.await.unwrap().revision, 2);
        run!(policies.replace(2, &policy(2))).unwrap();
        let restored = run!(policies.restore(1, 1)).unwrap();
        assert_eq!(restored.revision, 3);
        let now = run!(policies.get(1)).unwrap().unwrap();
        assert_eq!(now.revision, 3);
        assert!(items(&now.document).is_empty());
        let second = run!(policies.at(1, 2)).unwrap().unwrap();
        assert_eq!(items(&second.document.unwrap()), ["watch"]);
        let latest = run!(policies.as_of(1, DateTime::MAX)).unwrap();
        assert_eq!(latest.unwrap().revision, 3);
        let page = policies.revisions(1).session(&mut *session).page().await.unwrap();
        assert_eq!(page.revisions.len(), 3);
        let diff = run!(policies.diff(1, 1, 2)).unwrap();
        assert_eq!(diff.changes.len(), 1);
        let pruned = run!(policies.prune(1).keep_last(2)).unwrap();
        assert_eq!(pruned.revisions, 1);
        let deleted = run!(policies.delete(2)).unwrap();
        assert_eq!(deleted.revision, Some(3));
        let again = run!(policies.insert(&policy(2))).unwrap();
        assert_eq!(again.revision, 4);
        let two = [policy(2), policy(5)];
        run!(policies.delete(2)).unwrap();
        let many = run!(policies.insert_many(&two)).unwrap();
        assert_eq!((many[0].revision, many[1].revision), (6, 1));
        for (id, expected) in [(5, 2), (7, 1)] {
            let upserted = run!(policies.upsert(&policy(id))).unwrap();
            assert_eq!(upserted.revision, expected);
        }
        let found = run!(policies.find(doc! { "policyId": 5 })).unwrap();
        assert_eq!((found.len(), found[0].revision), (1, 2));
        // A refused call does not abort the transaction.
        let exist = policies.insert_many(&[policy(6), policy(1)]).session(&mut *session);
        assert_eq!(exist.await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let stale = policies.update(1, push("ring")).expecting(1).session(&mut *session);
        assert_eq!(stale.await.unwrap_err().kind(), ErrorKind::RevisionMismatch);
        let missing = run!(policies.update(3, push("ring"))).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let exists = policies.insert(&policy(1)).session(session).await.unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get(4).session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        self.0.update(4, push(&n.to_string())).session(session).await.map(drop)
    }

    /// Each of them is a revision.
    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let now = current(db).find_one(doc! { "policyId": 4 }).await.unwrap().unwrap();
        let numbers: Vec<i64> = items(&now).iter().map(|n| n.parse().unwrap()).collect();
        assert_eq!(copies(db, 4).await.len(), 1 + numbers.len());
        numbers
    }
}
