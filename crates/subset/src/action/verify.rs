use std::fmt;
use std::pin::Pin;

use futures::stream::try_unfold;
use futures::{Stream, TryStreamExt};
use mongo_patterns_core::progress::OnProgress;
use mongo_patterns_core::{Error, Progress, Result};

use crate::repair::scan::Scan;
use crate::repository::Shared;
use crate::{Finding, SubsetRepository};

impl<P, C> SubsetRepository<P, C> {
    /// Everything that is wrong, as a stream of [findings](Finding): first the parents whose subset is not the first of
    /// their children, field by field, then the children whose parent does not exist.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # async fn f(products: SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = products.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.parent_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing. It may run while others write: what seems wrong is looked at again before it is reported. With
    /// [`Eventual`](crate::Consistency::Eventual) writes, a parent whose child is written and that is not, in both looks,
    /// is reported: a slow write cannot be told from one that was broken off.
    ///
    /// # Cost
    /// Two aggregations: one reads all parents and as many children of each as are embedded, the other the parent field
    /// of all children. One more round trip for each thing that is wrong.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing), and those of the driver, as the last item of the
    /// stream. On a sharded cluster it needs MongoDB 5.1, as `$lookup` does.
    pub fn verify(&self) -> Verify<'_> {
        Verify {
            shared: self.shared(),
            on_progress: None,
        }
    }
}

/// Looks for what is wrong; made by [`SubsetRepository::verify`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_subset::{Finding, SubsetRepository};
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let findings: Vec<Finding> = products.verify().stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Verify<'a> {
    shared: &'a Shared,
    on_progress: Option<OnProgress<'a>>,
}

/// A stream of findings; made by [`Verify::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongo_patterns_subset::action::FindingStream;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings: FindingStream<'_> = products.verify().stream();
/// let is_sound = findings.try_next().await?.is_none();
/// # Ok(())
/// # }
/// ```
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

impl<'a> Verify<'a> {
    /// Is called with how many parents were looked at. It takes one round trip more, and one for each 1000 parents, since
    /// the server answers for each. The look for children without a parent comes after them.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// The stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none.
    pub fn stream(self) -> FindingStream<'a> {
        let shared = self.shared;
        let operation = shared.operation("verify");
        let findings = try_unfold(Scan::new(shared, self.on_progress), |mut scan| async move {
            let finding = scan.next().await?;
            Ok(finding.map(|finding| (finding, scan)))
        });
        Box::pin(findings.map_err(move |error: Error| operation.name(error)))
    }
}

impl fmt::Debug for Verify<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verify")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
