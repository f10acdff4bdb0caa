//! The collections of the policies and their revisions, and their documents.

use anyhow::{Result, ensure};
use futures::TryStreamExt;
use mongo_patterns_core::Repository;
use mongo_patterns_history::HistoryRepository;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Collection, IndexModel};

use crate::bench::Bench;
use crate::measure::settle;

/// A collection of the current policies, and one of their revisions.
#[derive(Clone, Debug)]
pub(super) struct Policies {
    pub(super) current: Collection<Document>,
    pub(super) revisions: Collection<Document>,
}

impl Policies {
    /// Returns the collections by a client with a connection for each task.
    pub(super) fn timed(bench: &Bench<'_>, name: &str) -> Self {
        Self {
            current: bench.wide(&format!("policies_{name}")),
            revisions: bench.wide(&format!("revisions_{name}")),
        }
    }

    /// Returns the collections by a client whose commands are recorded.
    pub(super) fn recorded(bench: &Bench<'_>, name: &str) -> Self {
        Self {
            current: bench.recorded(&format!("policies_{name}")),
            revisions: bench.recorded(&format!("revisions_{name}")),
        }
    }

    pub(super) fn repository(&self) -> Result<HistoryRepository<Document>> {
        let builder = HistoryRepository::builder(self.current.clone(), self.revisions.clone())
            .id_field("policyId")
            .revision_field("revision")
            .time_field("dateSet");
        Ok(builder.build()?)
    }

    /// Creates both collections with their indexes, and the first revisions of this number of policies. The indexes are
    /// those of the repository, or, for the manual, which would fail on them, none that is unique for the revisions.
    pub(super) async fn filled(&self, policies: u64, unique: bool) -> Result<()> {
        self.current.drop().await?;
        self.revisions.drop().await?;
        let database = self.current.client().database(&self.current.namespace().db);
        database.create_collection(self.current.name()).await?;
        database.create_collection(self.revisions.name()).await?;
        if unique {
            self.repository()?.ensure_indexes().await?;
        } else {
            let index = |keys| IndexModel::builder().keys(keys).build();
            self.current.create_index(index(doc! { "policyId": 1 })).await?;
            let by_revision = index(doc! { "policyId": 1, "revision": 1 });
            self.revisions.create_index(by_revision).await?;
        }
        let documents: Vec<Document> = (0..policies as i64).map(policy).collect();
        self.current.insert_many(&documents).await?;
        self.revisions.insert_many(&documents).await?;
        settle(self.current.client()).await
    }

    /// Checks that the numbers of the updates are those of the revisions.
    pub(super) async fn ensure_recorded(&self, policies: u64, updates: u64) -> Result<()> {
        let current: Vec<Document> = self.current.find(doc! {}).await?.try_collect().await?;
        let made = current
            .iter()
            .map(|policy| policy.get_i32("revision").unwrap_or_default() - 1);
        let made: i32 = made.sum();
        ensure!(
            i64::from(made) == updates as i64,
            "{made} of {updates} updates are stored"
        );
        let recorded = self.revisions.count_documents(doc! {}).await?;
        ensure!(recorded == policies + updates, "{recorded} revisions are stored");
        Ok(())
    }
}

/// Returns the first revision of a policy.
pub(super) fn policy(id: i64) -> Document {
    doc! {
        "policyId": id,
        "customerName": "Michelle",
        "revision": 1,
        "itemsInsured": ["golf clubs", "car"],
        "dateSet": DateTime::from_millis(1_704_067_200_000),
    }
}

/// Returns the update of every variant, which does not make the document longer.
pub(super) fn change(number: u64) -> Document {
    doc! { "$set": { "customerName": format!("customer{number:08}") } }
}
