//! Checks that a repository wrote the versions of the sources, before settings are stored for the first time.

use futures::future::BoxFuture;
use mongo_patterns_core::Result;
use mongo_patterns_core::catalog::implausible;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::Fits;
use mongo_patterns_core::migration::Step;
use mongo_patterns_core::stored::id_of;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::FindOneOptions;

use crate::repository::Shared;

impl Fits for Shared {
    fn check_documents<'a>(&'a self, _: bool, conn: &'a mut Conn<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(check_version(self, conn))
    }
}

/// Refuses sources with a version that no repository has written, which an update of a source would increment.
async fn check_version(shared: &Shared, conn: &mut Conn<'_>) -> Result<()> {
    let version = shared.settings.version.as_str();
    let Some(source) = find(conn, &shared.sources, with_version(version)).await? else {
        return Ok(());
    };
    if is_of_repository(shared, version, conn).await? {
        return Ok(());
    }
    let reason = format!(
        "documents of `{}` have the field `{version}`, which is the setting `version`, and no copy has it, so that no repository has written it, and updates would overwrite it",
        shared.sources.namespace()
    );
    Err(implausible(reason)
        .of_document(id_of(&source), version)
        .of_collection(&shared.sources))
}

/// Returns whether a repository can have written versions: copies have them, or another repository copies the sources.
async fn is_of_repository(shared: &Shared, version: &str, conn: &mut Conn<'_>) -> Result<bool> {
    for field in shared.settings.followed() {
        let with_copy = doc! { field.path(version): { "$exists": true } };
        if find(conn, shared.collection_of(field), with_copy).await?.is_some() {
            return Ok(true);
        }
    }
    let settings = doc! { "source_collection": shared.sources.name(), "version": version };
    shared.ensure().entry.has_another(conn, &settings).await
}

/// Matches sources with a version that an update increments. Another value is reported by the calls that read it.
fn with_version(version: &str) -> Document {
    let path = format!("${version}");
    let is_integer = doc! { "$eq": [{ "$mod": [&path, 1] }, 0] };
    doc! {
        version: { "$gte": 0 },
        "$expr": { "$cond": [{ "$isNumber": &path }, is_integer, false] },
    }
}

async fn find(
    conn: &mut Conn<'_>,
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
) -> Result<Option<RawDocumentBuf>> {
    let options = FindOneOptions::builder().projection(doc! { "_id": 1 }).build();
    let find = Step::find_one("look for a version", collection, filter, options);
    Ok(conn.read(find).await?.documents.pop())
}
