//! The calls that read one document, and count versions.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::*;
use mongo_patterns_core::action::Read;
use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::migration::number;
use mongo_patterns_core::versions::version_of;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{AggregateOptions, Hint};
use serde::de::DeserializeOwned;

use crate::form::decode;
use crate::repository::SchemaRepository;
use crate::results::VersionCount;
use crate::settings::Settings;
use crate::{convert, query};

impl<D: DeserializeOwned> SchemaRepository<D> {
    /// Reads a document. A document of an older version is converted by the steps, and stays stored as it is. `None` if
    /// there is no document with this `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::SchemaRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(contacts: SchemaRepository<Document>) -> mongo_patterns::Result<()> {
    /// if let Some(contact) = contacts.get(1).await? {
    ///     println!("{contact}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines one document. For an older document one more for each row of steps on the server.
    ///
    /// # Errors
    /// - [`NewerVersion`]: the document is of a later release.
    /// - [`NotMigrated`]: its version has no step.
    /// - [`Corrupt`]: its version field has another value.
    /// - The error of a step.
    pub fn get(&self, id: impl IntoId) -> Read<'_, Option<D>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("get"), async move |mut conn| {
            let id = id?;
            let found = conn.find_one(&shared.collection, by_id(id.value()), None).await?;
            let Some(found) = found else { return Ok(None) };
            let converted = convert::read(shared, vec![found], &mut conn).await?;
            converted.first().map(|document| decode(document)).transpose()
        })
    }
}

impl<D> SchemaRepository<D> {
    /// Counts the documents of each version, in the order of the versions.
    ///
    /// ```no_run
    /// # async fn f(contacts: mongo_patterns::schema::SchemaRepository<()>) -> mongo_patterns::Result<()> {
    /// for count in contacts.versions().await? {
    ///     println!("{:?}: {}", count.version, count.documents);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A repository over the collection of an archive counts the archived documents, after its `ensure_indexes()`.
    // proof: together::versioned::pages_buckets_a_trash_and_an_archive_have_documents_of_two_versions
    ///
    /// # Cost
    /// One round trip. The server reads the whole index on the version, and no document.
    pub fn versions(&self) -> Read<'_, Vec<VersionCount>> {
        let shared = self.shared();
        let settings = &shared.settings;
        Read::new(shared.operation("versions"), async move |mut conn| {
            let options = AggregateOptions::builder()
                .hint(Hint::Name(shared.index.clone()))
                .build();
            let rows = conn.aggregate_all(&shared.collection, query::count_versions(settings), options);
            let rows = rows.await?;
            let mut counts: Vec<VersionCount> = Vec::new();
            for row in rows {
                let row = Document::try_from(row).map_err(mongodb::error::Error::from)?;
                let version = version_of_group(settings, &row)?;
                let documents = number(&row, "documents");
                match counts.iter_mut().find(|count| count.version == version) {
                    Some(count) => count.documents += documents,
                    None => counts.push(VersionCount { version, documents }),
                }
            }
            // Invalid values are before numbers or after them.
            counts.sort_by_key(|count| count.version.unwrap_or(u32::MAX));
            Ok(counts)
        })
    }
}

/// Returns the version of a group, whose `_id` is the value of the field.
fn version_of_group(settings: &Settings, row: &Document) -> Result<Option<u32>> {
    let value = row.get("_id").cloned().unwrap_or(Bson::Null);
    let document = doc! { settings.version.as_str(): value };
    let document = RawDocumentBuf::try_from(&document).map_err(mongodb::error::Error::from)?;
    Ok(version_of(&settings.version, &document))
}
