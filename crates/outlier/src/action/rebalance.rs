use super::prelude::*;
use crate::repair::rewrite::rewrite;
use crate::results::{Rebalanced, not_found};

impl<D, E> OutlierRepository<D, E> {
    /// Closes the gaps in a list that [removals](Self::remove) left. It fills the array from the overflow documents,
    /// and all overflow documents except the last one. It clears the flag if no overflow documents are left.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// books.remove(2, "user00").await?;
    /// let rebalanced = books.rebalance(2).await?; // moves user50 into the book
    /// println!("{} customers in the book, {} in overflow documents", rebalanced.inline, rebalanced.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It runs in one transaction. Others may write concurrently, and a reader in a transaction sees all of its changes or
    /// none. The order of the elements stays. Where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), it removes duplicates, and overflow documents get new
    /// `_id`s when elements of theirs join the array. The array grows up to about 8 MiB. If all elements are in place, it
    /// writes nothing.
    ///
    /// # Cost
    /// Three round trips if there is nothing to do, and else about ten. All overflow documents of the list are read
    /// into memory. Those that change are written in one transaction, which the server aborts after 60 seconds.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, nothing is retried. See [sessions and
    /// transactions](mongo_patterns_core::action#sessions-and-transactions).
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun; then it is done as a whole. Call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`] when the document does not exist, [`InvalidArgument`] for an invalid `_id`,
    /// [`Unsupported`] on a standalone, and when it would delete an overflow document with fields of your own,
    /// [`Corrupt`] when elements are not an array, [`TooLarge`], and [`Contention`].
    pub fn rebalance(&self, id: impl IntoId) -> Rebalance<'_> {
        Rebalance::create(self.shared(), DocumentId::new(id))
    }
}

action! {
    /// Closes the gaps in a list; returned by [`OutlierRepository::rebalance`].
    pub struct Rebalance<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
    }
    with session;
    "rebalance" => Rebalanced
}

impl Rebalance<'_> {
    async fn execute(self) -> Result<Rebalanced> {
        let id = self.id?.into_bson();
        let mut conn = self.shared.enter(&id, self.session).await?;
        let fix = rewrite(self.shared, &id, false, &mut conn).await?;
        if !fix.found {
            return Err(not_found());
        }
        if let Some(unrepaired) = fix.unrepaired {
            return Err(fix.refused(unrepaired, self.shared, &id));
        }
        Ok(Rebalanced {
            inline: fix.inline,
            overflow: fix.overflow,
            modified: !fix.is_empty(),
        })
    }
}
