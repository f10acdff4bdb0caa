//! Writes in a transaction.
//!
//! # Design
//!
//! ## When does a transaction write the child before the parent?
//!
//! When this process has written the parent in a transaction before, without a conflict. Such a parent has a version, and
//! most probably still exists. So one update after the child sets the subset and increments the version, which saves a round
//! trip. The version changes in both orders, so of two transactions that began with the same version, one gets a write
//! conflict.
//!
//! ## Why is every further attempt in the other order?
//!
//! A transaction that writes the parent first detects a conflict by its first command. A transaction that writes it last has
//! sent three, and loses to all transactions that committed since it began. So a process whose transaction met a conflict
//! writes that parent first, until a transaction succeeds at its first attempt.
//!
//! The second attempt also decides whether the parent does not exist or is unmanaged, and which error a missing or existing
//! child is.
//!
//! ## Why is a parent with a total or figures always written first?
//!
//! A [refresh](super::refresh_parent) of such a parent must win against all transactions. If transactions lock the parent
//! from the start, fewer of them win in a row.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{Error, ErrorKind, Result, measure, transaction};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::UpdateModifications;

use super::change::{ParentWrite, Written, no_parent, of_parent};
use super::figures::Children;
use crate::query;
use crate::read::{figures, find_state, first_children, require_stored};
use crate::repository::Shared;

/// The attempts of a call.
struct Attempts<'w, 'a> {
    write: &'w ParentWrite<'a>,
    made: u32,
    /// Whether the next attempt writes the child first.
    child_first: bool,
    /// Whether the last attempt did.
    was_child_first: bool,
}

/// Writes in the transaction of the caller, or in one of the call, in the lanes of the parents.
pub(super) async fn run(write: &ParentWrite<'_>, conn: &mut Conn<'_>) -> Result<Written> {
    let written = match conn.is_in_transaction() {
        true => self::write(write, conn).await?,
        false => run_own(write, conn).await?,
    };
    measure::refreshed("written", write.parents.len() as u64);
    Ok(written)
}

async fn run_own(write: &ParentWrite<'_>, conn: &mut Conn<'_>) -> Result<Written> {
    let shared = write.shared;
    let mut attempts = Attempts {
        write,
        made: 0,
        child_first: may_write_child_first(write),
        was_child_first: false,
    };
    loop {
        attempts.made = 0;
        let done = transaction::run(
            &shared.parents,
            &shared.settings.retry,
            conn,
            &mut attempts,
            |conn, attempts| Box::pin(attempts.next(conn)),
        );
        let done = done.await;
        let is_missing = matches!(&done, Err(error) if error.kind() == ErrorKind::NotFound);
        for parent in &write.parents {
            if attempts.made > 1 || is_missing {
                shared.managed.forget(parent);
            } else if done.is_ok() {
                shared.managed.set(parent, ());
            }
        }
        match done {
            // Refused, and not by a conflict: the transaction is aborted.
            Err(error) if attempts.was_child_first && error.as_driver_error().is_none() => {}
            done => return done,
        }
    }
}

/// Returns whether the parent is probably managed, and no other process seems to write it.
fn may_write_child_first(write: &ParentWrite<'_>) -> bool {
    let Shared { settings, managed, .. } = write.shared;
    let [parent] = write.parents.as_slice() else {
        return false;
    };
    settings.figures.is_empty() && managed.get(parent, |()| Some(())).is_some()
}

impl Attempts<'_, '_> {
    async fn next(&mut self, conn: &mut Conn<'_>) -> Result<Written> {
        self.made += 1;
        self.was_child_first = std::mem::take(&mut self.child_first);
        match (self.was_child_first, self.write.parents.as_slice()) {
            (true, [parent]) => child_first(self.write, parent, conn).await,
            _ => write(self.write, conn).await,
        }
    }
}

/// Writes the child, and then its parent, which must have a version.
async fn child_first(write: &ParentWrite<'_>, parent: &Bson, conn: &mut Conn<'_>) -> Result<Written> {
    let Shared { parents, settings, .. } = write.shared;
    let (mut written, _) = write.apply(conn).await?;
    let embedded = first_children(write.shared, parent, conn).await?;
    let update = query::set_and_increment(settings, embedded.fields(settings)?);
    let filter = query::with_version(settings, parent);
    let updated = conn.update_one(parents, filter, update, None).await;
    if updated.map_err(|error| of_parent(error.into()))?.matched_count == 0 {
        return Err(no_parent());
    }
    written.embedded = embedded.count();
    written.included = write.included(&embedded);
    Ok(written)
}

/// Writes the parents, the children, and then the subsets of the parents.
async fn write(write: &ParentWrite<'_>, conn: &mut Conn<'_>) -> Result<Written> {
    let Shared { parents, settings, .. } = write.shared;
    for parent in &write.parents {
        let managed = query::managed(settings, parent);
        let increment = query::increment_version(settings);
        let updated = conn.update_one(parents, managed, increment, None).await?;
        if updated.matched_count == 0 {
            increment_first_version(write.shared, parent, conn).await?;
        }
    }
    let (mut written, before) = write.apply(conn).await?;
    let before = before.as_ref();
    for parent in &write.parents {
        let children = Children::read(write, parent, before, conn).await?;
        written.modified = children.is_modified(before).unwrap_or(written.modified);
        let subsets = children.embedded.fields(settings)?;
        let change = children.change_of(write, parent, before, written.found, &subsets);
        let updated = write_parent(write.shared, parent, change, subsets, conn).await;
        updated.map_err(of_parent)?;
        written.embedded += children.embedded.count();
        written.included = write.included(&children.embedded);
    }
    Ok(written)
}

/// Increments the version of an unmanaged parent that embeds children.
async fn increment_first_version(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<()> {
    let Some(state) = find_state(shared, parent, conn).await? else {
        return Err(no_parent());
    };
    require_stored(shared, parent, &state, conn).await?;
    let settings = &shared.settings;
    let increment = query::increment_version(settings);
    let unchanged = query::unchanged(settings, parent, &state);
    let updated = conn.update_one(&shared.parents, unchanged, increment, None).await?;
    match updated.matched_count {
        0 => Err(Error::new(
            ErrorKind::Contention,
            "another writer wrote the parent for the first time concurrently, nothing was stored: try again",
        )),
        _ => Ok(()),
    }
}

/// Writes the subsets and the figures of a parent.
async fn write_parent(
    shared: &Shared,
    parent: &Bson,
    change: Option<(Document, UpdateModifications)>,
    subsets: Document,
    conn: &mut Conn<'_>,
) -> Result<()> {
    let parents = &shared.parents;
    if let Some((filter, change)) = change {
        let updated = conn.update_one(parents, filter, change, None).await?;
        if updated.matched_count > 0 {
            return Ok(());
        }
    }
    let mut fields = subsets;
    fields.extend(figures(shared, parent, conn).await?);
    conn.update_one(parents, query::by_id(parent), doc! { "$set": fields }, None)
        .await?;
    Ok(())
}
