//! Parents that no repository has written yet, with children embedded in them that may be nowhere else.
//!
//! To write the subset of such a parent would lose those that the collection of the children does not have. So the first
//! write to it looks whether all are there, and is refused where they are not. It comes before any change of its
//! children: as long as a parent has no version, no repository changes or deletes what was copied from it.

use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, send};
use mongodb::bson::{Bson, Document};
use mongodb::options::{CountOptions, FindOneOptions, Hint, ReadConcern, ReadPreference, SelectionCriteria};

use crate::query;
use crate::repository::Shared;
use crate::write::refresh::{State, find_state, no_parent, refresh};

/// Refuses a parent that no repository wrote and that holds children which the collection does not have. One round trip
/// for a parent that holds any, none for all others.
pub(crate) async fn check(
    shared: &Shared,
    parent: &Bson,
    state: &State,
    in_transaction: bool,
    session: Option<&mut Session<'_>>,
) -> Result<()> {
    let Shared { children, settings, .. } = shared;
    let ids = match state.first_ids(settings) {
        None => return Ok(()),
        Some(Bson::Array(ids)) => ids,
        Some(_) => return Err(not_moved(shared, parent)),
    };
    if ids.is_empty() {
        return Ok(());
    }
    if ids.iter().any(|id| DocumentId::new(id.clone()).is_err()) {
        return Err(not_moved(shared, parent));
    }
    // The index is unique: two that have the same id are found once.
    let mut options = CountOptions::builder()
        .hint(Hint::Name(settings.child_index.clone()))
        .build();
    if !in_transaction {
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        options.read_concern = Some(ReadConcern::local());
    }
    let filter = query::children_among(settings, parent, &ids);
    match send::count_documents(session, children, filter, options).await {
        Ok(found) if found == ids.len() as u64 => Ok(()),
        Ok(_) => Err(not_moved(shared, parent)),
        // Without the driver's error, as a transaction passes on that one alone.
        Err(error) if is_bad_hint(&error) => Err(index_missing(&settings.child_index)),
        Err(error) => Err(error.into()),
    }
}

/// The parent, written if no repository had written it.
pub(crate) async fn write_first(
    shared: &Shared,
    parent: &Bson,
    state: State,
    mut session: Option<&mut Session<'_>>,
) -> Result<State> {
    if !state.is_unwritten(&shared.settings) {
        return Ok(state);
    }
    refresh(shared, parent, Some(state), None, session.as_deref_mut()).await?;
    find_state(shared, parent, session).await?.ok_or_else(no_parent)
}

/// Counts the version of such a parent, at the start of the transaction that is under way.
pub(crate) async fn count_first(shared: &Shared, parent: &Bson, session: &mut Session<'_>) -> Result<()> {
    let Some(state) = state_in(shared, parent, true, Some(&mut *session)).await? else {
        return Err(no_parent());
    };
    check(shared, parent, &state, true, Some(&mut *session)).await?;
    let Shared { parents, settings, .. } = shared;
    let count = query::count_version(settings).to_vec();
    let unchanged = state.unchanged(settings, parent);
    let counted = send::update_one(Some(session), parents, unchanged, count, None).await?;
    match counted.matched_count {
        0 => Err(Error::new(
            ErrorKind::Contention,
            "the parent was written for the first time meanwhile, nothing was stored: try again",
        )),
        _ => Ok(()),
    }
}

/// What the parent must still be to be deleted with all its children; `None` when there is none.
pub(crate) async fn complete(
    shared: &Shared,
    parent: &Bson,
    in_transaction: bool,
    mut session: Option<&mut Session<'_>>,
) -> Result<Option<Document>> {
    let Some(state) = state_in(shared, parent, in_transaction, session.as_deref_mut()).await? else {
        return Ok(None);
    };
    check(shared, parent, &state, in_transaction, session).await?;
    Ok(Some(match state.is_unwritten(&shared.settings) {
        true => state.unchanged(&shared.settings, parent),
        false => query::written(&shared.settings, parent),
    }))
}

/// Gives a version to such parents, and so gives up what is embedded in them alone: to one, or to all.
pub(crate) async fn discard(shared: &Shared, parent: Option<&Bson>, session: Option<&mut Session<'_>>) -> Result<()> {
    let Shared { parents, settings, .. } = shared;
    let filter = query::unwritten(settings, parent);
    let count = query::count_version(settings).to_vec();
    send::update_many(session, parents, filter, count).await?;
    Ok(())
}

async fn state_in(
    shared: &Shared,
    parent: &Bson,
    in_transaction: bool,
    session: Option<&mut Session<'_>>,
) -> Result<Option<State>> {
    let Shared { parents, settings, .. } = shared;
    match session {
        Some(session) if in_transaction => {
            let state = FindOneOptions::builder().projection(query::state(settings)).build();
            let found = send::find_one(Some(session), parents, query::by_id(parent), state).await?;
            Ok(found.map(|document| State::of(settings, document)))
        }
        session => find_state(shared, parent, session).await,
    }
}

fn not_moved(shared: &Shared, parent: &Bson) -> Error {
    let message = "the parent was never written by a repository, and holds children that are not in their collection, where they would be lost; the parent was not written: move them with migrate_from_embedded(), or give them up with rebuild(..).discard_embedded()";
    Error::new(ErrorKind::NotMigrated, message).at(parent.clone(), shared.settings.subset.as_str())
}
