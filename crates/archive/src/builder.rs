//! The construction of an archive.

use std::collections::HashSet;
use std::time::Duration;

#[allow(unused_imports)] // the documentation links to it
use mongo_patterns_core::ErrorKind;
use mongo_patterns_core::age::AgeLimit;
use mongo_patterns_core::index::Checks;
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::settings::{check_acknowledged, configuration};
use mongo_patterns_core::{FieldName, Result};
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use crate::related::{Related, RelatedCollection};
use crate::repository::{Archive, Shared};

mongo_patterns_core::builder! {
    /// Builds an [`Archive`].
    pub struct ArchiveBuilder<D> over current: Collection<RawDocumentBuf>, archived: Collection<RawDocumentBuf> {
        age: Option<String>,
        older_than: Option<Duration>,
        keep: Option<Document>,
        newest_by: Option<String>,
        id: Option<String>,
        related: Vec<(Collection<RawDocumentBuf>, Collection<RawDocumentBuf>, String)>,
    }
    with retry, max_time;

    /// Sets the field with the time of a document, a date. Required. A document without it is never archived.
    age_field(name: impl Into<String>) => age = Some(name.into());

    /// Sets the age from which documents are archived, by the clock of the client. Required.
    older_than(age: Duration) => older_than = Some(age);

    /// Keeps the documents that match a filter: they are not archived, and not deleted in the archive. The
    /// [catalog](mongo_patterns_core::catalog) has the filter, so no run with another filter moves or deletes them.
    keep(filter: Document) => keep = Some(filter);

    /// Keeps, of the old documents with the same value in a field, the newest one. It is for the revisions of a history: the
    /// revision that was valid at the time of the run is not archived, so [`as_of`] still finds it there.
    ///
    /// Older documents of this value move first. So the collection has no gap, also after an interrupted run. A document
    /// that cannot move, because its `_id` is archived or because others write it all the time, ends the run. A document
    /// without a value in the field stays.
    ///
    /// [`as_of`]: https://docs.rs/mongo-patterns-history/latest/mongo_patterns_history/struct.HistoryRepository.html#method.as_of
    keep_newest_by(field: impl Into<String>) => newest_by = Some(field.into());

    /// Sets the field by which [related](Self::related) documents name a document, such as `policyId`; `_id` by default. It
    /// is unique. A document without a value in it has no related documents.
    id_field(name: impl Into<String>) => id = Some(name.into());
}

impl<D> Archive<D> {
    /// Starts to build an archive of a collection in a second one, with their read preferences, read concerns and write
    /// concerns. Both are of one client. They can be in two databases.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mongo_patterns::archive::Archive;
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let (sales, archived) = (database.collection::<Document>("sales"), database.collection::<Document>("archived_sales"));
    /// let archive = Archive::<Document>::builder(sales, archived)
    ///     .age_field("date")
    ///     .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
    ///     .keep(doc! { "retentionPolicy": "permanent" })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collections, as ones of another type
    pub fn builder<A: Send + Sync, B: Send + Sync>(
        collection: Collection<A>,
        archive: Collection<B>,
    ) -> ArchiveBuilder<D> {
        ArchiveBuilder::over(collection.clone_with_type(), archive.clone_with_type())
    }
}

impl<D> ArchiveBuilder<D> {
    /// Lets related documents move with each document: documents of another collection whose field has its `_id`, or its
    /// value in the [id field](Self::id_field). They move to the second collection. Can be called for several collections.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mongo_patterns::archive::Archive;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let collection = |name| database.collection::<Document>(name);
    /// let books = Archive::<Document>::builder(collection("sales"), collection("archived_sales"))
    ///     .age_field("published")
    ///     .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
    ///     .related(collection("extra_sales"), collection("archived_extra_sales"), "book_id")
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [documents with related ones](crate#related-documents).
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collections, as ones of another type
    pub fn related<A: Send + Sync, B: Send + Sync>(
        mut self,
        collection: Collection<A>,
        archive: Collection<B>,
        field: impl Into<String>,
    ) -> Self {
        let related = (collection.clone_with_type(), archive.clone_with_type(), field.into());
        self.related.push(related);
        self
    }

    /// Checks the settings and returns the archive. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) in these cases:
    ///
    /// - A required setting is missing.
    /// - The age field is `_id`, another of the fields or no plain name.
    /// - The filter of documents to keep is empty, so that nothing would be archived.
    /// - Two collections are the same.
    /// - A collection has the write concern `w: 0`, which confirms no write.
    pub fn build(self) -> Result<Archive<D>> {
        let limit = AgeLimit::new(self.age, self.older_than, self.keep)?;
        let newest_by = self.newest_by.map(FieldName::new).transpose()?;
        let id = FieldName::of_element(self.id.unwrap_or("_id".to_owned()))?;
        if limit.field == id || newest_by.as_ref() == Some(&limit.field) {
            return Err(configuration(
                "the age field is the id field too, or that of keep_newest_by(..): use another one",
            ));
        }
        let related = self.related.into_iter().map(|(current, archived, field)| {
            let field = FieldName::new(field)?;
            Ok(RelatedCollection {
                current,
                archived,
                field,
            })
        });
        let related = Related {
            id,
            collections: related.collect::<Result<_>>()?,
        };
        check_collections(&self.current, &self.archived)?;
        let mut names = HashSet::from([self.current.namespace(), self.archived.namespace()]);
        for collection in &related.collections {
            check_collections(&collection.current, &collection.archived)?;
            for one in [&collection.current, &collection.archived] {
                check_related(&mut names, one)?;
            }
        }
        Ok(Archive::of(Shared {
            lanes: Lanes::new(&self.current),
            current: self.current,
            archived: self.archived,
            limit,
            newest_by,
            related,
            retry: self.retry,
            max_time: self.max_time,
            checks: Checks::default(),
        }))
    }
}

/// Checks that a related collection is none of these, and adds it.
pub(crate) fn check_related(names: &mut HashSet<Namespace>, one: &Collection<RawDocumentBuf>) -> Result<()> {
    match names.insert(one.namespace()) {
        true => Ok(()),
        false => Err(configuration(
            "two of the related collections are the same: use another one",
        )),
    }
}

pub(crate) fn check_collections(
    current: &Collection<RawDocumentBuf>,
    second: &Collection<RawDocumentBuf>,
) -> Result<()> {
    if current.namespace() == second.namespace() {
        return Err(configuration("both collections are the same: use a second one"));
    }
    check_acknowledged(current)?;
    check_acknowledged(second)
}
