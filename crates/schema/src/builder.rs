//! The construction of a repository.

use mongo_patterns_core::settings::check_acknowledged;
use mongo_patterns_core::versions::converting;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::{Error, ErrorKind};
use mongo_patterns_core::{FieldName, Result};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::repository::SchemaRepository;
use crate::settings::Settings;
use crate::steps;
use crate::steps::Work;
use crate::versioned::Versions;

mongo_patterns_core::builder! {
    /// Builds a [`SchemaRepository`].
    pub struct SchemaRepositoryBuilder<D> over collection: Collection<RawDocumentBuf> {
        version: String = "schemaVersion".to_owned(),
        steps: Vec<(u32, Work)>,
        newest: Option<u32>,
    }
    with retry, max_time;

    /// Sets the field with the version of a document, `schemaVersion` by default. A document without it has version 1.
    version_field(name: impl Into<String>) => version = name.into();

    /// Sets the version of the type `D`. By default it is the version after the last step, or 1 without steps. Needed
    /// when all steps were deleted from the program.
    newest(version: u32) => newest = Some(version);
}

impl<D> SchemaRepository<D> {
    /// Starts to build a repository over a collection, with its read preference, read concern and write concern.
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::SchemaRepository;
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)] struct ContactV1 { name: String }
    /// # #[derive(Serialize, Deserialize)] struct ContactV2 { name: String }
    /// # impl From<ContactV1> for ContactV2 { fn from(old: ContactV1) -> Self { Self { name: old.name } } }
    /// # #[derive(Serialize, Deserialize)] struct Contact { full_name: String }
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let contacts = SchemaRepository::<Contact>::builder(database.collection::<Document>("contacts"))
    ///     .step(1, |old: ContactV1| Ok(ContactV2::from(old)))
    ///     .pipeline_step(2, vec![doc! { "$set": { "full_name": "$name" } }, doc! { "$unset": "name" }])
    ///     .build()?;
    /// assert_eq!(contacts.newest(), 3);
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn builder<Any: Send + Sync>(collection: Collection<Any>) -> SchemaRepositoryBuilder<D> {
        SchemaRepositoryBuilder::over(collection.clone_with_type())
    }
}

impl<D> SchemaRepositoryBuilder<D> {
    /// Adds the step that converts documents of the version `from` to the next version, by a function of the program.
    ///
    /// `Old` is the type of that version, as the program had it when it was the newest. A stored field that `Old` lacks
    /// stays where it is, at any depth of documents. A field of `Old` that `New` lacks is removed. In an array, a field that
    /// `Old` lacks refuses the document, and so does another length of an array of documents. `_id` and the version field
    /// need not be in either type.
    ///
    /// The function runs again after a conflict with a writer, and for each read of a document that is not migrated. So it
    /// must return the same for the same document. Its error, such as one of [`Error::new`], refuses the call or stops the
    /// migration, and the document stays as it is.
    ///
    /// Needs a replica set or a sharded cluster, because a document is read and replaced in a transaction.
    pub fn step<Old, New>(mut self, from: u32, convert: impl Fn(Old) -> Result<New> + Send + Sync + 'static) -> Self
    where
        Old: Serialize + DeserializeOwned,
        New: Serialize,
    {
        self.steps.push((from, Work::Typed(converting(convert))));
        self
    }

    /// Adds the step that converts documents of the version `from` to the next version, by the stages of an update on the
    /// server.
    ///
    /// The stages are `$set`, `$addFields`, `$unset`, `$project`, `$replaceWith` and `$replaceRoot`. Faster than a
    /// [`step`](Self::step), as no document is sent to the client. The repository sets the version field itself.
    pub fn pipeline_step(mut self, from: u32, stages: impl Into<Vec<Document>>) -> Self {
        self.steps.push((from, Work::Stages(stages.into())));
        self
    }

    /// Sets the version field and the steps of a type, which it has for [`Versioned`](crate::Versioned) too.
    pub fn versions(mut self, versions: &Versions<D>) -> Self {
        let Settings { version, steps, .. } = &versions.settings;
        self.version = version.as_str().to_owned();
        self.steps = steps.older().zip(steps.all().iter().cloned()).collect();
        self.newest = Some(steps.newest());
        self
    }

    /// Checks the settings and returns the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) in these cases:
    ///
    /// - The steps have a gap, two of them are for one version, or [`newest`](Self::newest) is not the version after the
    ///   last step.
    /// - A version is 0 or above `i32::MAX`.
    /// - A stage is not a stage of an update.
    /// - The version field is `_id` or no plain name.
    /// - The collection's write concern is `w: 0`, which confirms no write.
    pub fn build(self) -> Result<SchemaRepository<D>> {
        let settings = Settings {
            version: FieldName::new(self.version)?,
            steps: steps::check(self.steps, self.newest)?,
            retry: self.retry,
            max_time: self.max_time,
        };
        check_acknowledged(&self.collection)?;
        Ok(SchemaRepository::new(self.collection, settings))
    }
}
