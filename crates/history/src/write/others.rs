//! What other repositories own in a document that is inserted again.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::stored::value;

use crate::form::document::{Encoded, Head, kept_in};
use crate::read::find_revision;
use crate::repository::Shared;

/// Sets the fields of other repositories in a document that is inserted again, as they were at the deletion. If the deletion
/// lacks them, as by a follower, the last revision before has them. `None` where others own nothing.
pub(super) async fn with_fields_of_others(
    shared: &Shared,
    encoded: &Encoded,
    newest: Head,
    conn: &mut Conn<'_>,
) -> Result<Option<Encoded>> {
    let others = shared.known_others();
    let mut missing: Vec<&String> = others.kept().iter().collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let mut encoded = encoded.clone();
    for revision in [newest.revision, newest.revision.saturating_sub(1)] {
        let Some(stored) = find_revision(shared, &encoded.id, revision, conn).await? else {
            break;
        };
        let is_deleted = Head::read(&shared.settings, &stored).is_some_and(|head| head.is_deleted);
        let kept = kept_in(&shared.settings, &stored);
        missing.retain(|field| {
            if is_deleted && !kept.contains(field) {
                return true;
            }
            match value(&stored, field.as_str()) {
                Some(value) => drop(encoded.document.insert(field.as_str(), value)),
                None => drop(encoded.document.remove(field.as_str())),
            }
            false
        });
        if missing.is_empty() {
            break;
        }
    }
    Ok(Some(encoded))
}
