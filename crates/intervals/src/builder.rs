//! The builder of a repository.

use mongo_patterns_core::settings::{check_acknowledged, configuration, required};
use mongo_patterns_core::{FieldName, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::repository::IntervalRepository;
use crate::settings::Settings;

impl<D> IntervalRepository<D> {
    /// Returns a builder of a repository over a collection.
    ///
    /// Writes use its write concern. Reads for the caller use its read preference and read concern; all other reads go to the
    /// primary.
    ///
    /// ```no_run
    /// # use mongo_patterns::intervals::IntervalRepository;
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
        IntervalRepositoryBuilder::over(collection.clone_with_type())
    }
}

mongo_patterns_core::builder! {
    /// Builds a repository; returned by [`IntervalRepository::builder`].
    pub struct IntervalRepositoryBuilder<D> over collection: Collection<RawDocumentBuf> {
        id: Option<String>,
        from: String = "validFrom".to_owned(),
        to: String = "validTo".to_owned(),
        valid: String = "isValid".to_owned(),
    }
    with retry, max_time;

    /// Sets the field with the id that the documents describe, such as `item`. Required. It cannot be `_id`, because an id
    /// has several documents.
    id_field(name: impl Into<String>) => id = Some(name.into());

    /// Sets the field with the time from which a document is valid; `validFrom` by default.
    valid_from_field(name: impl Into<String>) => from = name.into();

    /// Sets the field with the time to which a document is valid; `validTo` by default.
    valid_to_field(name: impl Into<String>) => to = name.into();

    /// Sets the field that is `true` in a document that is valid now; `isValid` by default.
    valid_field(name: impl Into<String>) => valid = name.into();
}

impl<D> IntervalRepositoryBuilder<D> {
    /// Builds the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when
    ///
    /// - the id field is missing, a name is not the name of a plain field, or two fields have the same name,
    /// - the write concern is `w: 0`, which confirms nothing.
    pub fn build(self) -> Result<IntervalRepository<D>> {
        let fields = [
            FieldName::new(required(self.id, "id_field")?)?,
            FieldName::new(self.from)?,
            FieldName::new(self.to)?,
            FieldName::new(self.valid)?,
        ];
        if (1..fields.len()).any(|last| fields[..last].contains(&fields[last])) {
            return Err(configuration(
                "the id, the two times and the mark of a valid document are not different fields: rename one",
            ));
        }
        check_acknowledged(&self.collection)?;
        let settings = Settings::new(fields, self.retry, self.max_time);
        Ok(IntervalRepository::new(self.collection, settings))
    }
}
