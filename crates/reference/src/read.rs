//! Reads of sources and of referring documents.

use std::collections::HashMap;

use mongo_patterns_core::action::one_batch;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::with_ids;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};
use mongodb::options::Hint;

use crate::form::copy;
use crate::form::document::{copies_mut, stored_copies};
use crate::form::id::{canonical, distinct};
use crate::form::source::Source;
use crate::query;
use crate::query::options;
use crate::repository::Shared;
use crate::settings::{ReferenceField, key_index};

/// How many sources one command reads.
const SOURCES: usize = 1000;

/// Sources by their ids; `None` for one whose version is invalid.
#[derive(Debug, Default)]
pub(crate) struct Sources(HashMap<String, Option<Source>>);

impl Sources {
    pub(crate) fn get(&self, id: &Bson) -> Option<&Source> {
        self.0.get(&canonical(id))?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.values().flatten()
    }

    /// Returns whether there is no source with this id, not even one whose version is invalid.
    pub(crate) fn is_missing(&self, id: &Bson) -> bool {
        !self.0.contains_key(&canonical(id))
    }

    fn add(&mut self, id: &Bson, source: Result<Source>, invalid: Invalid) -> Result<()> {
        let source = match source {
            Err(error) if invalid == Invalid::Skip && error.is_corrupt() => None,
            source => Some(source?),
        };
        self.0.insert(canonical(id), source);
        Ok(())
    }
}

/// What a read does with a source whose version is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    Fail,
    Skip,
}

/// Returns the fields of a source that all references need.
pub(crate) fn projection(shared: &Shared) -> Document {
    copy::projection(&shared.settings, &shared.settings.references)
}

pub(crate) async fn find_source(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<Source>> {
    let options = options::find_document(projection(shared));
    let stored = conn.find_one(&shared.sources, query::by_id(id), options).await?;
    stored.map(|stored| source_of(shared, &stored)).transpose()
}

pub(crate) fn source_of(shared: &Shared, stored: &RawDocument) -> Result<Source> {
    Source::read(&shared.settings, stored).map_err(|error| error.of_collection(&shared.sources))
}

/// Reads the sources of [distinct](crate::form::id::distinct) ids. One round trip for each 1000.
pub(crate) async fn find_sources(shared: &Shared, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Sources> {
    find_sources_or(shared, ids, Invalid::Fail, conn).await
}

/// Does what [`find_sources`] does, with this treatment of sources whose version is invalid.
pub(crate) async fn find_sources_or(
    shared: &Shared,
    ids: &[Bson],
    invalid: Invalid,
    conn: &mut Conn<'_>,
) -> Result<Sources> {
    let mut sources = Sources::default();
    for ids in ids.chunks(SOURCES) {
        let mut options = options::find_sources(projection(shared));
        options.batch_size = one_batch(ids.len());
        let filter = query::by_ids(ids);
        let stored = conn.find_all(&shared.sources, filter, options).await?;
        for stored in &stored {
            sources.add(&id_of(stored), source_of(shared, stored), invalid)?;
        }
    }
    Ok(sources)
}

/// Reads the sources that a caller has named by [distinct](crate::form::id::distinct) ids, or values of the source key. One
/// round trip for each 1000. The result has them by these names.
pub(crate) async fn find_named(shared: &Shared, names: &[Bson], conn: &mut Conn<'_>) -> Result<Sources> {
    let Some(key) = &shared.settings.key else {
        return find_sources(shared, names, conn).await;
    };
    let index = key_index(key);
    let mut sources = Sources::default();
    for names in names.chunks(SOURCES) {
        let mut options = options::find_sources(projection(shared));
        options.batch_size = one_batch(names.len());
        options.hint = Some(Hint::Name(index.clone()));
        for stored in conn
            .find_all(&shared.sources, with_ids(key.as_str(), names), options)
            .await?
        {
            // An array matches by each of its elements, and has another text than each name.
            let name = canonical(&value(&stored, key.as_str()).unwrap_or(Bson::Null));
            if sources.0.insert(name, Some(source_of(shared, &stored)?)).is_some() {
                return Err(not_unique(&index));
            }
        }
    }
    Ok(sources)
}

fn not_unique(index: &str) -> Error {
    let message = format!(
        "two sources have the same value of the source key, because the index `{index}` is not unique, and nothing was changed: drop it, then call ensure_indexes()"
    );
    Error::new(ErrorKind::IndexMismatch, message)
}

/// Returns the highest version of the copies that are newer than their source.
pub(crate) async fn newest_copy(shared: &Shared, source: &Source, conn: &mut Conn<'_>) -> Result<Option<u64>> {
    let mut newest = None;
    for field in shared.settings.followed() {
        newest = newest.max(newest_of(shared, field, source, conn).await?);
    }
    Ok(newest)
}

/// A version that is not an integer is rounded down, so the raised version is above it too.
async fn newest_of(
    shared: &Shared,
    field: &ReferenceField,
    source: &Source,
    conn: &mut Conn<'_>,
) -> Result<Option<u64>> {
    let options = options::read_index(&field.index);
    let pipeline = query::follow::newest(&shared.settings, field, source);
    let collection = shared.collection_of(field);
    let rows = conn.aggregate_all(collection, pipeline, options).await?;
    let version = |row: &RawDocumentBuf| match value(row, "v")? {
        Bson::Int32(version) => u64::try_from(version).ok(),
        Bson::Int64(version) => u64::try_from(version).ok(),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between two versions
        Bson::Double(version) => Some(version.floor() as u64),
        _ => None,
    };
    Ok(rows.iter().filter_map(version).max())
}

/// Reads the references of a document of the repository. `None` if it does not exist.
pub(crate) async fn find_references(shared: &Shared, document: &Bson, conn: &mut Conn<'_>) -> Result<Option<Document>> {
    let projection = query::scan::references(shared.settings.own());
    let options = options::find_document(projection);
    let stored = conn
        .find_one(shared.documents(), query::by_id(document), options)
        .await?;
    let stored = stored.map(|stored| Document::try_from(stored).map_err(CommandError::from));
    Ok(stored.transpose()?)
}

/// Replaces the copies of a document that are more versions behind their sources than allowed. One round trip for up to 1000
/// sources.
pub(crate) async fn refresh(
    shared: &Shared,
    document: RawDocumentBuf,
    max_staleness: u32,
    conn: &mut Conn<'_>,
) -> Result<RawDocumentBuf> {
    let settings = &shared.settings;
    let fields = || settings.own().filter(|field| !field.is_snapshot);
    let mut document = Document::try_from(document).map_err(CommandError::from)?;
    let copies = fields().flat_map(|field| stored_copies(field, &document).0);
    let ids = distinct(copies.filter_map(|copy| copy.get("_id")));
    conn.see_latest();
    let sources = find_sources(shared, &ids, conn).await?;
    for field in fields() {
        for copy in copies_mut(field, &mut document) {
            let Some(source) = copy.get("_id").and_then(|id| sources.get(id)) else {
                continue;
            };
            // Another program may have changed the source without its version.
            let is_stale = match copy::version(settings, copy) {
                Some(version) if max_staleness > 0 => source.version > version.saturating_add(max_staleness.into()),
                _ => true,
            };
            if is_stale {
                copy::refresh(settings, field, source, copy);
            }
        }
    }
    Ok(RawDocumentBuf::try_from(&document).map_err(CommandError::from)?)
}
