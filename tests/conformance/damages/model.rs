//! A pattern whose stored documents other programs can damage.

use std::fmt::Debug;

use mongo_patterns::verify::{Finding, Repaired};
use mongo_patterns::{Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Namespace;
use mongodb::bson::{Bson, Document, doc};
use serde::Serialize;

/// A collection: its name, the field with the owner of a document, the path of the values that a repair keeps, and the
/// field by which these are in order. The owner is the id to which a document belongs. The values are whole documents
/// if the path is empty.
pub(super) type Stored = [&'static str; 4];

/// What a repair does.
pub(super) enum Outcome<U> {
    /// The values are those before the damage again.
    Restored,
    /// The values of the owner are these.
    Values(Vec<Bson>),
    /// No document of the owner is changed, for this reason.
    Left(U),
}

/// A kind of damage.
pub(super) struct Damage<M: Model> {
    pub(super) owner: Bson,
    /// The commands of another program.
    pub(super) writes: Vec<Document>,
    /// The collection and the id of each document with a problem.
    pub(super) problems: Vec<(&'static str, Bson, M::Problem)>,
    /// The `related_id` of the findings.
    pub(super) related: Option<Bson>,
    pub(super) outcome: Outcome<M::Unrepaired>,
}

impl<M: Model> Damage<M> {
    pub(super) fn findings(&self, db: &TestDatabase) -> Vec<Finding<M::Problem>> {
        let finding = |(collection, id, problem): &(&str, Bson, M::Problem)| {
            let namespace = Namespace::new(db.database().name(), *collection);
            let mut finding = Finding::new(namespace, id.clone(), *problem);
            finding.related_id = self.related.clone();
            finding.fields = M::FIELDS.iter().map(|&field| field.to_owned()).collect();
            finding
        };
        self.problems.iter().map(finding).collect()
    }

    pub(super) fn left(&self) -> Option<M::Unrepaired> {
        match self.outcome {
            Outcome::Left(reason) => Some(reason),
            _ => None,
        }
    }
}

/// A repository with a verification and a repair.
pub(super) trait Model: Sized {
    type Problem: Copy + Debug + PartialEq + Serialize;
    type Unrepaired: Copy + Debug + PartialEq + Serialize;

    const COLLECTIONS: &'static [Stored];
    /// Whether all findings of an owner are one repair.
    const IS_ONE_REPAIR: bool;
    /// The `fields` of all findings.
    const FIELDS: &'static [&'static str] = &[];

    /// Stores sound documents: those that are damaged then, and others.
    async fn new(db: &TestDatabase) -> Self;
    /// Returns all kinds of damage, each of another owner.
    fn damages() -> Vec<Damage<Self>>;
    fn owner([_, field, ..]: &Stored, document: &Document) -> Bson {
        document.get(field).cloned().unwrap_or(Bson::Null)
    }

    /// Returns what a value that a repair keeps consists of, if writers beside the repair can arrange it in another way.
    fn parts(value: Bson) -> Vec<Bson> {
        vec![value]
    }

    fn repository(&self) -> &dyn Repository;
    async fn verify(&self) -> Vec<Finding<Self::Problem>>;
    /// Verifies the documents of an owner only. `None` if the pattern cannot.
    async fn verify_owner(&self, _owner: &Bson) -> Option<Vec<Finding<Self::Problem>>> {
        None
    }
    async fn repair(&self, dry_run: bool) -> Vec<Repaired<Self::Problem, Self::Unrepaired>>;
    /// Checks the sound and the repaired documents without the repository.
    async fn judge(_db: &TestDatabase) {}
    /// Writes to the documents of an owner by the repository. Different numbers write different values.
    async fn write(&self, owner: Bson, n: i32) -> Result<()>;
}

pub(super) async fn damage<M: Model>(db: &TestDatabase, damages: &[Damage<M>]) {
    let database = db.plain_client().database(db.database().name());
    for write in damages.iter().flat_map(|damage| &damage.writes) {
        let reply = database.run_command(write.clone()).await.unwrap();
        let is_done = !reply.contains_key("writeErrors") && reply.get_i32("n").unwrap() > 0;
        assert!(is_done, "{write}: {reply}");
    }
}

/// Implements the calls of the repository in the first field.
macro_rules! calls {
    () => {
        type Problem = Problem;
        type Unrepaired = Unrepaired;

        fn repository(&self) -> &dyn mongo_patterns::Repository {
            &self.0
        }

        async fn verify(&self) -> Vec<mongo_patterns::verify::Finding<Problem>> {
            futures::TryStreamExt::try_collect(self.0.verify().stream())
                .await
                .unwrap()
        }

        async fn repair(&self, dry_run: bool) -> Vec<mongo_patterns::verify::Repaired<Problem, Unrepaired>> {
            let repair = self.0.repair();
            let repair = if dry_run { repair.dry_run() } else { repair };
            futures::TryStreamExt::try_collect(repair.stream()).await.unwrap()
        }
    };
}
pub(super) use calls;

pub(super) fn insert(collection: &str, document: Document) -> Document {
    doc! { "insert": collection, "documents": [document] }
}

pub(super) fn update(collection: &str, filter: Document, update: Document) -> Document {
    doc! { "update": collection, "updates": [{ "q": filter, "u": update }] }
}

pub(super) fn delete(collection: &str, filter: Document) -> Document {
    doc! { "delete": collection, "deletes": [{ "q": filter, "limit": 0 }] }
}
