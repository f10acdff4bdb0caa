//! Writes of children and of their parents.
//!
//! # Design
//!
//! ## Why is a subset computed from the stored children, and never from a change?
//!
//! Every write reads the first children again, in the order of the index, after it has changed a child. So what is
//! embedded never depends on what a client believes to be embedded, and each write also corrects a stale subset.
//!
//! ## Why do all writes write the parent, even if its subset is unchanged?
//!
//! Two changes can undo each other. A slower [refresh](refresh), which has read the children between them, would then
//! find the version unchanged and write a subset that no longer exists. A transaction with an older snapshot would
//! not conflict.
//!
//! ## Why does a write increment the version?
//!
//! To write an equal array is no write for the server, and causes no conflict between two transactions. The version
//! always changes. See [`transactional`] for when it does.
//!
//! ## Why do inserts of one process share transactions?
//!
//! Transactions that write one parent exclude each other, and each takes as long with many children as with one. See
//! [`joined`].
//!
//! ## Why does a write add to the total and to computed fields, while a refresh counts?
//!
//! In a transaction that has incremented the version, no other writer can change them. A refresh has no such
//! protection.

pub(crate) mod change;
mod computed;
pub(crate) mod delete_parent;
mod joined;
pub(crate) mod refresh;
mod transactional;

use std::slice;
use std::sync::Arc;

use mongodb::ClientSession;

use self::change::{Change, Write, Written, no_parent};
use self::refresh::refresh;
use crate::form::child::Child;
use crate::repository::prelude::*;
use crate::results::Inserted;

/// Inserts a child.
pub(crate) async fn insert(
    shared: &Arc<Shared>,
    child: Child,
    session: Option<&mut ClientSession>,
) -> Result<Inserted> {
    if session.is_none() {
        shared.check_indexes().await?;
        return joined::insert(shared, child).await;
    }
    let Child { parent, id, document } = child;
    let write = Write::of_child(shared, parent, id, Change::Insert(vec![document]));
    Ok(run(write, session).await?.into())
}

pub(crate) async fn run(write: Write<'_>, session: Option<&mut ClientSession>) -> Result<Written> {
    let shared = write.shared;
    shared.check_indexes().await?;
    let mut conn = shared.enter(&write.parents, session).await?;
    let written = match conn.is_in_transaction() {
        true => transactional::write(&write, &mut conn).await?,
        false => transactional::run(&write, &mut conn).await?,
    };
    Ok(written.counted())
}

/// Rebuilds the subset of a parent: in the caller's transaction, or without one by compare-and-set. Returns the number of
/// embedded children.
pub(crate) async fn rebuild(
    shared: &Shared,
    parent: Bson,
    discards_embedded: bool,
    session: Option<&mut ClientSession>,
) -> Result<u64> {
    shared.check_indexes().await?;
    let mut conn = shared.enter(slice::from_ref(&parent), session).await?;
    if discards_embedded {
        discard_embedded(shared, &parent, &mut conn).await?;
    }
    if conn.is_in_transaction() {
        let write = Write::of_parents(shared, vec![parent], Change::Nothing);
        return Ok(transactional::write(&write, &mut conn).await?.counted().embedded);
    }
    refresh(shared, &parent, &mut conn).await?.ok_or_else(no_parent)
}

/// Gives an unmanaged parent a version, which discards the children that only it has.
async fn discard_embedded(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<()> {
    let settings = &shared.settings;
    let unmanaged = query::unmanaged(settings, Some(parent));
    let increment = query::increment_version(settings);
    conn.update_many(&shared.parents, unmanaged, increment, None).await?;
    Ok(())
}
