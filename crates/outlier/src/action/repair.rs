use std::fmt;
use std::pin::Pin;

use futures::future::ready;
use futures::{Stream, TryStreamExt};
use mongo_patterns_core::progress::OnProgress;
use mongo_patterns_core::rounds::in_rounds;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, IntoId, Progress, Result};
use mongodb::bson::Bson;

use super::verify::{suspects, until_error};
use crate::repair::check;
use crate::repair::check::Look;
use crate::repair::finding::Finding;
use crate::repair::fix::Mending;
use crate::repair::rewrite::{Work, rewrite};
use crate::repair::scan::confirm;
use crate::repair::standalone::mend_in_steps;
use crate::repository::OutlierRepository;
use crate::repository::Shared;

pub use crate::repair::fix::Unrepaired;

impl<D, E> OutlierRepository<D, E> {
    /// Mends what [`verify`](Self::verify) finds, document by document, and loses no element. The stream says what was
    /// done for each document in which something was wrong, and what was left.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let mut documents = books.repair().dry_run().stream();
    /// while let Some(repaired) = documents.try_next().await? {
    ///     println!("{}: would write {} extras", repaired.id, repaired.written);
    ///     if let Some(left) = repaired.left {
    ///         println!("must be done by hand: {left}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - A document in which something is wrong is written as [`rebalance`](Self::rebalance) writes it: the array up to
    ///   the threshold, full extras at places from 0, right counts, and a flag where there are extras. Extras that were
    ///   not read for want of a flag are, then.
    /// - Extras that belong to no document are left, unless [`delete_orphans`](Repair::delete_orphans) is called: there are
    ///   elements in them.
    /// - Fields of your own stay in their documents.
    ///
    /// Each document is mended in one transaction, so others may write meanwhile, and nobody sees it halfway. When this
    /// process ends in the middle, some documents are mended and the others are as they were: run it again.
    ///
    /// On a standalone server, which has no transactions, it does what single commands can do safely: it sets and clears
    /// flags, corrects counts, and deletes orphans. The rest is [left](Unrepaired::NeedsTransaction).
    ///
    /// A write to a document waits on the server while the transaction is under way, and holds its connection. So where
    /// as many tasks of another client write as it has connections, they wait for each other. The tasks of this
    /// repository wait before they send anything.
    ///
    /// # Cost
    /// That of [`verify`](Self::verify), and that of [`rebalance`](Self::rebalance) for each document in which something
    /// is wrong.
    ///
    /// # Cancel safety
    /// Each document is repaired as a whole or not at all: the transactions under way have no effect, unless their
    /// commits had begun. On a standalone, the repair of a document may stop between two commands. Call it again: it
    /// repairs the rest.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for what cannot be an `_id`,
    /// [`Configuration`](ErrorKind::Configuration) when the two collections are in two databases,
    /// [`Contention`](ErrorKind::Contention), and those of the driver, as the last item of the stream. Each document is
    /// mended then, or as it was.
    pub fn repair(&self) -> Repair<'_> {
        Repair {
            shared: self.shared(),
            id: Ok(None),
            options: Options {
                dry_run: false,
                delete_orphans: false,
            },
            concurrency: 4,
            on_progress: None,
        }
    }
}

/// Mends what is wrong; made by [`OutlierRepository::repair`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::{OutlierRepository, Repaired};
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let repair = books.repair().document(2).delete_orphans().concurrency(1);
/// let repaired: Vec<Repaired> = repair.stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Repair<'a> {
    shared: &'a Shared,
    id: Result<Option<DocumentId>>,
    options: Options,
    concurrency: usize,
    on_progress: Option<OnProgress<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    dry_run: bool,
    delete_orphans: bool,
}

/// What was done for a document, or would be done.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let mut documents = books.repair().stream();
/// while let Some(repaired) = documents.try_next().await? {
///     println!("{}: {} extras written, {} removed", repaired.id, repaired.written, repaired.removed);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Repaired {
    /// The `_id` of the main document. It may hold a user value: take care where you log it.
    pub id: Bson,
    /// What was wrong.
    pub findings: Vec<Finding>,
    /// Whether the main document was written.
    pub main_modified: bool,
    /// How many extras documents were written.
    pub written: u64,
    /// How many extras documents are no more. Their elements are in those that were written, but for orphans.
    pub removed: u64,
    /// Why something was left as it is.
    pub left: Option<Unrepaired>,
}

/// A stream of what was done; made by [`Repair::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongo_patterns_outlier::action::RepairedStream;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let mut documents: RepairedStream<'_> = books.repair().dry_run().stream();
/// while let Some(repaired) = documents.try_next().await? {
///     println!("{} findings", repaired.findings.len());
/// }
/// # Ok(())
/// # }
/// ```
pub type RepairedStream<'a> = Pin<Box<dyn Stream<Item = Result<Repaired>> + Send + 'a>>;

impl<'a> Repair<'a> {
    /// Only the document with this `_id`, and its extras.
    pub fn document(mut self, id: impl IntoId) -> Self {
        self.id = DocumentId::new(id).map(Some);
        self
    }

    /// Says what it would do, and writes nothing. On a standalone server it says what it would do on a replica set.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Deletes extras that belong to no document, with their elements.
    pub fn delete_orphans(mut self) -> Self {
        self.options.delete_orphans = true;
        self
    }

    /// How many documents are mended at a time, at most; 4 by default. Their extras are held in memory.
    pub fn concurrency(mut self, documents: usize) -> Self {
        self.concurrency = documents;
        self
    }

    /// Is called with how many documents were looked at, as [`Verify::on_progress`](super::Verify::on_progress) is.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// The stream, in no order. It does nothing before it is read. While the caller has an item, it locks no document and runs no transaction.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. Until then it
    /// may have documents locked: poll it again, or drop it, before other calls of the same repository. What it leaves
    /// when it is dropped itself is documented at [`repair`](OutlierRepository::repair).
    pub fn stream(self) -> RepairedStream<'a> {
        let Self {
            shared,
            id,
            options,
            concurrency,
            on_progress,
        } = self;
        let operation = shared.operation("repair");
        let repairs = suspects(shared, id, on_progress).map_ok(move |look| mend_document(shared, look, options));
        let documents = in_rounds(repairs, concurrency)
            .try_filter_map(|repaired| ready(Ok(repaired)))
            .map_err(move |error: Error| operation.name(error));
        until_error(documents)
    }
}

/// Mends a document, or says how it would. `None` when nothing is wrong any more.
async fn mend_document(shared: &Shared, look: Look, options: Options) -> Result<Option<Repaired>> {
    let Options {
        dry_run,
        delete_orphans,
    } = options;
    if dry_run {
        let findings = confirm(shared, &look).await?;
        let mut mending = Work::new(shared, &look.id, delete_orphans).look(None).await?;
        mending.findings = check::confirmed(&findings, mending.findings);
        return Ok(repaired(look.id, mending));
    }
    match rewrite(shared, &look.id, delete_orphans, None).await {
        Ok(mending) => Ok(repaired(look.id, mending)),
        Err(error) if error.kind() == ErrorKind::Unsupported => in_steps(shared, look, delete_orphans).await,
        Err(error) => Err(error),
    }
}

fn repaired(id: Bson, mending: Mending) -> Option<Repaired> {
    if mending.findings.is_empty() {
        return None;
    }
    Some(Repaired {
        id,
        main_modified: !mending.main.is_empty(),
        written: mending.changes.written.len() as u64,
        removed: mending.removed(),
        left: mending.left,
        findings: mending.findings,
    })
}

/// On a standalone.
async fn in_steps(shared: &Shared, look: Look, delete_orphans: bool) -> Result<Option<Repaired>> {
    let findings = confirm(shared, &look).await?;
    if findings.is_empty() {
        return Ok(None);
    }
    let steps = mend_in_steps(shared, &look.id, &findings, delete_orphans).await?;
    Ok(Some(Repaired {
        id: look.id,
        findings,
        main_modified: steps.main_changed,
        written: steps.written,
        removed: steps.removed,
        left: steps.left,
    }))
}

impl fmt::Debug for Repair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repair")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
