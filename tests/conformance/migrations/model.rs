//! One migration, and how it is called.

use futures::future::LocalBoxFuture;
use mongo_patterns::{Error, ErrorKind, Progress, Result};
use mongo_patterns_core::PlannedCommand;
use mongo_patterns_core::migration::{MigrateOptions, Migration};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};

use support::common::{contents, drop_all};

/// One migration of a pattern, and the documents that it migrates.
pub(super) trait Migrates: Sync {
    /// The pattern and the call.
    fn name(&self) -> &'static str;

    /// Stores valid documents to migrate in an empty database.
    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()>;

    /// Calls it, by a repository of a process of its own.
    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>>;

    /// Removes from a document what is different in each run.
    fn normalize(&self, _collection: &str, _document: &mut Document) {}

    /// Returns what it stores elsewhere than in the database.
    fn elsewhere<'a>(&'a self, _db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<String>> {
        Box::pin(async { Vec::new() })
    }

    /// Brings commands that are sent in any order into one.
    fn in_order(&self, commands: Vec<Document>) -> Vec<Document> {
        commands
    }

    /// Whether a plan lists all commands.
    fn lists_all(&self) -> bool {
        true
    }

    /// Whether it has `rate` and `on_progress`.
    fn is_paced(&self) -> bool {
        true
    }

    /// How many units its rate counts, of this total of its progress.
    fn rated(&self, total: u64) -> u64 {
        total
    }

    /// What its options `filter` and `skip_invalid` take, if it has them.
    fn selected(&self) -> Option<Selected> {
        None
    }
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

/// A migration in a test.
pub(super) struct Case<'a> {
    pub(super) db: &'a TestDatabase,
    pub(super) migration: &'a dyn Migrates,
}

impl<'a> Case<'a> {
    /// Stores the documents before the migration, in place of all others.
    pub(super) async fn begin(&self) {
        drop_all(self.db).await;
        self.migration.fill(self.db).await;
        self.db.recorder().clear();
    }

    pub(super) async fn run(&self, options: MigrateOptions) -> Result<Document> {
        let call = Call {
            options,
            ..Call::default()
        };
        Ok(self.migration.call(self.db, call).await?.migrated)
    }

    pub(super) async fn plan(&self, options: MigrateOptions) -> Result<Called> {
        let call = Call {
            is_plan: true,
            options,
            ..Call::default()
        };
        self.migration.call(self.db, call).await
    }

    /// Returns all documents of all collections as text, which NaN is equal in too, but what is different in each run. The
    /// catalog is left out.
    pub(super) async fn documents(&self) -> Vec<String> {
        let mut found = self.migration.elsewhere(self.db).await;
        for (name, documents) in contents(self.db).await {
            for mut document in documents.into_iter().filter(|_| name != "mongo_patterns") {
                document.remove("run");
                self.migration.normalize(&name, &mut document);
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
        let migrated = migrated.unwrap_or_else(|error| panic!("{}: {error:?}", self.migration.name()));
        (migrated, self.documents().await)
    }

    /// Checks that a call is refused and changes nothing.
    pub(super) async fn refused(&self, options: impl Fn() -> MigrateOptions, kind: ErrorKind) -> Error {
        let name = self.migration.name();
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
