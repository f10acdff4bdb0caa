//! Histories: policies with three revisions, two, and a deleted one.

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::history::{Deleted, WriteForm};
use mongo_patterns::{Error, ErrorKind};
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};

use super::operation::Promise::{Atomic, PrefixOnce, Reads, Steps};
use super::operation::{Model, Of, Operation, documents, indexes, retry_policy, text};
use crate::history::support::{Policies, builder, number, policy, push};

/// The current policies and their revisions, by repositories of both write forms.
pub(super) struct Office {
    pub(super) current: Collection<Document>,
    revisions: Collection<Document>,
    pub(super) transactions: Policies,
    pub(super) marks: Policies,
    /// Asks the server which form it supports.
    detected: Policies,
}

const MARK: &str = "mongo_patterns_unrecorded";

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
    fact(
        document.get("policyId").unwrap(),
        revision,
        (!is_deleted).then_some(document),
    )
}

impl Office {
    /// Returns the revision that is only in the current document, for each marked one.
    async fn unrecorded(&self) -> Vec<Document> {
        let [current, revisions] = documents([&self.current, &self.revisions]).await;
        let marked = current.into_iter().filter(|now| now.contains_key(MARK));
        let copied: Vec<String> = revisions.iter().map(stored_fact).collect();
        marked.filter(|now| !copied.contains(&stored_fact(now))).collect()
    }
}

impl Model for Office {
    const PATTERN: &'static str = "history";
    const COLLECTIONS: &'static [&'static str] = &["currentPolicies", "policyRevisions"];

    fn new(of: Of<'_>) -> Self {
        let of_form = |form| {
            builder(&of.database())
                .retry(retry_policy())
                .write_form(form)
                .build()
                .unwrap()
        };
        Self {
            current: of.collection("currentPolicies"),
            revisions: of.collection("policyRevisions"),
            transactions: of_form(WriteForm::Transaction),
            marks: of_form(WriteForm::CompareAndSet),
            detected: builder(&of.database()).retry(retry_policy()).build().unwrap(),
        }
    }

    async fn fill(&self) {
        self.marks.ensure_indexes().await.unwrap();
        for id in 1..=3 {
            self.marks.insert(&policy(id)).await.unwrap();
            self.marks.update(id, push("ring")).await.unwrap();
        }
        self.marks.update(1, push("watch")).await.unwrap();
        self.marks.delete(3).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [revisions] = documents([&self.revisions]).await;
        let unrecorded = self.unrecorded().await;
        let mut facts: Vec<String> = revisions.iter().chain(&unrecorded).map(stored_fact).collect();
        for collection in [&self.current, &self.revisions] {
            facts.extend(indexes(collection).await);
        }
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let mut read = Vec::new();
        for id in 1..=4 {
            let revisions: Vec<_> = match self.marks.revisions(id).stream().try_collect().await {
                Err(error) if error.is_setup_error() => return None,
                revisions => revisions.unwrap(),
            };
            read.extend(revisions.iter().map(|of| fact(&id, of.revision, of.document.as_ref())));
        }
        Some(read)
    }

    async fn damage(&self) -> Vec<String> {
        let [current, revisions] = documents([&self.current, &self.revisions]).await;
        let copied: Vec<String> = revisions.iter().map(stored_fact).collect();
        let of = |now: &Document| {
            let problem = match () {
                () if now.contains_key(MARK) => "Unrecorded",
                () if !copied.contains(&stored_fact(now)) => "Different",
                () => return None,
            };
            let (id, revision) = (now.get("policyId").unwrap(), number(now, "revision"));
            Some(format!("{id} {problem} {{ revision: {revision} }}"))
        };
        current.iter().filter_map(of).collect()
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<mongo_patterns::history::Finding> = match self.marks.verify().stream().try_collect().await {
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
        let repaired: Vec<mongo_patterns::history::Repaired> = match self.marks.repair().stream().try_collect().await {
            Err(error) if error.is_setup_error() => return,
            repaired => repaired.unwrap(),
        };
        assert!(
            repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
            "{repaired:?}"
        );
    }

    fn operations() -> Vec<Operation<Self>> {
        let mut operations = in_transactions();
        operations.extend(by_compare_and_set());
        operations.extend(reads());
        operations.extend(whole());
        operations.extend(super::sessions::of_policies());
        operations.extend(super::shard_keys::of_policies());
        operations
    }
}

/// Leaves policy 1 as a process does that dies between the change and its copy.
fn unrecorded(m: &Office) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let copy = m
            .revisions
            .find_one(doc! { "policyId": 1, "revision": 3 })
            .await
            .unwrap()
            .unwrap();
        m.revisions
            .delete_one(doc! { "_id": copy.get("_id").unwrap() })
            .await
            .unwrap();
        let mark = doc! { "copy": copy.get_object_id("_id").unwrap(), "inserted": false };
        let set = doc! { "$set": { MARK: mark } };
        m.current.update_one(doc! { "policyId": 1 }, set).await.unwrap();
    })
}

/// The errors by which a retry reports that the first call took effect.
const CHANGED: &[ErrorKind] = &[ErrorKind::RevisionMismatch];
const EXISTS: &[ErrorKind] = &[ErrorKind::AlreadyExists];

/// A repeated deletion finds nothing, and aborts its transaction: that is no retry of a transaction.
fn found(deleted: Deleted) -> Result<String, Error> {
    match deleted.found {
        true => Ok(format!("{deleted:?}")),
        false => Err(Error::new(ErrorKind::NotFound, "nothing was deleted")),
    }
}

macro_rules! writes {
    ($name:ident, $case:literal, $form:ident) => {
        fn $name() -> Vec<Operation<Office>> {
            vec![
                Operation::<Office>::new(Atomic, "HistoryRepository::insert", $case, |m| {
                    Box::pin(async move { text(m.$form.insert(&policy(4)).await.map(|recorded| recorded.revision)) })
                })
                .retry_errors(EXISTS),
                Operation::<Office>::new(
                    Atomic,
                    "HistoryRepository::insert",
                    concat!($case, ", after a deletion"),
                    |m| {
                        Box::pin(
                            async move { text(m.$form.insert(&policy(3)).await.map(|recorded| recorded.revision)) },
                        )
                    },
                )
                .retry_errors(EXISTS),
                Operation::<Office>::new(PrefixOnce, "HistoryRepository::update", $case, |m| {
                    Box::pin(async move {
                        text(
                            m.$form
                                .update(1, push("car"))
                                .await
                                .map(|recorded| recorded.revision),
                        )
                    })
                }),
                Operation::<Office>::new(
                    Atomic,
                    "HistoryRepository::update",
                    concat!($case, ", at a revision"),
                    |m| {
                        Box::pin(async move {
                            let updated = m.$form.update(1, push("car")).expecting(3).await;
                            text(updated.map(|recorded| recorded.revision))
                        })
                    },
                )
                .retry_errors(CHANGED),
                Operation::<Office>::new(
                    Atomic,
                    "HistoryRepository::update",
                    concat!($case, ", after a process died"),
                    |m| {
                        Box::pin(async move {
                            let updated = m.$form.update(1, push("car")).expecting(3).await;
                            text(updated.map(|recorded| recorded.revision))
                        })
                    },
                )
                .retry_errors(CHANGED)
                .prepare(unrecorded),
                Operation::<Office>::new(Atomic, "HistoryRepository::replace", $case, |m| {
                    Box::pin(async move {
                        let replaced = m.$form.replace(1, &policy(1)).expecting(3).await;
                        text(replaced.map(|recorded| recorded.revision))
                    })
                })
                .retry_errors(CHANGED),
                Operation::<Office>::new(Atomic, "HistoryRepository::restore", $case, |m| {
                    Box::pin(async move {
                        let restored = m.$form.restore(1, 2).expecting(3).await;
                        text(restored.map(|recorded| recorded.revision))
                    })
                })
                .retry_errors(CHANGED),
                Operation::<Office>::new(
                    PrefixOnce,
                    "HistoryRepository::restore",
                    concat!($case, ", of a deleted document"),
                    |m| Box::pin(async move { text(m.$form.restore(3, 2).await.map(|recorded| recorded.revision)) }),
                ),
                Operation::<Office>::new(Atomic, "HistoryRepository::delete", $case, |m| {
                    Box::pin(async move { m.$form.delete(1).await.and_then(found) })
                })
                .retry_errors(&[ErrorKind::NotFound]),
            ]
        }
    };
}

writes!(in_transactions, "in a transaction", transactions);
writes!(by_compare_and_set, "by compare-and-set", marks);

fn reads() -> Vec<Operation<Office>> {
    vec![
        Operation::<Office>::new(Reads, "HistoryRepository::get", "", |m| {
            Box::pin(async move { text(m.transactions.get(1).await.map(|now| fact(&1, 0, now.as_ref()))) })
        }),
        Operation::<Office>::new(Reads, "HistoryRepository::at", "", |m| {
            Box::pin(async move {
                let at = m.transactions.at(1, 2).await;
                text(at.map(|at| at.map(|at| fact(&1, at.revision, at.document.as_ref()))))
            })
        }),
        Operation::<Office>::new(Reads, "HistoryRepository::as_of", "", |m| {
            Box::pin(async move {
                let at = m.transactions.as_of(1, DateTime::MAX).await;
                text(at.map(|at| at.map(|at| fact(&1, at.revision, at.document.as_ref()))))
            })
        }),
        Operation::<Office>::new(Reads, "HistoryRepository::revisions + Revisions::page", "", |m| {
            Box::pin(async move {
                let page = m.transactions.revisions(1).limit(2).page().await;
                text(page.map(|page| (page.revisions.len(), page.next.is_some())))
            })
        }),
        Operation::<Office>::new(Reads, "HistoryRepository::revisions + Revisions::stream", "", |m| {
            Box::pin(async move {
                let all: Result<Vec<_>, _> = m.transactions.revisions(1).limit(2).stream().try_collect().await;
                text(all.map(|all| all.len()))
            })
        }),
        Operation::<Office>::new(Reads, "HistoryRepository::diff", "", |m| {
            Box::pin(async move { text(m.transactions.diff(1, 1, 3).await) })
        }),
        Operation::<Office>::new(Reads, "HistoryRepository::write_form", "", |m| {
            Box::pin(async move { text(m.detected.write_form().await) })
        }),
    ]
}

/// Calls for many revisions.
fn whole() -> Vec<Operation<Office>> {
    vec![
        Operation::<Office>::new(Steps, "HistoryRepository::prune", "", |m| {
            Box::pin(async move { text(m.transactions.prune(1).keep_last(1).await.map(drop)) })
        }),
        Operation::<Office>::new(Steps, "HistoryRepository::ensure_indexes", "", |m| {
            Box::pin(async move { text(m.transactions.ensure_indexes().await.map(drop)) })
        })
        .prepare(|m| {
            Box::pin(async move {
                m.current.drop_indexes().await.unwrap();
                m.revisions.drop_indexes().await.unwrap();
            })
        }),
        Operation::<Office>::new(Reads, "HistoryRepository::verify + Verify::stream", "", |m| {
            Box::pin(async move {
                let found: Result<Vec<_>, _> = m.marks.verify().stream().try_collect().await;
                text(found)
            })
        }),
        Operation::<Office>::new(Steps, "HistoryRepository::repair + Repair::stream", "", |m| {
            Box::pin(async move {
                let repaired: Result<Vec<_>, _> = m.marks.repair().stream().try_collect().await;
                text(repaired.map(drop))
            })
        })
        .prepare(unrecorded),
    ]
}
