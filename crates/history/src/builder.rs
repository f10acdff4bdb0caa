//! The builder of a repository.

use mongo_patterns_core::settings::{check_acknowledged, configuration, required};
use mongo_patterns_core::{FieldName, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::repository::HistoryRepository;
use crate::settings::Settings;

impl<D> HistoryRepository<D> {
    /// Returns a builder of a repository over a collection of current documents and a collection of their revisions.
    ///
    /// Writes use the write concern of the current documents. Reads for the caller use the read preference and read concern
    /// of the collection that they read; away from the primary, the newest revisions can be missing. All other reads go to
    /// the primary.
    ///
    /// Build one repository for the two collections, and clone it: the clones share [lanes](crate#lanes).
    ///
    /// ```no_run
    /// # use mongo_patterns::RetryPolicy;
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # use std::time::Duration;
    /// # struct Policy;
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let current = database.collection::<Document>("currentPolicies");
    /// let revisions = database.collection::<Document>("policyRevisions");
    /// let policies = HistoryRepository::<Policy>::builder(current, revisions)
    ///     .id_field("policyId")
    ///     // The other settings have defaults.
    ///     .revision_field("revision")
    ///     .time_field("dateSet")
    ///     .deleted_field("deleted")
    ///     .change_fields(["changedBy", "reason"])
    ///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder owns the collections, with another type
    pub fn builder<A: Send + Sync, B: Send + Sync>(
        current: Collection<A>,
        revisions: Collection<B>,
    ) -> HistoryRepositoryBuilder<D> {
        HistoryRepositoryBuilder::over(current.clone_with_type(), revisions.clone_with_type())
    }
}

mongo_patterns_core::builder! {
    /// Builds a repository; returned by [`HistoryRepository::builder`].
    pub struct HistoryRepositoryBuilder<D> over current: Collection<RawDocumentBuf>, revisions: Collection<RawDocumentBuf> {
        id: Option<String>,
        document_id: Option<String>,
        revision: String = "revision".to_owned(),
        time: String = "time".to_owned(),
        deleted: String = "deleted".to_owned(),
        change: Vec<String>,
    }
    with retry, max_time;

    /// Sets the field with the id of a document, such as `policyId`, or `_id`. Required. With `_id`, the revisions have the
    /// id in [another field](Self::document_id_field).
    id_field(name: impl Into<String>) => id = Some(name.into());

    /// Sets the field in which a revision has the `_id` of its document, if the [id](Self::id_field) is `_id`; `documentId` by
    /// default. No document of yours can have this field.
    document_id_field(name: impl Into<String>) => document_id = Some(name.into());

    /// Sets the field with the number of the revision; `revision` by default.
    revision_field(name: impl Into<String>) => revision = name.into();

    /// Sets the field with the time of the revision; `time` by default.
    time_field(name: impl Into<String>) => time = name.into();

    /// Sets the field that is `true` in the revision of a deletion; `deleted` by default. No document of yours can
    /// have this field.
    deleted_field(name: impl Into<String>) => deleted = name.into();

    /// Sets the fields that describe a change, such as `["changedBy", "reason"]`; none by default. Each write sets them to
    /// the values of [`with`](crate::action::Update::with), in the current document and in the revision, and removes the
    /// others. A document or an update of yours with such a field is refused.
    change_fields(names: impl IntoIterator<Item = impl Into<String>>) => change = names.into_iter().map(Into::into).collect();
}

impl<D> HistoryRepositoryBuilder<D> {
    /// Builds the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when
    ///
    /// - the id field is missing,
    /// - there is a [`document_id_field`](Self::document_id_field), and the id is not `_id`,
    /// - a name is not the name of a plain field, or two fields have the same name,
    /// - the collections are the same, or in two databases,
    /// - the write concern of a collection is `w: 0`, which confirms nothing.
    pub fn build(self) -> Result<HistoryRepository<D>> {
        let id = FieldName::of_element(required(self.id, "id_field")?)?;
        let document_id = match (id.as_str(), self.document_id) {
            ("_id", name) => FieldName::new(name.unwrap_or_else(|| "documentId".to_owned()))?,
            (_, None) => id.clone(),
            (_, Some(_)) => {
                return Err(configuration(
                    "document_id_field(..) is for documents whose id is their `_id`, and the revisions have your id field too: omit it, or set id_field(\"_id\")",
                ));
            }
        };
        let fields = [
            id,
            document_id,
            FieldName::new(self.revision)?,
            FieldName::new(self.time)?,
            FieldName::new(self.deleted)?,
        ];
        let change = self
            .change
            .into_iter()
            .map(FieldName::new)
            .collect::<Result<Vec<_>>>()?;
        // The first two are one field, unless the id is `_id`.
        let all: Vec<&FieldName> = fields[1..].iter().chain(&change).collect();
        if (1..all.len()).any(|last| all[..last].contains(&all[last])) {
            return Err(configuration(
                "the id, the revision, the time, the deletion and the fields of a change are not different fields: rename one",
            ));
        }
        if self.current.namespace() == self.revisions.namespace() {
            return Err(configuration(
                "the current documents and the revisions are in one collection: use two collections",
            ));
        }
        if self.current.namespace().db != self.revisions.namespace().db {
            return Err(configuration(
                "the current documents and the revisions are in two databases: use collections of one database",
            ));
        }
        check_acknowledged(&self.current)?;
        check_acknowledged(&self.revisions)?;
        let mut settings = Settings::new(fields, change, self.retry);
        settings.max_time = self.max_time;
        Ok(HistoryRepository::new(self.current, self.revisions, settings))
    }
}
