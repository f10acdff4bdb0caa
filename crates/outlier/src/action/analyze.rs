use super::prelude::*;

/// The batch size. A row has about 100 bytes, so nearly always the first reply has all rows.
const ROWS: u32 = 1_000_000;

impl<D, E> OutlierRepository<D, E> {
    /// Analyzes the lengths of the lists, to choose a threshold. Works for a collection of this pattern, and for one of
    /// documents with an array, before there are overflow documents.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let analysis = books.analyze().await?;
    /// println!("99 percent have up to {:?} elements", analysis.percentile(99.0));
    /// for outliers in analysis.suggestions() {
    ///     println!("{}: {} outliers", outliers.threshold, outliers.documents);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing and decodes no document. Overflow documents count if their main document has the flag, also in
    /// the manual's form. [`verify`](Self::verify) finds the others.
    ///
    /// The server does not read all documents at one moment. Concurrent pushes may count or not.
    ///
    /// # Cost
    /// One aggregation, which needs no index. The server reads all main documents and all overflow documents, and keeps
    /// a group for each outlier, on disk beyond 100 MB. It sends one row of about 100 bytes for each different length,
    /// in one round trip, and one more for each 16 MB. [`sample`](Analyze::sample) reads only some documents.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn analyze(&self) -> Analyze<'_> {
        Analyze {
            shared: self.shared(),
            sample: None,
        }
    }
}

action! {
    /// Analyzes the lengths of the lists; returned by [`OutlierRepository::analyze`].
    pub struct Analyze<'a> {
        shared: &'a Shared,
        sample: Option<u32>,
    }
    "analyze" => Analysis
}

impl Analyze<'_> {
    /// Analyzes this number of documents, which the server's `$sample` takes at random, possibly one twice. All figures
    /// are those of the sample. Do not take the longest list from it, nor percentiles that few documents exceed.
    ///
    /// # Cost
    /// For up to a twentieth of the documents, the server reads only these. For a larger sample, it reads and sorts all
    /// main documents. It finds the overflow documents of each by the [index](OutlierRepository::indexes): without it,
    /// it reads all overflow documents for each.
    ///
    /// # Errors
    /// [`InvalidArgument`] for 0.
    pub fn sample(mut self, documents: u32) -> Self {
        self.sample = Some(documents);
        self
    }

    async fn execute(self) -> Result<Analysis> {
        if self.sample == Some(0) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the sample has 0 documents, nothing was read: set a larger one",
            ));
        }
        let (main, overflow, settings) = self.shared.parts();
        let pipeline = query::analysis(settings, overflow.name(), self.sample);
        let aggregate = main.aggregate(pipeline).allow_disk_use(true).batch_size(ROWS);
        let mut rows = aggregate
            .with_type::<RawDocumentBuf>()
            .await
            .map_err(CommandError::of_read)?;
        let mut analysis = Analysis::default();
        while let Some(row) = rows.try_next().await.map_err(CommandError::of_read)? {
            analysis.add(&row);
        }
        Ok(analysis)
    }
}
