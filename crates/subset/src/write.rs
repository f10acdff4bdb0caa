//! Writes of children and of their parents.
//!
//! # Design
//!
//! ## Why is a subset computed from the stored children, and never from a change?
//!
//! Every write reads the first children again, in the order of the index, after it has changed a child. So the subset never
//! depends on what a client believes, and each write also corrects a stale subset.
//!
//! ## Why do all writes write the parent, even if its subset is unchanged?
//!
//! Two changes can undo each other. A slower [refresh](refresh_parent), which has read the children between them, would then
//! find the version unchanged and write a subset that no longer exists. A transaction with an older snapshot would not
//! conflict.
//!
//! ## Why does a write increment the version?
//!
//! To write an equal array is no write for the server, and causes no conflict between two transactions. The version always
//! changes. See [`transactional`].
//!
//! ## Why do inserts of one process share transactions?
//!
//! Transactions that write one parent exclude each other, and each takes as long with many children as with one. See
//! [`joined`].
//!
//! ## Why does a write add to the total and to figures, while a refresh counts?
//!
//! In a transaction that has incremented the version, no other writer can change them. A refresh has no such protection.
//!
//! ## When has a refresh lost for good?
//!
//! It reads the version of the parent, then the first children, and writes them if the version is still the same. So it
//! never overwrites a newer subset by an older one. A refresh that has lost against two other writes is done: the second of
//! them began after this refresh had read the version, and has read all earlier children.
//!
//! A transaction only adds to a total and figures. So a refresh that must compute them is done only when it has written the
//! parent.
//!
//! ## Why is an unmanaged parent checked before it is deleted?
//!
//! A running migration would insert its children again, as children without a parent.

pub(crate) mod change;
mod figures;
mod joined;
mod transactional;

use std::slice;
use std::sync::Arc;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::through::{self, Place, Through};
use mongo_patterns_core::{Deleted, Error, ErrorKind, Result, measure, transaction};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document};

use self::change::{Change, ParentWrite, Written, no_parent, of_parent};
use crate::form::child::Child;
use crate::form::parent::Embedded;
use crate::query::figures::of_rows;
use crate::query::{self, options};
use crate::read::{deletable, figures, find_state, first_children, require_stored};
use crate::repository::Shared;
use crate::settings::Settings;

pub(crate) async fn insert(shared: &Arc<Shared>, child: Child, session: Option<&mut ClientSession>) -> Result<Written> {
    if session.is_none() {
        shared.check_indexes().await?;
        return joined::insert(shared, child).await;
    }
    let Child { parent, id, document } = child;
    run(
        ParentWrite::of_child(shared, parent, id, Change::Insert(vec![document])),
        session,
    )
    .await
}

pub(crate) async fn run(write: ParentWrite<'_>, session: Option<&mut ClientSession>) -> Result<Written> {
    let shared = write.shared;
    shared.check_indexes().await?;
    let mut conn = shared.enter(&write.parents, session).await?;
    transactional::run(&write, &mut conn).await
}

/// Refreshes the subset of a parent: in the caller's transaction, or by compare-and-set. Returns the number of embedded
/// children.
pub(crate) async fn refresh(
    shared: &Shared,
    parent: Bson,
    discards_embedded: bool,
    session: Option<&mut ClientSession>,
) -> Result<u64> {
    shared.check_indexes().await?;
    let mut conn = shared.enter(slice::from_ref(&parent), session).await?;
    if discards_embedded {
        // A parent with a version has no children that only it embeds.
        let unmanaged = query::unmanaged(&shared.settings, Some(&parent));
        let increment = query::increment_version(&shared.settings);
        conn.update_many(&shared.parents, unmanaged, increment, None).await?;
    }
    if conn.is_in_transaction() {
        let write = ParentWrite::of_parents(shared, vec![parent], Change::Nothing);
        return Ok(transactional::run(&write, &mut conn).await?.embedded);
    }
    refresh_in(shared, &parent, &mut conn).await?.ok_or_else(no_parent)
}

/// The maximum number of attempts. Three suffice without a total and figures.
const MAX_ATTEMPTS: usize = 16;

/// Refreshes a parent as [`refresh_in`] does, in its lane.
pub(crate) async fn refresh_parent(shared: &Shared, parent: &Bson) -> Result<Option<u64>> {
    let mut conn = shared.enter(slice::from_ref(parent), None).await?;
    refresh_in(shared, parent, &mut conn).await
}

/// Writes the subset, the total and the figures of a parent, unless another writer does. Returns the number of embedded
/// children, or `None` if the parent does not exist.
///
/// # Errors
/// [`NotMigrated`](ErrorKind::NotMigrated) for an unmanaged parent that embeds children which are not stored.
async fn refresh_in(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Option<u64>> {
    let settings = &shared.settings;
    let mut first_version = None;
    let mut count = 0;
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            measure::retry();
        }
        let Some(state) = find_state(shared, parent, conn).await? else {
            measure::refreshed("no_parent", 1);
            return Ok(None);
        };
        let version = state.version().unwrap_or(0);
        let others = version.wrapping_sub(*first_version.get_or_insert(version));
        if others >= 2 && settings.figures.is_empty() {
            measure::refreshed("unchanged", 1);
            return Ok(Some(count));
        }
        require_stored(shared, parent, &state, conn).await?;
        let embedded = first_children(shared, parent, conn).await?;
        count = embedded.count();
        let mut fields = embedded.fields(settings)?;
        fields.extend(figures(shared, parent, conn).await?);
        let unchanged = query::unchanged(settings, parent, &state);
        let update = query::replace_fields(settings, fields, state.version());
        let updated = conn.update_one(&shared.parents, unchanged, update, None).await;
        if updated.map_err(|error| of_parent(error.into()))?.matched_count > 0 {
            measure::refreshed("written", 1);
            return Ok(Some(count));
        }
        measure::conflict();
    }
    Err(Error::new(
        ErrorKind::Contention,
        "other writers wrote the parent during each attempt, and its subset, total or figures may be stale: call refresh(..) again",
    ))
}

/// Deletes a parent with its children, the parent through other repositories if there are any.
pub(crate) async fn delete_parent(
    shared: &Shared,
    parent: &Bson,
    through: &mut Through<'_>,
    session: Option<&mut ClientSession>,
) -> Result<Deleted> {
    let own = (&shared.parents, "_id", Place::Parts);
    through::prepare(own, shared.others_of_parents(), through).await?;
    let through = &*through;
    shared.check_indexes().await?;
    let mut conn = shared.enter(slice::from_ref(parent), session).await?;
    let (found, children) = transaction::run(
        &shared.parents,
        &shared.settings.retry,
        &mut conn,
        (shared, parent, through),
        |conn, (shared, parent, through)| Box::pin(delete(shared, parent, through, conn)),
    )
    .await?;
    Ok(Deleted::new(u64::from(found) + children))
}

/// Deletes a parent with its children, in a transaction. Returns whether the parent was found, and the number of children.
/// Other repositories keep the parent without children.
pub(crate) async fn delete(
    shared: &Shared,
    parent: &Bson,
    through: &Through<'_>,
    conn: &mut Conn<'_>,
) -> Result<(bool, u64)> {
    let Shared {
        parents,
        children,
        settings,
        ..
    } = shared;
    shared.managed.forget(parent);
    let mut found = false;
    let mut next = Some(query::managed(settings, parent));
    while let Some(filter) = next {
        found = match through {
            [] => conn.delete_one(parents, filter, None).await?.deleted_count > 0,
            _ => {
                let empty = query::empty(settings, without_children(settings)?);
                conn.update_one(parents, filter, empty, None).await?.matched_count > 0
            }
        };
        next = match found {
            true => None,
            false => deletable(shared, parent, conn).await?,
        };
    }
    let filter = query::only_of(settings, parent);
    let options = options::delete_children(settings);
    let deleted = conn.delete_many(children, filter, options).await?;
    match found {
        true => through::delete_found(through, parent, conn).await?,
        false => through::delete_left(through, parent, conn).await?,
    }
    Ok((found, deleted.deleted_count))
}

/// Returns the fields of a parent without children.
fn without_children(settings: &Settings) -> Result<Document> {
    let mut fields = Embedded::none(settings).fields(settings)?;
    fields.extend(of_rows(settings, &[]));
    Ok(fields)
}
