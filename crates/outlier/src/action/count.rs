use super::prelude::*;
use crate::form::document::{is_true, number};
use crate::results::{Counts, not_found};

impl<D, E> OutlierRepository<D, E> {
    /// Counts the elements of a list.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let counts = books.count(2).await?;
    /// println!("{} customers, {} of them in overflow documents", counts.total(), counts.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for a typical document, two for an outlier. The server examines the overflow documents; no
    /// element is sent.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`] when the document does not exist, and [`InvalidArgument`] for an invalid `_id`.
    pub fn count(&self, id: impl IntoId) -> Count<'_> {
        Count::create(self.shared(), DocumentId::new(id))
    }
}

action! {
    /// Counts elements; returned by [`OutlierRepository::count`].
    pub struct Count<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
    }
    with session, max_time;
    "count" => Counts
}

impl Count<'_> {
    async fn execute(self) -> Result<Counts> {
        let (main, overflow, settings) = self.shared.parts();
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let id = self.id?.into_bson();
        let size = query::project(query::main_size(settings));
        let found = send::find_one(&mut conn, main, query::by_id(&id), size).await?;
        let found = found.ok_or_else(not_found)?;
        let mut counts = Counts {
            inline: number(&found, "size") as u64,
            overflow: 0,
        };
        if is_true(&found, "flagged") {
            let pipeline = query::overflow_total(settings, &id);
            let total = send::aggregate_all(&mut conn, overflow, pipeline, None).await?;
            counts.overflow = total.first().map_or(0, |total| number(total, "size")) as u64;
        }
        Ok(counts)
    }
}
