use super::prelude::*;
use crate::migrate::{self, CommandStream, Options, check_options};
use crate::repair::check_settings::check_migration;

impl<D, E> OutlierRepository<D, E> {
    /// Migrates the documents of a live collection into the form of the repository. Arrays over the threshold are
    /// split. Overflow documents of the manual's form, without position and count, get both. A changed threshold or
    /// `max_extras_elements` takes effect, in either direction.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::{OutlierRepository, Repository};
    /// # async fn f(books: OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let migrated = books.migrate_existing().on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// books.ensure_indexes().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Readers and writers of this crate may continue concurrently, writers with either settings. Stop programs that write
    /// without the repository. The migration needs no index: where [`ensure_indexes`](Self::ensure_indexes) fails
    /// because a document has several overflow documents of the manual's form, call this first.
    ///
    /// It rewrites each document in one transaction, as [`rebalance`](Self::rebalance) does, and skips those in place.
    /// The new limits are stored in the [catalog](mongo_patterns_core::catalog) before the first document is rewritten.
    ///
    /// It does not read a document twice. So when writers with other settings have stopped, call it once more, or
    /// [`verify`](Self::verify). Orphaned overflow documents stay unchanged.
    ///
    /// # Cost
    /// The aggregation of [`verify`](Self::verify), and the cost of [`rebalance`](Self::rebalance) for each document
    /// that is not in place, and three round trips: what the server is, the settings, and whether the field of the flag has
    /// other values, for which the server reads the main documents. A [progress
    /// callback](MigrateExisting::on_progress) costs one more round trip, in which the server reads the main documents: it counts
    /// those with overflow documents, a flag or a long array.
    ///
    /// # Cancel safety
    /// Each document is rewritten as a whole or not at all. Call it again: it resumes.
    ///
    /// # Errors
    /// [`SettingsMismatch`], with nothing changed, when settings other than the limits contradict the
    /// [catalog](mongo_patterns_core::catalog), or, without an entry there, when the stored documents do not
    /// fit them: it stores the settings then, as [`ensure_indexes`](Self::ensure_indexes) does. Also when a main document has
    /// another value than a boolean, or the manual's text `"true"`, in the field of the flag: it is one of your own.
    /// [`Unsupported`] on a standalone, with nothing changed, [`Configuration`] when the two collections are in two
    /// databases, and [`Contention`]. After all other documents are rewritten, the error of [`rebalance`](Self::rebalance)
    /// for one that cannot be.
    pub fn migrate_existing(&self) -> MigrateExisting<'_> {
        MigrateExisting {
            shared: self.shared(),
            concurrency: 4,
            dry_run: false,
            rate: None,
            filter: Document::new(),
            skipped: None,
            on_progress: None,
        }
    }
}

action! {
    /// Migrates existing documents; returned by [`OutlierRepository::migrate_existing`].
    pub struct MigrateExisting<'a> {
        shared: &'a Shared,
        concurrency: usize,
        dry_run: bool,
        rate: Option<u64>,
        filter: Document,
        skipped: Option<Collection<RawDocumentBuf>>,
    }
    with on_progress;
    "migrate_existing" => MigratedExisting
}

mongo_patterns_core::setters! {
    for MigrateExisting<'a>:

    /// Sets how many documents are rewritten concurrently; 4 by default. They are in memory with their overflow
    /// documents.
    concurrency(documents: usize) => concurrency = documents;

    /// Counts the documents that a migration would rewrite, and writes nothing.
    dry_run() => dry_run = true;

    /// Migrates only the main documents that match a filter, with their overflow documents. The others stay as they are.
    ///
    /// It takes one more round trip for each list that is not laid out by the settings. A [plan](Self::plan) lists all
    /// documents.
    ///
    /// # Errors
    /// [`InvalidArgument`] when the server refuses it, with nothing written.
    filter(filter: Document) => filter = filter;

    /// Sets the most documents that are rewritten per second.
    rate(documents: u64) => rate = Some(documents);
}

impl<'a> MigrateExisting<'a> {
    /// Skips invalid lists, for one of the reasons of [`InvalidLists`](crate::InvalidLists). By default the first one is
    /// an error, after all other documents are rewritten.
    ///
    /// Lists each of them in this collection: the `_id` of the main document, the `reason`, the names of `source`, which
    /// is the collection of the main documents, and `target`, that of the overflow documents. Another run replaces the
    /// list. The collection must be of the same database, and empty or the list of this migration. The skipped documents
    /// stay as they are. One whose `_id` is null is only counted. A [plan](Self::plan) does not have these writes.
    pub fn skip_invalid<T: Send + Sync>(mut self, list: &Collection<T>) -> Self {
        self.skipped = Some(list.clone_with_type());
        self
    }

    /// Lists every command of a migration, one document after another, in the server's order. Writes nothing. It cannot list the retries of transactions that conflict with other writers.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let mut commands = books.migrate_existing().plan();
    /// while let Some(planned) = commands.try_next().await? {
    ///     println!("{}", planned.purpose);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// The aggregation of [`verify`](OutlierRepository::verify), and two round trips for each document that is not in
    /// place. One document at a time is in memory with its overflow documents.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none.
    ///
    /// # Errors
    /// Those of the driver, as the last item of the stream, and [`Configuration`] when the two collections are in two
    /// databases.
    pub fn plan(self) -> CommandStream<'a> {
        let operation = self.shared.operation("migrate_existing");
        let commands = migrate::plan(self.shared);
        Box::pin(commands.map_err(move |error: Error| operation.name(error)))
    }

    async fn execute(self) -> Result<MigratedExisting> {
        let options = Options {
            dry_run: self.dry_run,
            concurrency: self.concurrency,
            rate: self.rate,
            filter: self.filter,
            skipped: self.skipped.as_ref(),
        };
        check_options(self.shared, &options).await?;
        check_migration(self.shared, &mut Steps::run(), self.dry_run).await?;
        migrate::run(self.shared, &options, self.on_progress).await
    }
}
