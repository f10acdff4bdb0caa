//! What can be mended without a transaction, by single commands each of which is safe on its own.

use mongo_patterns_core::error::duplicate_key;
use mongo_patterns_core::{Result, document_id};
use mongodb::bson::{Bson, doc};

use crate::query;
use crate::query::repair as mend_query;
use crate::repair::finding::Finding;
use crate::repair::finding::Problem;
use crate::repair::fix::Unrepaired;
use crate::repair::rewrite::flag_if_extras;
use crate::repository::Shared;

/// What was done.
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) main_changed: bool,
    /// How many extras documents were corrected.
    pub(crate) written: u64,
    /// How many extras documents were deleted.
    pub(crate) removed: u64,
    pub(crate) left: Option<Unrepaired>,
}

/// Mends what was found of one document, as far as that needs no transaction.
pub(crate) async fn mend_in_steps(
    shared: &Shared,
    main_id: &Bson,
    findings: &[Finding],
    delete_orphans: bool,
) -> Result<Steps> {
    let id = document_id::text(main_id);
    // A push that has seen the flag unlocks the document before it opens overflow documents. Without the flag, elements
    // that other pushes add to those would be acknowledged before a reader of the flag sees them.
    let _pushes = shared.pushes.exclusive(&id).await;
    let _locked = shared.locks.exclusive(&id).await;
    let mut steps = Steps::default();
    let is_orphaned = findings.iter().any(|finding| finding.problem == Problem::Orphaned);
    for finding in findings {
        let left = match finding.problem {
            Problem::Orphaned if delete_orphans => {
                delete_orphan(shared, main_id, &finding.document_id, &mut steps).await?
            }
            Problem::Orphaned => Some(Unrepaired::Orphaned),
            _ if is_orphaned => None,
            Problem::FlagNotBoolean | Problem::FlagWithoutExtras => {
                steps.main_changed |= clear_flag(shared, main_id).await?;
                None
            }
            Problem::ExtrasWithoutFlag { .. } => {
                let flag = doc! { "$set": { shared.settings.flag.as_str(): true } };
                let update = shared.main.update_one(query::by_id(main_id), flag).await?;
                steps.main_changed |= update.modified_count > 0;
                None
            }
            Problem::Count { .. } => recount(shared, main_id, &finding.document_id, &mut steps).await?,
            Problem::ArrayNull => {
                let array = doc! { "$set": { shared.settings.array.as_str(): [] } };
                let with_null = mend_query::with_null(&shared.settings, main_id);
                let update = shared.main.update_one(with_null, array).await?;
                steps.main_changed |= update.modified_count > 0;
                None
            }
            Problem::ArrayNotArray => Some(Unrepaired::ArrayNotArray),
            Problem::ElementsNotArray => Some(Unrepaired::ElementsNotArray),
            Problem::OverThreshold { .. }
            | Problem::ElementDoubled { .. }
            | Problem::OverFull { .. }
            | Problem::PlaceMissing
            | Problem::PlaceDoubled
            | Problem::Gap { .. } => Some(Unrepaired::NeedsTransaction),
        };
        // What must be done by hand is said first.
        steps.left = match (steps.left, left) {
            (None | Some(Unrepaired::NeedsTransaction), Some(left)) => Some(left),
            (left, _) => left,
        };
    }
    Ok(steps)
}

/// Removes the flag, and sets it where there are extras. A push that set the flag first, and opens extras after we
/// looked, sets it again.
async fn clear_flag(shared: &Shared, main_id: &Bson) -> Result<bool> {
    let flag = doc! { "$unset": { shared.settings.flag.as_str(): 1 } };
    let update = shared.main.update_one(query::by_id(main_id), flag).await?;
    flag_if_extras(shared, main_id).await?;
    Ok(update.modified_count > 0)
}

async fn recount(shared: &Shared, main_id: &Bson, document_id: &Bson, steps: &mut Steps) -> Result<Option<Unrepaired>> {
    let Shared { overflow, settings, .. } = shared;
    let mut filter = query::extras_of(settings, main_id);
    filter.insert("_id", doc! { "$eq": document_id });
    let update = overflow.update_one(filter, mend_query::recount(settings).to_vec());
    match update.await {
        Ok(update) => steps.written += update.modified_count,
        // Where elements are unique, and one is in other extras, too.
        Err(error) if duplicate_key(&error).is_some() => return Ok(Some(Unrepaired::NeedsTransaction)),
        Err(error) => return Err(error.into()),
    }
    Ok(None)
}

/// Deletes an extras document, unless it got a main document, or elements, meanwhile.
async fn delete_orphan(
    shared: &Shared,
    main_id: &Bson,
    document_id: &Bson,
    steps: &mut Steps,
) -> Result<Option<Unrepaired>> {
    let Shared {
        main,
        overflow,
        settings,
        ..
    } = shared;
    let mut filter = query::extras_of(settings, main_id);
    filter.insert("_id", doc! { "$eq": document_id });
    let Some(orphan) = overflow.find_one(filter.clone()).await? else {
        return Ok(None);
    };
    if main
        .find_one(query::by_id(main_id))
        .projection(doc! { "_id": 1 })
        .await?
        .is_some()
    {
        return Ok(None);
    }
    let extras = settings.extras.as_str();
    let elements: Option<Bson> = match orphan.get(extras) {
        Ok(Some(elements)) => Some(elements.try_into().map_err(mongodb::error::Error::from)?),
        _ => None,
    };
    // As it was seen: a push to a new document of this `_id` would fill it.
    filter.insert(extras, doc! { "$eq": elements });
    steps.removed += overflow.delete_one(filter).await?.deleted_count;
    Ok(None)
}
