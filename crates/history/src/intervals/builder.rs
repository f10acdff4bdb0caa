//! The builder of a repository.

use std::time::Duration;

use mongo_patterns_core::settings::{check_acknowledged, configuration, required};

use super::repository::IntervalRepository;
use super::settings::Settings;
use crate::prelude::*;

impl<D> IntervalRepository<D> {
    /// Returns a builder of a repository over a collection.
    ///
    /// Writes use its write concern. Reads for the caller use its read preference and read concern; all other reads go to the
    /// primary.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::IntervalRepository;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let prices = IntervalRepository::<Document>::builder(database.collection::<Document>("prices"))
    ///     .id_field("item")
    ///     // The other settings have defaults, such as these names.
    ///     .valid_from_field("validFrom")
    ///     .valid_to_field("validTo")
    ///     .valid_field("isValid")
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder owns the collection, with another type
    pub fn builder<A: Send + Sync>(collection: Collection<A>) -> IntervalRepositoryBuilder<D> {
        IntervalRepositoryBuilder {
            collection: collection.clone_with_type(),
            chosen: Chosen::default(),
            types: PhantomData,
        }
    }
}

/// Builds a repository; returned by [`IntervalRepository::builder`].
#[must_use = "it does nothing until build() is called"]
pub struct IntervalRepositoryBuilder<D> {
    collection: Collection<RawDocumentBuf>,
    chosen: Chosen,
    types: PhantomData<fn() -> D>,
}

#[derive(Clone, Debug, Default)]
struct Chosen {
    id: Option<String>,
    from: Option<String>,
    to: Option<String>,
    valid: Option<String>,
    retry: RetryPolicy,
    max_time: Option<Duration>,
}

mongo_patterns_core::redacted_debug!(
    IntervalRepositoryBuilder<D>,
    |builder| "collection" = builder.collection.namespace(),
    "settings" = builder.chosen
);

mongo_patterns_core::clone_fields!(IntervalRepositoryBuilder<D>, collection, chosen, types);

mongo_patterns_core::setters! {
    for IntervalRepositoryBuilder<D>:

    /// Sets the field with the id of what a document describes, such as `item`. Required. It cannot be `_id`, because an id
    /// has several documents.
    id_field(name: impl Into<String>) => chosen.id = Some(name.into());

    /// Sets the field with the time from which a document is valid; `validFrom` by default.
    valid_from_field(name: impl Into<String>) => chosen.from = Some(name.into());

    /// Sets the field with the time to which a document is valid; `validTo` by default.
    valid_to_field(name: impl Into<String>) => chosen.to = Some(name.into());

    /// Sets the field that is `true` in a document that is valid now; `isValid` by default.
    valid_field(name: impl Into<String>) => chosen.valid = Some(name.into());

    /// Sets how writes retry after conflicts with other writers.
    retry(policy: RetryPolicy) => chosen.retry = policy;

    /// Bounds the time of each command of a read on the server (`maxTimeMS`), for reads that set none themselves. Without
    /// it a read takes as long as it needs.
    ///
    /// See [time limits](mongo_patterns_core::action#time-limits).
    max_time(time: Duration) => chosen.max_time = Some(time);
}

impl<D> IntervalRepositoryBuilder<D> {
    /// Builds the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) when the id field is missing, a name is not that of a plain field, two fields
    /// have the same name, or the write concern is `w: 0`, which confirms nothing.
    pub fn build(self) -> Result<IntervalRepository<D>> {
        let Chosen {
            id,
            from,
            to,
            valid,
            retry,
            max_time,
        } = self.chosen;
        let named = |name: Option<String>, default: &str| FieldName::new(name.unwrap_or_else(|| default.to_owned()));
        let fields = [
            FieldName::new(required(id, "id_field")?)?,
            named(from, "validFrom")?,
            named(to, "validTo")?,
            named(valid, "isValid")?,
        ];
        if (1..fields.len()).any(|last| fields[..last].contains(&fields[last])) {
            return Err(configuration(
                "the id, the two times and the mark of a valid document are not different fields: rename one",
            ));
        }
        check_acknowledged(&self.collection)?;
        let settings = Settings::new(fields, retry, max_time);
        Ok(IntervalRepository::new(self.collection, settings))
    }
}
