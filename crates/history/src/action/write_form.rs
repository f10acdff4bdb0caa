use super::prelude::*;
use crate::settings::WriteForm;

impl<D> HistoryRepository<D> {
    /// Returns how writes store revisions: the setting of the
    /// [builder](crate::HistoryRepositoryBuilder::write_form), or its default for the deployment.
    ///
    /// ```no_run
    /// # use mongo_patterns_history::{HistoryRepository, WriteForm};
    /// # async fn f(policies: HistoryRepository<i32>) -> mongo_patterns_core::Result<()> {
    /// if policies.write_form().await? == WriteForm::CompareAndSet {
    ///     println!("the server is a standalone");
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
    pub fn write_form(&self) -> FindWriteForm<'_> {
        FindWriteForm::create(self.shared())
    }
}

action! {
    /// Finds out the write form; returned by [`HistoryRepository::write_form`].
    pub struct FindWriteForm<'a> {
        shared: &'a Shared,
    }
    "write_form" => WriteForm
}

impl FindWriteForm<'_> {
    async fn execute(self) -> Result<WriteForm> {
        self.shared.write_form().await
    }
}
