use std::fmt;

use futures::TryStreamExt;
use futures::future::ready;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::progress::OnProgress;
use mongo_patterns_core::{Error, Progress, Result};

use super::rebalance::refused;
use super::verify::until_error;
use crate::migrate::existing::{CommandStream, adopting};
use crate::repair::rewrite::{Work, rewrite};
use crate::repair::scan::looks_told;
use crate::repository::OutlierRepository;
use crate::repository::Shared;

impl<D, E> OutlierRepository<D, E> {
    /// Brings all documents of a live collection into the form of the repository: arrays over the threshold are split,
    /// extras of the manual's form, without place and count, get both, and another threshold or cap than before takes
    /// hold, in either direction.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let adopted = books.migrate_existing().on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// books.ensure_indexes().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Writers of this crate may go on meanwhile, with either setting, and readers work all the time. It needs no index:
    /// where [`ensure_indexes`](Self::ensure_indexes) fails because there are several extras of the manual's form for one
    /// document, call this first. Stop programs then that write past the repository.
    ///
    /// Each document is written in one transaction, as [`rebalance`](Self::rebalance) does it, and one that is as it
    /// should be is not written. When it ends in the middle, call it again: it goes on where it was. Documents that come
    /// out of order while it runs are not seen again: call it once more, or [`verify`](Self::verify), after writers with
    /// other settings have stopped. Extras that belong to no document stay as they are.
    ///
    /// # Cost
    /// The aggregation of [`verify`](Self::verify), and the cost of [`rebalance`](Self::rebalance) for each document that
    /// is not in form.
    ///
    /// # Cancel safety
    /// Each document is rewritten as a whole or not at all. Call it again: it resumes.
    ///
    /// # Errors
    /// [`Unsupported`](mongo_patterns_core::ErrorKind::Unsupported) on a standalone server, with nothing changed,
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when the two collections are in two databases,
    /// [`Contention`](mongo_patterns_core::ErrorKind::Contention). At the end, when all other documents are in form, the error of
    /// [`rebalance`](Self::rebalance) for one that could not be written.
    pub fn migrate_existing(&self) -> MigrateExisting<'_> {
        MigrateExisting {
            shared: self.shared(),
            concurrency: 4,
            dry_run: false,
            on_progress: None,
        }
    }
}

/// Brings all documents into form; made by [`OutlierRepository::migrate_existing`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let would = books.migrate_existing().dry_run().await?;
/// println!("{} documents are not in form", would.documents);
/// books.migrate_existing().concurrency(2).on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigrateExisting<'a> {
    shared: &'a Shared,
    concurrency: usize,
    dry_run: bool,
    on_progress: Option<OnProgress<'a>>,
}

/// What was brought into form.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let adopted = books.migrate_existing().await?;
/// println!("{} documents with {} extras were written anew", adopted.documents, adopted.extras);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedExisting {
    /// How many documents were written anew, with their extras.
    pub documents: u64,
    /// How many extras documents were written for them.
    pub extras: u64,
}

/// What became of one document.
enum Outcome {
    InForm,
    Written { extras: u64 },
    Refused(Error),
}

impl<'a> MigrateExisting<'a> {
    /// How many documents are written at a time, at most; 4 by default. They are held in memory with their extras.
    pub fn concurrency(mut self, documents: usize) -> Self {
        self.concurrency = documents;
        self
    }

    /// Counts what it would write, and writes nothing. This works on a standalone server, too.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Is called with how many of the documents that have extras, a flag or a long array were looked at, some of which may
    /// be under way. It takes one round trip more, by which the server reads the main documents to count these.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// Every command that it would send, one document after the other, in the server's order. It writes nothing, and works on a standalone
    /// server, too. A transaction that other writers were faster than is run again, which no plan can know.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
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
    /// form. One document at a time is held with its extras.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none.
    ///
    /// # Errors
    /// Those of the driver, as the last item of the stream, and
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when the two collections are in two databases.
    pub fn plan(self) -> CommandStream<'a> {
        let operation = self.shared.operation("migrate_existing");
        let commands = adopting(self.shared);
        Box::pin(commands.map_err(move |error: Error| operation.name(error)))
    }

    async fn execute(self) -> Result<MigratedExisting> {
        let Self {
            shared,
            concurrency,
            dry_run,
            on_progress,
        } = self;
        let outcomes = looks_told(shared, on_progress)
            .try_filter(move |look| ready(!look.is_in_form(&shared.settings)))
            .map_ok(move |look| async move {
                let mending = if dry_run {
                    Work::new(shared, &look.id, false).look(None).await?
                } else {
                    rewrite(shared, &look.id, false, None).await?
                };
                Ok(match mending.left {
                    Some(left) if mending.found => Outcome::Refused(refused(left, &mending, &look.id)),
                    _ if mending.is_empty() => Outcome::InForm,
                    _ => Outcome::Written {
                        extras: mending.changes.written.len() as u64,
                    },
                })
            })
            .try_buffer_unordered(concurrency.max(1));
        let mut outcomes = until_error(outcomes);
        let mut adopted = MigratedExisting::default();
        let mut error = None;
        while let Some(outcome) = outcomes.try_next().await? {
            match outcome {
                Outcome::InForm => {}
                Outcome::Refused(refused) => error = error.or(Some(refused)),
                Outcome::Written { extras } => {
                    adopted.documents += 1;
                    adopted.extras += extras;
                }
            }
        }
        error.map_or(Ok(adopted), Err)
    }
}

impl<'a> IntoFuture for MigrateExisting<'a> {
    type Output = Result<MigratedExisting>;
    type IntoFuture = ActionFuture<'a, MigratedExisting>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("migrate_existing"), |_| self.execute())
    }
}

impl fmt::Debug for MigrateExisting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateExisting")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
