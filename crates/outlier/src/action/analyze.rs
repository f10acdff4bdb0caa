use futures::TryStreamExt;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::RawDocumentBuf;

use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::results::analysis::Analysis;

/// A row for each length is some 100 bytes, so that nearly always all are in the first reply.
const ROWS: u32 = 1_000_000;

impl<D, E> OutlierRepository<D, E> {
    /// How the lengths of the lists are spread: to choose a threshold, for a collection of this pattern, or for one of
    /// documents with an array, before there are extras.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # async fn f(books: OutlierRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let analysis = books.analyze().await?;
    /// println!("99 percent have up to {:?} elements", analysis.percentile(99.0));
    /// for outliers in analysis.suggestions() {
    ///     println!("{}: {} outliers", outliers.threshold, outliers.documents);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing and decodes no document. Extras count where a reader sees them: of documents with the flag, in
    /// the manual's form too. Those of other documents are what [`verify`](Self::verify) is for.
    ///
    /// The server does not see all documents at one moment. What is pushed while it runs may count or not.
    ///
    /// # Cost
    /// One aggregation. The server reads all main documents and all extras, and keeps a group for each outlier, on disk
    /// beyond 100 MB. One row of some 100 bytes for each different length is sent, in one round trip, and one more for
    /// each 16 MB. It needs no index. [`sample`](Analyze::sample) looks at some documents alone.
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

/// Looks at the lengths of the lists; made by [`OutlierRepository::analyze`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// // Ten thousand documents, by chance.
/// let analysis = books.analyze().sample(10_000).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Analyze<'a> {
    shared: &'a Shared,
    sample: Option<u32>,
}

mongo_patterns_core::redacted_debug!(Analyze<'_>);

impl Analyze<'_> {
    /// Looks at so many documents, taken at random by the server's `$sample`, which may take one twice. All figures are
    /// those of the sample: the longest list, and percentiles that few documents are above, are best not taken from one.
    ///
    /// # Cost
    /// Up to a twentieth of the documents, the server reads these alone. A larger sample makes it read and sort all main
    /// documents. It finds the extras of each document by the [index](OutlierRepository::indexes): without it, it reads
    /// all extras for each. Where the extras are sharded, it needs MongoDB 5.1.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for 0.
    pub fn sample(mut self, documents: u32) -> Self {
        self.sample = Some(documents);
        self
    }
}

impl<'a> IntoFuture for Analyze<'a> {
    type Output = Result<Analysis>;
    type IntoFuture = ActionFuture<'a, Analysis>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { shared, sample } = self;
        run(shared.operation("analyze"), move |_| async move {
            if sample == Some(0) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "a sample of 0 documents says nothing: take a larger one",
                ));
            }
            let pipeline = Analysis::pipeline(&shared.settings, shared.overflow.name(), sample);
            let aggregate = shared.main.aggregate(pipeline).allow_disk_use(true).batch_size(ROWS);
            let mut rows = aggregate.with_type::<RawDocumentBuf>().await?;
            let mut analysis = Analysis::default();
            while let Some(row) = rows.try_next().await? {
                analysis.add(&row);
            }
            Ok(analysis)
        })
    }
}
