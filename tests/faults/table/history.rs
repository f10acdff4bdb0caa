//! Histories: policies with three revisions, two, and a deleted one.

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::history::{DeletedDocument, Recorded};
use mongo_patterns::{Error, ErrorKind, Repository};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::operation::Promise::{Atomic, PrefixOnce, Reads, Steps};
use super::operation::{
    Call, EXISTS, Model, Of, Operations, calls, documents, indexes, number_of, retry_policy, serialized,
};
use support::history::{Policies, builder, number, policy, policy_by_id, push};

/// The current policies and their revisions, of which the id is a field or the `_id`.
pub(super) struct Office<const BY_ID: bool = false> {
    pub(super) current: Collection<Document>,
    revisions: Collection<Document>,
    pub(super) policies: Policies,
}

/// Returns the fact of a revision: its content without its time and its `_id`, which differ between runs.
fn fact(id: &impl std::fmt::Display, revision: u64, document: Option<&Document>) -> String {
    let Some(document) = document else {
        return format!("{id} r{revision:02} deleted");
    };
    let content = ["customerName", "itemsInsured", "note"].map(|field| document.get(field));
    let content: Vec<String> = content.into_iter().flatten().map(ToString::to_string).collect();
    format!("{id} r{revision:02} {}", content.join(" "))
}

pub(super) fn stored_fact(document: &Document) -> String {
    let revision = u64::try_from(number(document, "revision")).unwrap();
    let is_deleted = document.get_bool("deleted").unwrap_or(false);
    fact(id(document), revision, (!is_deleted).then_some(document))
}

/// Returns the id of a current document or of a revision.
fn id(document: &Document) -> &Bson {
    let mut fields = ["policyId", "documentId", "_id"].into_iter();
    fields.find_map(|field| document.get(field)).unwrap()
}

/// Returns whether the revision of a current document has a copy, whatever that contains.
fn has_copy(revisions: &[Document], now: &Document) -> bool {
    let of = |document: &Document| (id(document).clone(), number(document, "revision"));
    revisions.iter().any(|copy| of(copy) == of(now))
}

impl<const BY_ID: bool> Office<BY_ID> {
    fn policy(&self, id: i32) -> Document {
        if BY_ID { policy_by_id(id) } else { policy(id) }
    }
}

impl<const BY_ID: bool> Model for Office<BY_ID> {
    const PATTERN: &'static str = "history";
    const COLLECTIONS: &'static [&'static str] = match BY_ID {
        true => &["contracts", "contractRevisions"],
        false => &["currentPolicies", "policyRevisions"],
    };

    fn new(of: Of<'_>) -> Self {
        let [current, revisions] = [0, 1].map(|n| of.collection(Self::COLLECTIONS[n]));
        let policies = match BY_ID {
            true => Policies::builder(current.clone(), revisions.clone())
                .id_field("_id")
                .time_field("dateSet"),
            false => builder(of.database),
        };
        Self {
            policies: policies.retry(retry_policy()).build().unwrap(),
            current,
            revisions,
        }
    }

    async fn fill(&self) {
        self.policies.ensure_indexes().await.unwrap();
        for id in 1..=3 {
            self.policies.insert(&self.policy(id)).await.unwrap();
            self.policies.update(id, push("ring")).await.unwrap();
        }
        self.policies.update(1, push("watch")).await.unwrap();
        self.policies.delete(3).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [current, revisions] = documents([&self.current, &self.revisions]).await;
        let without_copy = current.iter().filter(|now| !has_copy(&revisions, now));
        let mut facts: Vec<String> = revisions.iter().chain(without_copy).map(stored_fact).collect();
        for collection in [&self.current, &self.revisions] {
            facts.extend(indexes(collection).await);
        }
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let mut read = Vec::new();
        for id in 1..=4 {
            let revisions: Vec<_> = match self.policies.revisions(id).stream().try_collect().await {
                Err(error) if error.is_setup_error() => return None,
                revisions => revisions.unwrap(),
            };
            read.extend(revisions.iter().map(|of| fact(&id, of.revision, of.document.as_ref())));
            // A revision without a copy is only in the current document.
            let now = match self.policies.get(id).await {
                Err(error) if error.is_setup_error() => return None,
                now => now.unwrap(),
            };
            let is_copied = |revision: u64| revisions.iter().any(|of| of.revision == revision);
            let alone = now.filter(|now| !is_copied(now.revision));
            read.extend(alone.map(|now| stored_fact(&now.document)));
        }
        Some(read)
    }

    async fn damage(&self) -> Vec<String> {
        let [current, revisions] = documents([&self.current, &self.revisions]).await;
        let copied: Vec<String> = revisions.iter().map(stored_fact).collect();
        let of = |now: &Document| {
            let (id, revision) = (id(now), number(now, "revision"));
            let problem = match () {
                () if copied.contains(&stored_fact(now)) => return None,
                () if has_copy(&revisions, now) => "Different",
                () => "Unrecorded",
            };
            Some(format!("{id} {problem} {{ revision: {revision} }}"))
        };
        current.iter().filter_map(of).collect()
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<mongo_patterns::history::Finding> = match self.policies.verify().stream().try_collect().await {
            // The indexes are not all created.
            Err(error) if error.is_setup_error() => return self.damage().await,
            found => found.unwrap(),
        };
        found
            .iter()
            .map(|finding| format!("{} {:?}", finding.document_id, finding.problem))
            .collect()
    }

    async fn repair(&self) {
        let repaired: Vec<mongo_patterns::history::Repaired> = match self.policies.repair().stream().try_collect().await
        {
            Err(error) if error.is_setup_error() => return,
            repaired => repaired.unwrap(),
        };
        assert!(
            repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
            "{repaired:?}"
        );
    }
}

pub(super) fn operations() -> Vec<Call<Office>> {
    let mut operations = writes();
    operations.extend(reads());
    operations.extend(whole());
    operations
}

/// Those that write.
impl Operations for Office<true> {
    fn operations() -> Vec<Call<Self>> {
        let mut operations = writes();
        for call in &mut operations {
            call.operation.case = match call.operation.case {
                "" => "by _id",
                "after a deletion" => "by _id, after a deletion",
                "of a deleted document" => "by _id, of a deleted document",
                _ => "by _id, at a revision",
            };
        }
        operations
    }
}

/// Removes the copy of the current revision of policy 1.
fn without_copy(m: &Office) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let newest = doc! { "policyId": 1, "revision": 3 };
        assert_eq!(m.revisions.delete_one(newest).await.unwrap().deleted_count, 1);
    })
}

/// The errors by which a retry reports that the first call took effect.
const CHANGED: &[ErrorKind] = &[ErrorKind::RevisionMismatch];

/// A repeated deletion finds nothing, and aborts its transaction: that is no retry of a transaction.
fn found(deleted: DeletedDocument) -> Result<String, Error> {
    match deleted.found {
        true => Ok(format!("{deleted:?}")),
        false => Err(Error::new(ErrorKind::NotFound, "nothing was deleted")),
    }
}

/// Returns a policy that was deleted, and a new one.
pub(super) fn two() -> [Document; 2] {
    [policy(3), policy(4)]
}

pub(super) fn revisions(recorded: &[Recorded]) -> Vec<u64> {
    recorded.iter().map(|recorded| recorded.revision).collect()
}

fn writes<const BY_ID: bool>() -> Vec<Call<Office<BY_ID>>> {
    calls! { Office<BY_ID>;
        Atomic, "HistoryRepository::insert", "", |m|
            m.policies.insert(&m.policy(4)).await.map(|recorded| recorded.revision) => retry_errors(EXISTS);
        Atomic, "HistoryRepository::insert", "after a deletion", |m|
            m.policies.insert(&m.policy(3)).await.map(|recorded| recorded.revision) => retry_errors(EXISTS);
        Atomic, "HistoryRepository::insert_many", "", |m|
            m.policies.insert_many(&[3, 4].map(|id| m.policy(id))).await.map(|all| revisions(&all))
            => retry_errors(EXISTS);
        PrefixOnce, "HistoryRepository::update", "", |m|
            m.policies.update(1, push("car")).await.map(|recorded| recorded.revision);
        Atomic, "HistoryRepository::update", "at a revision", |m|
            m.policies.update(1, push("car")).expecting(3).await.map(|recorded| recorded.revision)
            => retry_errors(CHANGED);
        Atomic, "HistoryRepository::replace", "", |m|
            m.policies.replace(1, &m.policy(1)).expecting(3).await.map(|recorded| recorded.revision)
            => retry_errors(CHANGED);
        PrefixOnce, "HistoryRepository::upsert", "", |m|
            m.policies.upsert(&m.policy(1)).await.map(|recorded| recorded.revision);
        PrefixOnce, "HistoryRepository::upsert", "after a deletion", |m|
            m.policies.upsert(&m.policy(3)).await.map(|recorded| recorded.revision);
        // The documents that are updated do not match any more.
        Steps, "HistoryRepository::update_many", "", |m| {
            let (without, note) = (doc! { "note": { "$exists": false } }, doc! { "$set": { "note": "x" } });
            m.policies.update_many(without, note).await.map(drop)
        };
        Atomic, "HistoryRepository::restore", "", |m|
            m.policies.restore(1, 2).expecting(3).await.map(|recorded| recorded.revision) => retry_errors(CHANGED);
        PrefixOnce, "HistoryRepository::restore", "of a deleted document", |m|
            m.policies.restore(3, 2).await.map(|recorded| recorded.revision);
        Atomic, "HistoryRepository::delete", "", |m|
            m.policies.delete(1).await.and_then(found) => retry_errors(&[ErrorKind::NotFound]);
    }
}

fn reads() -> Vec<Call<Office>> {
    calls! { Office;
        Reads, "HistoryRepository::get", "", |m|
            m.policies.get(1).await.map(|now| fact(&1, 0, now.as_ref().map(|now| &now.document)));
        Reads, "HistoryRepository::find", "", |m|
            m.policies.find(doc! { "policyId": { "$lt": 3 } }).await.map(|all| all.len());
        Reads, "HistoryRepository::at", "", |m|
            m.policies.at(1, 2).await.map(|at| at.map(|at| fact(&1, at.revision, at.document.as_ref())));
        Reads, "HistoryRepository::as_of", "", |m|
            m.policies.as_of(1, DateTime::MAX).await.map(|at| at.map(|at| fact(&1, at.revision, at.document.as_ref())));
        Reads, "HistoryRepository::revisions", "", |m|
            m.policies.revisions(1).limit(2).page().await.map(|page| (page.items.len(), page.next.is_some()));
        Reads, "HistoryRepository::revisions", "stream", |m|
            number_of(m.policies.revisions(1).limit(2).stream()).await;
        Reads, "HistoryRepository::diff", "", |m| m.policies.diff(1, 1, 3).await;
    }
}

/// Calls for many revisions.
fn whole() -> Vec<Call<Office>> {
    calls! { Office;
        Steps, "HistoryRepository::delete_before", "", |m| m.policies.delete_before(1, DateTime::MAX).await.map(drop);
        Steps, "HistoryRepository::keep_last", "", |m| m.policies.keep_last(1, 1).await.map(drop);
        Steps, "HistoryRepository::ensure_indexes", "", |m|
            m.policies.ensure_indexes().await.map(drop)
            => prepare(|m| { m.current.drop_indexes().await.unwrap(); m.revisions.drop_indexes().await.unwrap(); });
        Reads, "HistoryRepository::verify", "", |m| serialized(m.policies.verify().stream()).await;
        Steps, "HistoryRepository::repair", "", |m|
            m.policies.repair().stream().try_collect::<Vec<_>>().await.map(drop) => prepare(without_copy);
    }
}
