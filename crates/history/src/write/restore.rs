//! The restoration of a revision, as a new one.

use mongo_patterns_core::Result;
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocument, doc};

use super::upsert;
use crate::form::document::{Encoded, Head, content, id_of_revision, invalid_argument};
use crate::query::change::Change;
use crate::read::find_revision;
use crate::repository::Shared;
use crate::results::{Recorded, no_revision};
use crate::settings::Settings;

/// Restores the content of a revision.
pub(crate) async fn restore(
    shared: &Shared,
    id: Bson,
    revision: u64,
    expected: Option<u64>,
    with: Document,
    session: Option<&mut ClientSession>,
) -> Result<Recorded> {
    shared.check_write().await?;
    shared.others().await?;
    let mut conn = shared.enter(&id, session).await?;
    let Some(stored) = find_revision(shared, &id, revision, &mut conn).await? else {
        return Err(no_revision());
    };
    if Head::read(&shared.settings, &stored).is_some_and(|head| head.is_deleted) {
        return Err(invalid_argument(
            "the revision is that of a deletion, nothing was changed: delete the document, or restore an earlier revision",
        ));
    }
    let content = content(&shared.settings, &stored)?;
    let mut document = doc! { "_id": own_id(&shared.settings, &stored) };
    document.extend(content.clone());
    let encoded = Encoded { id, document, with };
    upsert::upsert_in_lane(shared, &encoded, Change::Restore(content), expected, &mut conn).await
}

/// Returns the `_id` of the document, if it is inserted again.
fn own_id(settings: &Settings, revision: &RawDocument) -> Bson {
    match settings.is_by_id() {
        true => id_of_revision(settings, revision),
        false => ObjectId::new().into(),
    }
}
