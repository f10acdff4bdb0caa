//! Histories: migrations.

use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};

use super::history::stored_fact;
use super::operation::Promise::{Reads, Steps};
use super::operation::{Call, Model, Of, Operations, calls, documents, indexes, retry_policy};
use support::history::{Policies, builder, policy};

/// The collections of the manual's recipe, with a revision that is stored twice, and a policy without a history.
pub(super) struct Migrations {
    current: Collection<Document>,
    revisions: Collection<Document>,
    policies: Policies,
}

impl Model for Migrations {
    const PATTERN: &'static str = "history";
    const COLLECTIONS: &'static [&'static str] = &["currentPolicies", "policyRevisions"];

    fn new(of: Of<'_>) -> Self {
        Self {
            current: of.collection("currentPolicies"),
            revisions: of.collection("policyRevisions"),
            policies: builder(of.database).retry(retry_policy()).build().unwrap(),
        }
    }

    async fn fill(&self) {
        // Collections that do not exist have no indexes.
        let _ = self.current.drop_indexes().await;
        let _ = self.revisions.drop_indexes().await;
        let at = |id: i32, revision: i32| {
            let mut policy = policy(id);
            let time = DateTime::from_millis(i64::from(revision) * 1000);
            policy.extend(doc! { "revision": revision, "dateSet": time });
            policy
        };
        let copies = [(1, 1), (1, 2), (1, 2), (2, 1)].map(|(id, revision)| at(id, revision));
        self.revisions.insert_many(copies).await.unwrap();
        self.current.insert_many([at(1, 2), at(2, 2), policy(3)]).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [current, revisions] = documents([&self.current, &self.revisions]).await;
        let mut facts: Vec<String> = revisions.iter().map(stored_fact).collect();
        let number = |now: &Document| now.get("revision").map(ToString::to_string).unwrap_or_default();
        facts.extend(
            current
                .iter()
                .map(|now| format!("{} is at {}", now.get("policyId").unwrap(), number(now))),
        );
        for collection in [&self.current, &self.revisions] {
            facts.extend(indexes(collection).await);
        }
        facts
    }

    /// The repository refuses to read without its indexes.
    async fn read(&self) -> Option<Vec<String>> {
        None
    }
}

impl Operations for Migrations {
    fn operations() -> Vec<Call<Self>> {
        calls! { Migrations;
            Steps, "HistoryRepository::migrate_existing", "", |m| m.policies.migrate_existing().await.map(drop);
            Reads, "HistoryRepository::migrate_existing + MigrateExisting::plan", "", |m|
                m.policies.migrate_existing().plan().await.map(drop);
        }
    }
}
