use mongo_patterns_core::action::Read;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::bson::{Bson, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::repository::{Archive, Shared};
use crate::results::Found;

impl<D: DeserializeOwned> Archive<D> {
    /// Reads a document, wherever it is. `None` if there is none with this `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::Archive;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(archive: Archive<Document>) -> mongo_patterns::Result<()> {
    /// if let Some(found) = archive.get(1).await? {
    ///     println!("{} {}", found.document, if found.is_archived { "(archived)" } else { "" });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It reads the collection first, and then the archive. If both have a document with this `_id`, the collection's is
    /// found. A document that is restored and archived again between the reads is missed.
    ///
    /// # Cost
    /// One round trip, which examines one document; two for an archived document, and three for an absent one.
    pub fn get(&self, id: impl IntoId) -> Read<'_, Option<Found<D>>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("get"), async move |mut conn| {
            let found = find(shared, id?.value(), &mut conn).await?;
            found
                .map(|(document, is_archived)| shared.decode(&document, is_archived))
                .transpose()
        })
    }
}

/// Finds a document, and whether it is archived.
async fn find(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<(RawDocumentBuf, bool)>> {
    let Shared { current, archived, .. } = shared;
    if let Some(document) = conn.find_one(current, by_id(id), None).await? {
        return Ok(Some((document, false)));
    }
    // An older state of a secondary would have it in neither.
    conn.see_latest();
    if let Some(document) = conn.find_one(archived, by_id(id), None).await? {
        return Ok(Some((document, true)));
    }
    let restored = conn.find_one(current, by_id(id), None).await?;
    Ok(restored.map(|document| (document, false)))
}
