use std::fmt;
use std::pin::Pin;

use futures::stream::try_unfold;
use futures::{Stream, TryStreamExt};
use mongo_patterns_core::progress::OnProgress;
use mongo_patterns_core::{Error, ErrorKind, Progress, Result, document_id};
use mongodb::bson::Bson;

use crate::repair::scan::Scan;
use crate::repository::Shared;
use crate::write::refresh::{Refreshed, refresh};
use crate::write::unmanaged as unwritten;
use crate::{Finding, Problem, SubsetRepository};

impl<P, C> SubsetRepository<P, C> {
    /// Mends what [`verify`](Self::verify) finds, one after the other, as far as that needs no guess: subsets are made
    /// anew. Children without a parent are left: whether they or their parent are too much is yours to say. So are parents
    /// that hold children which are nowhere else.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let mut parents = products.repair().dry_run().stream();
    /// while let Some(repaired) = parents.try_next().await? {
    ///     println!("{}: {}", repaired.finding.parent_id, repaired.finding.problem);
    ///     if let Some(left) = repaired.left {
    ///         println!("must be done by hand: {left}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It may run while others write, and may be broken off and called again.
    ///
    /// # Cost
    /// That of [`verify`](Self::verify), and that of [`rebuild`](Self::rebuild) for each parent.
    ///
    /// # Cancel safety
    /// Each parent is repaired or as it was. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), as the last item of the stream.
    pub fn repair(&self) -> Repair<'_> {
        Repair {
            shared: self.shared(),
            dry_run: false,
            on_progress: None,
        }
    }
}

/// Mends what is wrong; made by [`SubsetRepository::repair`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_subset::{Repaired, SubsetRepository};
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let repaired: Vec<Repaired> = products.repair().dry_run().stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Repair<'a> {
    shared: &'a Shared,
    dry_run: bool,
    on_progress: Option<OnProgress<'a>>,
}

/// What was mended, or would be.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut parents = products.repair().stream();
/// while let Some(repaired) = parents.try_next().await? {
///     println!("{}: {}", repaired.finding.parent_id, repaired.finding.problem);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Repaired {
    /// What was wrong.
    pub finding: Finding,
    /// Why it was left as it is.
    pub left: Option<Unrepaired>,
}

/// Why something was left as it is. Its text says what to do, and holds no user value.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_subset::{Unrepaired, SubsetRepository};
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut parents = products.repair().stream();
/// while let Some(repaired) = parents.try_next().await? {
///     match repaired.left {
///         Some(Unrepaired::NoParent) => println!("reviews of no product: delete_parent(..) deletes them"),
///         Some(left) => println!("{left}"),
///         None => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrepaired {
    /// The parent of children does not exist.
    NoParent,
    /// The parent was never written by a repository, and holds children that are not in their collection.
    NotMigrated,
}

impl fmt::Display for Unrepaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoParent => {
                f.write_str("the children's parent does not exist: insert it, or delete them with delete_parent(..)")
            }
            Self::NotMigrated => f.write_str(
                "the parent holds children that are not in their collection: move them with migrate_from_embedded(), or give them up with rebuild(..).discard_embedded()",
            ),
        }
    }
}

/// A stream of what was done; made by [`Repair::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongo_patterns_subset::action::RepairedStream;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut parents: RepairedStream<'_> = products.repair().stream();
/// while let Some(repaired) = parents.try_next().await? {
///     println!("{}", repaired.finding.parent_id);
/// }
/// # Ok(())
/// # }
/// ```
pub type RepairedStream<'a> = Pin<Box<dyn Stream<Item = Result<Repaired>> + Send + 'a>>;

impl<'a> Repair<'a> {
    /// Says what it would do, and writes nothing. One round trip for each stale parent, or two.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Is called with how many parents were looked at, as [`Verify::on_progress`](super::Verify::on_progress) is.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// The stream. It does nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. What it
    /// leaves when it is dropped itself is documented at [`repair`](SubsetRepository::repair).
    pub fn stream(self) -> RepairedStream<'a> {
        let Self {
            shared,
            dry_run,
            on_progress,
        } = self;
        let operation = shared.operation("repair");
        let repaired = try_unfold(Scan::new(shared, on_progress), move |mut scan| async move {
            while let Some(finding) = scan.next().await? {
                let left = match finding.problem {
                    Problem::Orphaned { .. } => Some(Unrepaired::NoParent),
                    Problem::Stale => match rebuilt(shared, &finding.parent_id, dry_run).await {
                        Ok(true) => None,
                        // It was deleted meanwhile.
                        Ok(false) => continue,
                        Err(error) if error.kind() == ErrorKind::NotMigrated => Some(Unrepaired::NotMigrated),
                        Err(error) => return Err(error),
                    },
                };
                return Ok(Some((Repaired { finding, left }, scan)));
            }
            Ok(None)
        });
        Box::pin(repaired.map_err(move |error: Error| operation.name(error)))
    }
}

/// Makes a subset anew, or looks whether it can be. Returns whether there is such a parent.
async fn rebuilt(shared: &Shared, parent: &Bson, dry_run: bool) -> Result<bool> {
    if dry_run {
        return Ok(unwritten::complete(shared, parent, false, None).await?.is_some());
    }
    let _locked = shared.locks.exclusive(&document_id::text(parent)).await;
    let refreshed = refresh(shared, parent, None, None, None).await?;
    Ok(matches!(refreshed, Refreshed::Done { .. }))
}

impl fmt::Debug for Repair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repair")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
