//! One migration, and how it is called.

use std::cell::OnceCell;

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::{Error, ErrorKind, Progress, Result};
use mongo_patterns_core::PlannedCommand;
use mongo_patterns_core::migration::{MigrateOptions, Migration};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc, serialize_to_document};

use support::common::{contents, drop_all};

/// Returns the documents outside of the database.
type Elsewhere = for<'a> fn(&'a TestDatabase) -> LocalBoxFuture<'a, Vec<String>>;

/// One migration of a pattern, and the documents that it migrates.
#[derive(Clone, Copy)]
pub(super) struct Migrates {
    /// The pattern and the call.
    pub(super) name: &'static str,
    /// Stores valid documents to migrate in an empty database.
    pub(super) fill: for<'a> fn(&'a TestDatabase) -> LocalBoxFuture<'a, ()>,
    /// Calls it, by a repository of a process of its own.
    pub(super) call: for<'a> fn(&'a TestDatabase, Call<'a>) -> LocalBoxFuture<'a, Result<Called>>,
    /// Removes from a document what is different in each run.
    pub(super) normalize: fn(&str, &mut Document),
    /// Returns what it stores elsewhere than in the database.
    pub(super) elsewhere: Option<Elsewhere>,
    /// Brings commands that are sent in any order into one.
    pub(super) in_order: fn(Vec<Document>) -> Vec<Document>,
    /// Whether a plan lists all commands. Others list those of the first chunk, without the transaction.
    pub(super) lists_all: bool,
    /// Whether it has `rate` and `on_progress`.
    pub(super) is_paced: bool,
    /// How many units its rate counts, of this total of its progress.
    pub(super) rated: fn(u64) -> u64,
    /// What its options `filter` and `skip_invalid` take, if it has them.
    pub(super) selected: fn() -> Option<Selected>,
}

/// Describes a migration: its name, how its documents are stored, the call, and what is special to it.
macro_rules! migration {
    ($name:expr, |$db:ident| $fill:expr, |$of:ident, $call:ident| $run:expr $(, $field:ident: $value:expr)* $(,)?) => {
        Migrates {
            name: $name,
            fill: |$db| {
                Box::pin(async move {
                    $fill;
                })
            },
            call: |$of, $call| Box::pin(async move { $run }),
            $($field: $value,)*
            ..Migrates::NONE
        }
    };
}
pub(super) use migration;

impl Migrates {
    /// Nothing that is special to one.
    pub(super) const NONE: Self = Self {
        name: "",
        fill: |_| Box::pin(async {}),
        call: |_, _| unreachable!(),
        normalize: |_, _| {},
        elsewhere: None,
        in_order: |commands| commands,
        lists_all: true,
        is_paced: true,
        rated: |total| total,
        selected: || None,
    };
}

/// What the options `filter` and `skip_invalid` of a migration take.
pub(super) struct Selected {
    /// The collection of the selected documents.
    pub(super) source: &'static str,
    /// The collection that is written, if it is another one.
    pub(super) target: &'static str,
    /// Matches some of the documents.
    pub(super) some: Document,
    /// How a call with another filter ends after it.
    pub(super) others: std::result::Result<(), ErrorKind>,
    /// Documents that cannot be migrated, in the order of their ids, with the reasons.
    pub(super) invalid: Vec<(Document, &'static str)>,
    /// The error without `skip_invalid`.
    pub(super) refusal: ErrorKind,
    /// Whether all documents are checked before the first one is written.
    pub(super) refuses_first: bool,
    /// Corrects the first of them.
    pub(super) correction: Document,
}

/// The arguments of a call.
#[derive(Default)]
pub(super) struct Call<'a> {
    pub(super) is_plan: bool,
    pub(super) options: MigrateOptions,
    pub(super) report: Option<Box<dyn FnMut(Progress) + Send + 'a>>,
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct Called {
    /// The serialized result.
    pub(super) migrated: Document,
    /// The commands of a plan.
    pub(super) commands: Vec<PlannedCommand>,
}

impl<'a> Call<'a> {
    /// Sets the options, and runs or plans.
    pub(super) async fn of<M: Migration<'a>>(self, mut migration: M) -> Result<Called> {
        *migration.options() = self.options;
        if let Some(report) = self.report {
            migration.report(report);
        }
        let result = |migrated: M::Migrated| serialize_to_document(&migrated).unwrap();
        Ok(match self.is_plan {
            true => {
                let planned = migration.planned().await?;
                Called {
                    migrated: result(planned.migrated),
                    commands: planned.commands,
                }
            }
            false => Called {
                migrated: result(migration.await?),
                commands: Vec::new(),
            },
        })
    }
}

/// A collection: its name, documents, and the names of its indexes.
pub(super) type Stored = (String, Vec<RawDocumentBuf>, Vec<String>);

/// A migration in a test.
pub(super) struct Case<'a> {
    pub(super) db: &'a TestDatabase,
    pub(super) migration: &'a Migrates,
    /// All collections before the migration.
    filled: OnceCell<Vec<Stored>>,
}

impl<'a> Case<'a> {
    pub(super) fn new(db: &'a TestDatabase, migration: &'a Migrates) -> Self {
        let filled = OnceCell::new();
        Self { db, migration, filled }
    }

    /// Stores the documents before the migration, in place of all others.
    pub(super) async fn begin(&self) {
        if !self.restore().await {
            drop_all(self.db).await;
            (self.migration.fill)(self.db).await;
            let _ = self.filled.set(self.collections().await);
        }
        self.db.recorder().clear();
    }

    pub(super) async fn collections(&self) -> Vec<Stored> {
        let database = self.db.plain_client().database(self.db.database().name());
        let mut stored = Vec::new();
        for name in database.list_collection_names().await.unwrap() {
            let collection = self.db.plain_collection::<RawDocumentBuf>(&name);
            let documents = collection.find(doc! {}).await.unwrap().try_collect().await.unwrap();
            stored.push((name, documents, collection.list_index_names().await.unwrap()));
        }
        stored
    }

    /// Stores the documents of the first time again, if all of its collections and indexes are there: a server needs much longer
    /// to create them.
    async fn restore(&self) -> bool {
        let Some(filled) = self.filled.get().filter(|_| self.migration.elsewhere.is_none()) else {
            return false;
        };
        let now = self.collections().await;
        let is_there = |(name, _, indexes): &Stored| {
            let found = now.iter().find(|(other, ..)| other == name);
            found.is_some_and(|(.., found)| indexes.iter().all(|index| found.contains(index)))
        };
        if !filled.iter().all(is_there) {
            return false;
        }
        for (name, _, found) in &now {
            let collection = self.db.plain_collection::<RawDocumentBuf>(name);
            let Some((_, documents, indexes)) = filled.iter().find(|(other, ..)| other == name) else {
                collection.drop().await.unwrap();
                continue;
            };
            for index in found.iter().filter(|index| !indexes.contains(index)) {
                collection.drop_index(index.as_str()).await.unwrap();
            }
            collection.delete_many(doc! {}).await.unwrap();
            if !documents.is_empty() {
                collection.insert_many(documents).await.unwrap();
            }
        }
        true
    }

    pub(super) async fn run(&self, options: MigrateOptions) -> Result<Document> {
        let call = Call {
            options,
            ..Call::default()
        };
        Ok((self.migration.call)(self.db, call).await?.migrated)
    }

    pub(super) async fn plan(&self, options: MigrateOptions) -> Result<Called> {
        let call = Call {
            is_plan: true,
            options,
            ..Call::default()
        };
        (self.migration.call)(self.db, call).await
    }

    /// Returns all documents of all collections as text, which NaN is equal in too, but what is different in each run. The
    /// catalog is left out.
    pub(super) async fn documents(&self) -> Vec<String> {
        let mut found = match self.migration.elsewhere {
            Some(elsewhere) => elsewhere(self.db).await,
            None => Vec::new(),
        };
        for (name, documents) in contents(self.db).await {
            for mut document in documents.into_iter().filter(|_| name != "mongo_patterns") {
                document.remove("run");
                (self.migration.normalize)(&name, &mut document);
                found.push(format!("{name} {document:?}"));
            }
        }
        // The ids that a run creates are not in the order of those of another run.
        found.sort_unstable();
        found
    }

    /// Returns everything that is stored, as text.
    pub(super) async fn everything(&self) -> String {
        format!("{:?}", contents(self.db).await)
    }

    /// Runs it undisturbed. Returns its result and the documents then.
    pub(super) async fn undisturbed(&self, options: MigrateOptions) -> (Document, Vec<String>) {
        self.begin().await;
        let migrated = self.run(options).await;
        let migrated = migrated.unwrap_or_else(|error| panic!("{}: {error:?}", self.migration.name));
        (migrated, self.documents().await)
    }

    /// Checks that a call is refused and changes nothing.
    pub(super) async fn refused(&self, options: impl Fn() -> MigrateOptions, kind: ErrorKind) -> Error {
        let name = self.migration.name;
        let before = self.everything().await;
        let of_plan = self.plan(options()).await.unwrap_err();
        let refused = self.run(options()).await.unwrap_err();
        assert_eq!((refused.kind(), of_plan.kind()), (kind, kind), "{name}: {refused:?}");
        assert!(self.everything().await == before, "{name}: {refused:?}");
        refused
    }
}

/// Returns a document with the `_id`.
pub(super) fn with_id(id: impl Into<Bson>, fields: Document) -> Document {
    let mut document = doc! { "_id": id.into() };
    document.extend(fields);
    document
}
