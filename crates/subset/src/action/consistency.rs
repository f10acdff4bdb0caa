use super::prelude::*;
use crate::settings::Consistency;

impl<P, C> SubsetRepository<P, C> {
    /// Returns what reads see between the write of a child and the write of its parent: the setting of the
    /// [builder](crate::SubsetRepositoryBuilder::consistency), or its default for the deployment.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::{Consistency, SubsetRepository};
    /// # async fn f(products: SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// if products.consistency().await? == Consistency::Eventual {
    ///     println!("a product may show its previous reviews for a moment");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, at the first call or write of the repository and its clones; none if the builder has set it.
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

action! {
    /// Finds out the consistency; returned by [`SubsetRepository::consistency`].
    pub struct FindConsistency<'a> {
        shared: &'a Shared,
    }
    "consistency" => Consistency
}

impl FindConsistency<'_> {
    async fn execute(self) -> Result<Consistency> {
        self.shared.consistency().await
    }
}
