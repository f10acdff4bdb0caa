use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};

use crate::repository::Shared;
use crate::{Consistency, SubsetRepository};

impl<P, C> SubsetRepository<P, C> {
    /// What reads see between the write of a child and that of its parent: what the
    /// [builder](crate::SubsetRepositoryBuilder::consistency) was told, or what the deployment can do.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::{Consistency, SubsetRepository};
    /// # use mongodb::bson::Document;
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// if products.consistency().await? == Consistency::Eventual {
    ///     println!("a product may show the reviews of a moment ago");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, at the first call or write of the repository and its clones; none where the builder was told.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn consistency(&self) -> FindConsistency<'_> {
        FindConsistency { shared: self.shared() }
    }
}

/// Says what the consistency is; made by [`SubsetRepository::consistency`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let consistency = products.consistency().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct FindConsistency<'a> {
    shared: &'a Shared,
}

mongo_patterns_core::redacted_debug!(FindConsistency<'_>);

impl<'a> IntoFuture for FindConsistency<'a> {
    type Output = Result<Consistency>;
    type IntoFuture = ActionFuture<'a, Consistency>;

    fn into_future(self) -> Self::IntoFuture {
        let shared = self.shared;
        run(shared.operation("consistency"), move |_| shared.consistency())
    }
}
