//! The history repository against a model in memory.

use futures::TryStreamExt;
use mongo_patterns::history::Recorded;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};
use proptest::prelude::*;

use support::history::*;
use support::model::{Sequence, check_random};

#[derive(Clone, Debug)]
enum Call {
    Insert(i32),
    Push(i32),
    Set(i32),
    /// At the current revision, or at another one.
    Expect(i32, bool),
    Replace(i32),
    Upsert(i32),
    Delete,
    Restore(u64),
    KeepLast(u64),
    At(u64),
    /// At the time of a revision, and this number of milliseconds later.
    AsOf(u64, i64),
    Page(u32, bool),
}

fn call() -> impl Strategy<Value = (usize, Call)> {
    let (value, revision) = (|| 0..100_i32, || 0..12_u64);
    let call = prop_oneof![
        4 => value().prop_map(Call::Insert),
        6 => value().prop_map(Call::Push),
        3 => value().prop_map(Call::Set),
        3 => (value(), any::<bool>()).prop_map(|(value, is_current)| Call::Expect(value, is_current)),
        2 => value().prop_map(Call::Replace),
        2 => value().prop_map(Call::Upsert),
        2 => Just(Call::Delete),
        3 => revision().prop_map(Call::Restore),
        1 => (1..8_u64).prop_map(Call::KeepLast),
        2 => revision().prop_map(Call::At),
        2 => (revision(), -1..2_i64).prop_map(|(revision, by)| Call::AsOf(revision, by)),
        2 => (1..6_u32, any::<bool>()).prop_map(|(limit, newest_first)| Call::Page(limit, newest_first)),
    ];
    (0..2_usize, call)
}

/// A revision: its time, and the items and the note, or `None` for a deletion.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    time: DateTime,
    content: Option<(Vec<String>, Option<i32>)>,
}

/// All revisions of a policy, and the number of the first that is not deleted.
#[derive(Clone, Debug, Default)]
struct Versions {
    all: Vec<Version>,
    first: u64,
}

impl Versions {
    fn newest(&self) -> u64 {
        self.all.len() as u64
    }

    fn get(&self, revision: u64) -> Option<&Version> {
        let index = usize::try_from(revision).unwrap().checked_sub(1)?;
        self.all.get(index).filter(|_| revision >= self.first)
    }

    fn content(&self) -> Option<(Vec<String>, Option<i32>)> {
        self.all.last().and_then(|version| version.content.clone())
    }
}

struct Model<'a> {
    db: &'a TestDatabase,
    policies: &'a Policies,
    is_by_id: bool,
    ids: [i32; 2],
    versions: [Versions; 2],
}

fn new_policy(is_by_id: bool, id: i32, value: i32) -> Document {
    let mut policy = if is_by_id { policy_by_id(id) } else { policy(id) };
    policy.insert("itemsInsured", vec![value.to_string()]);
    policy
}

fn content_of(document: &Document) -> (Vec<String>, Option<i32>) {
    (items(document), document.get_i32("note").ok())
}

/// Returns the number and the time of the revision that a write has stored.
fn written(recorded: Result<Recorded, Error>) -> Result<Option<(u64, Option<DateTime>)>, Error> {
    recorded.map(|recorded| Some((recorded.revision, Some(recorded.time))))
}

impl Model<'_> {
    async fn run(&mut self, of: usize, call: Call) {
        let (policies, id, is_by_id) = (self.policies, self.ids[of], self.is_by_id);
        let versions = &mut self.versions[of];
        let (now, newest) = (versions.content(), versions.newest());
        let pushed = |value: i32| {
            now.clone().map(|(mut items, note)| {
                items.push(value.to_string());
                (items, note)
            })
        };
        let missing = || now.is_none().then_some(ErrorKind::NotFound);
        let new = |value: i32| new_policy(is_by_id, id, value);
        let fresh = |value: i32| Some((vec![value.to_string()], None));
        // The result of the call, and the expected error or the expected content.
        let (found, expected) = match &call {
            Call::Insert(value) => (
                written(policies.insert(&new(*value)).await),
                match now {
                    Some(_) => Err(ErrorKind::AlreadyExists),
                    None => Ok(fresh(*value)),
                },
            ),
            Call::Push(value) => (
                written(policies.update(id, push(&value.to_string())).await),
                missing().map_or_else(|| Ok(pushed(*value)), Err),
            ),
            Call::Set(value) => (
                written(policies.update(id, vec![doc! { "$set": { "note": value } }]).await),
                missing().map_or_else(|| Ok(now.clone().map(|(items, _)| (items, Some(*value)))), Err),
            ),
            Call::Expect(value, is_current) => (
                written(
                    policies
                        .update(id, push(&value.to_string()))
                        .expecting(if *is_current { newest.max(1) } else { newest + 1 })
                        .await,
                ),
                match (missing(), is_current) {
                    (Some(kind), _) => Err(kind),
                    (None, true) => Ok(pushed(*value)),
                    (None, false) => Err(ErrorKind::RevisionMismatch),
                },
            ),
            Call::Replace(value) => (
                written(policies.replace(id, &new(*value)).await),
                missing().map_or_else(|| Ok(fresh(*value)), Err),
            ),
            Call::Upsert(value) => (written(policies.upsert(&new(*value)).await), Ok(fresh(*value))),
            Call::Delete => {
                let deleted = policies.delete(id).await.unwrap();
                assert_eq!(deleted.found, now.is_some());
                if now.is_none() {
                    return;
                }
                (Ok(deleted.revision.map(|revision| (revision, None))), Ok(None))
            }
            Call::Restore(revision) => (
                written(policies.restore(id, *revision).await),
                match versions.get(*revision) {
                    None => Err(ErrorKind::NotFound),
                    Some(Version { content: None, .. }) => Err(ErrorKind::InvalidArgument),
                    Some(version) => Ok(version.content.clone()),
                },
            ),
            Call::KeepLast(keep) => {
                let deleted = policies.keep_last(id, *keep).await.unwrap().documents;
                let first = (newest + 1).saturating_sub(*keep).max(versions.first);
                assert_eq!(deleted, first.max(1) - versions.first.max(1), "{call:?} {versions:?}");
                versions.first = first;
                return;
            }
            read => return self.read(of, read).await,
        };
        match (found, expected) {
            (Ok(Some((revision, time))), Ok(content)) => {
                assert_eq!(revision, newest + 1, "{call:?}");
                let stored = policies.at(id, revision).await.unwrap().unwrap();
                assert!(time.is_none_or(|time| time == stored.time));
                assert!(
                    self.versions[of]
                        .all
                        .last()
                        .is_none_or(|version| version.time < stored.time)
                );
                let time = stored.time;
                self.versions[of].all.push(Version { time, content });
            }
            (Err(error), Err(kind)) if error.kind() == kind => {}
            (found, expected) => panic!("{call:?}: {found:?}, expected {expected:?}"),
        }
        self.compare(of).await;
    }

    async fn read(&self, of: usize, call: &Call) {
        let (policies, id, versions) = (self.policies, self.ids[of], &self.versions[of]);
        let first = versions.first.max(1);
        match *call {
            Call::At(revision) => {
                let found = policies.at(id, revision).await.unwrap();
                let found = found.map(|found| (found.time, found.document.as_ref().map(content_of)));
                let expected = versions.get(revision).cloned();
                assert_eq!(
                    found,
                    expected.map(|version| (version.time, version.content)),
                    "{call:?}"
                );
            }
            Call::AsOf(revision, by) => {
                let Some(version) = versions.get(revision) else {
                    return;
                };
                let time = DateTime::from_millis(version.time.timestamp_millis() + by);
                let found = policies.as_of(id, time).await.unwrap().map(|found| found.revision);
                let mut down = (first..=versions.newest()).rev();
                let expected = down.find(|revision| versions.get(*revision).unwrap().time <= time);
                assert_eq!(found, expected, "{call:?}");
            }
            Call::Page(limit, newest_first) => {
                let call = policies.revisions(id).limit(limit);
                let call = if newest_first { call.newest_first() } else { call };
                let found: Vec<_> = call.stream().try_collect().await.unwrap();
                let found: Vec<u64> = found.iter().map(|revision| revision.revision).collect();
                let mut expected: Vec<u64> = (first..=versions.newest()).collect();
                if newest_first {
                    expected.reverse();
                }
                assert_eq!(found, expected);
            }
            _ => unreachable!("a write"),
        }
    }

    /// Compares the stored documents with the model, without the repository.
    async fn compare(&self, of: usize) {
        let (id, versions) = (self.ids[of], &self.versions[of]);
        let fields = if self.is_by_id {
            ["_id", "documentId"]
        } else {
            ["policyId"; 2]
        };
        let now = current(self.db).find_one(doc! { fields[0]: id }).await.unwrap();
        assert_eq!(now.as_ref().map(content_of), versions.content());
        let stored = copies_with(self.db, fields[1], id).await;
        let found = stored.iter().map(|copy| {
            let is_deleted = copy.get_bool("deleted").unwrap_or(false);
            let content = (!is_deleted).then(|| content_of(copy));
            (
                number(copy, "revision") as u64,
                *copy.get_datetime("dateSet").unwrap(),
                content,
            )
        });
        let first = versions.first.max(1);
        let expected = (first..=versions.newest()).map(|revision| {
            let version = versions.get(revision).unwrap().clone();
            (revision, version.time, version.content)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls() {
    testkit::run(async |db| random_calls_of(db, policies(db).await, false).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls_of_documents_by_id() {
    testkit::run(async |db| random_calls_of(db, ready(db, by_id(db.database())).await, true).await).await;
}

async fn random_calls_of(db: &TestDatabase, policies: Policies, is_by_id: bool) {
    check_random(db, call(), async |Sequence { number, calls, .. }| {
        let id = i32::try_from(number).unwrap() * 2;
        let mut model = Model {
            db,
            policies: &policies,
            is_by_id,
            ids: [id, id + 1],
            versions: [Versions::default(), Versions::default()],
        };
        model.run(0, Call::Insert(0)).await;
        for (of, call) in calls {
            model.run(of, call).await;
        }
    })
    .await;
    assert_eq!(findings(&policies).await, []);
}
