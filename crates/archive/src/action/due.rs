use mongo_patterns_core::action::Read;
use mongo_patterns_core::migration::number;
use mongodb::bson::Document;
use mongodb::error::Error as DriverError;
use mongodb::options::{AggregateOptions, Hint};

use crate::query;
use crate::repository::Archive;
use crate::results::Due;

impl<D> Archive<D> {
    /// Counts the documents that [`run`](Self::run) would archive, and returns the time of the oldest one.
    ///
    /// The time shows whether runs are late.
    ///
    /// ```no_run
    /// # async fn f(archive: mongo_patterns::archive::Archive<()>) -> mongo_patterns::Result<()> {
    /// let due = archive.due().await?;
    /// println!("{} documents, the oldest of {:?}", due.documents, due.oldest);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and the [check of the indexes](crate#cost) once. The server reads the keys of the old documents in
    /// the index. It reads the documents only if some are to [keep](crate::ArchiveBuilder::keep), or the
    /// [newest](crate::ArchiveBuilder::keep_newest_by) of each value stay.
    pub fn due(&self) -> Read<'_, Due> {
        let shared = self.shared();
        Read::new(shared.operation("due"), async move |mut conn| {
            shared.check_indexes().await?;
            let (index, newest_by) = (shared.index_name(), shared.newest_by.as_ref());
            let stages = query::due(&shared.limit, newest_by);
            let options = AggregateOptions::builder()
                .hint(Hint::Name(index.clone()))
                .allow_disk_use(newest_by.map(|_| true))
                .build();
            let rows = conn.aggregate_all(&shared.current, stages, options).await?;
            let Some(row) = rows.first() else {
                return Ok(Due::default());
            };
            let row = Document::try_from(row.as_ref()).map_err(DriverError::from)?;
            Ok(Due {
                documents: number(&row, "documents"),
                oldest: row.get_datetime("oldest").ok().copied(),
            })
        })
    }
}
