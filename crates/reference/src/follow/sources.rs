//! Copies of sources that were changed.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};
use mongo_patterns_core::action::one_batch;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Result, send};
use mongodb::bson::{Bson, Document};

use super::event::Check;
use super::{CONCURRENCY, of_source};
use crate::form::copy::{Difference, difference};
use crate::form::document::stored_copies;
use crate::form::id::canonical;
use crate::form::source::Source;
use crate::query;
use crate::query::{follow as commands, options, scan};
use crate::read::{Invalid, Sources, find_source, find_sources_or, newest_copy};
use crate::repository::Shared;
use crate::results::OnReferences;
use crate::settings::ReferenceField;
use crate::write::delete::update_of;
use crate::write::source::change;
use crate::write::sweep::{sweep, unmark_deleted, update_copies};

/// How often a source is read again because it was updated while its copies were compared.
const READS: u32 = 3;

/// Compares sources with their copies, and updates copies that are not current. Applies the rule to references to missing
/// sources. Returns the number of changed documents, for each reference.
pub(super) async fn correct(shared: &Shared, changed: Vec<(Bson, Check)>, rule: OnReferences) -> Result<u64> {
    let changed = without_unreferenced(shared, changed).await?;
    let ids: Vec<Bson> = changed.iter().map(|(id, _)| id.clone()).collect();
    let sources = &find_sources_or(shared, &ids, Invalid::Skip, &mut Conn::new()).await?;
    let corrected = stream::iter(changed)
        .map(|(id, check)| async move { of_source(shared, correct_one(shared, sources, &id, check, rule).await, &id) });
    let corrected = corrected.buffer_unordered(CONCURRENCY);
    corrected
        .try_fold(0, |sum, copies| async move { Ok(sum + copies) })
        .await
}

/// Omits sources that were inserted or deleted, and to which nothing refers. One round trip for each reference.
async fn without_unreferenced(shared: &Shared, changed: Vec<(Bson, Check)>) -> Result<Vec<(Bson, Check)>> {
    let (whole, mut referenced): (Vec<_>, Vec<_>) =
        changed.into_iter().partition(|(_, check)| *check == Check::Existence);
    for whole in whole.chunks(options::BATCH) {
        let ids: Vec<Bson> = whole.iter().map(|(id, _)| id.clone()).collect();
        let mut referenced_ids = HashSet::new();
        for field in &shared.settings.references {
            let mut options = options::read_index(&field.index);
            options.batch_size = one_batch(ids.len());
            let collection = shared.collection_of(field);
            let rows = Conn::new()
                .aggregate_all(collection, commands::referenced(field, &ids), options)
                .await?;
            referenced_ids.extend(rows.iter().map(|row| canonical(&id_of(row))));
        }
        let is_found = |(id, _): &&(Bson, Check)| referenced_ids.contains(&canonical(id));
        referenced.extend(whole.iter().filter(is_found).cloned());
    }
    Ok(referenced)
}

async fn correct_one(shared: &Shared, sources: &Sources, id: &Bson, check: Check, rule: OnReferences) -> Result<u64> {
    let Some(source) = sources.get(id) else {
        // A source that was only updated has a later change, its deletion.
        let is_deleted = check == Check::Existence && sources.is_missing(id);
        return match is_deleted && rule != OnReferences::Restrict {
            true => release(shared, id, rule).await,
            false => Ok(0),
        };
    };
    // First, so that the mark alone is no reason for a higher version.
    let mut copies = 0;
    if check == Check::Existence {
        let Some(unmarked) = unmark_deleted(shared, id, &mut Conn::new()).await? else {
            return Ok(0);
        };
        copies += unmarked;
    }
    match above_its_copies(shared, source.clone(), check).await? {
        Some(source) => Ok(copies + sweep(shared, &source, &mut Conn::new()).await?),
        None => Ok(copies),
    }
}

/// Marks the copies of a source that does not exist, or removes the references to it.
async fn release(shared: &Shared, id: &Bson, rule: OnReferences) -> Result<u64> {
    let (mut copies, conn) = (0, &mut Conn::new());
    for field in shared.again(shared.settings.references.iter(), conn) {
        copies += update_copies(shared, field, &update_of(field, id, rule), conn).await?;
    }
    Ok(copies)
}

/// Raises the version of a source if a copy is newer, or as new and has other values. Returns the newest source; `None` if
/// it was deleted. A history raises the version of its documents itself.
async fn above_its_copies(shared: &Shared, mut source: Source, check: Check) -> Result<Option<Source>> {
    if shared.has_history().await? {
        return Ok(Some(source));
    }
    for reads in 0.. {
        let Some(above) = conflicting(shared, &source, check).await? else {
            break;
        };
        let Some(now) = find_source(shared, &source.id, &mut Conn::new()).await? else {
            return Ok(None);
        };
        // An update of the source since its read explains a newer copy.
        if now.version > source.version && reads < READS {
            source = now;
            continue;
        }
        let raise = query::raise_version(&shared.settings, Some(above));
        return change(shared, &source.id, raise, &mut Conn::new()).await;
    }
    Ok(Some(source))
}

/// Returns the highest version of the copies that cannot be outdated by the version of their source.
async fn conflicting(shared: &Shared, source: &Source, check: Check) -> Result<Option<u64>> {
    let newest = newest_copy(shared, source, &mut Conn::new()).await?;
    if newest.is_some() || check == Check::Version {
        return Ok(newest);
    }
    for field in shared.settings.followed() {
        if differs(shared, field, source).await? {
            return Ok(Some(source.version));
        }
    }
    Ok(None)
}

/// Returns whether a copy with the version of its source has other values.
async fn differs(shared: &Shared, field: &ReferenceField, source: &Source) -> Result<bool> {
    let settings = &shared.settings;
    let mut options = options::scan(scan::references([field].into_iter()));
    options.hint = Some(mongodb::options::Hint::Name(field.index.clone()));
    let as_new = commands::as_new(settings, field, source);
    let mut rows = send::find_rows(shared.collection_of(field), as_new, options).await?;
    let id = canonical(&source.id);
    let is_own = |copy: &&Document| !field.is_array || copy.get("_id").is_some_and(|own| canonical(own) == id);
    while let Some(batch) = send::next_rows(&mut rows, options::BATCH).await? {
        for document in &batch {
            let document = Document::try_from(document).map_err(CommandError::from)?;
            let (copies, _) = stored_copies(field, &document);
            let mut own = copies.into_iter().filter(is_own);
            if own.any(|copy| difference(settings, field, source, copy) == Some(Difference::Values)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
