//! Tasks that change policies, one of which all change. Each acknowledged change is one revision.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use mongodb::Database;
use mongodb::bson::{Document, doc};

use super::calls::{Fate, Fates, Load, Outcome, lock};
use support::history::{Policies, builder, items, number, policy, push};

/// How many changes a policy gets, but the one that all change.
const OF_A_POLICY: i64 = 20;
/// The policy that all change.
const HOT: i64 = -1;

#[derive(Debug)]
pub struct Changes {
    load: Arc<Load>,
    next: AtomicI64,
    fates: Fates,
    /// The policies and numbers of the acknowledged revisions.
    revisions: Mutex<BTreeSet<(i64, u64)>>,
}

impl Changes {
    pub fn new(load: &Arc<Load>) -> Arc<Self> {
        Arc::new(Self {
            load: Arc::clone(load),
            next: AtomicI64::new(0),
            fates: Fates::default(),
            revisions: Mutex::default(),
        })
    }

    pub fn repository(database: &Database) -> Policies {
        builder(database).build().unwrap()
    }

    /// Makes changes until the load stops. None is repeated: an update is not idempotent.
    pub async fn write(self: Arc<Self>, policies: Policies) {
        let mut inserted = BTreeSet::new();
        while self.load.continues().await {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let id = if n % 3 == 0 { HOT } else { n / OF_A_POLICY };
            if inserted.insert(id) {
                let policy = policy(id);
                let insert = || policies.insert(&policy);
                self.load.until_exists("history insert", insert).await;
            }
            let update = policies.update(id, push(&n.to_string()));
            let outcome = self.load.call("history update", n, update).await;
            self.fates.note(n, Fate::from(&outcome));
            if let Outcome::Done(recorded) = outcome {
                let revision = recorded.revision;
                let is_new = lock(&self.revisions).insert((id, revision));
                assert!(is_new, "revision {revision} of policy {id} was returned twice");
            }
        }
    }

    /// Compares the stored policies with the outcomes of the writers.
    pub async fn judge(&self, database: &Database) -> (usize, usize, usize) {
        let policies = Self::repository(database);
        let findings: Vec<_> = policies.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
        let mut stored = Vec::new();
        let current = database.collection::<Document>("currentPolicies");
        let all: Vec<Document> = current.find(doc! {}).await.unwrap().try_collect().await.unwrap();
        for now in all {
            let items = items(&now);
            let earlier = number(&now, "revision") - 1;
            assert_eq!(items.len() as i64, earlier, "each revision has one item more");
            stored.extend(items.iter().map(|item| item.parse::<i64>().unwrap()));
        }
        let acknowledged = lock(&self.revisions).clone();
        for (id, revision) in acknowledged {
            let found = policies.at(id, revision).await.unwrap();
            assert!(found.is_some(), "revision {revision} of policy {id} is missing");
        }
        self.fates.judge("history update", stored)
    }
}
