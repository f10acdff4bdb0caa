//! The construction of counters.

use std::time::Duration;

use mongo_patterns_core::settings::{check_acknowledged, configuration, required};
use mongo_patterns_core::{FieldName, Result, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::Counters;
use crate::settings::Settings;

mongo_patterns_core::builder! {
    /// Builds [`Counters`].
    pub struct CountersBuilder over collection: Collection<RawDocumentBuf> {
        field: Option<String>,
        interval: Duration = Duration::from_secs(1),
        upsert: bool,
        retry: RetryPolicy,
    }

    /// Sets the field with the count. Required.
    field(name: impl Into<String>) => field = Some(name.into());

    /// Sets how often [`run`](Counters::run) flushes: 1 second by default. A process that is killed can lose this much.
    interval(interval: Duration) => interval = interval;

    /// Inserts a document with the `_id` and the count where none exists. Choose it for a collection that has only counts.
    ///
    /// By default, its count is dropped and reported as [missing](crate::Flushed::missing): ids that come from users insert
    /// no documents, and a deleted document is not inserted again.
    upsert() => upsert = true;

    /// Sets how long a flush retries: 2 minutes by default. The counts stay in memory if it fails.
    retry(policy: RetryPolicy) => retry = policy;
}

impl Counters {
    /// Starts to build counters of the documents of a collection, with its write concern.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mongo_patterns::counters::Counters;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let views = Counters::builder(database.collection::<Document>("articles"))
    ///     .field("views")
    ///     .interval(Duration::from_secs(5))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn builder<D: Send + Sync>(collection: Collection<D>) -> CountersBuilder {
        CountersBuilder::over(collection.clone_with_type())
    }
}

impl CountersBuilder {
    /// Checks the settings and returns the counters. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) in these cases:
    ///
    /// - The field is missing, `_id` or no plain name.
    /// - The interval is 0.
    /// - The collection's write concern is `w: 0`, which confirms no write.
    pub fn build(self) -> Result<Counters> {
        let field = FieldName::new(required(self.field, "field")?)?;
        if self.interval.is_zero() {
            return Err(configuration("the interval is 0: use one of some seconds"));
        }
        check_acknowledged(&self.collection)?;
        let settings = Settings {
            batches: FieldName::new(format!("{field}_batches"))?,
            field,
            interval: self.interval,
            upsert: self.upsert,
            retry: self.retry,
        };
        Ok(Counters::new(self.collection, settings))
    }
}
