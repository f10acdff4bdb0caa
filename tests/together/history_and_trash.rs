//! Documents with a history that are restored by a trash, or by another program, with the number of an older revision.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind::{self, AlreadyExists, NotFound, RevisionMismatch};
use mongo_patterns::archive::Trash;
use mongo_patterns::history::{Problem, Recorded};
use mongo_patterns::{Repository, Result};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use tokio::sync::oneshot;

use support::common::{all, dropped_after, dropped_commands, patient};
use support::history::follow::{NAME, follow};
use support::history::*;

/// Returns both repositories, with their own lanes, as in a new process.
async fn process(db: &TestDatabase) -> (Policies, Trash<Document>) {
    let policies = by_id(db.database()).retry(patient()).build().unwrap();
    let collection = |name| db.database().collection::<Document>(name);
    let trash = Trash::builder(collection("currentPolicies"), collection("deletedPolicies"));
    let trash = trash.retry(patient()).build().unwrap();
    policies.ensure_indexes().await.unwrap();
    trash.ensure_indexes().await.unwrap();
    (policies, trash)
}

fn in_trash(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("deletedPolicies")
}

async fn current_one(db: &TestDatabase, id: i32) -> Document {
    current(db).find_one(doc! { "_id": id }).await.unwrap().unwrap()
}

async fn copies_of(db: &TestDatabase, id: i32) -> Vec<Document> {
    copies_with(db, "documentId", id).await
}

/// Returns the fields that a document and its copy share.
fn shared_fields(stored: &Document) -> Document {
    let mut fields = without_id(stored);
    fields.remove("documentId");
    fields
}

/// Checks by the driver alone that the numbers have no gap, the times increase, and the current document is the newest
/// revision, or deleted. Returns the revisions.
async fn judged(db: &TestDatabase, id: i32, context: &str) -> Vec<Document> {
    let copies = copies_of(db, id).await;
    let numbers: Vec<i64> = copies.iter().map(|copy| number(copy, "revision")).collect();
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>(), "{context}");
    let times = copies.iter().map(|copy| *copy.get_datetime("dateSet").unwrap());
    assert!(
        times.collect::<Vec<_>>().is_sorted_by(|one, next| one < next),
        "{context}"
    );
    let last = copies.last().unwrap();
    match current(db).find_one(doc! { "_id": id }).await.unwrap() {
        Some(now) => assert_eq!(shared_fields(last), shared_fields(&now), "{context}"),
        None => assert!(last.get_bool("deleted").unwrap(), "{context}"),
    }
    copies
}

/// How a document is restored with the number of an older revision.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// A follower has recorded the deletion.
    Followed,
    /// Another document with its `_id` was inserted and deleted in between.
    Between,
    /// Another program inserts an old copy after a deletion.
    Inserted,
    /// Another program replaces the document by an old copy.
    Replaced,
}

const WAYS: [Way; 4] = [Way::Followed, Way::Between, Way::Inserted, Way::Replaced];

impl Way {
    /// Stores a policy that was restored with the item `a`, at revision 2. Returns the number of its last revision.
    async fn restore(self, db: &TestDatabase, id: i32, (policies, trash): &(Policies, Trash<Document>)) -> u64 {
        policies.insert(&policy_by_id(id)).await.unwrap();
        policies.update(id, push("a")).await.unwrap();
        let old = current_one(db, id).await;
        match self {
            Self::Followed => {
                policies.delete(id).through(trash).await.unwrap();
                follow(policies).await;
                trash.restore(id).await.unwrap();
            }
            Self::Between => {
                policies.delete(id).through(trash).await.unwrap();
                policies.insert(&policy_by_id(id)).await.unwrap();
                policies.delete(id).await.unwrap();
                trash.restore(id).await.unwrap();
            }
            Self::Inserted => {
                policies.delete(id).await.unwrap();
                current(db).insert_one(&old).await.unwrap();
            }
            Self::Replaced => {
                policies.update(id, push("b")).await.unwrap();
                current(db).replace_one(doc! { "_id": id }, &old).await.unwrap();
            }
        }
        assert_eq!(current_one(db, id).await, old);
        copies_of(db, id).await.len() as u64
    }
}

type Write = (
    &'static str,
    u64,
    for<'a> fn(&'a TestDatabase, &'a Policies, i32) -> Written<'a>,
);
type Written<'a> = futures::future::BoxFuture<'a, Result<Option<u64>>>;

fn number_of(recorded: Recorded) -> Option<u64> {
    Some(recorded.revision)
}

/// Writes with the number of revisions that they store after that of the restored document.
#[rustfmt::skip] // a call in a line
fn writes() -> Vec<Write> {
    vec![
        ("update", 1, |_, policies, id| Box::pin(async move { policies.update(id, push("z")).await.map(number_of) })),
        ("replace", 1, |_, policies, id| Box::pin(async move { policies.replace(id, &policy_by_id(id)).await.map(number_of) })),
        ("upsert", 1, |_, policies, id| Box::pin(async move { policies.upsert(&policy_by_id(id)).await.map(number_of) })),
        ("restore", 1, |_, policies, id| Box::pin(async move { policies.restore(id, 1).await.map(number_of) })),
        ("delete", 1, |_, policies, id| Box::pin(async move { policies.delete(id).await.map(|deleted| deleted.revision) })),
        ("update_many", 1, |_, policies, id| Box::pin(async move {
            let updated = policies.update_many(doc! { "_id": id }, push("z")).await?;
            assert_eq!((updated.matched, updated.modified), (1, 1));
            Ok(None)
        })),
        ("transaction", 1, |db, policies, id| Box::pin(async move {
            // The driver runs the callback again.
            let mut session = db.database().client().start_session().await?;
            let policies = policies.clone();
            let run = session.start_transaction().and_run2(async move |session| {
                Ok(policies.update(id, push("z")).session(session).await?)
            });
            Ok(number_of(run.await?))
        })),
        ("repair", 0, |_, policies, _| Box::pin(async move {
            let repaired: Vec<_> = policies.repair().stream().try_collect().await?;
            assert!(repaired.iter().all(|repaired| repaired.unrepaired.is_none()), "{repaired:?}");
            Ok(None)
        })),
        ("follow", 0, |_, policies, _| Box::pin(async move {
            follow(policies).await;
            Ok(None)
        })),
    ]
}

#[tokio::test]
async fn the_next_write_numbers_on_from_the_last_revision() {
    testkit::run(async |db| {
        let process = process(db).await;
        let (policies, _) = &process;
        follow(policies).await;
        for (id, (way, (name, more, write))) in (0..).zip(
            WAYS.into_iter()
                .flat_map(|way| writes().into_iter().map(move |write| (way, write))),
        ) {
            let context = format!("{way:?}, {name}");
            let last = way.restore(db, id, &process).await;
            let found = findings(policies).await;
            let problems: Vec<Problem> = found.iter().map(|found| found.problem).collect();
            assert_eq!(problems, [Problem::Ahead { revision: last }], "{context}");
            let written = write(db, policies, id).await.unwrap();
            assert!(
                written.is_none_or(|written| written == last + 1 + more),
                "{context}: {written:?}"
            );
            assert_eq!(findings(policies).await, [], "{context}");
            let copies = judged(db, id, &context).await;
            assert_eq!(copies.len() as u64, last + 1 + more, "{context}");
            // What it found is a revision.
            let found = &copies[usize::try_from(last).unwrap()];
            assert_eq!(items(found), ["a"], "{context}");
            assert_eq!(
                policies
                    .at(id, last + 1)
                    .await
                    .unwrap()
                    .unwrap()
                    .document
                    .unwrap()
                    .get("_id"),
                Some(&id.into())
            );
        }
    })
    .await;
}

/// A call that expects the revision of the restored document is refused, and the next one has the new number.
#[tokio::test]
async fn a_call_that_expects_the_old_revision_is_refused_once() {
    testkit::run(async |db| {
        let process = process(db).await;
        let (policies, _) = &process;
        follow(policies).await;
        for (id, way) in (0..).zip(WAYS) {
            let last = way.restore(db, id, &process).await;
            let now = policies.get(id).await.unwrap().unwrap();
            assert_eq!(now.revision, 2);
            let refused = policies.update(id, push("z")).expecting(2).await.unwrap_err();
            assert_eq!(refused.kind(), RevisionMismatch, "{way:?}: {refused}");
            let now = policies.get(id).await.unwrap().unwrap();
            assert_eq!((now.revision, items(&now.document)), (last + 1, vec!["a".to_owned()]));
            let recorded = policies.update(id, push("z")).expecting(now.revision).await.unwrap();
            assert_eq!(recorded.revision, last + 2);
            judged(db, id, &format!("{way:?}")).await;
        }
        assert_eq!(findings(policies).await, []);
    })
    .await;
}

/// Also if its old revisions were deleted, which is no gap, and other programs changed it since.
#[tokio::test]
async fn a_repair_stores_what_it_finds_as_the_next_revision() {
    testkit::run(async |db| {
        let process = process(db).await;
        let (policies, _) = &process;
        follow(policies).await;
        for (id, way) in (0..).zip(WAYS) {
            let last = way.restore(db, id, &process).await;
            if id % 2 == 0 {
                policies.keep_last(id, 1).await.unwrap();
            }
            current(db).update_one(doc! { "_id": id }, push("other")).await.unwrap();
            let dry: Vec<_> = policies.repair().dry_run().stream().try_collect().await.unwrap();
            let repaired: Vec<_> = policies.repair().stream().try_collect().await.unwrap();
            for (dry, repaired) in dry.iter().zip(&repaired) {
                assert_eq!((dry.unrepaired, repaired.unrepaired), (None, None));
                assert_eq!(dry.findings, repaired.findings);
            }
            assert_eq!(findings(policies).await, []);
            let now = current_one(db, id).await;
            assert_eq!(
                (number(&now, "revision") as u64, items(&now)),
                (last + 1, vec!["a".to_owned(), "other".to_owned()])
            );
        }
    })
    .await;
}

/// What the tasks of a history know.
#[derive(Default)]
struct Acknowledged {
    /// The items by policy and revision.
    items: Vec<(i32, u64, String)>,
    /// Deletions and inserts.
    others: Vec<(i32, u64)>,
    /// The items of calls that were dropped.
    dropped: Vec<String>,
}

fn allowed<T>(done: Result<T>, kinds: &[ErrorKind]) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(error) if kinds.contains(&error.kind()) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// Policies 0 and 1 are only updated, deleted and restored by the trash; 2 and 3 are also inserted and deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_and_eight_tasks_of_a_trash_lose_nothing() {
    const POLICIES: i32 = 4;
    testkit::run(async |db| {
        for is_followed in [true, false] {
            let mut processes = Vec::new();
            for _ in 0..4 {
                processes.push(process(db).await);
            }
            for collection in [current(db), revisions(db), in_trash(db)] {
                collection.delete_many(doc! {}).await.unwrap();
            }
            let policies = processes[0].0.clone();
            for id in 0..POLICIES {
                policies.insert(&policy_by_id(id)).await.unwrap();
            }
            follow(&policies).await;
            let (stop, stopped) = oneshot::channel::<()>();
            let follower = is_followed.then(|| {
                let policies = policies.clone();
                tokio::spawn(async move { policies.follow(NAME).until(async { drop(stopped.await) }).await })
            });
            let writers = (0..8).map(|writer: i32| {
                let (policies, _) = processes[writer as usize % processes.len()].clone();
                tokio::spawn(async move {
                    let mut acknowledged = Acknowledged::default();
                    for n in 0..30 {
                        let id = (writer + n) % POLICIES;
                        let is_other = id >= 2 && n % 5 == 4;
                        if is_other && writer % 2 == 0 {
                            let deleted = policies.delete(id).await.unwrap();
                            acknowledged
                                .others
                                .extend(deleted.revision.map(|revision| (id, revision)));
                        } else if is_other {
                            let inserted = policies.insert(&policy_by_id(id)).await;
                            let inserted = allowed(inserted, &[AlreadyExists]);
                            acknowledged
                                .others
                                .extend(inserted.map(|inserted| (id, inserted.revision)));
                        } else {
                            let item = format!("{writer}-{n}");
                            let update = policies.update(id, push(&item));
                            let updated = match n % 6 {
                                5 => dropped_after(20 * n * (writer + 1), update).await,
                                _ => Some(update.await),
                            };
                            match updated.map(|updated| allowed(updated, &[NotFound])) {
                                None => acknowledged.dropped.push(item),
                                Some(updated) => {
                                    acknowledged
                                        .items
                                        .extend(updated.map(|updated| (id, updated.revision, item)));
                                }
                            }
                        }
                    }
                    acknowledged
                })
            });
            let writers: Vec<_> = writers.collect();
            let trashes = (0..8).map(|task: i32| {
                let (policies, trash) = processes[task as usize % processes.len()].clone();
                tokio::spawn(async move {
                    let mut moved = 0;
                    for n in 0..30 {
                        let id = (task + n) % POLICIES;
                        if (task + n / 4) % 2 == 0 {
                            moved += u64::from(policies.delete(id).through(&trash).await.unwrap().found);
                        } else {
                            allowed(trash.restore(id).await, &[AlreadyExists, NotFound]);
                        }
                    }
                    moved
                })
            });
            let moved: u64 = join_all(trashes).await.into_iter().map(|task| task.unwrap()).sum();
            let mut items_of: Vec<(i32, u64, String)> = Vec::new();
            let (mut others, mut dropped) = (Vec::new(), BTreeSet::new());
            for writer in join_all(writers).await {
                let acknowledged = writer.unwrap();
                items_of.extend(acknowledged.items);
                others.extend(acknowledged.others);
                dropped.extend(acknowledged.dropped);
            }
            dropped_commands(db).await;
            drop(stop);
            if let Some(follower) = follower {
                follower.await.unwrap().unwrap();
            }
            assert!(moved > 0 && !items_of.is_empty() && !others.is_empty());

            // At the end every policy is there, and is written once more.
            for id in 0..POLICIES {
                let (policies, trash) = &processes[1];
                allowed(trash.restore(id).await, &[AlreadyExists, NotFound]);
                if policies.update(id, push("last")).await.is_err() {
                    policies.insert(&policy_by_id(id)).await.unwrap();
                }
                judged(db, id, "after the last write").await;
            }
            assert_eq!(findings(&policies).await, []);
            follow(&policies).await;
            assert_eq!(findings(&policies).await, []);

            let mut revisions_of: BTreeMap<i32, Vec<Document>> = BTreeMap::new();
            for id in 0..POLICIES {
                revisions_of.insert(id, judged(db, id, "at the end").await);
            }
            let mut numbers: BTreeSet<(i32, u64)> = others.iter().copied().collect();
            assert_eq!(numbers.len(), others.len());
            for (id, revision, item) in &items_of {
                assert!(numbers.insert((*id, *revision)), "revision {revision} of {id} twice");
                let copy = &revisions_of[id][usize::try_from(*revision - 1).unwrap()];
                assert_eq!(items(copy).last(), Some(item), "revision {revision} of {id}");
            }
            // No other document was in the place of these.
            assert_eq!(
                all(&in_trash(db))
                    .await
                    .iter()
                    .filter(|entry| id_of_entry(entry) < 2)
                    .count(),
                0
            );
            for id in 0..2 {
                let now = items(&current_one(db, id).await);
                assert_eq!(now.iter().collect::<BTreeSet<_>>().len(), now.len(), "policy {id}");
                let now: Vec<_> = now.into_iter().filter(|item| !dropped.contains(item)).collect();
                let of_id = items_of.iter().filter(|(of, ..)| *of == id);
                let by_revision: BTreeMap<u64, &str> = of_id.map(|(_, revision, item)| (*revision, &**item)).collect();
                let expected: Vec<&str> = by_revision.into_values().chain(["last"]).collect();
                assert_eq!(now, expected, "policy {id}");
            }
        }
    })
    .await;
}

fn id_of_entry(entry: &Document) -> i32 {
    entry.get_document("document").unwrap().get_i32("_id").unwrap()
}
